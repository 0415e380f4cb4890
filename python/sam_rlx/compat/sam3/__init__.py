"""The interface of ``sam3`` 0.1 on NumPy: same module names, arguments, defaults and shapes.

Where upstream gives tensors, these classes give arrays with the methods ``cpu``, ``detach``,
``numpy`` and ``to``. The only device is ``"cpu"``, and images are resized as upstream does there.
"""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.unoffered import add_unoffered
from sam_rlx.compat.sam3.model_builder import (
    build_sam3_image_model,
    build_sam3_video_model,
    build_sam3_video_predictor,
)

__all__ = ["build_sam3_image_model", "build_sam3_video_model", "build_sam3_video_predictor"]

add_unoffered(__name__)
__dir__ = public_names(__name__)
