"""What upstream's predictors take: ``sam2.modeling.sam2_base``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, expects
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
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

    @expects("images (B, 3, S, S), normalized")
    def forward_image(self, img_batch: Any) -> dict[str, Any]:
        """Encode images (B, 3, S, S) that are normalized.

        Returns ``vision_features`` (B, C, h, w), and for three levels, the finest first,
        ``backbone_fpn`` as the mask decoder takes them and ``vision_pos_enc``.
        """
        images = np.asarray(to_array(img_batch, np.float32))
        shape = (3, self.image_size, self.image_size)
        if images.ndim != 4 or images.shape[1:] != shape:
            raise ArgumentRuntimeError(
                f"forward_image: expected (B, {', '.join(map(str, shape))}), found {images.shape}"
            )
        core = _core.TensorPredictor(self.model.core)
        maps = [as_result(each) for each in core.encode(images, no_mem_embed=False)]
        encodings = [
            as_result(
                np.array(np.broadcast_to(x.transpose(2, 0, 1), (len(images), *x.shape[::-1])))
            )
            for x in core.position_encodings()
        ]
        return {"vision_features": maps[-1], "vision_pos_enc": encodings, "backbone_fpn": maps}

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
