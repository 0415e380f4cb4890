"""Clicks on SAM 3's images: ``sam3.model.sam1_task_predictor``."""

from __future__ import annotations

from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.click_predictor import ClickPredictor
from sam_rlx.compat.common.state_dicts import EmptyModel


class SAM3InteractiveImagePredictor(ClickPredictor):
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
        if not isinstance(sam_model.model, EmptyModel):
            _ = self._core  # a checkpoint without a tracker is refused here

    def set_encoded(self, maps: Any, sizes: list[tuple[int, int]], is_batch: bool) -> None:
        """Take features of `Sam3Processor`, of all images, with the sizes (H, W) of each."""
        self._features = {"image_embed": maps[0], "high_res_feats": list(maps[1:])}
        self._orig_hw, self._is_image_set, self._is_batch = sizes, True, is_batch


__dir__ = public_names(__name__)
