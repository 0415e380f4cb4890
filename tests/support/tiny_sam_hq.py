"""Small checkpoints of SAM-HQ's layout with random weights. Needs NumPy."""

from __future__ import annotations

from support import tiny, tiny_mobile_sam
from support.tiny_mobile_sam import TinyViTConfig

HEAD = "mask_decoder."
PARTS = ("hf_token", "hf_mlp", "compress_vit_feat", "embedding_encoder", "embedding_maskfeature")


def head_shapes(width: int, vit_dim: int) -> tiny.Shapes:
    """Names and shapes of what SAM-HQ adds to a decoder of this width."""
    shapes: tiny.Shapes = {f"{HEAD}hf_token.weight": (1, width)}

    def add(name: str, weight: tuple[int, ...], out: int) -> None:
        shapes[f"{HEAD}{name}.weight"] = weight
        shapes[f"{HEAD}{name}.bias"] = (out,)

    for i, out in enumerate((width, width, width // 8)):
        add(f"hf_mlp.layers.{i}", (out, width), out)
    small, mid = width // 8, width // 4
    for name, n_in, hidden in (
        ("compress_vit_feat", vit_dim, width),
        ("embedding_encoder", width, mid),
    ):
        add(f"{name}.0", (n_in, hidden, 2, 2), hidden)
        add(f"{name}.1", (hidden,), hidden)
        add(f"{name}.3", (hidden, small, 2, 2), small)
    add("embedding_maskfeature.0", (mid, small, 3, 3), mid)
    add("embedding_maskfeature.1", (mid,), mid)
    add("embedding_maskfeature.3", (small, mid, 3, 3), small)
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
