"""Where the frames of a video come from. Clips need PyAV (extra ``video``)."""

import importlib
import io
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx._arrays import as_rgb
from sam_rlx.errors import InvalidArgumentError, MissingExtraError, StateError
from sam_rlx.io import read_image

_PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}
# Decoding so many frames on is cheaper than a jump to the key frame before.
_NEAR = 32

FrameKind: TypeAlias = Literal["images", "folder", "clip"]


class EndOfFrames(Exception):
    """A source without a known length has no such frame."""


class FrameSource(Protocol):
    """Frames by number, decoded when they are asked for."""

    @property
    def kind(self) -> FrameKind:
        """Where they come from: upstream's loaders resize each in its own way."""

    @property
    def count(self) -> int | None:
        """Number of frames, None if it is not known."""

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index` as RGB (H, W, 3)."""


def open_frames(frames: Any) -> FrameSource:
    """Find out what kind of frames `frames` is.

    Parameters
    ----------
    frames : str, path, sequence, iterable or source
        A video file, a folder of images, or images as `ImagePredictor.set_image` takes them.

    Raises
    ------
    FileNotFoundError
        There is no such file or folder.
    InvalidArgumentError
        It is something else, damaged, or has no frame.
    MissingExtraError
        The package that decodes it is not installed.
    """
    if isinstance(frames, (SequenceFrames, IteratorFrames, FolderFrames, ClipFrames)):
        return frames
    if isinstance(frames, (str, os.PathLike)):
        path = Path(frames)
        if path.is_dir():
            return FolderFrames(path)
        if not path.exists():
            raise FileNotFoundError(f"frames: expected a file or folder, found none at {path}")
        return ClipFrames(path)
    if isinstance(frames, np.ndarray) and frames.ndim != 4:
        raise InvalidArgumentError(
            f"frames: expected an array (T, H, W, C), found shape {frames.shape}"
        )
    if isinstance(frames, (np.ndarray, Sequence)) and not isinstance(frames, bytes):
        return SequenceFrames(frames)
    if isinstance(frames, Iterable) and not isinstance(frames, bytes):
        return IteratorFrames(iter(frames))
    raise InvalidArgumentError(
        "frames: expected a path, a sequence or an iterable of images, found "
        f"{type(frames).__name__}"
    )


def _check(index: int, count: int) -> None:
    if not 0 <= index < count:
        raise InvalidArgumentError(f"frame_index: expected 0 to {count - 1}, found {index}")


def _image(image: Any, index: int) -> NDArray[np.uint8]:
    try:
        return as_rgb(image)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"frames[{index}]: {error}") from error


class SequenceFrames:
    """Images in memory, or anything with a length that gives them by number."""

    kind: FrameKind = "images"

    def __init__(self, frames: Any) -> None:
        self._frames = frames
        self.count: int | None = len(frames)
        if not self.count:
            raise InvalidArgumentError("frames: expected at least one, found none")

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`."""
        _check(index, len(self._frames))
        return _image(self._frames[index], index)


class IteratorFrames:
    """Images that come one after the other; of those only the last one is kept."""

    kind: FrameKind = "images"
    count: int | None = None

    def __init__(self, frames: Iterator[Any]) -> None:
        self._frames = enumerate(frames)
        # The next one and its number, until it has become `_last`: it is not lost when that fails.
        self._given: deque[tuple[int, Any]] = deque()
        self._last: tuple[int, NDArray[np.uint8]] | None = None

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


def _natural(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    """Sort key under which 2.jpg comes before 10.jpg. Digits that `int` cannot read are text."""
    parts = [part for part in re.split(r"(\d+)", path.stem) if part]
    numbers = [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]
    return numbers, path.name


class FolderFrames:
    """A folder of images, in the order of the numbers in their names."""

    kind: FrameKind = "folder"

    def __init__(self, folder: Path) -> None:
        files = (path for path in folder.iterdir() if path.suffix.lower() in _PICTURES)
        self._files = sorted(files, key=_natural)
        self.count: int | None = len(self._files)
        if not self._files:
            raise InvalidArgumentError(f"frames: expected images in {folder}, found none")

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return image `index`."""
        _check(index, len(self._files))
        return read_image(self._files[index])


class ClipFrames:
    """A video file. Frames are decoded when they are asked for, and the last one is kept.

    Parameters
    ----------
    source : path or bytes
        The file, or its contents. A rotation that the file asks of viewers is not applied.
    """

    kind: FrameKind = "clip"

    def __init__(self, source: Path | bytes) -> None:
        try:
            self._av: Any = importlib.import_module("av")
        except ImportError as error:
            raise MissingExtraError(
                'frames: expected the package av (pip install "sam_rlx[video]"), found none'
            ) from error
        self._source = source
        self._name = "video" if isinstance(source, bytes) else str(source)
        self._container: Any = None
        self._decoder: Iterator[Any] = iter(())
        self._last: tuple[int, Any] | None = None
        self._scaler: tuple[int, Any] | None = None
        self._times = self._index_times()
        self._numbers = {time: number for number, time in enumerate(self._times)}
        self.count: int | None = len(self._times)

    @property
    def rate(self) -> float:
        """Frames per second that the file tells, 25 if it tells none."""
        with self._open() as container:
            rate = container.streams.video[0].average_rate
        return float(rate) if rate else 25.0

    def _fail(self, expected: str, found: object) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._name}: expected {expected}, found {found}")

    @contextmanager
    def _decoding(self, expected: str) -> Iterator[None]:
        """Tell all that a decoder stumbles on as an error of this file, in the decoder's words."""
        try:
            yield
        except (FileNotFoundError, PermissionError, InvalidArgumentError):
            self.close()
            raise
        except Exception as error:
            self.close()
            raise self._fail(expected, str(error) or type(error).__name__) from error

    def _open(self) -> Any:
        opened = io.BytesIO(self._source) if isinstance(self._source, bytes) else self._name
        with self._decoding("a video file"):
            container = self._av.open(opened)
        if not container.streams.video:
            container.close()
            raise self._fail("a video", "no video in the file")
        container.streams.video[0].thread_type = "AUTO"
        return container

    def _index_times(self) -> list[int]:
        """Read the packets, without decoding them, for the time stamp of every frame."""
        with self._open() as container, self._decoding("a video file"):
            stream = container.streams.video[0]
            times = sorted(
                packet.pts
                for packet in container.demux(stream)
                if packet.pts is not None and packet.size and not packet.is_discard
            )
            promised = stream.frames
        if not times:
            raise self._fail("at least one frame", "none")
        if len(times) < promised:
            raise self._fail(f"{promised} frames", f"{len(times)}: the file is cut off")
        return times

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`, at the size of the video."""
        _check(index, len(self._times))
        with self._decoding(f"an image in frame {index}"):
            return self.convert(self._frame(index))

    def convert(self, frame: Any) -> NDArray[np.uint8]:
        """Return a decoded frame as RGB."""
        pixels: NDArray[np.uint8] = frame.to_ndarray(format="rgb24")
        return pixels

    def read_square(self, index: int, side: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """Return frame `index` as (side, side, 3), and the size (H, W) that it has.

        FFmpeg's bilinear filter makes it of the frame as it was decoded, as decord does, with which
        upstream's SAM 2 reads video files.
        """
        _check(index, len(self._times))
        with self._decoding(f"an image in frame {index}"):
            frame = self._frame(index)
            # A call that stops halfway may leave a frame in the filter: the next one makes another.
            scaler, self._scaler = self._scaler, None
            if scaler is None or scaler[0] != side:
                scaler = (side, self._make_scaler(frame, side))
            scaler[1].push(frame)
            pixels = self.convert(scaler[1].pull())
            self._scaler = scaler
        return pixels, (frame.height, frame.width)

    def _make_scaler(self, frame: Any, side: int) -> Any:
        graph = self._av.filter.Graph()
        format_ = {"width": frame.width, "height": frame.height, "format": frame.format}
        filters = [
            graph.add_buffer(**format_, time_base=frame.time_base),
            graph.add("scale", f"{side}:{side}:flags=bilinear"),
            graph.add("format", "rgb24"),
            graph.add("buffersink"),
        ]
        for first, second in pairwise(filters):
            first.link_to(second)
        graph.configure()
        return graph

    def _frame(self, index: int) -> Any:
        """Return frame `index` as FFmpeg has it; the last one is kept."""
        if self._last is None or self._last[0] != index:
            frame = self._decode(index)
            if frame is None:
                raise self._fail(f"an image in frame {index}", "none")
            self._last = (index, frame)
        return self._last[1]

    def _decode(self, index: int) -> Any:
        before = self._last[0] if self._last is not None else -1
        if self._container is None or not before < index <= before + _NEAR:
            self._seek(index)
        for frame in self._decoder:
            number = self._numbers.get(frame.pts)
            if number == index:
                return frame
            if number is not None and number > index:
                break
        return None

    def _seek(self, index: int) -> None:
        if self._container is None:
            self._container = self._open()
        stream = self._container.streams.video[0]
        if index > 0 or self._last is not None:
            self._container.seek(self._times[index], stream=stream, backward=True)
        self._decoder = self._container.decode(stream)

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._container is not None:
            self._container.close()
        self._container, self._decoder, self._last = None, iter(()), None
        self._scaler = None  # a filter keeps the error of a damaged frame
