"""Frames of a video file. Needs PyAV (extra ``video``)."""

import io
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_frame_index
from sam_rlx._internal.files import hints
from sam_rlx._internal.media.clip_index import (
    ClipIndex,
    decoded,
    index_by_decoding,
    index_packets,
    starts_as,
)
from sam_rlx._internal.media.frame_source import FrameKind, numbered
from sam_rlx._internal.media.orientation import Orientation, orientation
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, MediaWarning

# Decoding so many frames on is cheaper than a jump to a key frame.
_NEAR = 32
# Which key frames before a frame are tried one after the other, the nearest one being 0. What
# follows a jump may lack frames that it is predicted from.
_TRIED_KEYS = (0, 1, 3)


class ClipFrames:
    """A video file. Frames are decoded when they are asked for, and the last one is kept.

    Frames are those that FFmpeg decodes, turned upright as the file asks. Where packets do not
    tell the frames for sure (edit lists, streams without time stamps, most containers but MP4 and
    Matroska), the file is decoded once when it is opened. A jump that does not lead to the frame
    is repeated from earlier key frames, at last from the start.

    Parameters
    ----------
    source : path or bytes
        The file, or its contents.
    """

    kind: FrameKind = "clip"

    def __init__(self, source: Path | bytes) -> None:
        self._source = source
        self._name = "video" if isinstance(source, bytes) else str(source)
        self._threads = "AUTO"
        self._forget_decoder()
        self._index = self._make_index()
        times = self._index.times or ()
        self._numbers = {time: number for number, time in enumerate(times)}
        self.count: int | None = self._index.count

    def _forget_decoder(self) -> None:
        self._av = optional("frames", "av", "av")
        self._container: Any = None
        self._decoder: Iterator[Any] = iter(())
        self._reached = -1  # number of the frame that the decoder gave last
        self._jumped = False  # True: the decoder did not begin with the first packet
        self._intact = True  # False: after a jump, until a key frame comes
        self._last: tuple[int, Any] | None = None
        self._scaler: tuple[int, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the decoder out: a copy opens the file again when a frame is asked for."""
        own = ("_av", "_container", "_decoder", "_reached", "_jumped", "_intact")
        return {k: v for k, v in vars(self).items() if k not in (*own, "_last", "_scaler")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget_decoder()

    @property
    def files(self) -> Sequence[Path]:
        """The video file, if there is one."""
        return () if isinstance(self._source, bytes) else (self._source,)

    def name(self, index: int) -> str:
        """Return the number of frame `index`."""
        return numbered(index)

    @property
    def rate(self) -> float:
        """Frames per second that the file tells, 25 if it tells none."""
        with self._open() as container:
            rate = self._stream(container).average_rate
        return float(rate) if rate else 25.0

    def _fail(self, expected: str, found: object) -> InvalidArgumentError:
        return InvalidArgumentError(f"{self._name}: expected {expected}, found {found}")

    @contextmanager
    def _decoding(self, expected: str) -> Iterator[None]:
        """Tell all that a decoder stumbles on as an error of this file, in the decoder's words."""
        try:
            yield
        except (FileNotFoundError, PermissionError, MemoryError, InvalidArgumentError):
            self.close()
            raise
        except Exception as error:
            self.close()
            found = self._odd() or str(error) or type(error).__name__
            raise self._fail(expected, found) from error

    def _odd(self) -> str:
        """Return what the file is, if no decoder reads it, such as a web page."""
        if isinstance(self._source, bytes):
            return hints.odd_file(self._source[: hints.START])
        with self._source.open("rb") as file:
            return hints.odd_file(file.read(hints.START))

    def _open(self) -> Any:
        # "file:" keeps FFmpeg from reading a name with a colon as an address.
        source = self._source
        opened = io.BytesIO(source) if isinstance(source, bytes) else f"file:{source}"
        with self._decoding("a video file"):
            container = self._av.open(opened)
        if not container.streams.video:
            container.close()
            raise self._fail("a video", "no video in the file")
        if self._stream(container).codec_context is None:
            container.close()
            found = "a codec that it does not know: ffmpeg converts the clip, or its own library"
            raise self._fail("a codec that PyAV's FFmpeg decodes", found)
        self._stream(container).thread_type = self._threads
        return container

    def _stream(self, container: Any) -> Any:
        """Return the video, which is not a cover image that stands beside it."""
        return container.streams.best("video") or container.streams.video[0]

    def _make_index(self) -> ClipIndex:
        notes: list[str] = []
        with self._decoding("a video file"):
            index = self._packet_index(notes)
            if notes:
                self._threads = "SLICE"
            if index is None:
                index = self._decoded_index(notes)
        if not index.count:
            raise self._fail("at least one frame", "none")
        if notes:
            warnings.warn(f"{self._name}: {'; '.join(notes)}", MediaWarning, stacklevel=4)
        return index

    def _decoded_index(self, notes: list[str]) -> ClipIndex:
        damage: list[str] = []
        with self._open() as container:
            index = index_by_decoding(container, self._stream(container), damage)
        if damage and self._threads != "SLICE":
            # Threads that decode frames side by side lose some around a damaged packet.
            self._threads = "SLICE"
            return self._decoded_index(notes)
        notes += damage
        return index

    def _packet_index(self, notes: list[str]) -> ClipIndex | None:
        """Return what the packets promise, if the first frames keep it."""
        source = self._source
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        with self._open() as container:
            try:
                index = index_packets(container, self._stream(container), size, notes)
            except EOFError as error:
                raise self._fail("a whole file", error) from error
        if index is None:
            return None
        with self._open() as container:
            return index if starts_as(index, container, self._stream(container)) else None

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`, upright, at the size of the video."""
        as_frame_index(index, self._index.count)
        with self._decoding(f"an image in frame {index}"):
            return self.convert(self._frame(index))

    def convert(self, frame: Any) -> NDArray[np.uint8]:
        """Return a decoded frame as RGB, upright."""
        return orientation(frame).apply(frame.to_ndarray(format="rgb24"))

    def read_square(self, index: int, side: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """Return frame `index` upright as (side, side, 3), and the size (H, W) that it has.

        FFmpeg's filters turn it and resize it (bilinear) as it was decoded, as decord does, with
        which upstream's SAM 2 reads video files.
        """
        as_frame_index(index, self._index.count)
        with self._decoding(f"an image in frame {index}"):
            frame = self._frame(index)
            turned = orientation(frame)
            # A call that stops halfway may leave a frame in the filter: the next one makes another.
            scaler, self._scaler = self._scaler, None
            if scaler is None or scaler[0] != side:
                scaler = (side, self._make_scaler(frame, turned, side))
            scaler[1].push(frame)
            pixels: NDArray[np.uint8] = scaler[1].pull().to_ndarray(format="rgb24")
            self._scaler = scaler
        hw = (frame.height, frame.width)
        return pixels, hw[::-1] if turned.transposed else hw

    def _make_scaler(self, frame: Any, turned: Orientation, side: int) -> Any:
        graph = self._av.filter.Graph()
        format_ = {"width": frame.width, "height": frame.height, "format": frame.format}
        scale = ("scale", f"{side}:{side}:flags=bilinear")
        steps = [*turned.filters, scale, ("format", "rgb24"), ("buffersink", "")]
        filters = [graph.add_buffer(**format_, time_base=frame.time_base)]
        filters += [graph.add(*step) for step in steps]
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
        if self._continues(index):
            frame = self._forward(index)
            if frame is not None:
                return frame
        for key in self._jumps(index):
            try:
                self._seek(key)
                frame = self._forward(index)
            except self._av.FFmpegError as error:  # an earlier start may do
                if isinstance(error, MemoryError):
                    raise
                continue
            if frame is not None:
                return frame
        self._restart()
        return self._forward(index)

    def _continues(self, index: int) -> bool:
        """Tell whether the decoder, where it stands, comes to a frame without a detour."""
        if self._container is None or index <= self._reached or not self._intact:
            return False
        near = self._index.times is None or index <= self._reached + _NEAR
        return near or self._key_before(index, 0) <= self._reached

    def _key_before(self, index: int, back: int) -> int:
        """Return the number of a key frame at or before a frame; `back` of them are skipped."""
        position = bisect_right(self._index.keys, index) - 1 - back
        return self._index.keys[position] if position >= 0 else 0

    def _jumps(self, index: int) -> list[int]:
        """Return key frames to begin with, the nearest one first; none is the first frame."""
        if self._index.times is None:
            return []
        keys = [self._key_before(index, back) for back in _TRIED_KEYS]
        return [key for key in dict.fromkeys(keys) if key > 0]

    def _forward(self, index: int) -> Any:
        """Decode up to a frame; None if it does not come, or not whole."""
        for frame in self._decoder:
            if self._index.times is None:
                number: int | None = self._reached + 1
            else:
                number = self._numbers.get(frame.pts)
            if number is None:
                continue
            self._reached = number
            self._intact = self._intact or (frame.key_frame and number <= index)
            whole = self._intact and not (self._jumped and frame.is_corrupt)
            if number == index and whole:
                return frame
            if number >= index:
                return None
        return None

    def _restart(self) -> None:
        """Open the file anew, and decode from its first packet on."""
        self.close()
        self._container = self._open()
        self._begin()
        self._reached, self._jumped, self._intact = -1, False, True

    def _seek(self, key: int) -> None:
        """Jump to a key frame, or near it."""
        if self._container is None:
            self._container = self._open()
        assert self._index.times is not None
        stream = self._stream(self._container)
        self._container.seek(self._index.times[key], stream=stream, backward=True)
        self._begin()
        self._reached, self._jumped, self._intact = -1, True, False

    def _begin(self) -> None:
        damage: list[str] | None = [] if self._index.damaged else None
        self._decoder = decoded(self._container, self._stream(self._container), damage)

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._container is not None:
            self._container.close()
        self._container, self._decoder, self._last = None, iter(()), None
        self._reached, self._jumped, self._intact = -1, False, True
        self._scaler = None  # a filter keeps the error of a damaged frame
