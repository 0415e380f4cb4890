"""Pages of image files: of TIFF stacks and of animations."""

import re
import warnings
from typing import Any

from sam_rlx.errors import InvalidArgumentError, MediaWarning

# The first image of these files is the image; others are previews, layers or sizes of it.
_ONE_IMAGE = {"MPO", "PSD", "ICO", "ICNS", "CUR"}
# Tags of TIFF: what kind of page it is, new and old, pages below it, words, planes of a page.
_SUBFILE_TYPE, _OLD_SUBFILE_TYPE, _SUB_IFDS = 254, 255, 330
_DESCRIPTION, _DEPTH = 270, 32997
_COPY_OR_MASK = 1 | 4
_REDUCED = 2  # of the old tag
_IMAGEJ_PLANES = re.compile(r"^ImageJ=.*?^images=(\d+)", re.DOTALL | re.MULTILINE)
_ANOTHER = "io.read_image(file, page=) reads another one, VideoPredictor all of them"


def full_pages(image: Any) -> list[int]:
    """Return the numbers, for PIL, of the pages of an image file or of the frames of an animation.

    Not those that are reduced copies or masks of a page (TIFF), layers, previews or sizes of one
    image, or the still image of an animated PNG that is no part of the animation.

    Raises
    ------
    InvalidArgumentError
        There are reduced copies alone, and the image itself is where Pillow does not look.
    """
    if image.format == "TIFF":
        pages = _tiff_pages(image)
        if not pages and _SUB_IFDS in image.tag_v2:
            raise InvalidArgumentError(
                "image: expected a page of the whole image, found a reduced copy of "
                f"{image.width} x {image.height} with the image below it (SubIFD), as cameras and "
                "scanners write: the packages rawpy and tifffile read it, give the array"
            )
        return pages or [0]
    count = 1 if image.format in _ONE_IMAGE else getattr(image, "n_frames", 1)
    return list(range(1 if _is_still(image, count) else 0, count))


def _is_still(image: Any, count: int) -> bool:
    """Tell whether the first image of an animated PNG is no part of the animation."""
    return count > 1 and bool(getattr(image, "default_image", False))


def _tiff_pages(image: Any) -> list[int]:
    pages: list[int] = []
    number = 0
    while True:
        try:
            image.seek(number)
        except EOFError:
            image.seek(0)
            return pages
        except SyntaxError:  # a kind of page that Pillow cannot show; its tags are read
            pass
        kind = image.tag_v2.get(_SUBFILE_TYPE, 0)
        is_part = isinstance(kind, int) and kind & _COPY_OR_MASK
        if not is_part and image.tag_v2.get(_OLD_SUBFILE_TYPE) != _REDUCED:
            pages.append(number)
        number += 1


def planes_of(image: Any) -> int:
    """Return how many planes the open page of a TIFF file holds, of which Pillow reads the first.

    ImageJ writes a large stack as one page, and `ImageDepth` is a tag of volumes.
    """
    tags = getattr(image, "tag_v2", {})
    found = _IMAGEJ_PLANES.search(str(tags.get(_DESCRIPTION, "")))
    depth = tags.get(_DEPTH, 1)
    return max(int(found[1]) if found else 1, depth if isinstance(depth, int) else 1)


def choose_page(image: Any, page: int | None, name: str) -> None:
    """Turn to a page; None: the first one, with a warning that says which if there are more.

    Of HEIF it is the primary image, of an animated PNG its still image.
    """
    pages = full_pages(image)
    if page is None:
        words = _left_out(image, pages)
        if image.tell() not in pages and not _is_still(image, len(pages) + 1):
            image.seek(pages[0])
        if words:
            warnings.warn(f"{name}: {words}", MediaWarning, stacklevel=3)
        return
    if not isinstance(page, int) or not 0 <= page < len(pages):
        planes = planes_of(image)
        more = f", of {planes} planes, which tifffile reads" if planes > len(pages) else ""
        raise InvalidArgumentError(f"page: expected 0 to {len(pages) - 1}{more}, found {page!r}")
    if image.tell() != pages[page]:
        image.seek(pages[page])


def _left_out(image: Any, pages: list[int]) -> str:
    """Say which of several pages is read where none is chosen; "" if there is one."""
    planes = planes_of(image)
    if len(pages) == 1 and planes > 1:
        return (
            f"{planes} planes in one page, of which the first is read: the package tifffile reads "
            "all of them, give the array"
        )
    if _is_still(image, len(pages) + 1):
        return (
            f"{len(pages)} pages of an animation, beside its still image, which is read: {_ANOTHER}"
        )
    if len(pages) < 2:
        return ""
    at = pages.index(image.tell()) if image.tell() in pages else 0
    which = f"page {at} (the primary one)" if at else "the first"
    return f"{len(pages)} pages, of which {which} is read: {_ANOTHER}"


def warn_of_pages(image: Any) -> None:
    """Warn of a PIL image with more pages, of which none was chosen; refuse a reduced copy.

    Counting pages reads the file again: an image that is loaded, and may have been drawn on, is
    left alone.
    """
    unread = image.format == "HEIF" or bool(getattr(image, "tile", None))
    chosen = image.tell() != 0 and not image.info.get("primary", False)
    if not unread or getattr(image, "fp", None) is None or chosen or image.format in _ONE_IMAGE:
        return
    at = image.tell()
    pages = full_pages(image)
    if image.tell() != at:
        image.seek(at)
    if image.format == "TIFF" and 0 not in pages:
        raise InvalidArgumentError(
            "image: expected the whole image, found a reduced copy of "
            f"{image.width} x {image.height}: image.seek({pages[0]}) turns to the image"
        )
    words = _left_out(image, pages)
    if words:
        warnings.warn(f"image: {words}", MediaWarning, stacklevel=4)
