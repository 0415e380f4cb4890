"""Prompts at the border: what callers pass becomes the arrays that the core takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._internal.arrays.checks import MAX_NUMBERS, as_numbers
from sam_rlx._internal.arrays.coordinates import as_coordinates
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx.errors import InvalidArgumentError

# Pixels from the corner of an image: beyond it float32 overflows in the encoding of positions.
_FARTHEST = 1e9


@dataclass(frozen=True, eq=False)
class Prompts:
    """B prompt sets in the form that the core takes; `batched` tells if the caller gave a batch."""

    point_coords: NDArray[np.float64] | None
    point_labels: NDArray[np.int32] | None
    boxes: NDArray[np.float64] | None
    mask_input: NDArray[np.float32] | None
    batched: bool
    count: int


def as_prompts(
    point_coords: ArrayLike | None,
    point_labels: ArrayLike | None,
    box: ArrayLike | None,
    mask_input: ArrayLike | None,
    mask_side: int,
) -> Prompts:
    """Check prompts and give every array its batch axis.

    One prompt set is `point_coords` (N, 2), `point_labels` (N,), `box` (4,), `mask_input`
    (S, S); a batch has one more axis in front, of the same length B in all that are given. Beside
    one point set, `box` (1, 4) and `mask_input` (1, S, S) count as one set too. Beside another
    prompt N may be 0. Empty lists are no points and no boxes.

    Raises
    ------
    InvalidArgumentError
        No prompt is given, or a shape, dtype, label or value is wrong.
    """
    if (point_coords is None) != (point_labels is None):
        names = ["point_coords", "point_labels"]
        absent, present = names if point_coords is None else reversed(names)
        raise InvalidArgumentError(f"{absent}: expected an array beside {present}, found None")
    if point_coords is None and box is None and mask_input is None:
        raise InvalidArgumentError(
            "prompts: expected point_coords, box or mask_input, found None for all"
        )
    coords = _coordinates("point_coords", point_coords, 2, "(N, 2) or (B, N, 2)")
    if coords is not None and coords.shape[-2] == 0 and box is None and mask_input is None:
        raise InvalidArgumentError(
            f"point_coords: expected shape (N, 2) with N > 0 where they are the only prompt, found "
            f"{np.asarray(point_coords).shape}"
        )
    corners = _coordinates("box", box, 1, "(4,) or (B, 4)")
    logits = _mask_logits(mask_input, mask_side)
    given = [
        (name, array, rank)
        for name, array, rank in (
            ("point_coords", coords, 2),
            ("box", corners, 1),
            ("mask_input", logits, 2),
        )
        if array is not None
    ]
    single = any(array.ndim == rank for _, array, rank in given)
    counts = {name: len(array) if array.ndim > rank else 1 for name, array, rank in given}
    count = next(iter(counts.values()))
    if set(counts.values()) != {1 if single else count}:
        raise InvalidArgumentError(f"prompts: expected the same number of sets, found {counts}")

    def batch(array: Any, rank: int) -> Any:
        if array is None:
            return None
        return np.ascontiguousarray(array[None] if array.ndim == rank else array)

    coords, corners, logits = batch(coords, 2), batch(corners, 1), batch(logits, 2)
    labels = None if coords is None else _labels(point_labels, coords.shape[:2], single)
    if corners is not None:
        _check_corners(corners)
    return Prompts(coords, labels, corners, logits, not single, count)


def _coordinates(
    name: str, values: ArrayLike | None, rank: int, expected: str
) -> NDArray[np.float64] | None:
    if values is None:
        return None
    width = 2 if name == "point_coords" else 4
    array = as_coordinates(name, values, width)
    if array.shape == (0,):  # an empty list
        array = array.reshape(0, width)
    if array.ndim not in (rank, rank + 1) or array.shape[-1] != width:
        raise InvalidArgumentError(f"{name}: expected shape {expected}, found {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"{name}: expected finite pixels, found NaN or infinity")
    too_far = array[np.abs(array) > _FARTHEST]
    if too_far.size:
        raise InvalidArgumentError(
            f"{name}: expected pixels from {-_FARTHEST:g} to {_FARTHEST:g}, found {too_far[0]:g}"
        )
    return array


def _labels(values: ArrayLike | None, shape: tuple[int, ...], single: bool) -> NDArray[np.int32]:
    assert values is not None
    array = as_array("point_labels", values, MAX_NUMBERS)
    if array.dtype.kind == "b":
        array = array.astype(np.int32)
    array = as_numbers("point_labels", array)
    expected = shape[1:] if single and array.ndim == 1 else shape
    if array.shape != expected:
        raise InvalidArgumentError(f"point_labels: expected shape {expected}, found {array.shape}")
    if not np.isin(array, (-1, 0, 1)).all():
        found = sorted({value.item() for value in array.ravel()} - {-1, 0, 1}, key=str)
        raise InvalidArgumentError(
            f"point_labels: expected 1 (foreground), 0 (background) or -1 (ignored), found {found}"
        )
    return np.ascontiguousarray(array.reshape(shape), dtype=np.int32)


def _check_corners(boxes: NDArray[np.float64]) -> None:
    wrong = (boxes[:, 2:] < boxes[:, :2]).any(axis=1)
    if wrong.any():
        raise InvalidArgumentError(
            f"box: expected (x0, y0, x1, y1) with x0 <= x1 and y0 <= y1, found "
            f"{boxes[int(wrong.argmax())].tolist()}"
        )


def _mask_logits(values: ArrayLike | None, side: int) -> NDArray[np.float32] | None:
    if values is None:
        return None
    array = as_numbers("mask_input", values)
    if array.ndim not in (2, 3) or array.shape[-2:] != (side, side):
        raise InvalidArgumentError(
            f"mask_input: expected logits ({side}, {side}) or (B, {side}, {side}), found "
            f"{array.shape}"
        )
    array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InvalidArgumentError("mask_input: expected finite logits, found NaN or infinity")
    return array


@dataclass(frozen=True, eq=False)
class Marks:
    """N points (N, 2) or boxes (N, 4) with the label of each, (N,)."""

    values: NDArray[np.float64]
    labels: NDArray[np.int32]


def as_marks(
    names: tuple[str, str], values: ArrayLike | None, labels: ArrayLike | None, width: int
) -> Marks | None:
    """Check points (width 2) or boxes (width 4) of one prompt, and their labels.

    One point or box may stand alone, with a label alone. Without labels all are positive.

    Raises
    ------
    InvalidArgumentError
        A shape or dtype is wrong, there is no row, or a value is not finite; a label is not 0 or
        1, or there are labels alone.
    """
    name, label_name = names
    if values is None:
        if labels is not None:
            raise InvalidArgumentError(f"{name}: expected an array beside {label_name}, found None")
        return None
    array = as_coordinates(name, values, width).astype(np.float64)
    array = array[None] if array.ndim == 1 and array.size else array
    if array.ndim != 2 or array.shape[1] != width or len(array) == 0:
        raise InvalidArgumentError(
            f"{name}: expected shape (N, {width}) with N > 0, found {np.shape(values)}"
        )
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"{name}: expected finite pixels, found NaN or infinity")
    if labels is None:
        return Marks(np.ascontiguousarray(array), np.ones(len(array), np.int32))
    marks = as_array(label_name, labels, MAX_NUMBERS)
    if marks.dtype.kind not in "biu" or np.size(marks) != len(array) or marks.ndim > 1:
        raise InvalidArgumentError(
            f"{label_name}: expected {len(array)} labels, found shape {marks.shape} of "
            f"{marks.dtype}"
        )
    if not np.isin(marks, (0, 1)).all():
        raise InvalidArgumentError(
            f"{label_name}: expected 1 (meant) or 0 (not meant), found {marks.tolist()}"
        )
    return Marks(np.ascontiguousarray(array), marks.reshape(-1).astype(np.int32))


def clamped(boxes: Marks, hw: tuple[int, ...], where: str = "an image") -> Marks:
    """Cut boxes (x0, y0, x1, y1) off at the edges of their image: a predictor's own reach out.

    Raises
    ------
    InvalidArgumentError
        Nothing of a box is in the image, it is empty, or it is given in fractions of the sides: all
        of it is in the first pixel of the image.
    """
    height, width = hw
    limits = np.array([width, height, width, height], np.float64)
    fractions = ((boxes.values >= 0) & (boxes.values <= 1)).all(axis=1)
    if fractions.any() and max(hw) > 1:
        raise InvalidArgumentError(
            f"boxes: expected pixels (x0, y0, x1, y1) of {where} of {width} x {height}, found "
            f"{boxes.values[int(fractions.argmax())].tolist()}; multiply fractions with the sides"
        )
    values = np.clip(boxes.values, 0.0, limits)
    empty = (values[:, :2] >= values[:, 2:]).any(axis=1)
    if empty.any():
        raise InvalidArgumentError(
            f"boxes: expected (x0, y0, x1, y1) that overlaps {where} of {width} x {height}, with "
            f"x0 < x1 and y0 < y1, found {boxes.values[int(empty.argmax())].tolist()}"
        )
    return Marks(values, boxes.labels)
