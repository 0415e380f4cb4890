"""The interface of ``segment_anything_hq`` 0.3 on NumPy: same names, arguments and defaults.

It is `sam_rlx.compat.segment_anything` with SAM-HQ's models and ``hq_token_only``; ``utils`` are
those of that package.
"""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.segment_anything_hq.automatic_mask_generator import SamAutomaticMaskGenerator
from sam_rlx.compat.segment_anything_hq.build_sam import (
    build_sam,
    build_sam_vit_b,
    build_sam_vit_h,
    build_sam_vit_l,
    build_sam_vit_t,
    sam_model_registry,
    sam_model_registry_baseline,
)
from sam_rlx.compat.segment_anything_hq.predictor import SamPredictor

__all__ = [
    "SamAutomaticMaskGenerator",
    "SamPredictor",
    "build_sam",
    "build_sam_vit_b",
    "build_sam_vit_h",
    "build_sam_vit_l",
    "build_sam_vit_t",
    "sam_model_registry",
    "sam_model_registry_baseline",
]

__dir__ = public_names(__name__)
