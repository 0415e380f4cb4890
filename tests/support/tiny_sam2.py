"""Sizes and shapes of SAM 2's image encoder. Needs NumPy only."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.tiny import Sam2HeadsConfig, Shapes, Weights, random_state_dict


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
# sam2-nano of the package.
NANO = ImageEncoderConfig(
    image_size=512,
    embed_dim=48,
    stages=(1, 2, 6, 1),
    window_spec=(8, 4, 16, 8),
    global_att_blocks=(5, 8),
    d_model=128,
)
NANO_HEADS = Sam2HeadsConfig(
    d_model=128, mem_dim=64, grid=32, num_layers=2, dim_feedforward=512, fuser_layers=2
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
    text = json.dumps(
        {"image_size": config.image_size, "scalp": config.scalp, **config.trunk, **neck}
    )
    return {"config": text, "variant": "tiny"}


def _mlp(shapes: Shapes, name: str, *widths: int) -> None:
    for i, (n_in, n_out) in enumerate(pairwise(widths)):
        _layer(shapes, f"{name}.layers.{i}", n_out, n_in)


def _attention(shapes: Shapes, name: str, width: int, inner: int, kv_in: int | None = None) -> None:
    for part, n_in in (("q", width), ("k", kv_in or width), ("v", kv_in or width)):
        _layer(shapes, f"{name}.{part}_proj", inner, n_in)
    _layer(shapes, f"{name}.out_proj", width, inner)


def _norms(shapes: Shapes, name: str, count: int, width: int) -> None:
    for i in range(1, count + 1):
        _layer(shapes, f"{name}.norm{i}", width)


def _prompt_encoder_shapes(shapes: Shapes, width: int) -> None:
    name = "sam_prompt_encoder"
    shapes[f"{name}.pe_layer.positional_encoding_gaussian_matrix"] = (2, width // 2)
    for i in range(4):
        shapes[f"{name}.point_embeddings.{i}.weight"] = (1, width)
    shapes[f"{name}.not_a_point_embed.weight"] = (1, width)
    shapes[f"{name}.no_mask_embed.weight"] = (1, width)
    for i, shape in ((0, (4, 1, 2, 2)), (3, (16, 4, 2, 2)), (6, (width, 16, 1, 1))):
        _layer(shapes, f"{name}.mask_downscaling.{i}", *shape)
    _layer(shapes, f"{name}.mask_downscaling.1", 4)
    _layer(shapes, f"{name}.mask_downscaling.4", 16)


def _mask_decoder_shapes(shapes: Shapes, width: int, mlp_dim: int) -> None:
    name, layers = "sam_mask_decoder", "sam_mask_decoder.transformer.layers"
    for i in range(2):
        _attention(shapes, f"{layers}.{i}.self_attn", width, width)
        for part in ("cross_attn_token_to_image", "cross_attn_image_to_token"):
            _attention(shapes, f"{layers}.{i}.{part}", width, width // 2)
        _norms(shapes, f"{layers}.{i}", 4, width)
        _mlp(shapes, f"{layers}.{i}.mlp", width, mlp_dim, width)
    _attention(shapes, f"{name}.transformer.final_attn_token_to_image", width, width // 2)
    _layer(shapes, f"{name}.transformer.norm_final_attn", width)
    for token, rows in (("iou_token", 1), ("mask_tokens", 4), ("obj_score_token", 1)):
        shapes[f"{name}.{token}.weight"] = (rows, width)
    for i, shape in ((0, (width, width // 4, 2, 2)), (3, (width // 4, width // 8, 2, 2))):
        shapes[f"{name}.output_upscaling.{i}.weight"] = shape
        shapes[f"{name}.output_upscaling.{i}.bias"] = shape[1:2]
    _layer(shapes, f"{name}.output_upscaling.1", width // 4)
    _layer(shapes, f"{name}.conv_s0", width // 8, width, 1, 1)
    _layer(shapes, f"{name}.conv_s1", width // 4, width, 1, 1)
    for i in range(4):
        _mlp(shapes, f"{name}.output_hypernetworks_mlps.{i}", width, width, width, width // 8)
    _mlp(shapes, f"{name}.iou_prediction_head", width, 256, 256, 4)
    _mlp(shapes, f"{name}.pred_obj_score_head", width, width, width, 1)


def memory_attention_shapes(
    shapes: Shapes, prefix: str, width: int, mem_dim: int, layers: int, hidden: int
) -> None:
    """Add names and shapes of memory attention."""
    for i in range(layers):
        name = f"{prefix}layers.{i}"
        _attention(shapes, f"{name}.self_attn", width, width)
        _attention(shapes, f"{name}.cross_attn_image", width, width, mem_dim)
        _layer(shapes, f"{name}.linear1", hidden, width)
        _layer(shapes, f"{name}.linear2", width, hidden)
        _norms(shapes, name, 3, width)
    _layer(shapes, f"{prefix}norm", width)


def _memory_shapes(shapes: Shapes, width: int, mem_dim: int, layers: int, hidden: int) -> None:
    memory_attention_shapes(shapes, "memory_attention.", width, mem_dim, layers, hidden)
    down = "memory_encoder.mask_downsampler.encoder"
    for i, (n_in, n_out) in enumerate(pairwise((1, 4, 16, 64, 256))):
        _layer(shapes, f"{down}.{3 * i}", n_out, n_in, 3, 3)
        _layer(shapes, f"{down}.{3 * i + 1}", n_out)
    _layer(shapes, f"{down}.12", width, 256, 1, 1)
    _layer(shapes, "memory_encoder.pix_feat_proj", width, width, 1, 1)
    for i in range(2):
        name = f"memory_encoder.fuser.layers.{i}"
        _layer(shapes, f"{name}.dwconv", width, 1, 7, 7)
        _layer(shapes, f"{name}.norm", width)
        _layer(shapes, f"{name}.pwconv1", 4 * width, width)
        _layer(shapes, f"{name}.pwconv2", width, 4 * width)
        shapes[f"{name}.gamma"] = (width,)
    _layer(shapes, "memory_encoder.out_proj", mem_dim, width, 1, 1)


def heads_shapes(config: ImageEncoderConfig, version: str = "2.1") -> Shapes:
    """Names and shapes of all but the image encoder, as `support.upstream_sam2.build_sam2` has."""
    shapes: Shapes = {}
    width, mem_dim = config.d_model, config.d_model // 4
    shapes["maskmem_tpos_enc"] = (7, 1, 1, mem_dim)
    for name in ("no_mem_embed", "no_mem_pos_enc"):
        shapes[name] = (1, 1, width)
    shapes["no_obj_ptr"] = (1, width)
    _layer(shapes, "mask_downsample", 1, 1, 4, 4)
    _mlp(shapes, "obj_ptr_proj", width, width, width, width)
    if version == "2.1":
        shapes["no_obj_embed_spatial"] = (1, mem_dim)
        _layer(shapes, "obj_ptr_tpos_proj", mem_dim, width)
    _prompt_encoder_shapes(shapes, width)
    _mask_decoder_shapes(shapes, width, 2048)
    _memory_shapes(shapes, width, mem_dim, 4, 2048)
    return shapes


def weights(config: ImageEncoderConfig = TINY, seed: int = 0, version: str = "2.1") -> Weights:
    """Random weights of a whole SAM 2, in Meta's layout."""
    shapes = {**image_encoder_shapes(config), **heads_shapes(config, version)}
    return random_state_dict(shapes, seed)


def save_safetensors(path: Path, config: ImageEncoderConfig, weights: Weights) -> Path:
    """Write weights with the metadata that tells their sizes."""
    from safetensors.numpy import save_file

    save_file(weights, path, metadata=metadata(config))
    return path
