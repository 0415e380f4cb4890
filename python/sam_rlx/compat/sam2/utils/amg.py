"""The helpers of upstream's ``sam2.utils.amg``: those of ``segment_anything.utils.amg``."""

from __future__ import annotations

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.amg import (
    MaskData,
    area_from_rle,
    batch_iterator,
    batched_mask_to_box,
    box_xyxy_to_xywh,
    build_all_layer_point_grids,
    build_point_grid,
    calculate_stability_score,
    coco_encode_rle,
    generate_crop_boxes,
    is_box_near_crop_edge,
    mask_to_rle_pytorch,
    remove_small_regions,
    rle_to_mask,
    uncrop_boxes_xyxy,
    uncrop_masks,
    uncrop_points,
)

__all__ = [
    "MaskData",
    "area_from_rle",
    "batch_iterator",
    "batched_mask_to_box",
    "box_xyxy_to_xywh",
    "build_all_layer_point_grids",
    "build_point_grid",
    "calculate_stability_score",
    "coco_encode_rle",
    "generate_crop_boxes",
    "is_box_near_crop_edge",
    "mask_to_rle_pytorch",
    "remove_small_regions",
    "rle_to_mask",
    "uncrop_boxes_xyxy",
    "uncrop_masks",
    "uncrop_points",
]

__dir__ = public_names(__name__)
