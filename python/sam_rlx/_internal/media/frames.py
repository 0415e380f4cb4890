"""Where the frames of a video come from. Clips need PyAV (extra ``video``)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_frame_index, as_path_text
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.files import hints
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.media.frame_source import EndOfFrames, FrameKind, FrameSource, numbered
from sam_rlx._internal.media.image_frames import FolderFrames, PageFrames, is_gif, is_image
from sam_rlx.errors import InvalidArgumentError, StateError

__all__ = [
    "ClipFrames",
    "EndOfFrames",
    "FolderFrames",
    "FrameKind",
    "FrameSource",
    "IteratorFrames",
    "PageFrames",
    "SequenceFrames",
    "open_frames",
]
_CHANNELS = (1, 3, 4)


def open_frames(frames: Any) -> FrameSource:
    """Find out what kind of frames `frames` is.

    Parameters
    ----------
    frames : str, path, bytes, file object, sequence, iterable or source
        A video file or an image file with pages, its contents, or an open binary file; a folder of
        images; an array (T, H, W) or (T, H, W, C); or images as `ImagePredictor.set_image` takes
        them.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder.
    InvalidArgumentError
        It is something else, damaged, or has no frame.
    MissingExtraError
        The package that decodes it is not installed.
    """
    if isinstance(frames, _SOURCES):
        return frames
    if hasattr(frames, "read") and not isinstance(frames, os.PathLike):
        frames = _contents(frames)
    if isinstance(frames, (str, os.PathLike, bytes)):
        named = frames if isinstance(frames, bytes) else Path(as_path_text("frames", frames))
        return _open_file(named)
    if isinstance(frames, memoryview):
        return _open_array(as_array("frames", frames))
    if hasattr(frames, "__array__") and not isinstance(frames, Sequence):
        given = isinstance(frames, np.ndarray)
        return _open_array(frames if given else as_array("frames", frames))
    if isinstance(frames, Sequence):
        return SequenceFrames(frames)
    if isinstance(frames, Iterable):
        try:
            return IteratorFrames(iter(frames))
        except Exception as error:  # of the caller's object
            raise InvalidArgumentError(f"frames: expected an iterable, found {error}") from error
    raise InvalidArgumentError(
        "frames: expected a path, a file, a sequence or an iterable of images, found "
        f"{type(frames).__name__}"
    )


def _contents(file: Any) -> bytes:
    data = file.read()
    if not isinstance(data, bytes):
        raise InvalidArgumentError(
            f"frames: expected a file that is open as binary, found {type(data).__name__} in it"
        )
    return data


def _open_file(source: Path | bytes) -> FrameSource:
    if isinstance(source, Path):
        if source.is_dir():
            return FolderFrames(source)
        if not source.exists():
            raise hints.not_found("frames", source, "a file or folder")
    if is_image(source):
        return PageFrames(source)
    clip = ClipFrames(source)
    return _gif_frames(source, clip) if is_gif(source) else clip


def _gif_frames(source: Path | bytes, clip: ClipFrames) -> FrameSource:
    """Return the frames of a GIF file.

    FFmpeg takes images without a control block, as Pillow writes them by default, for one frame.
    """
    try:
        pages = PageFrames(source)
    except InvalidArgumentError:  # FFmpeg reads what Pillow does not
        return clip
    return pages if (pages.count or 0) > (clip.count or 0) else clip


def _open_array(frames: NDArray[Any]) -> FrameSource:
    one_image = frames.ndim == 3 and frames.shape[2] in _CHANNELS
    if frames.ndim not in (3, 4) or one_image:
        hint = ": for one image give image[None]" if one_image else ""
        raise InvalidArgumentError(
            f"frames: expected an array (T, H, W) or (T, H, W, C), found shape {frames.shape}{hint}"
        )
    return SequenceFrames(frames)


def _image(image: Any, index: int) -> NDArray[np.uint8]:
    try:
        return as_rgb(image)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"frames[{index}]: {error}") from error


class SequenceFrames:
    """Images in memory, or anything with a length that gives them by number."""

    kind: FrameKind = "images"
    files: Sequence[Path] = ()

    def __init__(self, frames: Any) -> None:
        self._frames = frames
        self.count: int | None = len(frames)
        if not self.count:
            raise InvalidArgumentError("frames: expected at least one, found none")

    def name(self, index: int) -> str:
        """Return the number of frame `index`."""
        return numbered(index)

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`."""
        as_frame_index(index, len(self._frames))
        return _image(self._frames[index], index)


class IteratorFrames:
    """Images that come one after the other; of those only the last one is kept."""

    kind: FrameKind = "images"
    files: Sequence[Path] = ()
    count: int | None = None

    def __init__(self, frames: Iterator[Any]) -> None:
        self._frames = enumerate(frames)
        # The next one and its number, until it has become `_last`: it is not lost when that fails.
        self._given: deque[tuple[int, Any]] = deque()
        self._last: tuple[int, NDArray[np.uint8]] | None = None

    def name(self, index: int) -> str:
        """Return the number of frame `index`."""
        return numbered(index)

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`, which is the last one or comes later."""
        number = -1 if self._last is None else self._last[0]
        if index < number:
            raise StateError(
                f"frames: expected a frame from {number} on of an iterator, found {index}"
            )
        while self._last is None or self._last[0] < index:
            self._last = self._next(-1 if self._last is None else self._last[0])
        return self._last[1]

    def _next(self, number: int) -> tuple[int, NDArray[np.uint8]]:
        """Return the frame behind frame `number`, again if it was not kept."""
        while self._given and self._given[0][0] <= number:
            self._given.popleft()
        if not self._given:
            # No signal comes between the iterator and the queue: this is one call of C code.
            self._given.extend(islice(self._frames, 1))
        if not self._given:
            raise EndOfFrames(number + 1)
        found, image = self._given[0]
        return found, _image(image, found)


_SOURCES = (SequenceFrames, IteratorFrames, FolderFrames, PageFrames, ClipFrames)
