"""Reading image files with Pillow (extra ``image``)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_path
from sam_rlx._internal.arrays.images import as_hw
from sam_rlx._internal.arrays.pages import choose_page
from sam_rlx._internal.arrays.pil import read_pil, upright
from sam_rlx._internal.arrays.pixels import OF_FILES, Stretch
from sam_rlx._internal.files import hints
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, MediaWarning

# A path, or a binary file that is open.
ImageFile: TypeAlias = str | os.PathLike[str] | Any

# What is read: formats of pixels that a decoder in this process reads. Pillow knows others: it
# hands PostScript to a program, and some containers to whatever is inside of them.
_FORMATS = frozenset(
    (
        *("PNG", "JPEG", "MPO", "WEBP", "GIF", "BMP", "DIB", "TIFF", "AVIF", "JPEG2000", "PPM"),
        *("HEIF", "JXL", "PSD", "TGA", "ICO", "CUR", "ICNS", "DDS", "QOI", "SGI", "PCX"),
        *("DCX", "SUN", "IM", "MSP", "XBM", "XPM", "BLP", "FTEX", "FLI", "PIXAR", "SPIDER", "GBR"),
    )
)
_PILLOWS = "PIL."
_GIVE = "give the array, scaled to 0 to 1"


def _starts(*signatures: bytes, at: int = 0) -> Callable[[bytes], bool]:
    return lambda start: start[at:].startswith(signatures)


# What else people have, by first bytes, and what reads it.
_OTHERS: tuple[tuple[Callable[[bytes], bool], str], ...] = (
    (
        _starts(b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
        "a TIFF file; the package tifffile reads more of them: give the array",
    ),
    (
        _starts(b"ftypheic", b"ftypheix", b"ftypheim", b"ftypheis", b"ftypmif1", at=4),
        "a HEIC file, as phones write them; in Python pillow_heif.register_heif_opener() of the "
        "package pillow-heif lets Pillow read it, or convert it to JPEG",
    ),
    (
        _starts(b"\xff\x0a", b"\0\0\0\x0cJXL "),
        "a JPEG XL file; in Python import pillow_jxl of the package pillow-jxl-plugin lets Pillow "
        "read it, or convert it to PNG",
    ),
    (
        _starts(b"#?RADIANCE", b"#?RGBE", b"\x76\x2f\x31\x01", b"PF\n"),
        "an image of high dynamic range; scale it to 0 to 1, and give the array",
    ),
    (
        _starts(b"SIMPLE  ="),
        f"a FITS file: astropy.io.fits.getdata(file)[::-1] reads it, {_GIVE}",
    ),
    (_starts(b"\x1f\x8b", b"PK\x03\x04"), "an archive: unpack it, and give the image"),
)


def pillow(module: str) -> Any:
    """Return a module of Pillow; `MissingExtraError` without Pillow."""
    return optional("io", f"PIL.{module}", "pillow")


def read_image(
    path: ImageFile,
    *,
    stretch: Stretch = False,
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
    stretch : bool, "channels" or (low, high)
        For files of another range, such as 12 bits in 16, signed or float rasters, and for models
        that were trained so. True: the lowest and highest value become 0 and 255;
        ``"channels"``: those of each channel. A pair: these values do, and what is beyond is
        clipped. NaN becomes 0.
    page : int, optional
        Which page of a TIFF stack or of an animation, from 0; reduced copies do not count. Default:
        the first one (of HEIF the primary one, of an animated PNG its still image), with a warning
        that says which if there are more.

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
        return as_upright_rgb(image, stretch)


def as_upright_rgb(
    image: Any, stretch: Stretch = False, way_out: str = OF_FILES
) -> NDArray[np.uint8]:
    """Return the open page of an image file as RGB (H, W, 3), turned as its orientation says.

    `way_out` is what messages advise for values of another range.
    """
    pixels = upright(image, read_pil(image, stretch, way_out))
    if pixels.shape[2] == 1:
        pixels = np.broadcast_to(pixels, (*pixels.shape[:2], 3))
    return np.ascontiguousarray(pixels)


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
    if volume := hints.volume(start):
        return f": {volume}; of one image {_GIVE}"
    return next((f": {words}" for begins, words in _OTHERS if begins(start)), "")
