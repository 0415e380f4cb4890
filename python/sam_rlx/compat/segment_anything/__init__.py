"""The interface of ``segment_anything`` 1.0 on NumPy: same names, arguments, defaults and shapes.

Where upstream gives tensors, these classes give arrays with the methods ``cpu``, ``detach``,
``numpy`` and ``to``; where it takes tensors, anything with ``__array__`` is taken. The only device
is ``"cpu"``. Left out: training, random weights (a checkpoint is required), ``SamOnnxModel``, and
``ResizeLongestSide.apply_image_torch``, which reads height and width from the wrong axes upstream.
"""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.unoffered import add_unoffered
from sam_rlx.compat.segment_anything.automatic_mask_generator import SamAutomaticMaskGenerator
from sam_rlx.compat.segment_anything.build_sam import (
    build_sam,
    build_sam_nano,
    build_sam_vit_b,
    build_sam_vit_h,
    build_sam_vit_l,
    build_sam_vit_t,
    sam_model_registry,
)
from sam_rlx.compat.segment_anything.predictor import SamPredictor

__all__ = [
    "SamAutomaticMaskGenerator",
    "SamPredictor",
    "build_sam",
    "build_sam_nano",
    "build_sam_vit_b",
    "build_sam_vit_h",
    "build_sam_vit_l",
    "build_sam_vit_t",
    "sam_model_registry",
]

add_unoffered(__name__)
__dir__ = public_names(__name__)
