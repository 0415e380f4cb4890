"""Small checkpoints of the layouts of SAM-HQ and HQ-SAM 2 with random weights. Needs NumPy."""

from __future__ import annotations

from support import tiny, tiny_mobile_sam, tiny_sam2
from support.tiny_mobile_sam import TinyViTConfig

HEAD = "mask_decoder."
PARTS = ("hf_token", "hf_mlp", "compress_vit_feat", "embedding_encoder", "embedding_maskfeature")


def _add(shapes: tiny.Shapes, name: str, weight: tuple[int, ...], out: int) -> None:
    shapes[f"{name}.weight"] = weight
    shapes[f"{name}.bias"] = (out,)


def token_shapes(width: int, head: str = HEAD) -> tiny.Shapes:
    """Names and shapes of what HQ-SAM 2 adds to a decoder of this width, and SAM-HQ too."""
    shapes: tiny.Shapes = {f"{head}hf_token.weight": (1, width)}
    for i, out in enumerate((width, width, width // 8)):
        _add(shapes, f"{head}hf_mlp.layers.{i}", (out, width), out)
    small, mid = width // 8, width // 4
    _add(shapes, f"{head}embedding_maskfeature.0", (mid, small, 3, 3), mid)
    _add(shapes, f"{head}embedding_maskfeature.1", (mid,), mid)
    _add(shapes, f"{head}embedding_maskfeature.3", (small, mid, 3, 3), small)
    return shapes


def head_shapes(width: int, vit_dim: int) -> tiny.Shapes:
    """Names and shapes of what SAM-HQ adds to a decoder of this width."""
    shapes = token_shapes(width)
    small, mid = width // 8, width // 4
    for name, n_in, hidden in (
        ("compress_vit_feat", vit_dim, width),
        ("embedding_encoder", width, mid),
    ):
        _add(shapes, f"{HEAD}{name}.0", (n_in, hidden, 2, 2), hidden)
        _add(shapes, f"{HEAD}{name}.1", (hidden,), hidden)
        _add(shapes, f"{HEAD}{name}.3", (hidden, small, 2, 2), small)
    return shapes


def shapes_of(
    config: tiny.SamConfig = tiny.TINY, trunk: TinyViTConfig | None = None
) -> tiny.Shapes:
    """Names and shapes of all tensors of a checkpoint, with ViT or with TinyViT."""
    if trunk is None:
        return {**tiny.sam_shapes(config), **head_shapes(config.out_chans, config.embed_dim)}
    rest = tiny_mobile_sam.shapes_of(trunk, config)
    return {**rest, **head_shapes(config.out_chans, trunk.embed_dims[2])}


def weights(
    config: tiny.SamConfig = tiny.TINY, trunk: TinyViTConfig | None = None, seed: int = 0
) -> tiny.Weights:
    """Random weights of a whole checkpoint."""
    return tiny.random_state_dict(shapes_of(config, trunk), seed)


def sam2_shapes(config: tiny_sam2.ImageEncoderConfig = tiny_sam2.TINY) -> tiny.Shapes:
    """Names and shapes of all tensors of a checkpoint of HQ-SAM 2."""
    rest = {**tiny_sam2.image_encoder_shapes(config), **tiny_sam2.heads_shapes(config)}
    return {**rest, **token_shapes(config.d_model, f"sam_{HEAD}")}


def sam2_weights(
    config: tiny_sam2.ImageEncoderConfig = tiny_sam2.TINY, seed: int = 0
) -> tiny.Weights:
    """Random weights of a whole checkpoint of HQ-SAM 2."""
    return tiny.random_state_dict(sam2_shapes(config), seed)
