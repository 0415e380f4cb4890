"""Boxes, points, labels and masks in ultralytics' forms: one row for each object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.ultralytics.arguments import tell_once
from sam_rlx.errors import InvalidArgumentError

_FLAT = (
    "points [[x, y], [x, y]] are one object each; one more pair of brackets makes them one "
    "object: [[[x, y], [x, y]]]"
)


@dataclass(frozen=True)
class Prompts:
    """Prompts of N objects; what was not given is None.

    Attributes
    ----------
    boxes : ndarray (N, 4), optional
        (x0, y0, x1, y1) in pixels.
    points : ndarray (N, P, 2), optional
        (x, y) in pixels.
    labels : ndarray (N, P), optional
        1 foreground, 0 background.
    masks : ndarray (N, h, w), optional
        Logits of the network's size, or masks of an image.
    """

    boxes: NDArray[np.float64] | None = None
    points: NDArray[np.float64] | None = None
    labels: NDArray[np.int32] | None = None
    masks: NDArray[np.float32] | None = None

    @property
    def count(self) -> int | None:
        """Number of objects, None without any prompt."""
        given = (self.boxes, self.points, self.masks)
        return next((len(each) for each in given if each is not None), None)


def as_prompts(
    bboxes: Any = None, points: Any = None, labels: Any = None, masks: Any = None
) -> Prompts:
    """Return the prompts of a call.

    Parameters
    ----------
    bboxes : (4,) or (N, 4), optional
        (x0, y0, x1, y1) in pixels: lists, arrays or tensors.
    points : (2,), (N, 2) or (N, P, 2), optional
        (x, y) in pixels. Flat points are one object each.
    labels : int, (N,) or (N, P), optional
        1 foreground (default), 0 background.
    masks : (h, w), (N, h, w) or (N, 1, h, w), optional
        Masks, or logits of an earlier prediction.

    Raises
    ------
    InvalidArgumentError
        A shape is another one, or prompts are of different numbers of objects.

    Warns
    -----
    PromptWarning
        Once: several flat points are several objects.
    """
    boxes = None if bboxes is None else as_boxes(bboxes)
    coords = marks = None
    if points is not None:
        coords, marks = _as_points(points, labels)
    elif labels is not None:
        raise InvalidArgumentError("labels: expected points that they belong to, found none")
    found = Prompts(boxes, coords, marks, None if masks is None else _as_masks(masks))
    counts = {len(each) for each in (boxes, coords, found.masks) if each is not None}
    if len(counts) > 1:
        raise InvalidArgumentError(
            "prompts: expected bboxes, points and masks of the same objects, found "
            f"{sorted(counts)} of them"
        )
    return found


def as_boxes(bboxes: Any) -> NDArray[np.float64]:
    """Return boxes (N, 4); none of an empty list."""
    boxes = to_array(bboxes, np.float64)
    assert boxes is not None
    if boxes.size == 0:
        return np.zeros((0, 4))
    if boxes.shape[-1:] != (4,) or boxes.ndim > 2:
        raise InvalidArgumentError(f"bboxes: expected shape (4,) or (N, 4), found {boxes.shape}")
    return boxes.reshape(-1, 4)


def _as_points(points: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    coords = to_array(points, np.float64)
    assert coords is not None
    if coords.shape[-1:] != (2,) or coords.ndim > 3:
        raise InvalidArgumentError(
            f"points: expected shape (2,), (N, 2) or (N, P, 2), found {coords.shape}"
        )
    if coords.ndim == 2 and len(coords) > 1:
        tell_once("points", _FLAT)
    rows = coords if coords.ndim == 3 else coords.reshape(-1, 1, 2)
    marks = np.ones(rows.shape[:2], np.int32) if labels is None else to_array(labels, np.int32)
    assert marks is not None
    if marks.ndim == 0:
        marks = np.full(rows.shape[:2], marks)
    if marks.size != rows.shape[0] * rows.shape[1]:
        raise InvalidArgumentError(
            f"labels: expected one for each of the points {coords.shape[:-1]}, found shape "
            f"{marks.shape}"
        )
    return rows, np.ascontiguousarray(marks.reshape(rows.shape[:2]))


def _as_masks(masks: Any) -> NDArray[np.float32]:
    values = to_array(masks, np.float32)
    assert values is not None
    if values.ndim == 4 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (2, 3):
        raise InvalidArgumentError(f"masks: expected shape (N, h, w), found {values.shape}")
    return values.reshape(-1, *values.shape[-2:])


__dir__ = public_names(__name__)
