"""Upstream's ``SamAutomaticMaskGenerator``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.everything import Everything, whole_area
from sam_rlx.compat.segment_anything.modeling import Sam
from sam_rlx.compat.segment_anything.predictor import SamPredictor, as_uint8
from sam_rlx.compat.segment_anything.utils import amg

__all__ = ["SamAutomaticMaskGenerator"]


class SamAutomaticMaskGenerator(Everything):
    """Everything mode with upstream's arguments; see `sam_rlx.MaskGenerator` for their meaning.

    Numbers may be of any size, as upstream: a threshold that nothing passes gives no masks, and
    one that all pass is none. The arguments are attributes that can be set. Neither pycocotools nor
    OpenCV is needed. Wrong combinations are ``AssertionError``, as upstream.
    """

    min_mask_region_area: float
    _PREDICTOR: ClassVar[type] = SamPredictor

    def __init__(
        self,
        model: Sam,
        points_per_side: int | None = 32,
        points_per_batch: int = 64,
        pred_iou_thresh: float = 0.88,
        stability_score_thresh: float = 0.95,
        stability_score_offset: float = 1.0,
        box_nms_thresh: float = 0.7,
        crop_n_layers: int = 0,
        crop_nms_thresh: float = 0.7,
        crop_overlap_ratio: float = 512 / 1500,
        crop_n_points_downscale_factor: int = 1,
        point_grids: Sequence[ArrayLike] | None = None,
        min_mask_region_area: int = 0,
        output_mode: str = "binary_mask",
    ) -> None:
        arguments = {
            "points_per_batch": points_per_batch,
            "pred_iou_thresh": pred_iou_thresh,
            "stability_score_thresh": stability_score_thresh,
            "stability_score_offset": stability_score_offset,
            "box_nms_thresh": box_nms_thresh,
            "crop_n_layers": crop_n_layers,
            "crop_nms_thresh": crop_nms_thresh,
            "crop_overlap_ratio": crop_overlap_ratio,
            "crop_n_points_downscale_factor": crop_n_points_downscale_factor,
            "min_mask_region_area": min_mask_region_area,
        }
        self._begin(points_per_side, point_grids, output_mode, arguments)
        whole_area(min_mask_region_area)
        self.predictor = self._PREDICTOR(model)

    def generate(self, image: NDArray[np.uint8]) -> list[dict[str, Any]]:
        """Find the masks of an image (H, W, 3), uint8.

        Returns
        -------
        list of dict
            ``segmentation`` (in the output mode), ``area``, ``bbox`` [x, y, w, h],
            ``predicted_iou``, ``point_coords`` [[x, y]], ``stability_score`` and ``crop_box``.
        """
        return self._generate(image, True)

    def _generate(self, image: NDArray[np.uint8], multimask_output: bool) -> list[dict[str, Any]]:
        self.refuse_own_methods()
        sam = self.predictor.model
        options = self._options()
        options["min_mask_region_area"] = whole_area(self.min_mask_region_area)
        switches = (multimask_output, False, float(sam.mask_threshold))
        records = self._records(sam.model, as_uint8(image), options, switches, 0.0)
        return [dict(record) for record in records]

    @staticmethod
    def postprocess_small_regions(
        mask_data: amg.MaskData, min_area: int, nms_thresh: float
    ) -> amg.MaskData:
        """Remove small holes and islands from masks, then duplicates among their boxes.

        Parameters
        ----------
        mask_data : MaskData
            Has ``rles`` (list of uncompressed RLE) and ``boxes`` (M, 4); is changed in place.
        min_area : int
            Holes and islands with fewer pixels go.
        nms_thresh : float
            Box IoU above which a mask is dropped; unchanged masks win over changed ones.

        Returns
        -------
        MaskData
            `mask_data` itself.
        """
        if len(mask_data["rles"]) == 0:
            return mask_data
        masks, unchanged = [], []
        for rle in mask_data["rles"]:
            mask, holes = amg.remove_small_regions(amg.rle_to_mask(rle), min_area, mode="holes")
            mask, islands = amg.remove_small_regions(mask, min_area, mode="islands")
            masks.append(mask)
            unchanged.append(not (holes or islands))
        boxes = amg.batched_mask_to_box(np.stack(masks))
        scores = np.asarray(unchanged, np.float32)
        keep = _core.box_nms(boxes.astype(np.float32), scores, nms_thresh)
        for index in keep.tolist():
            if not unchanged[index]:
                mask_data["rles"][index] = amg.mask_to_rle_pytorch(masks[index][None])[0]
                mask_data["boxes"][index] = boxes[index]
        mask_data.filter(keep)
        return mask_data


__dir__ = public_names(__name__)
