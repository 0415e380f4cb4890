"""The images of a session: arrays, files or a folder, read when their turn comes."""

import io as streams
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.arrays.checks import as_items, as_path_text
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.files.hints import not_found
from sam_rlx._internal.files.suffixes import images_of
from sam_rlx.errors import InvalidArgumentError, MediaWarning

_SMALL = 1 << 20  # pixels up to which an image is sent without loss


class ImageSource:
    """A list of images with names.

    Parameters
    ----------
    images : image, path, folder, or sequence of images and paths
        An image as `ImagePredictor.set_image` takes it.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder, or a folder without an image.
    InvalidArgumentError
        It is something else, or an empty sequence.
    """

    def __init__(self, images: Any) -> None:
        if isinstance(images, (str, os.PathLike)):
            self._items: list[Any] = _files(Path(as_path_text("images", images)))
        elif isinstance(images, Sequence):
            self._items = [_item(image) for image in as_items("images", images)]
        else:
            self._items = [as_rgb(images)]
        if not self._items:
            raise InvalidArgumentError("images: expected at least one image, found none")

    def __len__(self) -> int:
        return len(self._items)

    @property
    def files(self) -> list[Path]:
        """The files among the images."""
        return [item for item in self._items if isinstance(item, Path)]

    def close(self) -> None:
        """Forget the images; their names stay."""
        self._items = [
            item if isinstance(item, Path) else Path(self.name(index))
            for index, item in enumerate(self._items)
        ]

    def name(self, index: int) -> str:
        """Return the name of a file, or a number."""
        item = self._items[index]
        return item.name if isinstance(item, Path) else f"image {index + 1}"

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return an image as RGB (H, W, 3)."""
        item = self._items[index]
        return io.read_image(item) if isinstance(item, Path) else item


def _item(image: Any) -> Any:
    if not isinstance(image, (str, os.PathLike)):
        return as_rgb(image)
    path = Path(as_path_text("images", image))
    if not path.is_file():
        raise not_found("images", path, "a file")
    return path


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise not_found("images", path, "a file or folder")
    if not path.is_dir():
        return [path]
    try:
        listing = images_of(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"images: {error}") from error
    if listing.passed_over:
        warnings.warn(f"images: passed over {listing.passed_over}", MediaWarning, stacklevel=6)
    return listing.files


def encoded(image: NDArray[np.uint8], kind: str | None = None, quality: int = 90) -> bytes:
    """Return the bytes of an image file: PNG of a small image, else JPEG; or as `kind` says."""
    chosen = kind or ("PNG" if image.shape[0] * image.shape[1] <= _SMALL else "JPEG")
    options = {"compress_level": 1} if chosen == "PNG" else {"quality": quality}
    file = streams.BytesIO()
    io.pillow("Image").fromarray(image).save(file, format=chosen, **options)
    return file.getvalue()


def shrunk(image: NDArray[np.uint8], longest: int) -> NDArray[np.uint8]:
    """Return an image with sides of at most `longest` pixels."""
    height, width = image.shape[:2]
    if max(height, width) <= longest:
        return image
    small = io.pillow("Image").fromarray(image)
    small.thumbnail((longest, longest))
    return np.asarray(small)
