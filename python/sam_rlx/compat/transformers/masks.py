"""From mask logits to masks of images, as transformers' processors do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import (
    ArgumentIndexError,
    ArgumentRuntimeError,
    ArgumentTypeError,
)
from sam_rlx.compat.common.tensors import as_result, is_torch, numbers
from sam_rlx.compat.transformers.sizes import Hw
from sam_rlx.errors import InvalidArgumentError

_SUPPRESSED = -10.0  # logits of an object where another one is larger


class Frames(NamedTuple):
    """Where images lie in the network's input, which is larger than they are.

    Attributes
    ----------
    pad_hw : (int, int)
        Size of the network's input.
    sizes : sequence of (int, int)
        Of each image in it, from its upper left corner.
    """

    pad_hw: Hw
    sizes: Sequence[Any]


def post_process(
    masks: Any,
    original_sizes: Any,
    *,
    threshold: float = 0.0,
    binarize: bool = True,
    frames: Frames | None = None,
    non_overlapping: bool = False,
) -> list[Any]:
    """Return masks at the size of images, one array for each size.

    Parameters
    ----------
    masks : array or tensor (B, P, M, h, w), or list of (P, M, h, w)
        Logits.
    original_sizes : (B, 2)
        Heights and widths; a number stands for a square.
    threshold : float
        Logits above it are inside.
    binarize : bool
        Give bool; else the logits, float32.
    frames : Frames, optional
        Resize to the network's input first, and cut away what is not image.
    non_overlapping : bool
        Lower the logits of all objects (the first axis) but the largest to at most -10.

    Raises
    ------
    TypeError
        A mask is no array of floats, or a threshold is none. Ours, as all errors here.
    ValueError
        A mask has another number of axes.
    IndexError
        There are more sizes than masks.
    """
    limit = _number("mask_threshold", threshold)
    found = []
    for index, size in enumerate(listed(original_sizes)):
        logits = _logits(masks, index)
        if frames is not None:
            logits = _resized(logits, frames.pad_hw)
            height, width = listed(frames.sizes)[index]
            logits = logits[..., :height, :width]
        if binarize and not non_overlapping:
            found.append(as_result(_resized(logits, _pair(size), limit)))
            continue
        logits = _resized(logits, _pair(size))
        if non_overlapping and len(logits) > 1:
            largest = np.argmax(logits, axis=0, keepdims=True)
            is_kept = largest == np.arange(len(logits)).reshape(-1, 1, 1, 1)
            logits = np.where(is_kept, logits, np.minimum(logits, np.float32(_SUPPRESSED)))
        found.append(as_result(logits > np.float32(limit) if binarize else logits))
    return found


def listed(sizes: Any) -> Any:
    """Return sizes in an array or tensor as a list; a list as it is."""
    return sizes.tolist() if isinstance(sizes, np.ndarray) or is_torch(sizes) else sizes


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except TypeError as error:
        raise ArgumentTypeError(f"{name}: expected a number, found {value!r}") from error


def _pair(size: Any) -> Hw:
    if isinstance(size, (int, np.integer)):
        return int(size), int(size)
    height, width = size
    return int(height), int(width)


def _logits(masks: Any, index: int) -> NDArray[np.float32]:
    """Return the masks of an image, (P, M, h, w)."""
    if index >= len(masks):
        raise ArgumentIndexError(
            f"original_sizes: expected one size for each of {len(masks)} images, found more"
        )
    part = masks[index]
    if not (isinstance(part, np.ndarray) or is_torch(part)):
        raise ArgumentTypeError(
            f"masks: expected arrays or tensors for each image, found {type(part).__name__}"
        )
    logits = numbers(part.float() if is_torch(part) and part.is_floating_point() else part)
    if logits.ndim != 4:
        raise InvalidArgumentError(
            f"masks: expected shape (P, M, h, w) for each image, found {logits.shape}"
        )
    if logits.dtype.kind != "f":
        raise ArgumentRuntimeError(f"masks: expected logits, floats, found {logits.dtype}")
    return np.ascontiguousarray(logits, np.float32)


def _resized(logits: NDArray[np.float32], hw: Hw, threshold: float | None = None) -> NDArray[Any]:
    """Resize masks (P, M, h, w), bilinear; with a threshold they become bool."""
    flat = np.ascontiguousarray(logits).reshape(-1, *logits.shape[2:])
    large = _core.postprocess_masks(flat, hw, threshold=threshold, num_threads=0)
    return np.asarray(large).reshape(*logits.shape[:2], *hw)


__dir__ = public_names(__name__)
