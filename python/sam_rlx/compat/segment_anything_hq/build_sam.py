"""Models by upstream's names."""

from __future__ import annotations

from collections.abc import Callable

from sam_rlx._internal.public import public_names
from sam_rlx.compat.segment_anything.build_sam import HQ, VARIANTS, builder
from sam_rlx.compat.segment_anything.build_sam import sam_model_registry as plain_registry
from sam_rlx.compat.segment_anything_hq.modeling import Sam

__all__ = [
    "build_sam",
    "build_sam_vit_b",
    "build_sam_vit_h",
    "build_sam_vit_l",
    "build_sam_vit_t",
    "sam_model_registry",
    "sam_model_registry_baseline",
]

_NAMES = {"vit_tiny": "vit_t"}  # of functions, where upstream's registry has another one
_BUILDERS = {
    name: builder(Sam, variant, _NAMES.get(name, name))
    for variant in VARIANTS
    if variant.startswith(HQ)
    for name in [variant.removeprefix(HQ)]
}
build_sam = build_sam_vit_h = _BUILDERS["vit_h"]
build_sam_vit_l = _BUILDERS["vit_l"]
build_sam_vit_b = _BUILDERS["vit_b"]
build_sam_vit_t = _BUILDERS["vit_tiny"]

sam_model_registry: dict[str, Callable[..., Sam]] = {"default": build_sam, **_BUILDERS}
# SAM without HQ.
sam_model_registry_baseline = {
    **{name: plain_registry[name] for name in ("default", "vit_h", "vit_l", "vit_b")},
    "vit_tiny": plain_registry["vit_t"],
}

__dir__ = public_names(__name__)
