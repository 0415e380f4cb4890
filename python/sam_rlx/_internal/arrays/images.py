"""Images and masks at the border: what callers pass becomes the arrays that the core takes."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import MAX_IMAGE_PIXELS
from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.checks import as_integer, as_items
from sam_rlx._internal.arrays.foreign import as_array, has, is_array, refuse_other_library
from sam_rlx._internal.arrays.pages import warn_of_pages
from sam_rlx._internal.arrays.pil import is_pil, read_pil
from sam_rlx._internal.arrays.pixels import IMAGE, Stretch, to_uint8
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

_CHANNELS = (1, 3, 4)


def as_rgb(image: Any, *, stretch: Stretch = False, way_out: str = "") -> NDArray[np.uint8]:
    """Convert an image in any common form to a contiguous uint8 (H, W, 3) array.

    Parameters
    ----------
    image : ndarray or PIL image
        uint8; uint16 (divided by 257); or float in [0, 1] (times 255, rounded). Grey (H, W),
        channels last (H, W, 1|3|4) or channels first (1|3|4, H, W); if both orders fit, channels
        last wins. Any strides. The fourth channel (alpha) is dropped, not blended. Other array
        types take part as `foreign.as_array` reads them.
    stretch : bool, "channels" or (low, high)
        For other ranges: as for `io.read_image`.
    way_out : str
        What messages advise for values of another range. "": a line of NumPy.

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
    if is_pil(image):
        warn_of_pages(image)
        pixels = read_pil(image, stretch, way_out)
    elif is_array(image):
        array = as_array("image", in_order("image", image))
        pixels = to_uint8(_channels_last(array)[:, :, :3], stretch, way_out=way_out)
    else:
        if not isinstance(image, (str, bytes, list, tuple)):
            refuse_other_library("image", image)
        raise InvalidArgumentError(f"image: expected {IMAGE}, found {_other(image)}")
    if pixels.shape[2] == 1:
        pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.ascontiguousarray(pixels)


def _other(image: Any) -> str:
    """Say what is no image, and what helps."""
    found = type(image).__name__
    if isinstance(image, (str, bytes, os.PathLike)) or has(image, "read"):
        return f"{found}; io.read_image reads files"
    return found


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
