"""Models by upstream's names."""

from __future__ import annotations

import os
from collections.abc import Callable

from sam_rlx._internal.public import public_names
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import load_model


def _build(checkpoint: str | os.PathLike[str] | None, variant: str | None) -> Sam:
    if checkpoint is None:
        raise UnsupportedError(
            "build_sam: expected a checkpoint, found None (random weights are not offered)"
        )
    return Sam(load_model(checkpoint, variant=variant))


def build_sam_vit_h(checkpoint: str | os.PathLike[str] | None = None) -> Sam:
    """Load a ViT-H checkpoint; see `sam_rlx.load_model` for sources and errors."""
    return _build(checkpoint, "vit_h")


def build_sam_vit_l(checkpoint: str | os.PathLike[str] | None = None) -> Sam:
    """Load a ViT-L checkpoint; see `sam_rlx.load_model` for sources and errors."""
    return _build(checkpoint, "vit_l")


def build_sam_vit_b(checkpoint: str | os.PathLike[str] | None = None) -> Sam:
    """Load a ViT-B checkpoint; see `sam_rlx.load_model` for sources and errors."""
    return _build(checkpoint, "vit_b")


def build_sam_nano(checkpoint: str | os.PathLike[str] = "sam-nano") -> Sam:
    """Load the small packaged model. Upstream has no such function."""
    return _build(checkpoint, None)


build_sam = build_sam_vit_h

sam_model_registry: dict[str, Callable[..., Sam]] = {
    "default": build_sam_vit_h,
    "vit_h": build_sam_vit_h,
    "vit_l": build_sam_vit_l,
    "vit_b": build_sam_vit_b,
    "nano": build_sam_nano,
}

__dir__ = public_names(__name__)
