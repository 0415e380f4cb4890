"""Frames as upstream's session holds them: resized to the model's square."""

import os
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import ClipFrames
from sam_rlx.compat.common.errors import NoFramesError
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.io import open_image

_JPEG = (".jpg", ".jpeg", ".JPG", ".JPEG")
# Numbers of filters in Pillow.
PILLOW_BILINEAR, PILLOW_BICUBIC = 2, 3


class SquareFrames(Protocol):
    """Frames of a video as uint8 (S, S, 3) or as they are, and the size that they had."""

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
    """JPEG files named by numbers, resized by Pillow.

    Parameters
    ----------
    folder : path
        Where they are.
    side : int
        Of the squares.
    resample : int
        Pillow's filter.
    """

    def __init__(self, folder: Path, side: int, resample: int = PILLOW_BICUBIC) -> None:
        files = [path for path in folder.iterdir() if path.suffix in _JPEG]
        self._files = sorted(files, key=_number)
        if not self._files:
            raise NoFramesError(f"video_path: expected JPEG files in {folder}, found none")
        self._side, self._resample = side, resample
        with open_image(self._files[-1]) as image:
            self.width, self.height = image.size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        size = (self._side, self._side)
        with open_image(self._files[index]) as image:
            return np.array(image.convert("RGB").resize(size, self._resample))


class SquareClip(ClipFrames):
    """A video, resized by FFmpeg's bilinear filter as decord does."""

    def __init__(self, source: Path | bytes, side: int) -> None:
        super().__init__(source)
        self._side = side
        _, (self.height, self.width) = self.read_square(0, side)

    def __len__(self) -> int:
        return self.count or 0

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.read_square(index, self._side)[0]
