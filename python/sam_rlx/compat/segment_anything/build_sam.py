"""Models by upstream's names."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.model import load_model

__all__ = [
    "build_sam",
    "build_sam_nano",
    "build_sam_vit_b",
    "build_sam_vit_h",
    "build_sam_vit_l",
    "build_sam_vit_t",
    "sam_model_registry",
]

_IMAGE_SIZE = 1024  # of every release
_Network = TypeVar("_Network", bound=Sam)


def builder(kind: type[_Network], variant: str, name: str) -> Callable[..., _Network]:
    """Return upstream's function ``build_sam_`` and a name: it loads a network of this kind."""

    def build(checkpoint: str | os.PathLike[str] | None = None) -> _Network:
        if checkpoint is None:
            return kind(EmptyModel("sam", variant, _IMAGE_SIZE))
        return kind(load_model(checkpoint, variant=variant))

    build.__name__ = build.__qualname__ = f"build_sam_{name}"
    build.__doc__ = (
        f"Load a {variant} checkpoint; see `sam_rlx.load_model` for sources and errors. Without "
        "one the network waits for `load_state_dict`."
    )
    return build


def build_sam_nano(checkpoint: str | os.PathLike[str] = "sam-nano") -> Sam:
    """Load the small packaged model. Upstream has no such function."""
    return Sam(load_model(checkpoint))


# Those of SAM-HQ, which begin so, are `sam_rlx.compat.segment_anything_hq`'s.
HQ = "hq_"
VARIANTS = [row["variant"] for row in _core.releases() if row["family"] == "sam"]
_BUILDERS = {
    variant: builder(Sam, variant, variant) for variant in VARIANTS if not variant.startswith(HQ)
}
build_sam = build_sam_vit_h = _BUILDERS["vit_h"]
build_sam_vit_l = _BUILDERS["vit_l"]
build_sam_vit_b = _BUILDERS["vit_b"]
build_sam_vit_t = _BUILDERS["vit_t"]  # of mobile_sam, which has all else of segment_anything

sam_model_registry: dict[str, Callable[..., Sam]] = {
    "default": build_sam,
    **_BUILDERS,
    "nano": build_sam_nano,
}

__dir__ = public_names(__name__)
