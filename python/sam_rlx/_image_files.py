"""Reading image files with Pillow (extra ``image``)."""

import importlib
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._arrays import as_hw, as_integer, as_rgb
from sam_rlx._files import as_path
from sam_rlx.errors import InvalidArgumentError, MediaWarning, MissingExtraError

# A path, or a binary file that is open.
ImageFile: TypeAlias = "str | os.PathLike[str] | Any"

# The first image of these files is the image; others are previews, layers or sizes of it.
_ONE_IMAGE = {"MPO", "PSD", "ICO", "ICNS", "CUR"}
_SUBFILE_TYPE = 254  # the TIFF tag whose bits say that a page is a reduced copy or a mask
_COPY_OR_MASK = 1 | 4


def pillow(module: str) -> Any:
    """Return a module of Pillow; `MissingExtraError` without Pillow."""
    try:
        return importlib.import_module(f"PIL.{module}")
    except ImportError as error:
        raise MissingExtraError(
            'io: expected the package pillow (pip install "sam_rlx[image]"), found none'
        ) from error


def read_image(
    path: ImageFile,
    *,
    stretch: bool | tuple[float, float] = False,
    page: int | None = None,
) -> NDArray[np.uint8]:
    """Read an image file as RGB, upright.

    An EXIF orientation is applied, so that pixels are where viewers show them. Alpha is dropped;
    16-bit images are reduced to 8 bits: 0 to 65535 become 0 to 255. Floats are read as 0 to 1.

    Parameters
    ----------
    path : str, path or binary file
        Any format that Pillow reads.
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
    ops = pillow("ImageOps")
    with open_image(path) as image:
        choose_page(image, page, name_of(path))
        shallow = _loses_bits(image)
        if shallow and stretch is not False:
            raise InvalidArgumentError(
                "image: expected 8 bits a colour with stretch, found 16, of which Pillow reads 8: "
                "read the file with another package (tifffile), and give the array"
            )
        pixels = as_rgb(ops.exif_transpose(image), stretch=stretch)
    if shallow and 0 < int(pixels.max()) - int(pixels.min()) < 26:
        warnings.warn(
            f"{name_of(path)}: 16-bit colours are read as 0 to 65535, and those of this image are "
            "less than a tenth of it: read the file with another package (tifffile), scale it, and "
            "give the array",
            MediaWarning,
            stacklevel=2,
        )
    return pixels


def name_of(source: ImageFile) -> str:
    """Return the name of a file for messages."""
    if hasattr(source, "read") and not isinstance(source, os.PathLike):
        name = getattr(source, "name", None)
        return name if isinstance(name, str) else "image"
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
    with nullcontext(source) if is_file else as_path(source).open("rb") as file:
        try:
            with images.open(file) as image:
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
            words = str(error).replace(repr(file), "the file") or type(error).__name__
            raise InvalidArgumentError(f"{name}: expected an image, found {words}") from error


def full_pages(image: Any) -> list[int]:
    """Return the numbers, for PIL, of the pages of an image file or of the frames of an animation.

    Not those that are reduced copies or masks of a page (TIFF), layers, previews or sizes of one
    image, or the still image of an animated PNG that is no part of the animation.
    """
    count = getattr(image, "n_frames", 1)
    if count == 1 or image.format in _ONE_IMAGE:
        return [0]
    pages = list(range(1 if getattr(image, "default_image", False) else 0, count))
    if image.format == "TIFF":
        pages = [page for page in pages if not _subfile_type(image, page) & _COPY_OR_MASK]
        image.seek(0)
    return pages or [0]


def _subfile_type(image: Any, page: int) -> int:
    image.seek(page)
    value = image.tag_v2.get(_SUBFILE_TYPE, 0)
    return value if isinstance(value, int) else 0


def choose_page(image: Any, page: int | None, name: str) -> None:
    """Turn to a page; None: the first one, with a warning if there are more."""
    if page is None:
        pages = full_pages(image)
        if len(pages) > 1:
            warnings.warn(
                f"{name}: {len(pages)} pages, of which the first is read: read_image(page=) reads "
                "another one, VideoPredictor all of them",
                MediaWarning,
                stacklevel=3,
            )
        return
    pages = full_pages(image)
    number = as_integer("page", page, 0)
    if number >= len(pages):
        raise InvalidArgumentError(f"page: expected 0 to {len(pages) - 1}, found {number}")
    image.seek(pages[number])


def _loses_bits(image: Any) -> bool:
    """Tell whether Pillow keeps only the upper 8 of 16 bits: it has no such colour mode."""
    if image.mode not in ("RGB", "RGBA", "RGBX", "CMYK", "LA"):
        return False
    return any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))
