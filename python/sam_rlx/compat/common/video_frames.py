"""Frames of a video as upstream's sessions hold them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import ClipFrames
from sam_rlx.compat.common.errors import NoFramesError
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.io import open_image

_JPEG = (".jpg", ".jpeg", ".JPG", ".JPEG")
_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tiff", ".webp")
# Numbers of filters in Pillow.
_BILINEAR, _BICUBIC = 2, 3
Frame = tuple[NDArray[np.uint8], tuple[int, int]]


class UpstreamFrames:
    """Frames for a session, a `SessionSource`, and for programs that look at ``state["images"]``.

    Attributes
    ----------
    count : int
        Number of frames.
    height, width : int
        Their size.
    """

    count: int
    height: int
    width: int

    def read(self, index: int, side: int | None = None) -> Frame:
        """Return a frame as uint8 (S, S, 3), or as it is, with the size that it had."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.read(index)[0]


class ImageSquares(UpstreamFrames):
    """Images, or files of them, resized by Pillow. The last one tells the size of all.

    Parameters
    ----------
    images : sequence of PIL images or paths
        The frames.
    side : int
        Of the squares.
    resample : int
        Pillow's filter.
    """

    def __init__(self, images: Sequence[Any], side: int, resample: int) -> None:
        self._images, self._side, self._resample = images, side, resample
        self.count = len(images)
        last = images[-1]
        if isinstance(last, Path):
            with open_image(last) as image:
                self.width, self.height = image.size
        else:
            self.width, self.height = last.size

    def read(self, index: int, side: int | None = None) -> Frame:
        """Return a frame as a square."""
        image = self._images[index]
        if not isinstance(image, Path):
            return self._square(image)
        with open_image(image) as opened:
            return self._square(opened)

    def _square(self, image: Any) -> Frame:
        size = (self._side, self._side)
        pixels = np.array(image.convert("RGB").resize(size, self._resample))
        return pixels, (self.height, self.width)


class Clip(UpstreamFrames):
    """A video file, or its contents.

    Parameters
    ----------
    source : path or bytes
        The video.
    side : int, optional
        Frames are squares, resized by FFmpeg's bilinear filter as decord does. None: they are as
        large as the video.
    """

    def __init__(self, source: Path | bytes, side: int | None) -> None:
        self._clip, self._side = ClipFrames(source), side
        self.count = self._clip.count or 0
        _, (self.height, self.width) = self.read(0)

    def read(self, index: int, side: int | None = None) -> Frame:
        """Return a frame."""
        if self._side is not None:
            return self._clip.read_square(index, self._side)
        pixels = self._clip.read(index)
        return pixels, (pixels.shape[0], pixels.shape[1])


def jpeg_folder(folder: Path, side: int, resample: int = _BICUBIC) -> UpstreamFrames:
    """Open JPEG files named by numbers."""
    files = [path for path in folder.iterdir() if path.suffix in _JPEG]
    if not files:
        raise NoFramesError(f"video_path: expected JPEG files in {folder}, found none")
    return ImageSquares(sorted(files, key=_number), side, resample)


def _number(path: Path) -> int:
    try:
        return int(path.stem)
    except ValueError as error:
        raise InvalidArgumentError(
            f"video_path: expected JPEG files named by numbers, found {path}"
        ) from error


def open_video(video_path: str | bytes, side: int) -> UpstreamFrames:
    """Open a folder of JPEG files, an MP4 file or its contents, as upstream's SAM 2 decides.

    Raises
    ------
    NotImplementedError
        It is none of these.
    RuntimeError
        There is no JPEG file in the folder.
    """
    if isinstance(video_path, bytes):
        return Clip(video_path, side)
    suffix = os.path.splitext(video_path)[-1] if isinstance(video_path, str) else ""  # noqa: PTH122
    if suffix in (".mp4", ".MP4"):
        return Clip(Path(video_path), side)
    if isinstance(video_path, str) and Path(video_path).is_dir():
        return jpeg_folder(Path(video_path), side)
    raise UnsupportedError(
        f"video_path: expected an MP4 file or a folder of JPEG files, found {video_path}"
    )


def open_resource(resource: Any, side: int) -> UpstreamFrames:
    """Open an image, images, a folder of JPEG files or a video file, as upstream's SAM 3 decides.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    RuntimeError
        There is no JPEG file in the folder.
    """
    if isinstance(resource, list):
        return ImageSquares(resource, side, _BICUBIC)
    path = Path(os.fspath(resource))
    if path.suffix.lower() in _IMAGES:
        with open_image(path) as image:
            return ImageSquares([image.convert("RGB")], side, _BILINEAR)
    if path.is_dir():
        return jpeg_folder(path, side, _BILINEAR)
    return Clip(path, None)


def is_image(resource: Any) -> bool:
    """Tell whether a resource is one image."""
    if isinstance(resource, list):
        return len(resource) == 1
    return str(os.fspath(resource)).lower().endswith(_IMAGES)
