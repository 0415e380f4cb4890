"""Small checkpoints of EdgeTAM's layout with random weights. Needs NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from support import tiny, tiny_sam2
from support.tiny_sam2 import _layer


@dataclass(frozen=True)
class EdgeTamConfig:
    """Sizes of trunk, neck and memory."""

    image_size: int = 1024
    embed_dim: tuple[int, ...] = (48, 96, 192, 384)
    depth: tuple[int, ...] = (2, 2, 14, 2)
    mlp_ratio: int = 2
    d_model: int = 256
    mem_dim: int = 64
    num_layers: int = 2
    dim_feedforward: int = 2048
    num_latents: int = 256
    num_latents_2d: int = 256
    perceiver_depth: int = 2

    @property
    def grid(self) -> int:
        return self.image_size // 16

    @property
    def backbone_channel_list(self) -> tuple[int, ...]:
        return self.embed_dim[::-1]

    @property
    def neck(self) -> dict[str, Any]:
        """Arguments of upstream's FpnNeck, without the position encoding."""
        return {
            "d_model": self.d_model,
            "backbone_channel_list": list(self.backbone_channel_list),
            "fpn_top_down_levels": [2, 3],
        }

    @property
    def trunk(self) -> dict[str, Any]:
        """The config of our trunk."""
        return {
            "image_size": self.image_size,
            "embed_dim": list(self.embed_dim),
            "depth": list(self.depth),
            "mlp_ratio": self.mlp_ratio,
        }

    @property
    def heads(self) -> tiny.Sam2HeadsConfig:
        return tiny.Sam2HeadsConfig(
            d_model=self.d_model,
            mem_dim=self.mem_dim,
            grid=self.grid,
            num_layers=self.num_layers,
            dim_feedforward=self.dim_feedforward,
            is_2_1=False,
        )


EDGETAM = EdgeTamConfig()
# The windows of the local latents have 4 x 4 positions, as in the release.
TINY = EdgeTamConfig(
    image_size=128,
    embed_dim=(16, 24, 40, 48),
    depth=(1, 2, 3, 2),
    d_model=64,
    mem_dim=16,
    dim_feedforward=128,
    num_latents=6,
    num_latents_2d=4,
)


def squeezed(width: int) -> int:
    """Channels of a gate: a quarter, to the nearest multiple of 8, but not 0."""
    return max(8, int(width * 0.25 + 4) // 8 * 8)


def _conv_bn(shapes: tiny.Shapes, name: str, *weight: int) -> None:
    shapes[f"{name}.c.weight"] = weight
    for part in ("weight", "bias", "running_mean", "running_var"):
        shapes[f"{name}.bn.{part}"] = weight[:1]


def _block(shapes: tiny.Shapes, name: str, width: int, ratio: int, use_se: bool) -> None:
    _conv_bn(shapes, f"{name}.token_mixer.conv", width, 1, 3, 3)
    _conv_bn(shapes, f"{name}.token_mixer.conv1", width, 1, 1, 1)
    if use_se:
        _layer(shapes, f"{name}.se.fc1", squeezed(width), width, 1, 1)
        _layer(shapes, f"{name}.se.fc2", width, squeezed(width), 1, 1)
    _conv_bn(shapes, f"{name}.channel_mixer.conv1", ratio * width, width, 1, 1)
    _conv_bn(shapes, f"{name}.channel_mixer.conv2", width, ratio * width, 1, 1)


def trunk_shapes(config: EdgeTamConfig, prefix: str = "image_encoder.trunk.body.") -> tiny.Shapes:
    """Names and shapes of the tensors of the trunk, without counters of training."""
    shapes: tiny.Shapes = {}
    dims, ratio = config.embed_dim, config.mlp_ratio
    _conv_bn(shapes, f"{prefix}stem.conv1", dims[0] // 2, 3, 3, 3)
    _conv_bn(shapes, f"{prefix}stem.conv2", dims[0], dims[0] // 2, 3, 3)
    for i, (width, depth) in enumerate(zip(dims, config.depth, strict=True)):
        stage = f"{prefix}stages_{i}"
        if i > 0:
            down = f"{stage}.downsample"
            _block(shapes, f"{down}.pre_block", dims[i - 1], ratio, False)
            _conv_bn(shapes, f"{down}.spatial_downsample", dims[i - 1], 1, 3, 3)
            _conv_bn(shapes, f"{down}.channel_downsample", width, dims[i - 1], 1, 1)
            _conv_bn(shapes, f"{down}.ffn.conv1", ratio * width, width, 1, 1)
            _conv_bn(shapes, f"{down}.ffn.conv2", width, ratio * width, 1, 1)
        for j in range(depth):
            _block(shapes, f"{stage}.blocks.{j}", width, ratio, j % 2 == 0)
    return shapes


def perceiver_shapes(config: EdgeTamConfig, prefix: str = "spatial_perceiver.") -> tiny.Shapes:
    """Names and shapes of the tensors of the perceiver."""
    shapes: tiny.Shapes = {}
    dim = config.mem_dim
    shapes[f"{prefix}latents"] = (config.num_latents, dim)
    shapes[f"{prefix}latents_2d"] = (config.num_latents_2d, dim)
    for i in range(config.perceiver_depth):
        layer = f"{prefix}layers.{i}"
        for attention, norms in (("attn", ("norm_x", "norm_latents")), ("self_attn", ("norm",))):
            for norm in norms:
                _layer(shapes, f"{layer}.{attention}.{norm}", dim)
            for part, rows in (("to_q", dim), ("to_kv", 2 * dim), ("to_out", dim)):
                shapes[f"{layer}.{attention}.{part}.weight"] = (rows, dim)
        for part in ("ff", "self_ff"):
            _layer(shapes, f"{layer}.{part}.0", dim)
            shapes[f"{layer}.{part}.1.weight"] = (4 * dim, dim)
            shapes[f"{layer}.{part}.3.weight"] = (dim, 4 * dim)
    _layer(shapes, f"{prefix}norm", dim)
    return shapes


def shapes_of(config: EdgeTamConfig = TINY, *, memory: bool = True) -> tiny.Shapes:
    """Names and shapes of all tensors of a checkpoint, in Meta's layout, without counters."""
    shapes = trunk_shapes(config)
    for i, channels in enumerate(config.backbone_channel_list):
        _layer(shapes, f"image_encoder.neck.convs.{i}.conv", config.d_model, channels, 1, 1)
    image = tiny_sam2.ImageEncoderConfig(d_model=config.d_model)
    heads = {
        name: shape
        for name, shape in tiny_sam2.heads_shapes(image, "2.0").items()
        if not name.startswith("memory_attention.")
    }
    if not memory:
        kept = ("no_mem_embed", "sam_prompt_encoder.", "sam_mask_decoder.")
        return {**shapes, **{k: v for k, v in heads.items() if k.startswith(kept)}}
    attention: tiny.Shapes = {}
    tiny_sam2._memory_shapes(
        attention, config.d_model, config.mem_dim, config.num_layers, config.dim_feedforward
    )
    heads["maskmem_tpos_enc"] = (7, 1, 1, config.mem_dim)
    return {**shapes, **heads, **attention, **perceiver_shapes(config)}


def counters(shapes: tiny.Shapes) -> list[str]:
    """Names of what a file has beside the network's tensors."""
    return [
        name.replace("running_var", "num_batches_tracked")
        for name in shapes
        if name.endswith("running_var")
    ]


def weights(
    config: EdgeTamConfig = TINY, seed: int = 0, *, memory: bool = True, presence: float = 0.0
) -> tiny.Weights:
    """Random weights of a whole checkpoint; objects are there more often with more presence."""
    found = tiny.random_state_dict(shapes_of(config, memory=memory), seed)
    found["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(presence)
    return found
