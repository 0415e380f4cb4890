"""Clicks on SAM 3's images: ``sam3.model.sam1_task_predictor``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor

Embeddings = tuple[NDArray[np.float32], ...]


class SAM3InteractiveImagePredictor(SAM2ImagePredictor):
    """Masks for points, boxes and masks on images, by SAM 3's tracker. Made by `Sam3Image`.

    Holes of at most 256 positions of the low-resolution mask are filled, as upstream does where
    scikit-image is installed.

    Parameters
    ----------
    sam_model : Sam3Image
        Whose checkpoint has a tracker.
    mask_threshold : float
        Logit above which a pixel belongs to a mask.
    """

    _RESIZE = ("integer",)

    def __init__(self, sam_model: Any, mask_threshold: float = 0.0) -> None:
        super().__init__(sam_model, mask_threshold)

    def set_encoded(
        self, encoded: list[tuple[Embeddings, tuple[int, int]]], is_batch: bool
    ) -> None:
        """Take features of `Sam3Processor` with the sizes (H, W) of their images."""
        self._hold([features for features, _ in encoded], [size for _, size in encoded], is_batch)


__dir__ = public_names(__name__)
