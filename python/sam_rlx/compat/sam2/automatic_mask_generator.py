"""Upstream's ``SAM2AutomaticMaskGenerator``: ``sam2.automatic_mask_generator``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.everything import Everything, number
from sam_rlx.compat.sam2.build_sam import build_sam2_hf
from sam_rlx.compat.sam2.sam2_base import SAM2Base
from sam_rlx.compat.sam2.sam2_image_predictor import SAM2ImagePredictor


class SAM2AutomaticMaskGenerator(Everything):
    """Everything mode with upstream's arguments; see `sam_rlx.MaskGenerator` for their meaning.

    Numbers may be of any size, and arguments with other names have no effect, as upstream. The
    arguments are attributes that can be set.

    With `min_mask_region_area`, holes and islands of at most so many positions of the
    low-resolution mask are removed, as upstream does on a GPU; its CPU path ignores it. Wrong
    combinations are ``AssertionError``, as upstream.
    """

    _PREDICTOR = SAM2ImagePredictor
    mask_threshold: float
    use_m2m: bool
    multimask_output: bool

    def __init__(
        self,
        model: SAM2Base,
        points_per_side: int | None = 32,
        points_per_batch: int = 64,
        pred_iou_thresh: float = 0.8,
        stability_score_thresh: float = 0.95,
        stability_score_offset: float = 1.0,
        mask_threshold: float = 0.0,
        box_nms_thresh: float = 0.7,
        crop_n_layers: int = 0,
        crop_nms_thresh: float = 0.7,
        crop_overlap_ratio: float = 512 / 1500,
        crop_n_points_downscale_factor: int = 1,
        point_grids: Sequence[ArrayLike] | None = None,
        min_mask_region_area: int = 0,
        output_mode: str = "binary_mask",
        use_m2m: bool = False,
        multimask_output: bool = True,
        **kwargs: Any,
    ) -> None:
        arguments = {
            "points_per_batch": points_per_batch,
            "pred_iou_thresh": pred_iou_thresh,
            "stability_score_thresh": stability_score_thresh,
            "stability_score_offset": stability_score_offset,
            "mask_threshold": mask_threshold,
            "box_nms_thresh": box_nms_thresh,
            "crop_n_layers": crop_n_layers,
            "crop_nms_thresh": crop_nms_thresh,
            "crop_overlap_ratio": crop_overlap_ratio,
            "crop_n_points_downscale_factor": crop_n_points_downscale_factor,
            "min_mask_region_area": min_mask_region_area,
            "use_m2m": use_m2m,
            "multimask_output": multimask_output,
        }
        self._begin(points_per_side, point_grids, output_mode, arguments)
        area = number("min_mask_region_area", min_mask_region_area)
        self.predictor = SAM2ImagePredictor(model, max_hole_area=area, max_sprinkle_area=area)

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> SAM2AutomaticMaskGenerator:
        """Load a model from the hub (extra ``hub``); `kwargs` go to it and to the generator."""
        return cls(build_sam2_hf(model_id, **kwargs), **kwargs)

    def generate(self, image: NDArray[np.uint8]) -> list[dict[str, Any]]:
        """Find the masks of an image (H, W, 3), uint8.

        Returns
        -------
        list of dict
            ``segmentation`` (in the output mode), ``area``, ``bbox`` [x, y, w, h],
            ``predicted_iou``, ``point_coords`` [[x, y]], ``stability_score`` and ``crop_box``;
            boxes and points are floats that upstream rounds to float32.
        """
        self.refuse_own_methods()
        found = []
        switches = (bool(self.multimask_output), bool(self.use_m2m), float(self.mask_threshold))
        area = float(self.predictor.max_hole_area)
        model = self.predictor.model.model
        for record in self._records(model, image, self._options(), switches, area):
            fields = dict(record)
            fields["bbox"] = [float(side) for side in fields["bbox"]]
            fields["crop_box"] = [float(side) for side in fields["crop_box"]]
            fields["point_coords"] = [
                [float(np.float32(value)) for value in point] for point in fields["point_coords"]
            ]
            found.append(fields)
        return found


__dir__ = public_names(__name__)
