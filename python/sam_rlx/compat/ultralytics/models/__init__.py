"""``ultralytics.models``: those of Segment Anything."""

from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics.models.sam import SAM

__all__ = ["SAM"]

__dir__ = public_names(__name__)
