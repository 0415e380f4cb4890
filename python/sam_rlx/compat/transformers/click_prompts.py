"""Points, boxes and masks of click models: what upstream takes, and how it refuses the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentIndexError, ArgumentRuntimeError
from sam_rlx.compat.transformers.inputs import array_of, coordinates_of, floats_of
from sam_rlx.errors import InvalidArgumentError

_POSITION_ALONE = 9  # a label that no embedding belongs to
_PADDING, _LARGEST = -10, 3  # labels of SAM 2


@dataclass
class ClickPrompts:
    """Prompts of B images with P objects each, as `_core.TensorPredictor` takes them."""

    points: NDArray[np.float64] | None = None  # (B, P, N, 2)
    labels: NDArray[np.int32] | None = None  # (B, P, N)
    boxes: NDArray[np.float64] | None = None  # (B, P, 4)
    masks: NDArray[np.float32] | None = None  # (B, S, S)

    def check_images(self, count: int) -> None:
        """Raise `RuntimeError` unless all are for so many images; one mask serves them all."""
        for name, value in (("input_points", self.points), ("input_boxes", self.boxes)):
            if value is not None and value.shape[0] != count:
                raise ArgumentRuntimeError(
                    f"{name}: expected prompts of {count} images, found {value.shape[0]}"
                )
        if self.masks is not None and self.masks.shape[0] not in (1, count):
            raise ArgumentRuntimeError(
                f"input_masks: expected masks of {count} images, found {self.masks.shape[0]}"
            )
        if self.masks is not None and self.masks.shape[0] != count:
            self.masks = np.repeat(self.masks, count, axis=0)


def check_counts(points: Any, boxes: Any) -> None:
    """Raise `ValueError` unless points and boxes are of as many objects."""
    if points is None or boxes is None:
        return
    counts = [int(value.shape[1]) for value in (points, boxes)]
    if counts[0] != counts[1]:
        raise InvalidArgumentError(
            f"input_boxes: expected as many boxes as objects with points, found {counts[1]} and "
            f"{counts[0]}"
        )


def _points(value: Any, labels: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
    points = coordinates_of("input_points", value)
    if points.ndim != 4 or points.shape[3] != 2:
        raise ArgumentRuntimeError(
            f"input_points: expected shape (images, objects, points, 2), found {points.shape}"
        )
    if labels is None:
        return points, np.ones(points.shape[:3], np.int32)
    found = array_of("input_labels", labels)
    if found.shape != points.shape[:3]:
        raise ArgumentRuntimeError(
            f"input_labels: expected shape {points.shape[:3]}, found {found.shape}"
        )
    return points, found


def _boxes(value: Any) -> NDArray[np.float64]:
    boxes = coordinates_of("input_boxes", value)
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise ArgumentRuntimeError(
            f"input_boxes: expected shape (images, objects, 4), found {boxes.shape}"
        )
    return boxes


def _masks(value: Any, side: int | None) -> NDArray[np.float32]:
    masks = floats_of("input_masks", value)
    fits = masks.ndim == 4 and masks.shape[1] == 1
    if not fits or (side is not None and masks.shape[2:] != (side, side)):
        expected = "(images, 1, height, width)" if side is None else f"(images, 1, {side}, {side})"
        raise ArgumentRuntimeError(f"input_masks: expected shape {expected}, found {masks.shape}")
    return masks[:, 0]


def sam_prompts(points: Any, labels: Any, boxes: Any, masks: Any, side: int) -> ClickPrompts:
    """Return the prompts of SAM, whose labels may be any numbers.

    Parameters
    ----------
    points, labels, boxes, masks : array or tensor, optional
        As programs give them.
    side : int
        Of masks.

    Raises
    ------
    ValueError
        Points have not 4 axes, boxes not 3, or their counts of objects differ.
    RuntimeError
        Other shapes do not fit.
    """
    for name, value, axes in (("input_points", points, 4), ("input_boxes", boxes, 3)):
        if value is not None and len(value.shape) != axes:
            raise InvalidArgumentError(
                f"{name}: expected {axes} axes, found {len(value.shape)}: {tuple(value.shape)}"
            )
    check_counts(points, boxes)
    found = ClickPrompts()
    if points is not None:
        found.points, numbers = _points(points, labels)
        whole = np.equal(np.mod(numbers, 1), 0) & (np.abs(numbers) < 100)
        found.labels = np.where(whole, numbers, _POSITION_ALONE).astype(np.int32)
    if boxes is not None:
        found.boxes = _boxes(boxes)
    if masks is not None:
        found.masks = _masks(masks, side)
    return found


def sam2_prompts(
    points: Any, labels: Any, boxes: Any, masks: Any, side: int | None = None
) -> ClickPrompts:
    """Return the prompts of SAM 2 and its like.

    Parameters
    ----------
    points, labels, boxes, masks : array or tensor, optional
        As programs give them.
    side : int, optional
        Of masks. Default: they may have any size.

    Raises
    ------
    ValueError
        The counts of objects differ.
    IndexError
        Points have not 4 axes, or a label is above 3.
    RuntimeError
        Labels are no integers, or other shapes do not fit.
    """
    check_counts(points, boxes)
    found = ClickPrompts()
    if points is not None:
        if len(points.shape) != 4:
            raise ArgumentIndexError(
                f"input_points: expected 4 axes, found {len(points.shape)}: {tuple(points.shape)}"
            )
        found.points, numbers = _points(points, labels)
        if numbers.dtype not in (np.bool_, np.int32, np.int64):
            raise ArgumentRuntimeError(
                f"input_labels: expected int64 or int32, found {numbers.dtype}"
            )
        if numbers.size and numbers.max() > _LARGEST:
            raise ArgumentIndexError(
                f"input_labels: expected -10, -1 and 0 to {_LARGEST}, found {numbers.max()}"
            )
        found.labels = np.maximum(numbers.astype(np.int64), _PADDING - 1).astype(np.int32)
    if boxes is not None:
        found.boxes = _boxes(boxes)
    if masks is not None:
        found.masks = _masks(masks, side)
    return found


__dir__ = public_names(__name__)
