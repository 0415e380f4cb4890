"""Images and masks at the border: what callers pass becomes the arrays that the core takes."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import MAX_IMAGE_PIXELS
from sam_rlx._internal.arrays.checks import as_integer, as_items
from sam_rlx._internal.arrays.pages import warn_of_pages
from sam_rlx._internal.arrays.pixels import (
    IMAGE,
    WAY_OUT,
    as_array,
    from_mode_i,
    from_pil,
    to_uint8,
)
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

_CHANNELS = (1, 3, 4)


def as_rgb(
    image: Any, *, stretch: bool | tuple[float, float] = False, way_out: str = WAY_OUT
) -> NDArray[np.uint8]:
    """Convert an image in any common form to a contiguous uint8 (H, W, 3) array.

    Parameters
    ----------
    image : ndarray or PIL image
        uint8; uint16 (divided by 257); or float in [0, 1] (times 255, rounded). Grey (H, W),
        channels last (H, W, 1|3|4) or channels first (1|3|4, H, W); if both orders fit, channels
        last wins. Any strides. The fourth channel (alpha) is dropped, not blended. Other array
        types take part through ``__array__``, and tensors of PyTorch without their gradients.
    stretch : bool or (low, high)
        For other ranges: as for `io.read_image`.
    way_out : str
        What messages advise for values of another range.

    Returns
    -------
    ndarray (H, W, 3), uint8
        RGB. The input itself if it already has this form.

    Raises
    ------
    InvalidArgumentError
        The type, shape, dtype or range is another one.

    Warns
    -----
    MediaWarning
        Less than a tenth of the range of uint16 or float is used, or a PIL image has several
        pages of which none was chosen.
    """
    if type(image).__module__.partition(".")[0] == "PIL" and hasattr(image, "convert"):
        warn_of_pages(image)
        mode, image = image.mode, from_pil(image)
        if mode == "I" and stretch is False:
            image = from_mode_i(image, way_out)
    elif isinstance(image, np.ndarray) or hasattr(image, "__array__"):
        image = as_array("image", image)
    else:
        reads = isinstance(image, (str, bytes, os.PathLike)) or hasattr(image, "read")
        hint = "; io.read_image reads files" if reads else ""
        raise InvalidArgumentError(f"image: expected {IMAGE}, found {type(image).__name__}{hint}")
    pixels = to_uint8(_channels_last(image)[:, :, :3], stretch, way_out)
    if pixels.shape[2] == 1:
        pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.ascontiguousarray(pixels)


def as_images(images: Sequence[Any]) -> list[NDArray[np.uint8]]:
    """Convert each of several images as `as_rgb`; raise `InvalidArgumentError` for none."""
    if isinstance(images, np.ndarray) and images.ndim == 3:
        raise InvalidArgumentError(
            f"images: expected a sequence of images, found one of shape {images.shape}"
        )
    pixels = [as_rgb(image) for image in as_items("images", images)]
    if not pixels:
        raise InvalidArgumentError("images: expected at least one image, found none")
    return pixels


def _channels_last(image: NDArray[Any]) -> NDArray[Any]:
    if image.ndim == 2:
        image = image[:, :, np.newaxis]
    elif image.ndim == 3 and image.shape[2] not in _CHANNELS and image.shape[0] in _CHANNELS:
        image = image.transpose(1, 2, 0)
    if image.ndim != 3 or image.shape[2] not in _CHANNELS or image.size == 0:
        raise InvalidArgumentError(f"image: expected {IMAGE}, found shape {image.shape}")
    as_hw("image", image.shape[:2])
    return image


def as_hw(name: str, hw: Any) -> tuple[int, int]:
    """Check the size (H, W) of an image: positive, and not above the limit of pixels."""
    listed = isinstance(hw, (tuple, list)) or (isinstance(hw, np.ndarray) and hw.shape == (2,))
    sides = tuple(hw) if listed else ()
    if len(sides) != 2:
        raise InvalidArgumentError(f"{name}: expected (H, W), found {shown(hw)}")
    height, width = (as_integer(f"{name}[{axis}]", side, 1) for axis, side in enumerate(sides))
    if height * width > MAX_IMAGE_PIXELS:
        raise InvalidArgumentError(
            f"{name}: expected at most {MAX_IMAGE_PIXELS} pixels, found {height} x {width}"
        )
    return height, width


def as_bools(name: str, mask: Any) -> NDArray[np.bool_]:
    """Return a mask (H, W) of bools or numbers as bool: true where it is not 0."""
    array = as_array(name, mask)
    largest = max(array.shape, default=0)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or largest > MAX_IMAGE_PIXELS:
        raise InvalidArgumentError(
            f"{name}: expected an array (H, W) of bool, found shape {array.shape} of {array.dtype}"
        )
    return np.ascontiguousarray(array if array.dtype == np.bool_ else array != 0)
