"""Frames that are images: in a folder, or the pages of one file."""

import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_frame_index
from sam_rlx._internal.arrays.pages import choose_page, full_pages
from sam_rlx._internal.files.inputs import unique_names
from sam_rlx._internal.files.suffixes import images_of
from sam_rlx._internal.media.frame_source import WAY_OUT, FrameKind, Range, no_channel, numbered
from sam_rlx._internal.media.image_files import as_upright_rgb, name_of, open_image
from sam_rlx._internal.media.one_size import OneSize
from sam_rlx._internal.media.recent import KEPT_BYTES, Recent
from sam_rlx._internal.media.stack_axes import frame_pages
from sam_rlx.errors import InvalidArgumentError

_SAME_KIND = {".jpeg": ".jpg", ".jpe": ".jpg", ".jfif": ".jpg", ".tiff": ".tif"}
_MOTION_JPEG = {".mjpeg", ".mjpg"}
_SIGNATURE_BYTES = 12
# Milliseconds: what browsers show for a tenth of a second, and that tenth.
_SHORTEST, _NO_DURATION = 10, Fraction(100)


def _head(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[:_SIGNATURE_BYTES]
    with source.open("rb") as file:
        return file.read(_SIGNATURE_BYTES)


def is_gif(source: Path | bytes) -> bool:
    """Tell whether a file, or its contents, is a GIF file."""
    return _head(source).startswith((b"GIF87a", b"GIF89a"))


def is_image(source: Path | bytes) -> bool:
    """Tell whether a file, or its contents, is an image that Pillow reads: also one with pages.

    GIF is none: FFmpeg decodes it as a clip.
    """
    head = _head(source)
    suffix = "" if isinstance(source, bytes) else source.suffix.lower()
    if head.startswith(b"\xff\xd8\xff"):
        return suffix not in _MOTION_JPEG
    starts = (b"\x89PNG\r\n\x1a\n", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+", b"BM")
    return head.startswith(starts) or (head[:4], head[8:]) == (b"RIFF", b"WEBP")


class PageFrames:
    """Pages of one image file: a TIFF stack, an animated WebP or PNG, or a single image.

    Reduced copies and masks that a TIFF file holds beside its pages are not frames, and pages of
    several channels are only with a choice. Pages of another size get that of the first one.

    Parameters
    ----------
    source : path or bytes
        The file, or its contents.
    channel : int, optional
        Which channel of a TIFF stack that tells its axes.
    value_range : (low, high), optional
        Values that become 0 and 255.
    """

    kind: FrameKind = "folder"

    def __init__(
        self, source: Path | bytes, channel: int | None = None, value_range: Range = None
    ) -> None:
        self._source = source
        self._range = value_range
        self._opened = ExitStack()
        self._image: Any = None
        self._reached = -1  # the frame that was decoded last
        self._recent: Recent[NDArray[np.uint8]] = Recent()
        self._size = OneSize("frames" if isinstance(source, bytes) else str(source))
        with open_image(self._file()) as image:
            self._is_tiff = image.format == "TIFF"
            pages = full_pages(image)
            if self._is_tiff:
                image.seek(pages[0])
                pages = [pages[page] for page in frame_pages(image, len(pages), channel)]
            elif channel is not None:
                raise no_channel(f"a file of {image.format}")
            self._pages = pages
            self._kept = max(1, KEPT_BYTES // (3 * image.width * image.height))
        self.count: int | None = len(self._pages)

    def _file(self) -> Any:
        return io.BytesIO(self._source) if isinstance(self._source, bytes) else self._source

    @property
    def files(self) -> Sequence[Path]:
        """The file, if there is one."""
        return () if isinstance(self._source, bytes) else (self._source,)

    def name(self, index: int) -> str:
        """Return the number of page `index`."""
        return numbered(index)

    def time(self, index: int) -> Fraction | None:
        """Return when page `index` of an animation is shown, in seconds; None: of a stack."""
        return None if self._is_tiff or len(self._pages) == 1 else self._times[index]

    @cached_property
    def _times(self) -> list[Fraction]:
        times, now = [], Fraction(0)
        with open_image(self._file()) as image:
            for page in self._pages:
                image.seek(page)
                image.load()
                times.append(now)
                shown = Fraction(image.info.get("duration") or 0)
                now += (shown if shown > _SHORTEST else _NO_DURATION) / 1000
        return times

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return page `index`."""
        as_frame_index(index, len(self._pages))
        if index and self._size.hw is None:
            self.read(0)
        pixels = self._recent.get(index)
        if pixels is None:
            pixels = self._read(index)
        return pixels

    def _read(self, index: int) -> NDArray[np.uint8]:
        # The file stays open: pages of an animation are decoded from those before them. Pillow
        # does not find back in all of them; after a step back, pages on the way are kept.
        if not self._is_tiff and index <= self._reached:
            self.close()
            self._recent.limit = KEPT_BYTES
        if self._image is None:
            self._image = self._opened.enter_context(open_image(self._file()))
        image, self._image = self._image, None
        first = index if self._is_tiff else self._reached + 1
        with self._opened.pop_all() as opened:
            for number in range(first, index + 1):
                image.seek(self._pages[number])
                if number == index or (self._recent.limit and number > index - self._kept):
                    pixels = as_upright_rgb(image, self._range or False, WAY_OUT)
                    pixels = self._size.fit(number, pixels)
                    self._recent.add(number, pixels, pixels.nbytes)
            self._opened = opened.pop_all()
        self._image, self._reached = image, index
        return pixels

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        self._image, self._reached = None, -1
        self._opened.close()


def _natural(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    """Sort key under which 2.jpg comes before 10.jpg. Digits that `int` cannot read are text."""
    parts = [part for part in re.split(r"(\d+)", path.stem) if part]
    numbers = [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
    return numbers, path.name


class FolderFrames:
    """A folder of images, in the order of the numbers in their names.

    Hidden files (also ``._name`` of macOS), files that are no images, and masks and overlays of
    this library are left out, and told in `passed_over`. Images of another size get that of the
    first one. A folder with images of several kinds, or
    with several images of one number, such as frames beside their masks, is refused: which of them
    are the frames cannot be known.
    """

    kind: FrameKind = "folder"

    def __init__(self, folder: Path, value_range: Range = None) -> None:
        try:
            listing = images_of(folder)
        except FileNotFoundError as error:
            raise InvalidArgumentError(f"frames: {error}") from error
        self.passed_over = listing.passed_over
        self._range = value_range
        self._size = OneSize(str(folder))
        self._files = sorted(listing.files, key=_natural)
        self._names = unique_names(self._files)
        self.count: int | None = len(self._files)
        _refuse_several_kinds(folder, self._files)
        _refuse_equal_numbers(folder, self._files)

    @property
    def files(self) -> Sequence[Path]:
        """The images."""
        return self._files

    def name(self, index: int) -> str:
        """Return the name of the file of frame `index`, without its suffix."""
        return self._names[index]

    def time(self, index: int) -> Fraction | None:
        """Return None: images do not tell when they are shown."""
        return None

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return image `index`."""
        as_frame_index(index, len(self._files))
        if index and self._size.hw is None:
            self.read(0)
        with open_image(self._files[index]) as image:
            choose_page(image, None, name_of(self._files[index]))
            return self._size.fit(index, as_upright_rgb(image, self._range or False, WAY_OUT))


def _refuse_several_kinds(folder: Path, files: list[Path]) -> None:
    suffixes = [path.suffix.lower() for path in files]
    kinds = Counter(_SAME_KIND.get(suffix, suffix) for suffix in suffixes)
    if len(kinds) > 1:
        found = " and ".join(f"{count} {suffix}" for suffix, count in kinds.most_common())
        raise InvalidArgumentError(
            f"frames: expected images of one kind in {folder}, found {found}: give a folder "
            "with the frames alone"
        )


def _refuse_equal_numbers(folder: Path, files: list[Path]) -> None:
    """Refuse names that differ in their words only: 7.png and 7_mask.png."""
    seen: dict[tuple[str, ...], tuple[str, Path]] = {}
    for path in files:
        parts = re.split(r"(\d+)", path.stem)
        numbers = tuple(part.lstrip("0") for part in parts[1::2])
        words = "0".join(parts[::2])
        if not numbers:
            continue
        other, first = seen.setdefault(numbers, (words, path))
        if other != words:
            raise InvalidArgumentError(
                f"frames: expected one image for each number in {folder}, found {first.name} and "
                f"{path.name}: give a folder with the frames alone"
            )
