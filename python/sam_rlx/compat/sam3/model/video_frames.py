"""Frames as upstream's session holds them: resized to the model's square."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.compat.sam2.video_frames import JpegFolder, SquareClip, SquareFrames
from sam_rlx.io import open_image

_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".tiff", ".webp")


class Pictures:
    """Images in memory, resized by Pillow (bicubic, its default)."""

    def __init__(self, images: list[Any], side: int) -> None:
        self._images = images
        self._side = side
        self.width, self.height = images[0].size

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        size = (self._side, self._side)
        return np.array(self._images[index].convert("RGB").resize(size))


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
        return Pictures(resource, side)
    path = Path(os.fspath(resource))
    if path.suffix.lower() in _IMAGES:
        with open_image(path) as image:
            return Pictures([image.convert("RGB")], side)
    if path.is_dir():
        return JpegFolder(path, side)
    return SquareClip(path, side)
