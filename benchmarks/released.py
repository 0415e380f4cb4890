"""Random weights of the released sizes. Needs NumPy only."""

from __future__ import annotations

from tracks import PRESENCE, sam2_weights
from workloads import SEED, tiny, tiny_sam2


def random_weights(variant: str) -> tiny.Weights | None:
    """Return random weights of a released size, or None for a variant that has none here."""
    from support import tiny_edgetam, tiny_mobile_sam, tiny_sam_hq  # which workloads finds

    if variant == "vit_t":
        return tiny_mobile_sam.weights(tiny_mobile_sam.VIT_T, tiny.VIT_B, SEED)
    if variant == "edgetam":
        return tiny_edgetam.weights(tiny_edgetam.EDGETAM, SEED, presence=8)
    if variant == "hq_vit_tiny":
        return tiny_sam_hq.weights(tiny.VIT_B, tiny_mobile_sam.VIT_T, SEED)
    if variant == "hq_hiera_l":
        weights = tiny_sam_hq.sam2_weights(tiny_sam2.VARIANTS["hiera_l"], SEED)
        weights[PRESENCE] += 8
        return weights
    if variant.startswith("hq_"):
        return tiny_sam_hq.weights(tiny.VARIANTS[variant.removeprefix("hq_")], seed=SEED)
    if variant in tiny.VARIANTS:
        return tiny.sam_weights(tiny.VARIANTS[variant], SEED)
    if variant in tiny_sam2.VARIANTS:
        return sam2_weights(tiny_sam2.VARIANTS[variant])
    return None
