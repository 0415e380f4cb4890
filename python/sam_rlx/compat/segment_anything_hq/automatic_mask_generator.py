"""Upstream's ``SamAutomaticMaskGenerator``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.segment_anything import automatic_mask_generator
from sam_rlx.compat.segment_anything_hq.predictor import SamPredictor

__all__ = ["SamAutomaticMaskGenerator"]


class SamAutomaticMaskGenerator(automatic_mask_generator.SamAutomaticMaskGenerator):
    """Everything mode of SAM-HQ: one mask for each point, otherwise as `segment_anything`'s."""

    _PREDICTOR = SamPredictor

    def generate(
        self, image: NDArray[np.uint8], multimask_output: bool = True
    ) -> list[dict[str, Any]]:
        """Find the masks of an image (H, W, 3), uint8.

        Parameters
        ----------
        image : ndarray (H, W, 3)
            uint8.
        multimask_output : bool
            Whether SAM's mask is the best of three, or its single one.

        Returns
        -------
        list of dict
            ``segmentation`` (in the output mode), ``area``, ``bbox`` [x, y, w, h],
            ``predicted_iou``, ``point_coords`` [[x, y]], ``stability_score`` and ``crop_box``.
        """
        return self._generate(image, bool(multimask_output))


__dir__ = public_names(__name__)
