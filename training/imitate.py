"""What a person would click or draw for a mask, and how well an answer fits it."""

from __future__ import annotations

import numpy as np
from scipy import ndimage


def iou(a: np.ndarray, b: np.ndarray) -> float:
    """Intersection over union of two masks."""
    return float((a & b).sum() / max((a | b).sum(), 1))


def middle(mask: np.ndarray) -> np.ndarray:
    """Return the position (x, y) farthest from the border of the mask."""
    depth = ndimage.distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1]
    y, x = np.unravel_index(depth.argmax(), depth.shape)
    return np.array([x, y], np.float32)


def box_of(mask: np.ndarray) -> np.ndarray:
    """Return the tight box (x0, y0, x1, y1) of a mask."""
    rows, cols = np.nonzero(mask.any(1))[0], np.nonzero(mask.any(0))[0]
    return np.array([cols[0], rows[0], cols[-1] + 1, rows[-1] + 1], np.float32)


def correct(mask: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, int]:
    """Click in the middle of the largest wrong position: position and label."""
    labels, count = ndimage.label(mask ^ predicted)
    if count == 0:
        return middle(mask), 1
    sizes = np.bincount(labels.ravel())[1:]
    position = middle(labels == 1 + sizes.argmax())
    return position, int(mask[int(position[1]), int(position[0])])
