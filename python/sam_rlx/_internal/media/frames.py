"""Where the frames of a video come from. Clips need PyAV (extra ``video``)."""

from __future__ import annotations

import io
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.checks import as_frame_index, as_items, as_path_text
from sam_rlx._internal.arrays.foreign import as_array, is_array, refuse_other_library
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.files import hints
from sam_rlx._internal.media.array_frames import ArrayFrames, is_array_of_frames
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.media.frame_source import (
    WAY_OUT,
    EndOfFrames,
    FrameKind,
    FrameSource,
    GivenFrame,
    Range,
    no_channel,
    numbered,
)
from sam_rlx._internal.media.image_frames import FolderFrames, PageFrames, is_gif, is_image
from sam_rlx._internal.media.one_size import OneSize
from sam_rlx._internal.media.volume_files import numpy_array, refuse_volume, refuse_volume_folder
from sam_rlx._internal.printable import shown
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
    "SessionFrames",
    "open_frames",
]
# What files have, one of them at least, and readers of frames have not.
_OF_FILES = ("seek", "readable", "readinto", "readline", "fileno", "headers")
# Readers whose frames are got in another way; known by a method.
_WAYS_OUT = {
    "isOpened": "give the path of its file, or its frames as RGB: (frame[:, :, ::-1] for _, frame "
    "in iter(reader.read, (False, None)))",
    "demux": "give the path of its file, or (frame.to_ndarray(format='rgb24') for frame in "
    "reader.decode(video=0))",
    "iter_frames": "give its .iter_frames()",
    "asarray": "give its .asarray()",
    "iter": "give its .iter()",
    "read": "give the path of its file, or a generator of its frames as RGB",
}


def open_frames(
    frames: Any,
    *,
    channel: int | None = None,
    value_range: tuple[float, float] | None = None,
) -> FrameSource:
    """Find out what kind of frames `frames` is.

    Parameters
    ----------
    frames : str, path, bytes, file object, array, sequence, reader, iterable or source
        A video file, an image file with pages or a NumPy file, its contents, or an open binary
        file; a folder of images; an array (T, H, W) or (T, H, W, C), which is read frame by frame;
        images as `ImagePredictor.set_image` takes them; or anything with a length that gives them
        by number.
    channel : int, optional
        Which channel of a TIFF stack with several, from 0.
    value_range : (low, high), optional
        Values that become 0 and 255 in all frames; what is beyond is clipped, NaN becomes 0. For
        values of other ranges than those of images, such as the int16 of a volume.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder.
    InvalidArgumentError
        It is something else, damaged, or has no frame, or its pages have several axes.
    MissingExtraError
        The package that decodes it is not installed.
    """
    limits = _as_range(value_range)
    if isinstance(frames, _SOURCES):
        if channel is not None or limits is not None:
            given = "channel" if channel is not None else "value_range"
            raise InvalidArgumentError(
                f"{given}: expected it where frames are opened, found it at frames that are open"
            )
        return frames
    if hasattr(frames, "read") and not isinstance(frames, os.PathLike) and _is_file(frames):
        frames = _contents(frames)
    if isinstance(frames, (str, os.PathLike, bytes)):
        named = frames if isinstance(frames, bytes) else Path(as_path_text("frames", frames))
        return _open_file(named, channel, limits)
    if channel is not None:
        raise no_channel(type(frames).__name__)
    return _open_object(frames, limits)


def _as_range(limits: Any) -> Range:
    """Return the limits of values as floats."""
    if limits is None:
        return None
    try:
        low, high = (float(limit) for limit in as_items("value_range", limits, 2))
    except (TypeError, ValueError, OverflowError):
        low, high = math.nan, math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidArgumentError(
            f"value_range: expected (low, high) with low < high, found {shown(limits)}"
        )
    return low, high


def _open_object(frames: Any, limits: Range) -> FrameSource:
    """Return the frames of anything but a file."""
    if is_array(frames):
        frames = in_order("frames", frames, others=1)
    if isinstance(frames, memoryview):
        frames = as_array("frames", frames)
    refuse_other_library("frames", frames)
    if is_array_of_frames(frames):
        return SequenceFrames(ArrayFrames(frames), limits)
    if isinstance(frames, (Mapping, AbstractSet)) or hasattr(frames, "keys"):
        raise InvalidArgumentError(
            f"frames: expected one array or sequence of images, found {type(frames).__name__}: "
            "give one of those in it"
        )
    if hasattr(frames, "__len__") and hasattr(frames, "__getitem__"):
        return SequenceFrames(frames, limits)
    if is_array(frames):
        return SequenceFrames(ArrayFrames(as_array("frames", frames)), limits)
    if isinstance(frames, Iterable):
        try:
            return IteratorFrames(iter(frames), limits)
        except Exception as error:  # of the caller's object
            raise InvalidArgumentError(f"frames: expected an iterable, found {error}") from error
    ways = (f": {way}" for name, way in _WAYS_OUT.items() if hasattr(frames, name))
    raise InvalidArgumentError(
        "frames: expected a path, a file, an array, a sequence or an iterable of images, found "
        f"{type(frames).__name__}{next(ways, '')}"
    )


def _is_file(frames: Any) -> bool:
    """Tell whether what has a method `read` is a file, and no reader of frames."""
    if isinstance(frames, io.IOBase) or any(hasattr(frames, name) for name in _OF_FILES):
        return True
    return not any(hasattr(frames, name) for name in _WAYS_OUT if name != "read")


def _contents(file: Any) -> bytes:
    data = file.read()
    if not isinstance(data, bytes):
        raise InvalidArgumentError(
            f"frames: expected a file that is open as binary, found {type(data).__name__} in it"
        )
    return data


def _open_file(source: Path | bytes, channel: int | None, limits: Range) -> FrameSource:
    if isinstance(source, Path):
        if source.is_dir():
            if channel is not None:
                raise no_channel("a folder")
            refuse_volume_folder(source)
            return FolderFrames(source, limits)
        if not source.exists():
            raise hints.not_found("frames", source, "a file or folder")
    if is_image(source):
        return PageFrames(source, channel, limits)
    if channel is not None:
        raise no_channel("another file")
    start = _start(source)
    array = numpy_array(source, start)
    if array is not None:
        return SequenceFrames(ArrayFrames(array), limits, _files_of(source))
    refuse_volume(source, start)
    clip = ClipFrames(source, limits)
    return _gif_frames(source, clip) if is_gif(source) else clip


def _start(source: Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source[: hints.START]
    with source.open("rb") as file:
        return file.read(hints.START)


def _files_of(source: Path | bytes) -> tuple[Path, ...]:
    return () if isinstance(source, bytes) else (source,)


def _gif_frames(source: Path | bytes, clip: ClipFrames) -> FrameSource:
    """Return the frames of a GIF file.

    FFmpeg takes images without a control block, as Pillow writes them by default, for one frame.
    """
    try:
        pages = PageFrames(source)
    except InvalidArgumentError:  # FFmpeg reads what Pillow does not
        return clip
    return pages if (pages.count or 0) > (clip.count or 0) else clip


def _image(image: Any, index: int, limits: Range) -> NDArray[np.uint8]:
    if hasattr(image, "asnumpy"):  # of decord
        image = image.asnumpy()
    try:
        return as_rgb(image, stretch=limits or False, way_out=WAY_OUT)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"frames[{index}]: {error}") from error


class SequenceFrames:
    """Images in memory, or anything with a length that gives them by number.

    Those of another size get that of the first one.
    """

    kind: FrameKind = "images"

    def __init__(self, frames: Any, limits: Range = None, files: Sequence[Path] = ()) -> None:
        self._frames = frames
        self._limits = limits
        self.files = files
        # The shape of an array is that of all its frames: none needs the first one.
        self._size = None if isinstance(frames, ArrayFrames) else OneSize("frames")
        try:
            self.count: int | None = len(frames)
        except Exception as error:  # of the caller's object
            raise InvalidArgumentError(f"frames: expected a length, found {error}") from error
        if not self.count:
            raise InvalidArgumentError("frames: expected at least one, found none")

    def name(self, index: int) -> str:
        """Return the number of frame `index`."""
        return numbered(index)

    def time(self, index: int) -> Fraction | None:
        """Return None: images do not tell when they are shown."""
        return None

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`."""
        as_frame_index(index, len(self._frames))
        if index and self._size is not None and self._size.hw is None:
            self.read(0)
        pixels = _image(self._frames[index], index, self._limits)
        return pixels if self._size is None else self._size.fit(index, pixels)


class IteratorFrames:
    """Images that come one after the other; of those only the last one is kept.

    Those of another size get that of the first one.
    """

    kind: FrameKind = "images"
    files: Sequence[Path] = ()
    count: int | None = None

    def __init__(self, frames: Iterator[Any], limits: Range = None) -> None:
        self._frames = enumerate(frames)
        self._limits = limits
        self._size = OneSize("frames")
        # The next one and its number, until it has become `_last`: it is not lost when that fails.
        self._given: deque[tuple[int, Any]] = deque()
        self._last: tuple[int, NDArray[np.uint8]] | None = None

    def name(self, index: int) -> str:
        """Return the number of frame `index`."""
        return numbered(index)

    def time(self, index: int) -> Fraction | None:
        """Return None: images do not tell when they are shown."""
        return None

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
        return found, self._size.fit(found, _image(image, found, self._limits))


class SessionFrames:
    """The frames of a `FrameSource` as a `SessionSource`.

    Attributes
    ----------
    source : FrameSource
        Where they come from.
    kind : FrameKind
        Of the source.
    count : int or None
        Number of frames; None until the end is found.
    """

    def __init__(self, source: FrameSource) -> None:
        self.source, self.kind = source, source.kind
        self.count: int | None = source.count

    def read(self, index: int, side: int | None) -> GivenFrame | None:
        """Return a frame; with a side, as a square, and its size; None if the video has ended."""
        try:
            if side is None:
                return self.source.read(index)
            assert isinstance(self.source, ClipFrames)
            return self.source.read_square(index, side)
        except EndOfFrames as end:
            self.count = end.args[0]
            return None


_SOURCES = (SequenceFrames, IteratorFrames, FolderFrames, PageFrames, ClipFrames)
