"""Small checkpoints with random weights. Needs NumPy, and safetensors to write a file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Weights = dict[str, NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]

PIXEL_MEAN = (123.675, 116.28, 103.53)
PIXEL_STD = (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class SamConfig:
    """Sizes of a SAM network, under upstream's argument names."""

    img_size: int = 1024
    patch_size: int = 16
    embed_dim: int = 768
    depth: int = 12
    num_heads: int = 12
    window_size: int = 14
    global_attn_indexes: tuple[int, ...] = (2, 5, 8, 11)
    out_chans: int = 256
    mask_in_chans: int = 16
    mlp_dim: int = 2048
    iou_head_hidden_dim: int = 256


# The grid of 8 is no multiple of the window of 3: padded positions take part, as in the real sizes.
# Block 0 has windows, block 1 is global.
TINY = SamConfig(
    img_size=128,
    embed_dim=64,
    depth=2,
    num_heads=4,
    window_size=3,
    global_attn_indexes=(1,),
    out_chans=64,
    mlp_dim=128,
    iou_head_hidden_dim=64,
)
VIT_B = SamConfig()
VIT_L = SamConfig(embed_dim=1024, depth=24, num_heads=16, global_attn_indexes=(5, 11, 17, 23))
VIT_H = SamConfig(embed_dim=1280, depth=32, num_heads=16, global_attn_indexes=(7, 15, 23, 31))
# The sizes of the checkpoint in the package.
NANO = SamConfig(
    img_size=384,
    patch_size=8,
    embed_dim=192,
    num_heads=3,
    window_size=12,
    global_attn_indexes=(3, 7, 11),
    out_chans=128,
    mlp_dim=512,
    iou_head_hidden_dim=128,
)
VARIANTS = {"vit_b": VIT_B, "vit_l": VIT_L, "vit_h": VIT_H}


@dataclass(frozen=True)
class Sam2HeadsConfig:
    """Sizes of SAM 2 behind its image encoder, under our configs' names."""

    d_model: int = 64
    mem_dim: int = 16
    grid: int = 4
    num_layers: int = 2
    dim_feedforward: int = 128
    fuser_layers: int = 2
    is_2_1: bool = True

    def ours(self) -> dict[str, object]:
        """Return what `_testing.layer` takes."""
        return {
            "image_size": 16 * self.grid,
            "embedding_dim": self.d_model,
            "in_dim": self.d_model,
            "out_dim": self.mem_dim,
            "d_model": self.d_model,
            "kv_in_dim": self.mem_dim,
            "feat_size": self.grid,
            "num_layers": self.num_layers,
            "dim_feedforward": self.dim_feedforward,
            "fuser_layers": self.fuser_layers,
            "no_obj_embed_spatial": self.is_2_1,
            "add_tpos_enc_to_obj_ptrs": self.is_2_1,
            "use_signed_tpos_enc_to_obj_ptrs": self.is_2_1,
        }


def _linear(shapes: Shapes, name: str, n_in: int, n_out: int) -> None:
    shapes[f"{name}.weight"] = (n_out, n_in)
    shapes[f"{name}.bias"] = (n_out,)


def _norm(shapes: Shapes, name: str, channels: int) -> None:
    shapes[f"{name}.weight"] = (channels,)
    shapes[f"{name}.bias"] = (channels,)


def _image_encoder(shapes: Shapes, config: SamConfig) -> None:
    width, patch, grid = config.embed_dim, config.patch_size, config.img_size // config.patch_size
    shapes["image_encoder.pos_embed"] = (1, grid, grid, width)
    shapes["image_encoder.patch_embed.proj.weight"] = (width, 3, patch, patch)
    shapes["image_encoder.patch_embed.proj.bias"] = (width,)
    for i in range(config.depth):
        block = f"image_encoder.blocks.{i}"
        side = grid if i in config.global_attn_indexes else config.window_size
        _norm(shapes, f"{block}.norm1", width)
        for axis in "hw":
            shape = (2 * side - 1, width // config.num_heads)
            shapes[f"{block}.attn.rel_pos_{axis}"] = shape
        _linear(shapes, f"{block}.attn.qkv", width, 3 * width)
        _linear(shapes, f"{block}.attn.proj", width, width)
        _norm(shapes, f"{block}.norm2", width)
        _linear(shapes, f"{block}.mlp.lin1", width, 4 * width)
        _linear(shapes, f"{block}.mlp.lin2", 4 * width, width)
    out = config.out_chans
    shapes["image_encoder.neck.0.weight"] = (out, width, 1, 1)
    _norm(shapes, "image_encoder.neck.1", out)
    shapes["image_encoder.neck.2.weight"] = (out, out, 3, 3)
    _norm(shapes, "image_encoder.neck.3", out)


def _prompt_encoder(shapes: Shapes, config: SamConfig) -> None:
    width, small, large = config.out_chans, config.mask_in_chans // 4, config.mask_in_chans
    name = "prompt_encoder"
    shapes[f"{name}.pe_layer.positional_encoding_gaussian_matrix"] = (2, width // 2)
    for i in range(4):
        shapes[f"{name}.point_embeddings.{i}.weight"] = (1, width)
    shapes[f"{name}.not_a_point_embed.weight"] = (1, width)
    for i, shape in ((0, (small, 1, 2, 2)), (3, (large, small, 2, 2)), (6, (width, large, 1, 1))):
        shapes[f"{name}.mask_downscaling.{i}.weight"] = shape
        shapes[f"{name}.mask_downscaling.{i}.bias"] = shape[:1]
    _norm(shapes, f"{name}.mask_downscaling.1", small)
    _norm(shapes, f"{name}.mask_downscaling.4", large)
    shapes[f"{name}.no_mask_embed.weight"] = (1, width)


def _decoder_attention(shapes: Shapes, name: str, width: int, inner: int) -> None:
    for part in "qkv":
        _linear(shapes, f"{name}.{part}_proj", width, inner)
    _linear(shapes, f"{name}.out_proj", inner, width)


def _mask_decoder(shapes: Shapes, config: SamConfig) -> None:
    width, name = config.out_chans, "mask_decoder"
    for i in range(2):
        layer = f"{name}.transformer.layers.{i}"
        _decoder_attention(shapes, f"{layer}.self_attn", width, width)
        for part in ("cross_attn_token_to_image", "cross_attn_image_to_token"):
            _decoder_attention(shapes, f"{layer}.{part}", width, width // 2)
        for norm in range(1, 5):
            _norm(shapes, f"{layer}.norm{norm}", width)
        _linear(shapes, f"{layer}.mlp.lin1", width, config.mlp_dim)
        _linear(shapes, f"{layer}.mlp.lin2", config.mlp_dim, width)
    final = f"{name}.transformer.final_attn_token_to_image"
    _decoder_attention(shapes, final, width, width // 2)
    _norm(shapes, f"{name}.transformer.norm_final_attn", width)
    shapes[f"{name}.iou_token.weight"] = (1, width)
    shapes[f"{name}.mask_tokens.weight"] = (4, width)
    for i, n_in, n_out in ((0, width, width // 4), (3, width // 4, width // 8)):
        shapes[f"{name}.output_upscaling.{i}.weight"] = (n_in, n_out, 2, 2)
        shapes[f"{name}.output_upscaling.{i}.bias"] = (n_out,)
    _norm(shapes, f"{name}.output_upscaling.1", width // 4)
    heads = [(f"{name}.output_hypernetworks_mlps.{i}", width, width // 8) for i in range(4)]
    heads.append((f"{name}.iou_prediction_head", config.iou_head_hidden_dim, 4))
    for head, hidden, out in heads:
        _linear(shapes, f"{head}.layers.0", width, hidden)
        _linear(shapes, f"{head}.layers.1", hidden, hidden)
        _linear(shapes, f"{head}.layers.2", hidden, out)


def sam_shapes(config: SamConfig) -> Shapes:
    """Names and shapes of all tensors of a SAM checkpoint in Meta's layout."""
    shapes: Shapes = {}
    _image_encoder(shapes, config)
    _prompt_encoder(shapes, config)
    _mask_decoder(shapes, config)
    return shapes


# Tables and tokens: values that are added, whatever their rank.
_ADDED = ("pos_embed", "rel_pos_h", "rel_pos_w")
_EMBEDDINGS = (
    "point_embeddings",
    "not_a_point_embed",
    "no_mask_embed",
    "iou_token",
    "mask_tokens",
    "obj_score_token",
    "token_embedding",
    "label_embed",
    "cls_embed",
    "query_embed",
    "presence_token",
    "hf_token",
    "hq_token",
)
_TRANSPOSED = ("output_upscaling", "compress_vit_feat", "embedding_encoder")


def _random_value(name: str, shape: tuple[int, ...], seed: int) -> NDArray[np.float32]:
    """Draw a value under which every term of the network counts.

    Matrices keep the variance of what they multiply; the weights of norms differ from 1 and all
    biases and tables from 0, so that leaving one out shows.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    noise = generator.standard_normal(shape, dtype=np.float32)
    parts = name.split(".")
    if parts[-1].endswith("gaussian_matrix"):
        return noise
    if parts[-1] == "running_var":
        positive: NDArray[np.float32] = np.exp(np.float32(0.5) * noise)
        return positive
    if parts[-1] == "attention_biases":
        return noise
    if parts[-1] in _ADDED or any(part in _EMBEDDINGS for part in parts):
        return np.float32(0.2) * noise
    if parts[-1] == "weight" and len(shape) == 1:
        return 1 + np.float32(0.2) * noise
    if parts[-1] in ("weight", "in_proj_weight"):
        transposed = parts[-2].startswith("dconv_2x2") or any(n in parts for n in _TRANSPOSED)
        fan_in = shape[0] if transposed else int(np.prod(shape[1:]))
        return noise / np.float32(fan_in**0.5)
    return np.float32(0.2) * noise


def random_state_dict(shapes: Mapping[str, tuple[int, ...]], seed: int = 0) -> Weights:
    """Random weights for the given names and shapes."""
    return {name: _random_value(name, shape, seed) for name, shape in shapes.items()}


def sam_weights(config: SamConfig = TINY, seed: int = 0) -> Weights:
    """Random weights of a whole SAM checkpoint, in Meta's layout."""
    return random_state_dict(sam_shapes(config), seed)


def vivid_weights(config: SamConfig = TINY, seed: int = 0) -> Weights:
    """Random weights whose masks depend on the point: many small ones instead of one large."""
    return made_vivid(sam_weights(config, seed))


def made_vivid(weights: Weights) -> Weights:
    """Change random weights so that masks depend on the point.

    Positions attend to tokens of a similar position, and the value of a mask where nothing is is
    below zero.
    """
    for name, value in weights.items():
        if name.endswith("gaussian_matrix"):
            weights[name] = np.float32(0.5) * value
        elif ".layers.2." in name and (".output_hypernetworks_mlps." in name or ".hf_mlp" in name):
            weights[name] = np.float32(8) * value
            if name.endswith("bias"):
                weights[name] -= np.float32(4)
        elif name.endswith("cross_attn_image_to_token.q_proj.weight"):
            weights[name] = np.float32(2) * value
        elif name.endswith("cross_attn_image_to_token.out_proj.weight"):
            weights[name] = np.float32(4) * value
    for name in [n for n in weights if n.endswith("cross_attn_image_to_token.k_proj.weight")]:
        weights[name] = weights[name.replace("k_proj", "q_proj")].copy()
    return weights


def metadata(config: SamConfig) -> dict[str, str]:
    """What a safetensors file says about sizes that its tensors do not tell."""
    sizes = {
        "img_size": config.img_size,
        "patch_size": config.patch_size,
        "embed_dim": config.embed_dim,
        "depth": config.depth,
        "num_heads": config.num_heads,
        "mlp_ratio": 4.0,
        "out_chans": config.out_chans,
        "window_size": config.window_size,
        "global_attn_indexes": list(config.global_attn_indexes),
        "mask_in_chans": config.mask_in_chans,
        "decoder_mlp_dim": config.mlp_dim,
        "iou_head_hidden_dim": config.iou_head_hidden_dim,
    }
    return {"config": json.dumps(sizes), "variant": "tiny"}


def save_safetensors(
    path: Path, weights: Mapping[str, NDArray[np.float32]], config: SamConfig = TINY
) -> Path:
    """Write a safetensors checkpoint in Meta's layout; released sizes carry no config."""
    from safetensors.numpy import save_file

    released = config in VARIANTS.values()
    save_file(dict(weights), path, metadata=None if released else metadata(config))
    return path
