"""Frames of a video file. Needs PyAV (extra ``video``)."""

import io
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_frame_index
from sam_rlx._internal.files import hints
from sam_rlx._internal.media.clip_index import (
    ClipIndex,
    confirmed,
    container_family,
    decoded,
    index_by_decoding,
    index_packets,
)
from sam_rlx._internal.media.clip_pixels import ClipPixels
from sam_rlx._internal.media.container_crop import crop_of
from sam_rlx._internal.media.frame_source import FrameKind, numbered
from sam_rlx._internal.media.one_size import resized_words
from sam_rlx._internal.media.orientation import upright_hw
from sam_rlx._internal.media.recent import KEPT_BYTES, Recent
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, MediaWarning

_JPEG = b"\xff\xd8"  # the first bytes of a stream of JPEG images
# Decoding so many frames on is cheaper than a jump to a key frame.
_NEAR = 32
# Decoders of such frames get the colours with the first packets, and again where they change: not
# after a jump.
_PALETTE = "pal8"
# Which key frames before a frame are tried one after the other, the nearest one being 0. What
# follows a jump may lack frames that it is predicted from.
_TRIED_KEYS = (0, 1, 3)


class ClipFrames:
    """A video file. Frames are decoded when they are asked for, and the last one is kept.

    Frames are those that FFmpeg decodes, turned upright as the file asks; those of another size
    get the size of the first one. Where packets do not tell the frames for sure (edit lists,
    streams without time stamps, most containers but MP4 and Matroska), the file is decoded once
    when it is opened. A jump that does not lead to the frame is repeated from earlier key frames,
    at last from the start; with a palette there is no jump. After a step back the frames before one
    that is decoded are kept too, under a limit of bytes: the next steps back find them. A frame
    that cannot be decoded is shown as the one before it.

    Parameters
    ----------
    source : path or bytes
        The file, or its contents.
    value_range : (low, high), optional
        Values that become 0 and 255, for grey and RGB frames of more than 8 bits.

    Warns
    -----
    MediaWarning
        Packets cannot be decoded, frames have another size than the first one, or the container
        asks players to crop, which is not done.
    """

    kind: FrameKind = "clip"

    def __init__(
        self, source: Path | bytes, value_range: tuple[float, float] | None = None
    ) -> None:
        self._source = source
        self._name = "video" if isinstance(source, bytes) else str(source)
        self._range = value_range
        self._threads = "AUTO"
        self._stands: dict[int, int] = {}  # frames that cannot be decoded: which one is shown
        self._said: set[str] = set()
        self._index = ClipIndex(0, None, [])
        self._forget_decoder()
        self._index = self._make_index()
        times = self._index.times or ()
        self._numbers = {time: number for number, time in enumerate(times)}
        self.count: int | None = self._index.count
        self._forget_decoder()

    def _forget_decoder(self) -> None:
        self._av = optional("frames", "av", "av")
        self._container: Any = None
        self._decoder: Iterator[Any] = iter(())
        self._reached = -1  # number of the frame that the decoder gave last
        self._jumped = False  # True: the decoder did not begin with the first packet
        self._intact = True  # False: after a jump, until a key frame comes
        self._recent: Recent[Any] = Recent()
        self._pixels = ClipPixels(self._av, self._index.hw, self._range)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the decoder out: a copy opens the file again when a frame is asked for."""
        own = ("_av", "_container", "_decoder", "_reached", "_jumped", "_intact")
        return {k: v for k, v in vars(self).items() if k not in (*own, "_recent", "_pixels")}

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

    @property
    def pixel_aspect(self) -> Fraction:
        """Width of a pixel, as players show it, divided by its height."""
        with self._open() as container:
            ratio = Fraction(self._stream(container).sample_aspect_ratio or 1)
        stored = self._stored_hw
        return 1 / ratio if self._index.hw == stored[::-1] != stored else ratio

    def time(self, index: int) -> Fraction | None:
        """Return when frame `index` is shown, in seconds from the first one; None: by the rate."""
        times = self._index.times
        return None if times is None else (times[index] - times[0]) * self._index.time_base

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
        return hints.odd_file(self._start())

    def _start(self) -> bytes:
        if isinstance(self._source, bytes):
            return self._source[: hints.START]
        with self._source.open("rb") as file:
            return file.read(hints.START)

    def _open(self) -> Any:
        # "file:" keeps FFmpeg from reading a name with a colon as an address.
        source = self._source
        opened = io.BytesIO(source) if isinstance(source, bytes) else f"file:{source}"
        with self._decoding("a video file"):
            container = self._av.open(opened)
        if container.format.name == "mjpeg" and not self._start().startswith(_JPEG):
            # FFmpeg's reader takes every file with JPEG images in it: documents, archives.
            container.close()
            found = "JPEG images in a file of another kind: unpack them, and give their folder"
            raise self._fail("a video file", self._odd() or found)
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
        notes += self._crop_notes()
        if notes:
            warnings.warn(f"{self._name}: {'; '.join(notes)}", MediaWarning, stacklevel=4)
        return index

    def _crop_notes(self) -> list[str]:
        """Say that players hide a part of the frames."""
        source = self._source
        with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as file:
            crop = crop_of(file, self._family, self._stored_hw)
        if crop is None:
            return []
        return [
            f"players crop {crop[0]} pixels at the left, {crop[1]} at the right, {crop[2]} at the "
            f"top and {crop[3]} at the bottom; frames here are whole, as they are stored"
        ]

    def _decoded_index(self, notes: list[str]) -> ClipIndex:
        damage: list[str] = []
        with self._open() as container:
            index, complete = index_by_decoding(container, self._stream(container), damage)
        if not complete and self._threads != "SLICE":
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
            stream = self._stream(container)
            self._family, self._stored_hw = (
                container_family(container),
                (stream.height, stream.width),
            )
            self._can_jump = stream.codec_context.pix_fmt != _PALETTE
            try:
                index = index_packets(container, stream, size, notes)
            except EOFError as error:
                raise self._fail("a whole file", error) from error
        if index is None:
            return None
        with self._open() as container:
            return confirmed(index, container, self._stream(container))

    def read(self, index: int) -> NDArray[np.uint8]:
        """Return frame `index`, upright, at the size of the video."""
        as_frame_index(index, self._index.count)
        with self._decoding(f"an image in frame {index}"):
            return self.convert(self._frame(index))

    def convert(self, frame: Any) -> NDArray[np.uint8]:
        """Return a decoded frame as RGB, upright, at the size of the video."""
        return self._pixels.rgb(frame)

    def read_square(self, index: int, side: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """Return frame `index` upright as (side, side, 3), and the size (H, W) of the video.

        FFmpeg's filters turn it and resize it (bilinear) as it was decoded, as decord does, with
        which upstream's SAM 2 reads video files.
        """
        as_frame_index(index, self._index.count)
        with self._decoding(f"an image in frame {index}"):
            return self._pixels.square(self._frame(index), side), self._index.hw

    def _frame(self, index: int) -> Any:
        """Return frame `index` as FFmpeg has it."""
        index = self._stands.get(index, index)
        frame = self._recent.get(index)
        if frame is None:
            if index < self._reached:
                self._recent.limit = KEPT_BYTES
            frame = self._decode(index)
        if frame is None:
            frame = self._decode_damaged(index)
        hw = upright_hw(frame)
        if hw != self._index.hw:
            self._warn("size", resized_words(index, hw, self._index.hw))
        return frame

    def _warn(self, kind: str, text: str) -> None:
        """Warn of something once."""
        if kind not in self._said:
            self._said.add(kind)
            warnings.warn(f"{self._name}: {text}", MediaWarning, stacklevel=5)

    def _decode(self, index: int) -> Any:
        """Return a frame; None if it does not come, or not whole."""
        if self._continues(index):
            try:
                frame = self._forward(index)
            except self._av.FFmpegError as error:
                if isinstance(error, MemoryError):
                    raise
                frame = None
            if frame is not None:
                return frame
        for key in (*self._jumps(index), None):  # an earlier start may do
            try:
                if key is None:
                    self._restart()
                else:
                    self._seek(key)
                frame = self._forward(index)
            except self._av.FFmpegError as error:
                if isinstance(error, MemoryError):
                    raise
                continue
            if frame is not None:
                return frame
        return None

    def _decode_damaged(self, index: int) -> Any:
        """Return a frame of a clip in which something cannot be decoded, or what stands for it."""
        if self._threads != "SLICE":
            # Threads that decode frames side by side lose some around a damaged packet.
            self._threads = "SLICE"
            self._index = replace(self._index, damaged=True)
            self._recent.limit = KEPT_BYTES
            self.close()
            if (frame := self._decode(index)) is not None:
                return frame
        # The decoder has come from the start, and stands behind the frame, or at the end.
        before = next((n for n in range(index - 1, -1, -1) if self._recent.get(n)), None)
        if before is None:
            raise self._fail(f"an image in frame {index}", "none")
        end = self._reached if self._reached > index else self._index.count
        self._stands.update(dict.fromkeys(range(index, end), before))
        lost = f"frame {index}" if end == index + 1 else f"frames {index} to {end - 1}"
        self._warn(f"lost {index}", f"{lost} cannot be decoded and repeat frame {before}")
        return self._recent.get(before)

    def _continues(self, index: int) -> bool:
        """Tell whether the decoder, where it stands, comes to a frame without a detour."""
        if self._container is None or index <= self._reached or not self._intact:
            return False
        near = not self._jumping or index <= self._reached + _NEAR
        return near or self._key_before(index, 0) <= self._reached

    def _key_before(self, index: int, back: int) -> int:
        """Return the number of a key frame at or before a frame; `back` of them are skipped."""
        position = bisect_right(self._index.keys, index) - 1 - back
        return self._index.keys[position] if position >= 0 else 0

    @property
    def _jumping(self) -> bool:
        """Whether decoding may begin at a key frame."""
        return self._can_jump and self._index.times is not None

    def _jumps(self, index: int) -> list[int]:
        """Return key frames to begin with, the nearest one first; none is the first frame."""
        if not self._jumping:
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
            if whole and (number == index or self._recent.limit):
                size = sum(plane.buffer_size for plane in frame.planes)
                self._recent.add(number, frame, size)
            if number >= index:
                return frame if number == index and whole else None
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
        packets = self._container.demux(self._stream(self._container))
        self._decoder = decoded(packets, damage)

    def close(self) -> None:
        """Close the file; the next `read` opens it again."""
        if self._container is not None:
            self._container.close()
        self._container, self._decoder = None, iter(())
        self._reached, self._jumped, self._intact = -1, False, True
        self._recent.clear()
        self._pixels = ClipPixels(self._av, self._index.hw, self._range)
