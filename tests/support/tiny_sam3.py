"""Sizes of SAM 3. Needs NumPy only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.tiny import Shapes, Weights, random_state_dict


@dataclass(frozen=True)
class Sam3Config:
    """Sizes of a SAM 3 network; the defaults are those of the release.

    Where upstream's arguments of different parts have one name, the part is put in front.
    """

    # The image encoder.
    img_size: int = 1008
    pretrain_img_size: int = 336
    patch_size: int = 14
    embed_dim: int = 1024
    depth: int = 32
    num_heads: int = 16
    mlp_ratio: float = 4.625
    window_size: int = 24
    global_att_blocks: tuple[int, ...] = (7, 15, 23, 31)
    scale_factors: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5)
    scalp: int = 1
    d_model: int = 256
    # The text encoder.
    text_width: int = 1024
    text_heads: int = 16
    text_layers: int = 24
    context_length: int = 32
    vocab_size: int = 49408
    mobile_clip: bool = False
    repmixer_size: int = 0
    # What finds objects.
    nheads: int = 8
    dim_feedforward: int = 2048
    geometry_layers: int = 3
    encoder_layers: int = 6
    decoder_layers: int = 6
    num_queries: int = 200
    upsampling_stages: int = 3
    # What follows objects.
    mem_dim: int = 64
    memory_layers: int = 4
    memory_feedforward: int = 2048
    fuser_layers: int = 2
    decoder_mlp_dim: int = 2048
    iou_head_hidden_dim: int = 256

    @property
    def grid(self) -> int:
        """Positions along one side of the map of the image."""
        return self.img_size // self.patch_size

    @property
    def trunk(self) -> dict[str, Any]:
        """Arguments of upstream's ViT that differ between sizes."""
        return {
            "img_size": self.img_size,
            "pretrain_img_size": self.pretrain_img_size,
            "patch_size": self.patch_size,
            "embed_dim": self.embed_dim,
            "depth": self.depth,
            "num_heads": self.num_heads,
            "mlp_ratio": self.mlp_ratio,
            "window_size": self.window_size,
            "global_att_blocks": self.global_att_blocks,
        }

    @property
    def vision(self) -> dict[str, Any]:
        """The config of our image encoder."""
        trunk = {k: list(v) if isinstance(v, tuple) else v for k, v in self.trunk.items()}
        neck = {"scale_factors": list(self.scale_factors), "scalp": self.scalp}
        return {**trunk, **neck, "d_model": self.d_model}


# The table of 4 x 4 positions is laid out four times on the grid of 8 x 8, and the rotations of the
# global block run at half speed. The vocabulary is the real one: the tokenizer asks for it.
TINY = Sam3Config(
    img_size=112,
    pretrain_img_size=56,
    embed_dim=64,
    depth=2,
    num_heads=2,
    window_size=4,
    global_att_blocks=(1,),
    d_model=64,
    text_width=64,
    text_heads=4,
    text_layers=2,
    nheads=4,
    dim_feedforward=128,
    geometry_layers=1,
    encoder_layers=2,
    decoder_layers=2,
    num_queries=10,
    mem_dim=16,
    memory_layers=2,
    memory_feedforward=128,
)
RELEASED = Sam3Config()


def _layer(shapes: Shapes, name: str, *weight: int, bias: int | None = None) -> None:
    shapes[f"{name}.weight"] = weight
    shapes[f"{name}.bias"] = (weight[0] if bias is None else bias,)


def trunk_shapes(
    config: Sam3Config, prefix: str = "trunk.", blocks: Iterable[int] | None = None
) -> Shapes:
    """Names and shapes of the trunk, of some of its blocks alone if `blocks` says so."""
    shapes: Shapes = {}
    width, patch = config.embed_dim, config.patch_size
    hidden, positions = int(width * config.mlp_ratio), (config.pretrain_img_size // patch) ** 2
    if blocks is None:
        shapes[f"{prefix}pos_embed"] = (1, 1 + positions, width)
        shapes[f"{prefix}patch_embed.proj.weight"] = (width, 3, patch, patch)
        _layer(shapes, f"{prefix}ln_pre", width)
    for i in range(config.depth) if blocks is None else blocks:
        name = f"{prefix}blocks.{i}"
        _layer(shapes, f"{name}.norm1", width)
        _layer(shapes, f"{name}.attn.qkv", 3 * width, width)
        _layer(shapes, f"{name}.attn.proj", width, width)
        _layer(shapes, f"{name}.norm2", width)
        _layer(shapes, f"{name}.mlp.fc1", hidden, width)
        _layer(shapes, f"{name}.mlp.fc2", width, hidden)
    return shapes


def branch_shapes(config: Sam3Config, prefix: str = "convs") -> Shapes:
    """Names and shapes of one set of the neck's convolutions, the level left out included."""
    shapes: Shapes = {}
    for i, factor in enumerate(config.scale_factors):
        name, width = f"{prefix}.{i}", config.embed_dim
        dconvs = {4.0: ("dconv_2x2_0", "dconv_2x2_1"), 2.0: ("dconv_2x2",)}.get(factor, ())
        for dconv in dconvs:
            _layer(shapes, f"{name}.{dconv}", width, width // 2, 2, 2, bias=width // 2)
            width //= 2
        _layer(shapes, f"{name}.conv_1x1", config.d_model, width, 1, 1)
        _layer(shapes, f"{name}.conv_3x3", config.d_model, config.d_model, 3, 3)
    return shapes


def vision_shapes(config: Sam3Config, add_sam2_neck: bool = True) -> Shapes:
    """Names and shapes of the image encoder, as `support.upstream_sam3.neck` has."""
    second = branch_shapes(config, "sam2_convs") if add_sam2_neck else {}
    return {**trunk_shapes(config), **branch_shapes(config), **second}


def metadata(config: Sam3Config) -> dict[str, str]:
    """Return what a checkpoint of another size than the release says of itself."""
    sizes = dataclasses.asdict(config)
    return {"family": "sam3", "variant": "tiny", "config": json.dumps(sizes, sort_keys=True)}


def save_safetensors(path: Path, config: Sam3Config, weights: Weights) -> Path:
    """Write weights with the metadata that tells their sizes."""
    from safetensors.numpy import save_file

    save_file(weights, path, metadata=metadata(config))
    return path


def noise(config: Sam3Config, seed: int = 0) -> NDArray[np.uint8]:
    """Draw an image that is as large as the input: no resize changes it."""
    sides = (config.img_size, config.img_size, 3)
    return np.random.default_rng(seed).integers(0, 256, sides, dtype=np.uint8)


def hugging_face_weights(shapes: Mapping[str, Sequence[int]]) -> Weights:
    """Draw weights for transformers' names, from which recorded results were computed."""
    drawn = random_state_dict({name: tuple(shape) for name, shape in shapes.items()}, 0)
    encoding = "prompt_encoder.shared_embedding.positional_embedding"
    copy = "tracker_model.shared_image_embedding.positional_embedding"
    drawn[copy] = drawn[f"tracker_model.{encoding}"]
    # transformers adds it to a level of the neck that the decoder does not read.
    drawn["tracker_model.no_memory_embedding"][:] = 0
    return drawn


def config_shapes(config: Sam3Config, tracker: bool = False) -> Shapes:
    """Names and shapes in Meta's file of the tensors by which the release is recognized."""
    name, width = "detector.backbone.vision_backbone", config.embed_dim
    shapes: Shapes = {
        f"{name}.trunk.patch_embed.proj.weight": (width, 3, config.patch_size, config.patch_size),
        "detector.backbone.language_backbone.encoder.token_embedding.weight": (
            config.vocab_size,
            config.text_width,
        ),
        "detector.transformer.decoder.query_embed.weight": (config.num_queries, config.d_model),
    }
    for i in range(config.depth):
        shapes[f"{name}.trunk.blocks.{i}.norm1.weight"] = (width,)
    for part, count in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
        for i in range(count):
            shapes[f"detector.transformer.{part}.layers.{i}.norm1.weight"] = (config.d_model,)
    return {**shapes, **(_tracker_config_shapes(config) if tracker else {})}


def _tracker_config_shapes(config: Sam3Config) -> Shapes:
    name, decoder = "tracker", "tracker.sam_mask_decoder"
    width, shapes = config.d_model, dict[str, tuple[int, ...]]()
    shapes[f"{name}.maskmem_tpos_enc"] = (7, 1, 1, config.mem_dim)
    shapes[f"{name}.sam_prompt_encoder.mask_downscaling.3.weight"] = (16, 4, 2, 2)
    shapes[f"{decoder}.iou_token.weight"] = (1, width)
    shapes[f"{decoder}.mask_tokens.weight"] = (4, width)
    shapes[f"{decoder}.transformer.layers.0.mlp.lin1.weight"] = (2048, width)
    for i in range(2):
        shapes[f"{decoder}.transformer.layers.{i}.norm1.weight"] = (width,)
    for i in range(3):
        shapes[f"{decoder}.iou_prediction_head.layers.{i}.weight"] = (256, width)
    for i in range(config.fuser_layers):
        shapes[f"{name}.maskmem_backbone.fuser.layers.{i}.gamma"] = (width,)
    for i in range(config.memory_layers):
        layer = f"{name}.transformer.encoder.layers.{i}"
        shapes[f"{layer}.norm1.weight"] = (width,)
        shapes[f"{layer}.linear1.weight"] = (config.memory_feedforward, width)
    return shapes
