"""Frames as upstream's session holds them: resized to the model's square."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import ClipFrames
from sam_rlx.compat.sam2.video_frames import (
    PILLOW_BICUBIC,
    PILLOW_BILINEAR,
    JpegFolder,
    SquareFrames,
)
from sam_rlx.io import open_image

_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tiff", ".webp")


class Images:
    """Images in memory, resized by Pillow with a filter."""

    def __init__(self, images: list[Any], side: int, resample: int) -> None:
        self._images = images
        self._side, self._resample = side, resample
        self.width, self.height = images[0].size

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        size = (self._side, self._side)
        return np.array(self._images[index].convert("RGB").resize(size, self._resample))


class Clip(ClipFrames):
    """A video at its own size: the session resizes it as upstream does with OpenCV."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.height, self.width = self.read(0).shape[:2]

    def __len__(self) -> int:
        return self.count or 0

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self.read(index)


def open_frames(resource: Any, side: int) -> SquareFrames:
    """Open an image, images, a folder of JPEG files or a video file.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    RuntimeError
        There is no JPEG file in the folder.
    """
    if isinstance(resource, list):
        return Images(resource, side, PILLOW_BICUBIC)
    path = Path(os.fspath(resource))
    if path.suffix.lower() in _IMAGES:
        with open_image(path) as image:
            return Images([image.convert("RGB")], side, PILLOW_BILINEAR)
    if path.is_dir():
        return JpegFolder(path, side, PILLOW_BILINEAR)
    return Clip(path)
