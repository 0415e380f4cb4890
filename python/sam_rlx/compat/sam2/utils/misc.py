"""The helpers of upstream's ``sam2.utils.misc`` that programs import.

Those that are about PyTorch's kernels or load whole videos as tensors are left out: the name is
told in an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects, require
from sam_rlx.compat.common.tensors import as_result, numbers

_FILLED = np.float32(0.1)


@expects("bool masks (B, 1, H, W)")
def mask_to_box(masks: Any) -> Any:
    """Return boxes (B, 1, 4) of bool masks (B, 1, H, W), two corners inclusive.

    As upstream, the box of an empty mask is (W, H, -1, -1).
    """
    pixels = numbers(masks).astype(np.bool_)
    batch, _, height, width = pixels.shape
    boxes = np.empty((batch, 1, 4), np.int32)
    for box, mask in zip(boxes[:, 0], pixels[:, 0], strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box[:] = width, height, -1, -1
        if len(rows):
            box[:] = columns[0], rows[0], columns[-1], rows[-1]
    return as_result(boxes)


@expects("logits (N, 1, H, W) and an area")
def fill_holes_in_mask_scores(mask: Any, max_area: float) -> Any:
    """Set holes of at most `max_area` pixels in logits (N, 1, H, W) to 0.1.

    As upstream does on a GPU; its CPU path leaves them.
    """
    require(max_area > 0, f"max_area: expected more than 0, found {max_area}")
    logits = np.ascontiguousarray(numbers(mask), np.float32)
    flat = logits.reshape(-1, *logits.shape[-2:])
    filled = _core.remove_small_mask_regions(flat, float(max_area), 0.0, 0.0).reshape(logits.shape)
    return as_result(np.where((logits <= 0) & (filled > 0), _FILLED, logits))


@expects("points and labels, and a dict of earlier ones or None")
def concat_points(old_point_inputs: Any, new_points: Any, new_labels: Any) -> dict[str, Any]:
    """Add points (B, N, 2) and labels (B, N) behind those of an earlier result of this function."""
    points, labels = numbers(new_points), numbers(new_labels)
    if old_point_inputs is not None:
        points = np.concatenate([numbers(old_point_inputs["point_coords"]), points], axis=1)
        labels = np.concatenate([numbers(old_point_inputs["point_labels"]), labels], axis=1)
    return {"point_coords": as_result(points), "point_labels": as_result(labels)}


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"sam_rlx.compat.sam2.utils.misc: expected mask_to_box, fill_holes_in_mask_scores or "
        f"concat_points, found {name}: what upstream has for PyTorch alone is not offered"
    )


__dir__ = public_names(__name__)
