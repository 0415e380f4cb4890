"""Everything mode in image processors: crops, grids of points, filters, one suppression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common import amg
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.errors import ArgumentRuntimeError, expects
from sam_rlx.compat.common.tensors import as_result, numbers
from sam_rlx.errors import InvalidArgumentError


class MaskGeneration:
    """Methods of image processors that the pipeline "mask-generation" is made of.

    All families have SAM's: points are laid out as if the longer side of the image became
    `target_size`, also where an image becomes a square.
    """

    def generate_crop_boxes(
        self,
        image: Any,
        target_size: int,
        crop_n_layers: int = 0,
        overlap_ratio: float = 512 / 1500,
        points_per_crop: int = 32,
        crop_n_points_downscale_factor: float = 1,
        device: Any = None,
    ) -> tuple[Any, Any, list[Any], Any]:
        """Cut an image into crops, and lay a grid of points on each.

        Parameters
        ----------
        image : PIL image, array or tensor
            (H, W, 3) or (3, H, W).
        target_size : int
            Longer side of a crop in the network's input, in pixels.
        crop_n_layers : int
            Layer i has 2^i x 2^i crops beside the whole image.
        overlap_ratio : float
            Overlap of crops, as a part of the shorter side.
        points_per_crop : int
            Points along each side of a grid.
        crop_n_points_downscale_factor : float
            In layer i the points along a side are divided by its i-th power.
        device : str, optional
            "cpu".

        Returns
        -------
        crop_boxes : tensor (C, 4), float32
            Corners in pixels of the image.
        points : tensor (1, N, C, 2), float32
            x, y in the network's input.
        cropped_images : list of tensor (3, h, w)
            Views of the image.
        labels : tensor (1, N, C), int64
            All 1.

        Raises
        ------
        RuntimeError
            Layers have grids of different sizes.
        InvalidArgumentError
            An argument has the wrong type or range.
        """
        check_device(device)
        pixels = _channels_first(image)
        boxes, layers = _crops(pixels.shape[1:], crop_n_layers, overlap_ratio)
        grids = _grids(points_per_crop, crop_n_layers, crop_n_points_downscale_factor)
        crops = [pixels[:, top:bottom, left:right] for left, top, right, bottom in boxes]
        points = [
            _in_input(grids[layer], crop.shape[1:], target_size)
            for layer, crop in zip(layers, crops, strict=True)
        ]
        if len({len(grid) for grid in points}) > 1:
            raise ArgumentRuntimeError(
                "crop_n_points_downscale_factor: expected 1, so that all crops have as many "
                f"points, found {crop_n_points_downscale_factor}"
            )
        grid = np.stack(points, axis=1)[None]
        return (
            as_result(np.asarray(boxes, np.float32)),
            as_result(grid),
            [as_result(crop) for crop in crops],
            as_result(np.ones(grid.shape[:3], np.int64)),
        )

    @expects("logits (N, M, h, w), scores (N, M), a size (H, W), a box of the crop, and numbers")
    def filter_masks(
        self,
        masks: ArrayLike,
        iou_scores: ArrayLike,
        original_size: Sequence[int],
        cropped_box_image: ArrayLike,
        pred_iou_thresh: float = 0.88,
        stability_score_thresh: float = 0.95,
        mask_threshold: float = 0,
        stability_score_offset: float = 1,
    ) -> tuple[list[dict[str, Any]], Any, Any]:
        """Keep the masks of a crop that are good, stable, and not cut off by it.

        Parameters
        ----------
        masks : tensor (N, M, h, w)
            Logits at the size of the crop.
        iou_scores : tensor (N, M)
            Predicted IoU.
        original_size : (int, int)
            Height and width of the image.
        cropped_box_image : tensor (4,)
            Corners of the crop.
        pred_iou_thresh, stability_score_thresh : float
            Scores are above them; bounds up to 0 keep all.
        mask_threshold : float
            Logits above it are inside.
        stability_score_offset : float
            The stability compares thresholds by so much above and below.

        Returns
        -------
        rles : list of dict
            ``size`` and ``counts`` of the masks at the size of the image.
        scores : tensor (K,), float32
        boxes : tensor (K, 4), int64
            Corners in the image, both inside; float32 when no mask is good and stable.

        Raises
        ------
        InvalidArgumentError
            There is not one score for each mask.
        """
        logits = numbers(masks).astype(np.float32, copy=False)
        logits = logits.reshape(-1, *logits.shape[-2:])
        scores = numbers(iou_scores).astype(np.float32, copy=False).reshape(-1)
        if len(scores) != len(logits):
            raise InvalidArgumentError(
                f"iou_scores: expected one for each of {len(logits)} masks, found {len(scores)}"
            )
        keep = np.ones(len(logits), np.bool_)
        if pred_iou_thresh > 0.0:
            keep &= scores > np.float32(pred_iou_thresh)
        if stability_score_thresh > 0.0:
            stability = amg.calculate_stability_score(
                logits, mask_threshold, stability_score_offset
            )
            keep &= stability > np.float32(stability_score_thresh)
        inside, scores = logits[keep] > np.float32(mask_threshold), scores[keep]
        box = [int(corner) for corner in numbers(cropped_box_image).tolist()]
        height, width = (int(length) for length in original_size)
        boxes = amg.batched_mask_to_box(inside)
        if not inside.size:
            boxes = boxes.astype(np.float32)
        apart = ~amg.is_box_near_crop_edge(boxes, box, [0, 0, width, height])
        found = amg.uncrop_masks(inside[apart], box, height, width)
        boxes = amg.uncrop_boxes_xyxy(boxes[apart], box).astype(boxes.dtype)
        return amg.mask_to_rle_pytorch(found), as_result(scores[apart]), as_result(boxes)

    @expects("codes of masks, their scores (N,), their boxes (N, 4), and a number")
    def post_process_for_mask_generation(
        self,
        all_masks: Sequence[Mapping[str, Any]],
        all_scores: ArrayLike,
        all_boxes: ArrayLike,
        crops_nms_thresh: float,
    ) -> tuple[list[Any], Any, list[Any], Any]:
        """Keep of masks whose boxes overlap the one with the highest score.

        Parameters
        ----------
        all_masks : list of dict
            RLE: ``size`` and ``counts``.
        all_scores : tensor (N,)
        all_boxes : tensor (N, 4)
            Corners.
        crops_nms_thresh : float
            IoU of boxes above which the mask with the lower score goes.

        Returns
        -------
        masks : list of tensor (H, W), bool
            Best first.
        scores : tensor (K,)
        rles : list of dict
        boxes : tensor (K, 4)
        """
        boxes, scores = numbers(all_boxes), numbers(all_scores)
        keep = _core.box_nms(
            boxes.astype(np.float32).reshape(-1, 4), scores.astype(np.float32), crops_nms_thresh
        )
        rles = [all_masks[index] for index in keep.tolist()]
        masks = [as_result(amg.rle_to_mask(dict(rle))) for rle in rles]
        return masks, as_result(scores[keep]), rles, as_result(boxes[keep])


@expects("an image (H, W, 3) or (3, H, W)")
def _channels_first(image: Any) -> NDArray[Any]:
    """Return an image as (C, H, W): the first axis of length 1, 3 or 4 has an array's channels."""
    pixels = np.asarray(numbers(image))
    if pixels.ndim == 2:
        return pixels[None]
    axes = (2,) if is_pil(image) else (0, 2)
    channels = next(axis for axis in axes if pixels.shape[axis] in (1, 3, 4))
    return np.moveaxis(pixels, channels, 0)


@expects("a number of layers of crops, and their overlap")
def _crops(size: Any, layers: int, overlap_ratio: float) -> tuple[list[list[int]], list[int]]:
    range(layers)[layers - 1 :]  # an integer
    return amg.generate_crop_boxes(size, layers, overlap_ratio)


@expects("a number of points along a side, from 1 on, and what divides it")
def _grids(points: float, layers: int, factor: float) -> list[NDArray[np.float32]]:
    return [_grid(int(points / factor**layer)) for layer in range(layers + 1)]


def _grid(count: int) -> NDArray[np.float32]:
    """Return count x count points (x, y) in 0 to 1, x fastest, with the bits of torch.linspace.

    It takes steps from both ends, each with one rounding.
    """
    offset = 1 / (2 * count)
    start, stop = np.float32(offset), np.float32(1 - offset)
    step = np.float64((stop - start) / np.float32(max(count - 1, 1)))
    index = np.arange(count)
    side = np.where(index < count // 2, start + step * index, stop - step * (count - 1 - index))
    side = (side if count > 1 else np.full(count, start)).astype(np.float32)
    return np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)


@expects("a size of the network's input")
def _in_input(
    grid: NDArray[np.float32], size: tuple[int, ...], target_size: int
) -> NDArray[np.float32]:
    """Return points of 0 to 1 in the input that a crop (H, W) becomes, in float32."""
    height, width = size
    scale = target_size / max(height, width)
    new = [int(width * scale + 0.5) / width, int(height * scale + 0.5) / height]
    return grid * np.asarray([width, height], np.float32) * np.asarray(new, np.float32)


__dir__ = public_names(__name__)
