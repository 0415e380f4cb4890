"""Drop-in modules: a program written for an upstream package changes one import, or none."""

from typing import TYPE_CHECKING

from sam_rlx._internal.public import loader, public_names
from sam_rlx.compat.common.take_over import install

__all__ = ["install"]

_PARTS = dict.fromkeys(
    ("sam2", "sam3", "segment_anything", "segment_anything_hq", "transformers", "ultralytics")
)

if TYPE_CHECKING:
    from sam_rlx.compat import (  # noqa: F401
        sam2,
        sam3,
        segment_anything,
        segment_anything_hq,
        transformers,
        ultralytics,
    )
else:
    __getattr__ = loader(__name__, _PARTS)
__dir__ = public_names(__name__, _PARTS)
