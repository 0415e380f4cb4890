"""What upstream's predictors take: ``sam2.modeling.sam2_base``."""

from __future__ import annotations

from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.sam2.config_file import ATTRIBUTES, ModelSettings
from sam_rlx.compat.sam2.loading import load_checkpoint
from sam_rlx.errors import CheckpointError, UnsupportedError
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

    def __init__(self, model: Model | EmptyModel, settings: ModelSettings | None = None) -> None:
        if model.family != "sam2":
            raise UnsupportedError(f"model: expected family sam2, found {model.family}")
        self.model: Any = model
        self.image_size = model.img_size
        self._settings = settings

    def _load(self, path: str, strict: bool) -> Any:
        model = (
            super()._load(path, strict)
            if self._settings is None
            else load_checkpoint(self._settings, path)
        )
        if model.img_size != self.image_size:
            raise CheckpointError(
                f"{path}: expected an image size of {self.image_size}, found {model.img_size}"
            )
        return model


__dir__ = public_names(__name__)
