"""Video files that appear complete or not at all. Needs PyAV (extra ``video``)."""

import os
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_number
from sam_rlx._internal.files.atomic import NewFile, as_path
from sam_rlx._internal.files.marks import NAME
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_CODECS = ("libx264", "libopenh264", "mpeg4")


class ClipWriter:
    """Write an MP4 file frame by frame, as a context manager.

    When the block ends, also by Ctrl-C, the file appears with the frames so far; without a frame,
    or after another error, there is none.

    Parameters
    ----------
    path : str or path
        Ends in ``.mp4``.
    rate : float
        Frames per second.
    inputs : iterable of paths
        Files that are read, which it must not replace.

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
    ) -> None:
        self._path = as_path(path)
        if self._path.suffix.lower() != ".mp4":
            raise InvalidArgumentError(
                f"{self._path}: expected the suffix .mp4, found {self._path.suffix!r}"
            )
        check_target(self._path, ("MP4",), inputs)
        self._av = optional("clip", "av", "av")
        self._rate = Fraction(as_number("rate", rate, 1e-3, 1e6)).limit_denominator(1001)
        self._new: NewFile | None = None
        self._container: Any = None
        self._stream: Any = None
        self._frames = 0

    def __enter__(self) -> "ClipWriter":
        self._new = NewFile(self._path)
        return self

    def add(self, pixels: NDArray[np.uint8]) -> None:
        """Add a frame (H, W, 3); all have the size of the first one.

        A side of odd length gets one more row or column, as the format asks for.
        """
        assert self._new is not None
        height, width = pixels.shape[:2]
        even = np.pad(pixels, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
        with self._new.naming():
            if self._container is None:
                self._start(*even.shape[:2])
            self._container.mux(self._stream.encode(frame))
        self._frames += 1

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
        if codec == "libx264":
            self._stream.options = {"crf": "18", "preset": "veryfast"}

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
                    self._container.mux(self._stream.encode(None))
                    self._container.close()
                self._new.commit()
        finally:
            self._new.discard()
            self._close_quietly()

    def _close_quietly(self) -> None:
        """Close what an error has left open; closing writes to a file that is gone."""
        if self._container is not None:
            with suppress(self._av.FFmpegError, OSError, ValueError):
                self._container.close()
