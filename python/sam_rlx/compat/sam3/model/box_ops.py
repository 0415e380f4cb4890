"""Boxes in several forms: ``sam3.model.box_ops``.

All take arrays or CPU tensors (..., 4) and give back the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects, require
from sam_rlx.compat.common.tensors import as_result, numbers

_BOXES = "boxes (..., 4)"


def _columns(x: Any) -> tuple[NDArray[Any], ...]:
    values = numbers(x)
    require(values.shape[-1:] == (4,), f"boxes: expected shape (..., 4), found {values.shape}")
    return tuple(np.moveaxis(values, -1, 0))


def _rows(x: Any, *columns: Any) -> Any:
    return as_result(np.stack(columns, axis=-1))


@expects(_BOXES)
def box_cxcywh_to_xyxy(x: Any) -> Any:
    """Convert center and size to two corners."""
    cx, cy, w, h = _columns(x)
    return _rows(x, cx - 0.5 * w, cy - 0.5 * h, cx + 0.5 * w, cy + 0.5 * h)


@expects(_BOXES)
def box_cxcywh_to_xywh(x: Any) -> Any:
    """Convert center and size to corner and size."""
    cx, cy, w, h = _columns(x)
    return _rows(x, cx - 0.5 * w, cy - 0.5 * h, w, h)


@expects(_BOXES)
def box_xywh_to_xyxy(x: Any) -> Any:
    """Convert corner and size to two corners."""
    left, top, w, h = _columns(x)
    return _rows(x, left, top, left + w, top + h)


@expects(_BOXES)
def box_xywh_to_cxcywh(x: Any) -> Any:
    """Convert corner and size to center and size."""
    left, top, w, h = _columns(x)
    return _rows(x, left + 0.5 * w, top + 0.5 * h, w, h)


@expects(_BOXES)
def box_xyxy_to_xywh(x: Any) -> Any:
    """Convert two corners to corner and size."""
    x0, y0, x1, y1 = _columns(x)
    return _rows(x, x0, y0, x1 - x0, y1 - y0)


@expects(_BOXES)
def box_xyxy_to_cxcywh(x: Any) -> Any:
    """Convert two corners to center and size."""
    x0, y0, x1, y1 = _columns(x)
    return _rows(x, (x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0)


def _area(columns: tuple[NDArray[Any], ...]) -> NDArray[Any]:
    x0, y0, x1, y1 = columns
    area: NDArray[Any] = (x1 - x0) * (y1 - y0)
    return area


@expects(_BOXES)
def box_area(boxes: Any) -> Any:
    """Return the areas (...) of boxes with two corners."""
    return as_result(np.asarray(_area(_columns(boxes))))


@expects("masks (N, H, W)")
def masks_to_boxes(masks: Any) -> Any:
    """Return boxes (N, 4), two corners, of masks; the second is one pixel beyond. 0 for none."""
    pixels = numbers(masks) != 0
    require(pixels.ndim == 3, f"masks: expected shape (N, H, W), found {pixels.shape}")
    boxes = np.zeros((len(pixels), 4), np.float32)
    for box, mask in zip(boxes, pixels, strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return as_result(boxes)


def _shared(
    first: Any, second: Any
) -> tuple[NDArray[Any], NDArray[Any], tuple[NDArray[Any], ...], tuple[NDArray[Any], ...]]:
    """Return shared areas and joint areas (..., N, M) of boxes (..., N, 4) and (..., M, 4)."""
    a = tuple(column[..., :, None] for column in _columns(first))
    b = tuple(column[..., None, :] for column in _columns(second))
    width = np.clip(np.minimum(a[2], b[2]) - np.maximum(a[0], b[0]), 0, None)
    height = np.clip(np.minimum(a[3], b[3]) - np.maximum(a[1], b[1]), 0, None)
    inter = width * height
    return inter, _area(a) + _area(b) - inter, a, b


@expects("boxes (..., N, 4) and (..., M, 4)")
def box_iou(boxes1: Any, boxes2: Any) -> tuple[Any, Any]:
    """Return IoU and joint areas (..., N, M) of boxes with two corners."""
    inter, union, _, _ = _shared(boxes1, boxes2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return as_result(inter / union), as_result(union)


@expects("boxes (..., N, 4) and (..., M, 4)")
def generalized_box_iou(boxes1: Any, boxes2: Any) -> Any:
    """Return the generalized IoU (..., N, M) of boxes with two corners."""
    inter, union, a, b = _shared(boxes1, boxes2)
    width = np.clip(np.maximum(a[2], b[2]) - np.minimum(a[0], b[0]), 0, None)
    height = np.clip(np.maximum(a[3], b[3]) - np.minimum(a[1], b[1]), 0, None)
    hull = width * height
    with np.errstate(divide="ignore", invalid="ignore"):
        return as_result(inter / union - (hull - union) / hull)


__dir__ = public_names(__name__)
