"""Points, labels and boxes of fixed depth, as the processors of SAM 2 and SAM 3 take them.

Upstream: transformers 5.24, `models/sam2/processing_sam2.py`; videos have the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, ArgumentTypeError, expects
from sam_rlx.compat.common.tensors import is_torch
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.errors import InvalidArgumentError

_FORMS = {
    "input_points": (4, 2, "[image, object, point, (x, y)]"),
    "input_labels": (3, None, "[image, object, point]"),
    "input_boxes": (3, 4, "[image, box, (x0, y0, x1, y1)]"),
}


@dataclass(frozen=True)
class NestedPrompts:
    """How prompts of images become those of the network's input.

    Attributes
    ----------
    side : int
        Of the network's input, which is a square.
    pad : int
        Of points and labels that fill up a batch. A point with such a coordinate stays as it is.
    """

    side: int
    pad: int = -10

    @expects("nested lists of numbers, one for each image")
    def prompts(self, points: Any, labels: Any, boxes: Any, sizes: Any) -> dict[str, NDArray[Any]]:
        """Return `input_points`, `input_labels` and `input_boxes`, those that are given.

        Parameters
        ----------
        points : nested list, array or tensor, 4 levels
            [image, object, point, (x, y)]; objects and points are filled up.
        labels : nested list, array or tensor, 3 levels
            [image, object, point].
        boxes : nested list, array or tensor, 3 levels
            [image, box, (x0, y0, x1, y1)].
        sizes : sequence of (height, width)
            Of the images, in order. Prompts of further images are not scaled.

        Returns
        -------
        dict of array
            Points and boxes float32, labels int64.
        """
        coords, marks = nested("input_points", points), nested("input_labels", labels)
        corners = nested("input_boxes", boxes)
        if coords is not None and marks is not None:
            _check_same(lengths(coords)[:3], lengths(marks)[:3])
        result: dict[str, NDArray[Any]] = {}
        if coords is not None:
            filled = padded(coords, [*lengths(coords)[:3], 2], self.pad)
            found = as_array("input_points", filled, np.float32)
            result["input_points"] = self.points_in_input(found, sizes)
        if marks is not None:
            filled = padded(marks, lengths(marks)[:3], self.pad)
            result["input_labels"] = as_array("input_labels", filled, np.int64)
        if corners is not None:
            _check_counts(corners)
            found = as_array("input_boxes", corners, np.float32)
            result["input_boxes"] = self.boxes_in_input(found, sizes)
        return result

    def points_in_input(self, points: NDArray[Any], sizes: Any) -> NDArray[np.float32]:
        """Return points (B, P, N, 2) in pixels of the network's input, but those of the pad."""
        is_point = np.all(points != self.pad, axis=-1, keepdims=True)
        return np.where(is_point, self._in_input(points, sizes), points)

    def boxes_in_input(self, boxes: NDArray[Any], sizes: Any) -> NDArray[np.float32]:
        """Return boxes (B, N, 4) in pixels of the network's input."""
        if boxes.shape[-1] % 4:
            raise ArgumentRuntimeError(f"input_boxes: expected 4 numbers each, found {boxes.shape}")
        pairs = boxes.reshape(*boxes.shape[:-1], 2, 2)
        return self._in_input(pairs, sizes).reshape(boxes.shape)

    def _in_input(self, coords: NDArray[Any], sizes: Any) -> NDArray[np.float32]:
        result = coords.astype(np.float32)
        for image, (height, width) in zip(result, sizes, strict=False):
            image[..., 0] *= np.float32(self.side / float(width))
            image[..., 1] *= np.float32(self.side / float(height))
        return result


def nested(name: str, value: Any) -> list[Any] | None:
    """Return prompts as lists of the right depth; None for None.

    Parameters
    ----------
    name : {"input_points", "input_labels", "input_boxes"}
        What they are.
    value : nested list, array or tensor
        Another type, such as a tuple, is ignored as upstream does, with a warning.

    Raises
    ------
    InvalidArgumentError
        Another depth, or in an array another length of coordinates.
    ArgumentTypeError
        A tuple, a text or an integer of NumPy inside.
    """
    depth, coords, form = _FORMS[name]
    if value is None:
        return None
    is_array = _is_array(value)
    if not is_array and not isinstance(value, list):
        warn_once(
            f"{name}: expected a list, an array or a tensor, found {type(value).__name__}, which "
            "is ignored, as in transformers"
        )
        return None
    found = _depth(value)
    if found != depth:
        raise InvalidArgumentError(f"{name}: expected {depth} levels, {form}, found {found}")
    if is_array and coords is not None and value.shape[-1] != coords:
        raise InvalidArgumentError(
            f"{name}: expected {coords} numbers on the last axis, found {tuple(value.shape)}"
        )
    lists: list[Any] = _as_lists(name, value, depth)
    return lists


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or is_torch(value)


def _depth(value: Any) -> int:
    """Count the levels along first elements."""
    if isinstance(value, list):
        return 1 + (_depth(value[0]) if value else 0)
    return len(value.shape) if _is_array(value) else 0


def _as_lists(name: str, value: Any, levels: int) -> Any:
    if _is_array(value):
        return value.tolist()
    if isinstance(value, list):
        return value if levels == 0 else [_as_lists(name, each, levels - 1) for each in value]
    if value is None or isinstance(value, (int, float)):
        return value
    raise ArgumentTypeError(f"{name}: expected lists of Python's numbers, found {shown(value)}")


def lengths(value: list[Any]) -> list[int]:
    """Return the largest length of the lists of each level."""
    found: list[int] = []
    level: list[Any] = [value]
    while level:
        found.append(max(map(len, level)))
        level = [each for one in level for each in one if isinstance(each, list)]
    return found


def padded(value: list[Any], target: Sequence[int], pad: float) -> list[Any]:
    """Return nested lists filled up with `pad` to a length for each level."""
    length, *inner = target
    missing = max(length - len(value), 0)
    if not inner:
        return [*value, *[pad] * missing]
    filler: list[list[Any]] = [[] for _ in range(missing)]
    return [
        padded(each, inner, pad) if isinstance(each, list) else each for each in [*value, *filler]
    ]


def as_array(name: str, value: list[Any], dtype: Any) -> NDArray[Any]:
    """Return nested lists as an array, as PyTorch makes them a tensor.

    Raises
    ------
    InvalidArgumentError
        Lists of one level have different lengths.
    ArgumentTypeError
        Something is None, or a number beside a list.
    """
    level, kinds = value, {True}
    while kinds == {True}:
        kinds = {isinstance(each, list) for each in level}
        if kinds == {True, False}:
            raise ArgumentTypeError(f"{name}: expected lists at one level, found {shown(level)}")
        if kinds == {True}:
            counts = {len(each) for each in level}
            if len(counts) > 1:
                raise InvalidArgumentError(
                    f"{name}: expected lists of one length, found {sorted(counts)}"
                )
            level = [number for each in level for number in each]
    if any(number is None for number in level):
        raise ArgumentTypeError(f"{name}: expected numbers, found None")
    return np.array(value).astype(dtype)


def _check_same(points: list[int], labels: list[int]) -> None:
    if points != labels:
        raise InvalidArgumentError(
            f"input_labels: expected as many images, objects and points as points have, {points}, "
            f"found {labels}"
        )


def _check_counts(boxes: list[Any]) -> None:
    counts = [len(each) for each in boxes]
    if min(counts) < max(counts):
        raise InvalidArgumentError(
            "input_boxes: expected as many boxes for each image, since boxes cannot be filled up, "
            f"found {counts}"
        )


__dir__ = public_names(__name__)
