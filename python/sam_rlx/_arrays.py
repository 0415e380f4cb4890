"""Checks at the border: what callers pass becomes the arrays that the core takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._core import MAX_IMAGE_PIXELS
from sam_rlx._printable import shown
from sam_rlx.errors import InvalidArgumentError

_CHANNELS = (1, 3, 4)
_IMAGE = (
    "a uint8, uint16 or [0, 1] float image (H, W), (H, W, 1|3|4) or (1|3|4, H, W), or a PIL image"
)


def as_rgb(image: Any) -> NDArray[np.uint8]:
    """Convert an image in any common form to a contiguous uint8 (H, W, 3) array.

    Parameters
    ----------
    image : ndarray or PIL image
        uint8; uint16 (divided by 257); or float in [0, 1] (times 255, rounded). Grey (H, W),
        channels last (H, W, 1|3|4) or channels first (1|3|4, H, W); if both orders fit, channels
        last wins. Any strides. The fourth channel (alpha) is dropped, not blended. Other array
        types take part through ``__array__``.

    Returns
    -------
    ndarray (H, W, 3), uint8
        RGB. The input itself if it already has this form.

    Raises
    ------
    InvalidArgumentError
        The type, shape, dtype or range is another one.
    """
    if type(image).__module__.partition(".")[0] == "PIL" and hasattr(image, "convert"):
        image = _from_pil(image)
    elif not isinstance(image, np.ndarray):
        if not hasattr(image, "__array__"):
            raise InvalidArgumentError(f"image: expected {_IMAGE}, found {type(image).__name__}")
        image = np.asarray(image)
    pixels = _as_uint8(_channels_last(image))
    if pixels.shape[2] == 1:
        pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.ascontiguousarray(pixels[:, :, :3])


def as_images(images: Sequence[Any]) -> list[NDArray[np.uint8]]:
    """Convert each of several images as `as_rgb`; raise `InvalidArgumentError` for none."""
    if isinstance(images, np.ndarray) and images.ndim == 3:
        raise InvalidArgumentError(
            f"images: expected a sequence of images, found one of shape {images.shape}"
        )
    pixels = [as_rgb(image) for image in images]
    if not pixels:
        raise InvalidArgumentError("images: expected at least one image, found none")
    return pixels


def _from_pil(image: Any) -> NDArray[Any]:
    """Read a PIL image; 16-bit modes keep their depth, all others become 8-bit RGB."""
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode == "I":
        wide = np.asarray(image)
        if wide.size and (wide.min() < 0 or wide.max() > 65535):
            raise InvalidArgumentError(
                f"image: expected values 0 to 65535 in a PIL image of mode 'I', found {wide.min()} "
                f"to {wide.max()}"
            )
        return wide.astype(np.uint16)
    if image.mode == "F":
        return np.asarray(image)
    return np.asarray(image.convert("RGB"))


def _channels_last(image: NDArray[Any]) -> NDArray[Any]:
    if image.ndim == 2:
        image = image[:, :, np.newaxis]
    elif image.ndim == 3 and image.shape[2] not in _CHANNELS and image.shape[0] in _CHANNELS:
        image = image.transpose(1, 2, 0)
    if image.ndim != 3 or image.shape[2] not in _CHANNELS or image.size == 0:
        raise InvalidArgumentError(f"image: expected {_IMAGE}, found shape {image.shape}")
    as_hw("image", image.shape[:2])
    return image


def as_hw(name: str, hw: Any) -> tuple[int, int]:
    """Check the size (H, W) of an image: positive, and not above the limit of pixels."""
    sides = tuple(hw) if isinstance(hw, (tuple, list)) or np.ndim(hw) == 1 else ()
    if len(sides) != 2:
        raise InvalidArgumentError(f"{name}: expected (H, W), found {hw!r}")
    height, width = (as_integer(f"{name}[{axis}]", side, 1) for axis, side in enumerate(sides))
    if height * width > MAX_IMAGE_PIXELS:
        raise InvalidArgumentError(
            f"{name}: expected at most {MAX_IMAGE_PIXELS} pixels, found {height} x {width}"
        )
    return height, width


def _as_uint8(image: NDArray[Any]) -> NDArray[np.uint8]:
    if image.dtype == np.uint8:
        pixels: NDArray[np.uint8] = image
        return pixels
    if image.dtype.kind == "u" and image.dtype.itemsize == 2:
        return ((image.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if image.dtype.kind != "f":
        raise InvalidArgumentError(f"image: expected {_IMAGE}, found dtype {image.dtype}")
    low, high = float(image.min()), float(image.max())
    if not (low >= 0.0 and high <= 1.0):
        raise InvalidArgumentError(
            f"image: expected float values in [0, 1], found {low:g} to {high:g}"
        )
    scaled: NDArray[np.float32] = image.astype(np.float32) * np.float32(255.0)
    return np.rint(scaled).astype(np.uint8)


def as_items(name: str, values: Any) -> list[Any]:
    """Return the entries of an iterable that a user gives."""
    try:
        return list(values)
    except TypeError as error:
        found = type(values).__name__
        raise InvalidArgumentError(f"{name}: expected an iterable, found {found}") from error


def as_bools(name: str, mask: Any) -> NDArray[np.bool_]:
    """Return a mask (H, W) of bools or numbers as bool: true where it is not 0."""
    try:
        array = np.asarray(mask)
    except ValueError as error:  # ragged lists
        raise InvalidArgumentError(f"{name}: expected an array (H, W), found {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"{name}: expected an array (H, W) of bool, found shape {array.shape} of {array.dtype}"
        )
    return np.ascontiguousarray(array != 0)


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
    one point set, `box` (1, 4) and `mask_input` (1, S, S) count as one set too.

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
    array = _numbers(name, values)
    width = 2 if name == "point_coords" else 4
    empty_set = rank == 2 and array.ndim >= 2 and array.shape[-2] == 0
    if array.ndim not in (rank, rank + 1) or array.shape[-1] != width or empty_set:
        raise InvalidArgumentError(f"{name}: expected shape {expected}, found {array.shape}")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"{name}: expected finite pixels, found NaN or infinity")
    return array


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{name}: expected an array of numbers, found {error}"
        ) from error
    if array.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"{name}: expected numbers, found dtype {array.dtype}")
    return array


def _labels(values: ArrayLike | None, shape: tuple[int, ...], single: bool) -> NDArray[np.int32]:
    assert values is not None
    array = np.asarray(values)
    if array.dtype.kind == "b":
        array = array.astype(np.int32)
    array = _numbers("point_labels", array)
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
    array = _numbers("mask_input", values)
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
    array = _numbers(name, values).astype(np.float64)
    array = array[None] if array.ndim == 1 and array.size else array
    if array.ndim != 2 or array.shape[1] != width or len(array) == 0:
        raise InvalidArgumentError(
            f"{name}: expected shape (N, {width}) with N > 0, found {np.shape(values)}"
        )
    if not np.isfinite(array).all():
        raise InvalidArgumentError(f"{name}: expected finite pixels, found NaN or infinity")
    marks = np.ones(len(array), np.int32) if labels is None else np.asarray(labels)
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


def as_integer(name: str, value: Any, low: int, high: float = math.inf) -> int:
    """Return `value` as an int if it is an integer (no bool) from `low` to `high`."""
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or not low <= value <= high:
        expected = f">= {low}" if high == math.inf else f"from {low} to {int(high)}"
        raise InvalidArgumentError(f"{name}: expected an int {expected}, found {shown(value)}")
    return int(value)


def as_num_threads(num_threads: int | None) -> int:
    """Return the core's thread count: 0, all cores this process may use, for None."""
    return 0 if num_threads is None else as_integer("num_threads", num_threads, 1)


def as_number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number from `low` to `high`."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not number or not low <= value <= high:
        raise InvalidArgumentError(
            f"{name}: expected a number from {low} to {high}, found {shown(value)}"
        )
    return float(value)
