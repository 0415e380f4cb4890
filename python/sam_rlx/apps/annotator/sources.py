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
from sam_rlx._internal.arrays.foreign import is_array
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.files.hints import not_found
from sam_rlx._internal.files.suffixes import images_of
from sam_rlx.apps.annotator.identity import (
    free_key,
    key_of,
    key_of_bytes,
    matched,
    relative,
    stat_of,
)
from sam_rlx.apps.annotator.projects import (
    Location,
    OpenProject,
    location_of_arrays,
    location_of_files,
)
from sam_rlx.apps.annotator.values import Item
from sam_rlx.errors import InvalidArgumentError, MediaWarning

_SMALL = 1 << 20  # pixels up to which an image is sent without loss
_MAX_NAMED = 3  # images in a sentence
HELD_ASIDE = "its objects are held aside"


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

    can_be_ordered = False  # whether the order of a project's items is that of the images
    changed: Sequence[tuple[str, int]] = ()  # of `meet`

    def __init__(self, images: Any) -> None:
        self.folder: Path | None = None
        if isinstance(images, (str, os.PathLike)):
            path = Path(as_path_text("images", images))
            self.folder = path if path.is_dir() else None
            self._items: list[Any] = _files(path)
        elif isinstance(images, Sequence) and not is_array(images):
            self._items = [_item(image) for image in as_items("images", images)]
        else:
            self._items = [as_rgb(images)]
        if not self._items:
            raise InvalidArgumentError("images: expected at least one image, found none")
        self._met()

    def _met(self) -> None:
        """Note what stays known of the images when they are forgotten."""
        files = [one for one in self._items if isinstance(one, Path)]
        root = _common_folder(files)
        self._paths = [
            relative(_absolute(one), root) if isinstance(one, Path) else self.name(index)
            for index, one in enumerate(self._items)
        ]
        self._is_file = [isinstance(one, Path) for one in self._items]
        self._keys: list[str] = [""] * len(self._items)
        self._contents: dict[int, str] = {}  # of files that are no items so far

    def __len__(self) -> int:
        return len(self._items)

    @property
    def files(self) -> list[Path]:
        """The files among the images."""
        return [item for item in self._items if isinstance(item, Path)]

    # ---------------------------------------------------------------- items of a project

    @property
    def location(self) -> Location:
        """Where the project of these images is kept."""
        files = self.files
        if len(files) == len(self._items):
            return location_of_files(files, self.folder)
        return location_of_arrays([self._content(index) for index in range(len(self._items))])

    def meet(self, project: OpenProject) -> list[str]:
        """Find the images among the items of a project; return what a person should be told.

        A file is read for this only if its path, size and time are not those of an item, and its
        path or its size is. `changed` has the images whose content is another one than that of
        an item with objects at the same path: the key of that item, and the index.
        """
        known = project.history.project.items
        paths, sizes = {one.path for one in known}, {one.stat[0] for one in known}
        some = [
            index
            for index, item in enumerate(self._items)
            if isinstance(item, Path) and (self.path(index) in paths or _size(item) in sizes)
        ]
        found = matched(
            [self._items[index] for index in some], [self.path(index) for index in some], known
        )
        for index, item in zip(some, found.items, strict=True):
            self._keys[index] = item.key
        project.add_items(found.items)
        aside = [one for one in found.changed if project.document(one.key).objects]
        self.changed = [(one.key, self._paths.index(one.path)) for one in aside]
        said = [f"{one.path} has other content than before: {HELD_ASIDE}" for one in aside]
        lost = [
            one.path
            for one in found.missing
            if one.stat[0] and project.document(one.key).objects  # arrays have no file to be found
        ]
        if lost:
            names = f"{', '.join(lost[:_MAX_NAMED])}{' and others' * (len(lost) > _MAX_NAMED)}"
            said.append(f"not found any more: {names}; their objects stay in the project")
        if len(found.renamed) > _MAX_NAMED:
            return [*said, f"{len(found.renamed)} images were renamed, and have kept their objects"]
        return said + [f"{new} is {old}, which was renamed" for old, new in found.renamed]

    def key(self, index: int, project: OpenProject) -> str:
        """Return the key of an image, which becomes an item of a project."""
        if not self._keys[index]:
            item = self._items[index]
            stat = stat_of(item) if isinstance(item, Path) else (0, 0)
            taken = {one.key for one in project.history.project.items}
            content = self._content(index)
            same = project.history.project.item(content)
            if not isinstance(item, Path) and same is not None and content not in self._keys:
                self._keys[index] = content
            else:
                self._keys[index] = free_key(content, {*taken, *self._keys})
                project.add_items([Item(self._keys[index], self.path(index), stat=stat)])
        return self._keys[index]

    def known_key(self, index: int) -> str:
        """Return the key of an image, "" before it was needed."""
        return self._keys[index]

    def file_key(self, index: int) -> str:
        """Return the key of a file's content, "" for an image that is no file."""
        if not self._is_file[index]:
            return ""
        if not self._keys[index] and index not in self._contents:
            self._contents[index] = self._content(index)
        return self._keys[index].partition("-")[0] or self._contents[index]

    def index_of(self, key: str) -> int | None:
        """Return the index of an item among the images; None if it is not there."""
        return self._keys.index(key) if key and key in self._keys else None

    def _content(self, index: int) -> str:
        item = self._items[index]
        if isinstance(item, Path):
            return key_of(item)
        return key_of_bytes(f"{item.shape}".encode() + item.tobytes())

    def path(self, index: int) -> str:
        """Return the path of a file below the folder that has all of them, or the name."""
        return self._paths[index]

    def file(self, index: int) -> Path | None:
        """Return the file of an image, None for one that is an array."""
        return self._items[index] if self._is_file[index] else None

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


def _size(path: Path) -> int:
    """Return the bytes of a file; -1 if that cannot be told."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100  # links are not followed


def _common_folder(files: Sequence[Path]) -> Path:
    """Return the folder that has all files; the root of the first one if there is none."""
    parents = sorted({str(_absolute(path).parent) for path in files})
    try:
        return Path(os.path.commonpath(parents)) if parents else Path()
    except ValueError:  # on several drives
        return Path(parents[0])


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
    """Return the bytes of an image file: PNG of a small image, else JPEG; or as `kind` says.

    JPEG has the colour of each pixel, not of pairs of them.
    """
    chosen = kind or ("PNG" if image.shape[0] * image.shape[1] <= _SMALL else "JPEG")
    options = {"compress_level": 1} if chosen == "PNG" else {"quality": quality, "subsampling": 0}
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
