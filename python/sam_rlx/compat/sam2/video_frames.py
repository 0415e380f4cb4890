"""Frames as upstream's session holds them: resized to the model's square."""

import os
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sam_rlx._image_files import open_image
from sam_rlx._video.clip_frames import ClipFrames
from sam_rlx._video.orientation import Orientation, orientation
from sam_rlx.compat.errors import NoFramesError
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_JPEG = (".jpg", ".jpeg", ".JPG", ".JPEG")


class SquareFrames(Protocol):
    """Frames of a video as uint8 (S, S, 3), and the size that they had."""

    height: int
    width: int

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> NDArray[np.uint8]: ...


def open_video(video_path: str | bytes, side: int) -> SquareFrames:
    """Open a folder of JPEG files, an MP4 file or its contents, as upstream decides.

    Raises
    ------
    NotImplementedError
        It is none of these.
    RuntimeError
        There is no JPEG file in the folder.
    """
    suffix = os.path.splitext(video_path)[-1] if isinstance(video_path, str) else ""  # noqa: PTH122
    if isinstance(video_path, bytes):
        return SquareClip(video_path, side)
    if suffix in (".mp4", ".MP4"):
        return SquareClip(Path(video_path), side)
    if isinstance(video_path, str) and Path(video_path).is_dir():
        return JpegFolder(Path(video_path), side)
    raise UnsupportedError(
        f"video_path: expected an MP4 file or a folder of JPEG files, found {video_path}"
    )


def _number(path: Path) -> int:
    try:
        return int(path.stem)
    except ValueError as error:
        raise InvalidArgumentError(
            f"video_path: expected JPEG files named by numbers, found {path}"
        ) from error


class JpegFolder:
    """JPEG files named by numbers, resized by Pillow (bicubic, its default)."""

    def __init__(self, folder: Path, side: int) -> None:
        files = [path for path in folder.iterdir() if path.suffix in _JPEG]
        self._files = sorted(files, key=_number)
        if not self._files:
            raise NoFramesError(f"video_path: expected JPEG files in {folder}, found none")
        self._side = side
        with open_image(self._files[-1]) as image:
            self.width, self.height = image.size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        with open_image(self._files[index]) as image:
            return np.array(image.convert("RGB").resize((self._side, self._side)))


class SquareClip(ClipFrames):
    """A video, resized by FFmpeg's bilinear filter as decord does."""

    def __init__(self, source: Path | bytes, side: int) -> None:
        super().__init__(source)
        self._side = side
        self._graph: Any = None
        self.height = self.width = 0
        self.read(0)

    def __len__(self) -> int:
        return self.count or 0

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.read(index)

    def close(self) -> None:
        """Close the file, and drop the filter, which keeps the error of a damaged frame."""
        super().close()
        self._graph = None

    def convert(self, frame: Any) -> NDArray[np.uint8]:
        """Return a decoded frame as RGB (S, S, 3), upright."""
        turned = orientation(frame)
        hw = (frame.height, frame.width)
        self.height, self.width = hw[::-1] if turned.transposed else hw
        if self._graph is None:
            self._graph = self._make_graph(frame, turned)
        self._graph.push(frame)
        pixels: NDArray[np.uint8] = self._graph.pull().to_ndarray(format="rgb24")
        return pixels

    def _make_graph(self, frame: Any, turned: Orientation) -> Any:
        graph = self._av.filter.Graph()
        source = graph.add_buffer(
            width=frame.width,
            height=frame.height,
            format=frame.format,
            time_base=frame.time_base,
        )
        scale = ("scale", f"{self._side}:{self._side}:flags=bilinear")
        for step in (*turned.filters, scale, ("format", "rgb24"), ("buffersink", "")):
            following = graph.add(*step)
            source.link_to(following)
            source = following
        graph.configure()
        return graph
