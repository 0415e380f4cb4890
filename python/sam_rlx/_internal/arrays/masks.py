"""What counts as the object of a mask that is given as an array."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._core import MAX_IMAGE_PIXELS
from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx._internal.arrays.foreign import as_array, described
from sam_rlx.errors import InvalidArgumentError

_SHOWN = 6  # labels that an error lists
_OBJECT = (1, 255)  # what stands for the object beside 0


def as_bools(name: str, mask: Any) -> NDArray[np.bool_]:
    """Return a mask (H, W) as bool: of bool, or of 0 and 1, or of 0 and 255, in any dtype.

    Raises
    ------
    InvalidArgumentError
        The shape or dtype is another one, or the values are labels, logits, probabilities or NaN:
        the words say the line to write.
    """
    array = as_array(name, in_order(name, mask))
    largest = max(array.shape, default=0)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or largest > MAX_IMAGE_PIXELS:
        raise InvalidArgumentError(
            f"{name}: expected an array (H, W) of bool, found shape {array.shape} of "
            f"{described(array).removeprefix('dtype ')}"
        )
    if array.dtype == np.bool_:
        return np.ascontiguousarray(array)
    found = np.ascontiguousarray(array != 0)
    top = array.max() if array.size else 0
    if found.any() and not (top in _OBJECT and (array[found] == top).all()):
        raise InvalidArgumentError(
            f"{name}: expected bool, 0 and 1, or 0 and 255, found {_values(name, array)}"
        )
    return found


def as_region_area(area: Any, return_logits: bool = False) -> int:
    """Return the argument `min_mask_region_area`, which is of masks and not of logits."""
    value = as_integer("min_mask_region_area", area, 0)
    if value and return_logits:
        raise InvalidArgumentError(
            "min_mask_region_area: expected 0 with return_logits=True, which gives no masks, found "
            f"{value}"
        )
    return value


def clean_(masks: NDArray[np.bool_], area: int) -> None:
    """Fill holes and remove islands of less than `area` pixels in masks (..., H, W), in place.

    As everything mode does, of which upstream says how: holes first; when all islands are smaller,
    the largest stays.
    """
    if not area:
        return
    for mask in masks.reshape(-1, *masks.shape[-2:]):  # a view
        for mode in ("holes", "islands"):
            cleaned = _core.remove_small_regions(mask, area, mode)
            if cleaned.is_changed:
                mask[:] = cleaned.mask


def _values(name: str, array: NDArray[Any]) -> str:
    """Say what the numbers are, and which line makes a mask of them."""
    found = np.unique(array)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            return f"NaN or infinity: numpy.nan_to_num({name}) > 0 takes these for background"
        if (found != np.floor(found)).any():
            cut = 0.5 if found[0] >= 0 and found[-1] <= 1 else 0
            return (
                f"numbers from {found[0]:g} to {found[-1]:g}: {name} > {cut} makes a mask of "
                f"{'probabilities' if cut else 'logits'}"
            )
    shown = ", ".join(f"{value:g}" for value in found[:_SHOWN])
    more = ", ..." if len(found) > _SHOWN else ""
    return f"labels {shown}{more}: {name} == {found[found != 0][0]:g} is the mask of one"
