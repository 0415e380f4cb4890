"""Sizes and shapes of SAM 2's image encoder. Needs NumPy only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from support.tiny import Shapes, Weights, random_state_dict


@dataclass(frozen=True)
class ImageEncoderConfig:
    """Sizes of trunk and neck, under upstream's argument names."""

    image_size: int = 1024
    embed_dim: int = 96
    num_heads: int = 1
    stages: tuple[int, ...] = (1, 2, 7, 2)
    window_spec: tuple[int, ...] = (8, 4, 14, 7)
    global_att_blocks: tuple[int, ...] = (5, 7, 9)
    window_pos_embed_bkg_spatial_size: tuple[int, int] = (7, 7)
    d_model: int = 256
    fpn_top_down_levels: tuple[int, ...] = (2, 3)
    scalp: int = 1

    @property
    def backbone_channel_list(self) -> tuple[int, ...]:
        return tuple(self.embed_dim * 2**i for i in reversed(range(len(self.stages))))

    @property
    def trunk(self) -> dict[str, Any]:
        """Arguments of upstream's Hiera."""
        return {
            "embed_dim": self.embed_dim,
            "num_heads": self.num_heads,
            "stages": self.stages,
            "window_spec": self.window_spec,
            "global_att_blocks": self.global_att_blocks,
            "window_pos_embed_bkg_spatial_size": self.window_pos_embed_bkg_spatial_size,
        }

    @property
    def neck(self) -> dict[str, Any]:
        """Arguments of upstream's FpnNeck, without the position encoding."""
        return {
            "d_model": self.d_model,
            "backbone_channel_list": list(self.backbone_channel_list),
            "fpn_top_down_levels": list(self.fpn_top_down_levels),
        }

    @property
    def layer(self) -> dict[str, Any]:
        """The config of our layer."""
        return {
            "image_size": self.image_size,
            "scalp": self.scalp,
            **{k: list(v) if isinstance(v, tuple) else v for k, v in self.trunk.items()},
            **self.neck,
        }


# Windows of 14 and 7 are larger than the grids of 8 and 4: padding, pooling with padding and
# cropping all take part.
TINY = ImageEncoderConfig(
    image_size=128,
    embed_dim=16,
    stages=(1, 1, 2, 1),
    global_att_blocks=(3,),
    d_model=64,
)
VARIANTS = {
    "hiera_t": ImageEncoderConfig(),
    "hiera_s": ImageEncoderConfig(stages=(1, 2, 11, 2), global_att_blocks=(7, 10, 13)),
    "hiera_b+": ImageEncoderConfig(
        embed_dim=112,
        num_heads=2,
        stages=(2, 3, 16, 3),
        global_att_blocks=(12, 16, 20),
        window_pos_embed_bkg_spatial_size=(14, 14),
    ),
    "hiera_l": ImageEncoderConfig(
        embed_dim=144,
        num_heads=2,
        stages=(2, 6, 36, 4),
        window_spec=(8, 4, 16, 8),
        global_att_blocks=(23, 33, 43),
    ),
}


def _layer(shapes: Shapes, name: str, *weight: int) -> None:
    shapes[f"{name}.weight"] = weight
    shapes[f"{name}.bias"] = weight[:1]


def image_encoder_shapes(config: ImageEncoderConfig, prefix: str = "image_encoder.") -> Shapes:
    """Names and shapes of the image encoder's part of a checkpoint in Meta's layout."""
    shapes: Shapes = {}
    trunk, width = f"{prefix}trunk", config.embed_dim
    shapes[f"{trunk}.pos_embed"] = (1, width, *config.window_pos_embed_bkg_spatial_size)
    shapes[f"{trunk}.pos_embed_window"] = (1, width, *(2 * config.window_spec[:1]))
    _layer(shapes, f"{trunk}.patch_embed.proj", width, 3, 7, 7)
    block = 0
    for stage, count in enumerate(config.stages):
        for i in range(count):
            name, wider = f"{trunk}.blocks.{block}", stage > 0 and i == 0
            out = 2 * width if wider else width
            _layer(shapes, f"{name}.norm1", width)
            _layer(shapes, f"{name}.attn.qkv", 3 * out, width)
            _layer(shapes, f"{name}.attn.proj", out, out)
            _layer(shapes, f"{name}.norm2", out)
            _layer(shapes, f"{name}.mlp.layers.0", 4 * out, out)
            _layer(shapes, f"{name}.mlp.layers.1", out, 4 * out)
            if wider:
                _layer(shapes, f"{name}.proj", out, width)
            width, block = out, block + 1
    for i, channels in enumerate(config.backbone_channel_list):
        _layer(shapes, f"{prefix}neck.convs.{i}.conv", config.d_model, channels, 1, 1)
    return shapes


def image_encoder_weights(config: ImageEncoderConfig = TINY, seed: int = 0) -> Weights:
    """Random weights of the image encoder, in Meta's layout."""
    return random_state_dict(image_encoder_shapes(config), seed)


def metadata(config: ImageEncoderConfig) -> dict[str, str]:
    """What a safetensors file says about sizes that its tensors do not tell."""
    neck = {name: config.neck[name] for name in ("d_model", "fpn_top_down_levels")}
    encoder = {"scalp": config.scalp, "trunk": config.trunk, "neck": neck}
    text = json.dumps({"image_size": config.image_size, "image_encoder": encoder})
    return {"config": text, "variant": "tiny"}
