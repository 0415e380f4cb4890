"""Pages of image files: of TIFF stacks and of animations."""

import warnings
from typing import Any

from sam_rlx.errors import InvalidArgumentError, MediaWarning

# The first image of these files is the image; others are previews, layers or sizes of it.
_ONE_IMAGE = {"MPO", "PSD", "ICO", "ICNS", "CUR"}
_SUBFILE_TYPE = 254  # the TIFF tag whose bits say that a page is a reduced copy or a mask
_COPY_OR_MASK = 1 | 4
_DEPTH = 32997  # the TIFF tag of the number of slices that are in one page


def full_pages(image: Any) -> list[int]:
    """Return the numbers, for PIL, of the pages of an image file or of the frames of an animation.

    Not those that are reduced copies or masks of a page (TIFF), layers, previews or sizes of one
    image, or the still image of an animated PNG that is no part of the animation.
    """
    if image.format == "TIFF":
        return _tiff_pages(image) or [0]
    count = 1 if image.format in _ONE_IMAGE else getattr(image, "n_frames", 1)
    first = 1 if count > 1 and getattr(image, "default_image", False) else 0
    return list(range(first, count))


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
        kind, depth = image.tag_v2.get(_SUBFILE_TYPE, 0), image.tag_v2.get(_DEPTH, 1)
        if isinstance(depth, int) and depth > 1:
            raise InvalidArgumentError(
                f"expected pages of one slice, found a volume of {depth} slices in one page: "
                "tifffile.imread(file) reads it as an array (Z, H, W)"
            )
        if not (isinstance(kind, int) and kind & _COPY_OR_MASK):
            pages.append(number)
        number += 1


def choose_page(image: Any, page: int | None, name: str) -> None:
    """Turn to a page; None: the first one, with a warning if there are more."""
    if page is None:
        pages = full_pages(image)
        if len(pages) > 1:
            warnings.warn(
                several(name, len(pages)),
                MediaWarning,
                stacklevel=3,
            )
        return
    pages = full_pages(image)
    if not isinstance(page, int) or not 0 <= page < len(pages):
        raise InvalidArgumentError(f"page: expected 0 to {len(pages) - 1}, found {page!r}")
    image.seek(pages[page])


def several(name: str, count: int) -> str:
    """Return the words of the warning that one of several pages is read."""
    return (
        f"{name}: {count} pages, of which the first is read: io.read_image(file, page=) reads "
        "another one, VideoPredictor all of them"
    )


def warn_of_pages(image: Any) -> None:
    """Warn of a PIL image with more pages, of which none was chosen.

    Counting pages reads the file again: an image that is loaded, and may have been drawn on, is
    left alone.
    """
    unread = bool(getattr(image, "tile", None)) and getattr(image, "fp", None) is not None
    if not unread or image.tell() or image.format in _ONE_IMAGE:
        return
    count = len(full_pages(image))
    if count > 1:
        warnings.warn(several("image", count), MediaWarning, stacklevel=4)
