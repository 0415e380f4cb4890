"""PIL images as 8-bit pixels: what their file means, at every depth, and the right way up."""

from __future__ import annotations

import sys
import warnings
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.pixels import Stretch, from_mode_i, from_pil, to_uint8
from sam_rlx._internal.arrays.stored import storage_of
from sam_rlx.errors import InvalidArgumentError, MediaWarning

_ORIENTATION = 0x0112  # tag of EXIF
_FLAT = 26  # a tenth of 255: an image that uses less is nearly black or flat
_OTHER_PACKAGE = "read the file with another package (tifffile), "

_Array = TypeVar("_Array", bound=NDArray[Any])


def is_pil(image: Any) -> bool:
    """Tell whether an object is an image of Pillow, also of a class of its plugins or one's own."""
    # Another thread may be importing the module: nobody has an image of it then.
    kind = getattr(sys.modules.get("PIL.Image"), "Image", None)
    return kind is not None and isinstance(image, kind)


def read_pil(image: Any, stretch: Stretch = False, way_out: str = "") -> NDArray[np.uint8]:
    """Return the pixels (H, W, 1|3) of a PIL image, not turned; arguments as of `to_uint8`.

    `stretch` takes the values that the file holds, also where Pillow shows others.
    """
    storage = storage_of(image)
    if storage.lost_bits and stretch is not False:
        raise InvalidArgumentError(
            "image: expected 8 bits a colour with stretch, found more, of which Pillow reads 8: "
            f"{_OTHER_PACKAGE}and give the array"
        )
    options: dict[str, Any] = {"way_out": way_out, "no_data": storage.no_data}
    deep = image.mode == "F" or image.mode.startswith("I")
    if not deep and not storage.dtype and (stretch is False or image.mode not in ("1", "L")):
        pixels = to_uint8(from_pil(image), stretch, **options)
        if storage.lost_bits and int(pixels.max()) - int(pixels.min()) < _FLAT:
            warnings.warn(
                "image: 16-bit colours are read as 0 to 65535, and those of this image are less "
                f"than a tenth of it: {_OTHER_PACKAGE}scale it, and give the array",
                MediaWarning,
                stacklevel=4,
            )
        return pixels
    as_stored = stretch is not False or bool(storage.dtype)
    values = storage.values(image) if as_stored else np.asarray(image)
    if image.mode == "I" and stretch is False:
        values = from_mode_i(values, way_out)
    pixels = to_uint8(values[:, :, np.newaxis], stretch, **options)
    return np.invert(pixels) if storage.white_is_zero else pixels


def upright(image: Any, array: _Array) -> _Array:
    """Turn what was read of a PIL image (H, W, ...) as its orientation says: no copy.

    The image must be loaded: Pillow turns some as it reads them, and then says no orientation.
    """
    orientation = image.getexif().get(_ORIENTATION, 1)
    if orientation in (5, 6, 7, 8):
        array = array.swapaxes(0, 1)  # type: ignore[assignment]
    rows = slice(None, None, -1 if orientation in (3, 4, 7, 8) else 1)
    columns = slice(None, None, -1 if orientation in (2, 3, 6, 7) else 1)
    return array[rows, columns]  # type: ignore[return-value]
