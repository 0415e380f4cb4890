"""A SAM 2.1 and a scene maker that are small enough for a CPU."""

from __future__ import annotations

import dataclasses
import functools

import torch

from training import textures
from training.sam2 import NANO
from training.scenes import SceneMaker

SIDE = 64
CONFIG = dataclasses.replace(
    NANO,
    image_size=SIDE,
    embed_dim=16,
    stages=(1, 1, 2, 1),
    window_spec=(8, 4, 4, 2),
    global_att_blocks=(3,),
    d_model=32,
    mem_dim=16,
    decoder_num_heads=2,
    decoder_mlp_dim=32,
    memory_attention_dim_feedforward=32,
    rope_feat_sizes=(4, 4),
)


@functools.cache
def pools() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A few discs of many sizes, family numbers, and textures."""
    line = torch.linspace(-1, 1, 128)
    away = (line[:, None] ** 2 + line**2).sqrt()
    fields = (torch.linspace(0.5, 0.9, 6)[:, None, None] - away).half()
    maker = textures.TextureMaker(torch.device("cpu"), 3, ())
    return fields, torch.zeros(6, dtype=torch.long), torch.cat([maker.flat(2), maker.noise(2)])


def scene_maker(seed: int = 0) -> SceneMaker:
    """Scenes of discs."""
    fields, kinds, colours = pools()
    return SceneMaker(fields, kinds, colours.clamp(0, 1).mul(255).to(torch.uint8), seed)
