"""What upstream's predictors take: ``sam2.modeling.sam2_base``."""

from __future__ import annotations

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.sam2.config_file import ATTRIBUTES
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

__all__ = ["SAM2Base"]


class SAM2Base(Network):
    """A SAM 2 model as upstream's predictors take it. Made by `build_sam2`.

    Attributes
    ----------
    model : sam_rlx.Model
        The weights.
    image_size : int
        Side of the square input in pixels.
    """

    _FIXED = ATTRIBUTES

    def __init__(self, model: Model) -> None:
        if model.family != "sam2":
            raise UnsupportedError(f"model: expected family sam2, found {model.family}")
        self.model = model
        self.image_size = model.img_size


__dir__ = public_names(__name__)
