"""Drop-in for ultralytics' classes of Segment Anything: names and forms, not equal masks.

Masks are those of the models by Meta's rules. Other networks of ultralytics are its own, where it
is installed, else an `UnsupportedError`.
"""

from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics import refusals
from sam_rlx.compat.ultralytics.models.sam.model import SAM

__all__ = ["SAM"]


def __getattr__(name: str) -> Any:
    if name in refusals.OTHERS:
        return refusals.other_model(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__dir__ = public_names(__name__)
