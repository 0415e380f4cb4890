"""``SAM2Base`` where upstream has it: ``sam2.modeling.sam2_base``."""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.sam2.sam2_base import SAM2Base

__all__ = ["SAM2Base"]

__dir__ = public_names(__name__)
