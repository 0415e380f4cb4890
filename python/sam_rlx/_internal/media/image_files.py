"""Reading image files with Pillow (extra ``image``)."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.images import as_hw, as_rgb
from sam_rlx._internal.arrays.pages import choose_page
from sam_rlx._internal.arrays.pixels import WAY_OUT
from sam_rlx._internal.files import hints
from sam_rlx._internal.files.atomic import as_path
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, MediaWarning

# A path, or a binary file that is open.
ImageFile: TypeAlias = str | os.PathLike[str] | Any

# What is read: formats of pixels that a decoder in this process reads. Pillow knows others: it
# hands PostScript to a program, and some containers to whatever is inside of them.
_FORMATS = frozenset(
    (
        *("PNG", "JPEG", "MPO", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM"),
        *("HEIF", "JXL", "PSD", "TGA", "ICO", "CUR", "ICNS", "DDS", "FITS", "QOI", "SGI", "PCX"),
        *("DCX", "SUN", "IM", "MSP", "XBM", "XPM", "BLP", "FTEX", "FLI", "PIXAR", "SPIDER", "GBR"),
    )
)
_PILLOWS = "PIL."
_SAMPLE_FORMAT = 339  # 2: signed integers
# The code stream of JPEG 2000: its two first markers, and where the bits of a value are from there.
_CODE_STREAM = b"\xff\x4f\xff\x51"
_BITS_AT = 42
_HEADERS = 1 << 16  # bytes in which the code stream begins


def pillow(module: str) -> Any:
    """Return a module of Pillow; `MissingExtraError` without Pillow."""
    return optional("io", f"PIL.{module}", "pillow")


def read_image(
    path: ImageFile,
    *,
    stretch: bool | tuple[float, float] = False,
    page: int | None = None,
) -> NDArray[np.uint8]:
    """Read an image file as RGB, upright.

    An EXIF orientation is applied, so that pixels are where viewers show them. Alpha is dropped;
    16-bit images are reduced to 8 bits: 0 to 65535 become 0 to 255. Floats are read as 0 to 1, and
    what lies beyond by rounding, up to 0.001, as 0 and 1.

    Parameters
    ----------
    path : str, path or binary file
        A format of pixels: PNG, JPEG, WebP, GIF, BMP, TIFF, AVIF, JPEG 2000, PPM and others that
        Pillow decodes by itself. PostScript is none: it is a program.
    stretch : bool or (low, high)
        For files of another range, such as 12 bits in 16, signed or float rasters. True: the lowest
        and highest value become 0 and 255. A pair: these values do, and what is beyond is clipped.
        NaN becomes 0.
    page : int, optional
        Which page of a TIFF stack or of an animation, from 0. Default: the first one, with a
        warning if there are more.

    Returns
    -------
    ndarray (H, W, 3), uint8

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidArgumentError
        The file is no image, or a damaged one; its values are out of range; there is no such page.
    MissingExtraError
        Pillow is not installed.

    Warns
    -----
    MediaWarning
        There are several pages, or less than a tenth of the range is used.
    """
    with open_image(path) as image:
        choose_page(image, page, name_of(path))
        return page_pixels(image, name_of(path), stretch)


def page_pixels(
    image: Any, name: str, stretch: bool | tuple[float, float], way_out: str = WAY_OUT
) -> NDArray[np.uint8]:
    """Return the chosen page of an open image file, as `read_image` does.

    Parameters
    ----------
    image : PIL image
        Of `open_image`.
    name : str
        The file, for warnings.
    stretch : bool or (low, high)
        As for `read_image`.
    way_out : str
        What messages advise for values of another range.
    """
    shallow, signed = _loses_bits(image), _is_signed(image)
    if shallow and stretch is not False:
        raise InvalidArgumentError(
            "image: expected 8 bits a colour with stretch, found 16, of which Pillow reads 8: "
            "read the file with another package (tifffile), and give the array"
        )
    upright = pillow("ImageOps").exif_transpose(image)
    values = np.asarray(upright).view(np.int8) if signed else upright
    pixels = as_rgb(values, stretch=stretch, way_out=way_out)
    if shallow and int(pixels.max()) - int(pixels.min()) < 26:
        warnings.warn(
            f"{name}: 16-bit colours are read as 0 to 65535, and those of this image are "
            "less than a tenth of it: read the file with another package (tifffile), scale it, and "
            "give the array",
            MediaWarning,
            stacklevel=3,
        )
    return pixels


def name_of(source: ImageFile) -> str:
    """Return the name of a file for messages."""
    if hasattr(source, "read") and not isinstance(source, os.PathLike):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "file"
    return str(as_path(source))


@contextmanager
def open_image(source: ImageFile) -> Iterator[Any]:
    """Open an image file as a PIL image; all that fails in the block is told as `read_image` does.

    Decoders of damaged files raise whatever they stumble on: each of those errors becomes an
    `InvalidArgumentError` with the name of the file and their words. `MemoryError` stays one.
    """
    images = pillow("Image")
    name = name_of(source)
    is_file = hasattr(source, "read") and not isinstance(source, os.PathLike)
    if isinstance(source, io.TextIOBase):
        raise InvalidArgumentError(
            f"{name}: expected an image in a file that is open as binary, found text"
        )
    with nullcontext(source) if is_file else _opened(as_path(source)) as file:
        try:
            with images.open(file, formats=_formats(images)) as image:
                as_hw("size", (image.height, image.width))
                yield image
        except (MemoryError, MediaWarning):
            raise
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{name}: {error}") from error
        except (images.DecompressionBombError, images.DecompressionBombWarning) as error:
            raise InvalidArgumentError(
                f"{name}: expected at most {images.MAX_IMAGE_PIXELS} pixels, which is Pillow's "
                f"limit for files from strangers (twice that is an error), found: {error}; "
                "PIL.Image.MAX_IMAGE_PIXELS = None lifts it"
            ) from error
        except Exception as error:
            words, hint = str(error).replace(repr(file), "the file") or type(error).__name__, ""
            if isinstance(error, images.UnidentifiedImageError):
                words, hint = "a file of no format that Pillow reads", _hint(file)
            raise InvalidArgumentError(f"{name}: expected an image, found {words}{hint}") from error


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        if hints.is_url(path):
            raise hints.not_found("image", path, "a file") from None
        raise


def _formats(images: Any) -> list[str]:
    """Return the formats that are read: `_FORMATS`, and what a user has registered at Pillow."""
    images.init()
    return [
        name
        for name, (opener, _) in images.OPEN.items()
        if name in _FORMATS or not opener.__module__.startswith(_PILLOWS)
    ]


def _hint(file: Any) -> str:
    """Return what helps with a file that is no image."""
    if not file.seekable():
        return ""
    file.seek(0)
    start = file.read(hints.START)
    if start.startswith((b"%!PS", b"\xc5\xd0\xd3\xc6")):
        return ": PostScript is a program, which is not run; convert it to PNG"
    if odd := hints.odd_file(start):
        return f": {odd}"
    if start[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
        return ": a TIFF file; the package tifffile reads more of them: give the array"
    if start[4:8] == b"ftyp" and start[8:12] in (b"heic", b"heix", b"heim", b"heis", b"mif1"):
        return (
            ": a HEIC file, as phones write them; in Python pillow_heif.register_heif_opener() of "
            "the package pillow-heif lets Pillow read it, or convert it to JPEG"
        )
    if start.startswith((b"#?RADIANCE", b"#?RGBE", b"\x76\x2f\x31\x01", b"PF\n")):
        return ": an image of high dynamic range; scale it to 0 to 1, and give the array"
    return ""


def _is_signed(image: Any) -> bool:
    """Tell whether a TIFF file has 8 bits with a sign, which Pillow takes for bytes."""
    tags = getattr(image, "tag_v2", {})
    return image.mode == "L" and tags.get(_SAMPLE_FORMAT) in (2, (2,))


def _loses_bits(image: Any) -> bool:
    """Tell whether Pillow keeps only the upper 8 of 16 bits: it has no such colour mode."""
    if image.mode not in ("RGB", "RGBA", "RGBX", "CMYK", "LA"):
        return False
    if image.format == "JPEG2000":
        return _bits_of_jpeg_2000(image.fp) > 8
    return any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def _bits_of_jpeg_2000(file: Any) -> int:
    """Return the bits of the values of a JPEG 2000 file; 8 if it does not say."""
    position = file.tell()
    file.seek(0)
    head = file.read(_HEADERS)
    file.seek(position)
    at = head.find(_CODE_STREAM) + _BITS_AT
    return (head[at] & 0x7F) + 1 if _BITS_AT <= at < len(head) else 8
