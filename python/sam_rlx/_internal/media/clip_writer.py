"""Video files that appear complete or not at all. Needs PyAV (extra ``video``)."""

import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_number, as_path
from sam_rlx._internal.files.atomic import NewFile
from sam_rlx._internal.files.marks import NAME
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.media.clip_sound import ClipSound
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, MediaWarning, UnsupportedError

_CODECS = ("libx264", "libopenh264", "mpeg4")
# Ticks of a second: whole numbers for 24, 25, 30 and 30000/1001 frames and milliseconds. MPEG-4
# allows up to 65535. A clip of few frames an hour gets longer ticks.
_TICKS, _FEW_TICKS = 60_000, 1000
_SLOW = Fraction(1, 10)  # frames a second below which ticks are long
_MAX_TICKS = 2**30  # of a frame: MP4 files have no more than 2**31


class ClipWriter:
    """Write an MP4 file frame by frame, as a context manager.

    When the block ends, also by Ctrl-C, the file appears with the frames so far; without a frame,
    or after another error, there is none.

    Parameters
    ----------
    path : str or path
        Ends in ``.mp4``.
    rate : float
        Frames per second, of frames that tell no times; also what players are told.
    inputs : iterable of paths
        Files that are read, which it must not replace.
    pixel_aspect : Fraction
        Width of a pixel, as players show it, divided by its height.
    sound : path, optional
        A clip whose sound is copied, as far as there are frames.

    Raises
    ------
    InvalidArgumentError
        The suffix is another one, the rate is no positive number, or there is an input or a file of
        another kind that this library has not written.
    MissingExtraError
        PyAV is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        rate: float,
        inputs: Iterable[str | os.PathLike[str]] = (),
        pixel_aspect: Fraction = Fraction(1),
        sound: Path | None = None,
    ) -> None:
        self._path = as_path(path)
        if self._path.suffix.lower() != ".mp4":
            raise InvalidArgumentError(
                f"{self._path}: expected the suffix .mp4, found {self._path.suffix!r}"
            )
        check_target(self._path, ("MP4",), inputs)
        self._av = optional("clip", "av", "av")
        given = Fraction(as_number("rate", rate, 1e-6, 1e6))
        self._rate = given.limit_denominator(1001 if given > 1 else 1_000_000)
        self._ticks = _TICKS if self._rate >= _SLOW else _FEW_TICKS
        self._aspect = pixel_aspect
        self._sound = None if sound is None else ClipSound(sound)
        self._first: Fraction | None = None  # the time of the first frame
        self._held: Any = None  # the last frame, until the next one tells how long it is shown
        self._shown = round(self._ticks / self._rate)  # ticks of the frame before it
        self._new: NewFile | None = None
        self._container: Any = None
        self._stream: Any = None
        self._frames = 0

    def __enter__(self) -> "ClipWriter":
        self._new = NewFile(self._path)
        return self

    def add(self, pixels: NDArray[np.uint8], time: Fraction | None = None) -> None:
        """Add a frame (H, W, 3); all have the size of the first one.

        A side of odd length gets one more row or column, as the format asks for. `time` is when it
        is shown, in seconds on the clock of its source; None: by the rate. The last frame is shown
        as long as the one before it.
        """
        assert self._new is not None
        height, width = pixels.shape[:2]
        even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
        frame.pts, frame.time_base = self._ticks_of(time), Fraction(1, self._ticks)
        with self._new.naming():
            if self._container is None:
                self._start(*even.shape[:2])
            if self._held is not None:
                self._shown = frame.pts - self._held.pts
                self._mux(self._held)
        self._held = frame
        self._frames += 1

    def _mux(self, frame: Any) -> None:
        """Write a frame, and the sound before it."""
        if self._sound is not None:
            self._sound.write_until(self._container, Fraction(frame.pts, self._ticks))
        self._container.mux(self._stream.encode(frame))

    def _end(self) -> None:
        """Write the last frame, which is shown as long as the one before it."""
        if self._sound is not None:
            end = Fraction(self._held.pts + self._shown, self._ticks)
            self._sound.write_until(self._container, end)
        packets = [*self._stream.encode(self._held), *self._stream.encode(None)]
        packets[-1].duration = self._shown
        self._container.mux(packets)
        self._container.close()

    def _ticks_of(self, time: Fraction | None) -> int:
        """Return when a frame is shown, later than the one before it."""
        if time is None:
            time = self._frames / self._rate
        if self._first is None:
            self._first = time
        last = -1 if self._held is None else self._held.pts
        ticks = max(round((time - self._first) * self._ticks), last + 1)
        if ticks - last > _MAX_TICKS:
            longest = _MAX_TICKS // self._ticks
            warnings.warn(
                f"{self._path}: a frame that is shown for more than {longest} s is shown for "
                f"{longest} s",
                MediaWarning,
                stacklevel=3,
            )
            ticks = last + _MAX_TICKS
            self._first = time - Fraction(ticks, self._ticks)
        return ticks

    def _start(self, height: int, width: int) -> None:
        codec = next((name for name in _CODECS if name in self._av.codecs_available), None)
        if codec is None:
            raise UnsupportedError(f"clip: expected an encoder of {list(_CODECS)}, found none")
        assert self._new is not None
        self._container = self._av.open(self._new.file, "w", format="mp4")
        self._container.metadata["comment"] = NAME
        self._stream = self._container.add_stream(codec, rate=self._rate)
        self._stream.height, self._stream.width = height, width
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = Fraction(1, self._ticks)
        if self._aspect != 1:
            self._stream.codec_context.sample_aspect_ratio = self._aspect
        if self._sound is not None:
            self._sound.begin(self._container)
        if codec == "libx264":
            # Frames in the order in which they are shown: else the file's length is not theirs.
            self._stream.options = {"crf": "18", "preset": "veryfast", "bf": "0"}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._new is not None
        try:
            if self._frames and (error is None or isinstance(error, KeyboardInterrupt)):
                with self._new.naming():
                    self._end()
                self._new.commit()
        finally:
            self._new.discard()
            self._close_quietly()
            if self._sound is not None:
                self._sound.close()

    def _close_quietly(self) -> None:
        """Close what an error has left open; closing writes to a file that is gone."""
        if self._container is not None:
            with suppress(self._av.FFmpegError, OSError, ValueError):
                self._container.close()
