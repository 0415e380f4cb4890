"""Writing image files with Pillow (extra ``image``)."""

import os
from typing import Any

import numpy as np

from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.files import marks
from sam_rlx._internal.files.atomic import as_path, atomic_write
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.media.image_files import pillow
from sam_rlx.errors import InvalidArgumentError

_WRITABLE = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
SUFFIXES = tuple(_WRITABLE)


def write_pixels(
    path: str | os.PathLike[str], pixels: Any, *, is_result: bool = False, origin: str = ""
) -> None:
    """Write an image or a mask; parameters and errors are those of `io.write_image`.

    Parameters
    ----------
    is_result : bool
        Whether it is an overlay, which no folder gives as an input. Masks never are inputs.
    origin : str
        As from `marks.origin`, of a PNG file.
    """
    images = pillow("Image")
    name = as_path(path)
    form = _WRITABLE.get(name.suffix.lower())
    if form is None:
        raise InvalidArgumentError(
            f"{name}: expected a suffix of {list(_WRITABLE)}, found {name.suffix!r}"
        )
    check_target(name, (form,))
    if not isinstance(pixels, np.ndarray):
        raise InvalidArgumentError(f"pixels: expected an array, found {type(pixels).__name__}")
    pixels = as_array("pixels", pixels)
    is_result = is_result or pixels.dtype == np.bool_
    if pixels.dtype == np.bool_:
        pixels = pixels.astype(np.uint8) * np.uint8(255)
    options = _marked(form, is_result, origin)
    with atomic_write(name) as file:
        try:
            images.fromarray(np.ascontiguousarray(pixels)).save(file, format=form, **options)
        except (TypeError, ValueError, KeyError, OverflowError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # of the disk
                raise
            raise InvalidArgumentError(
                f"pixels: expected uint8 or bool (H, W) or (H, W, 3) that {form} can hold, found "
                f"shape {pixels.shape} of {pixels.dtype}: {error}"
            ) from error


def _marked(form: str, is_result: bool, origin: str) -> dict[str, Any]:
    """Return options of Pillow with the marks of `marks`."""
    if form == "PNG":
        text = pillow("PngImagePlugin").PngInfo()
        text.add_text(*marks.PNG_MARK)
        if is_result:
            text.add_text(*marks.PNG_RESULT)
        if origin:
            text.add_text(marks.ORIGIN, origin)
        return {"pnginfo": text}
    exif = pillow("Image").Exif()
    exif[marks.EXIF_SOFTWARE] = marks.PNG_MARK[1]
    if is_result:
        exif[marks.EXIF_DESCRIPTION] = marks.PNG_RESULT[1]
    return {"quality": 92, "exif": exif}
