"""What calls take for images: paths, addresses, arrays, tensors, folders, patterns and clips."""

from __future__ import annotations

import glob
import io
import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.files.suffixes import images_of, is_clip
from sam_rlx._internal.media.frames import (
    EndOfFrames,
    FrameSource,
    open_frames,
)
from sam_rlx._internal.media.image_files import read_image
from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensors import is_torch
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

_WEB = ("http://", "https://")
_LIVE = ("rtsp://", "rtmp://", "tcp://", "screen")
_LISTS = (".streams", ".txt", ".csv")
_MAX_BYTES = 1 << 30  # of what an address gives
_SECONDS = 60.0  # without a byte of it


@dataclass(frozen=True)
class Item:
    """One image of a source.

    Attributes
    ----------
    path : str
        Of the file, or ``image0.jpg`` and so on for arrays.
    pixels : ndarray (H, W, 3), uint8
        RGB.
    frame : int, optional
        Number of the frame in its clip.
    rate : float, optional
        Frames of the clip in a second.
    """

    path: str
    pixels: NDArray[np.uint8]
    frame: int | None = None
    rate: float | None = None


def items(source: Any, stride: int = 1) -> Iterator[Item]:
    """Yield the images of a source, and each `stride`-th frame of its clips.

    Parameters
    ----------
    source : str, path, PIL image, array, tensor or list of these
        A file, an ``http`` address, a folder, a pattern with ``*``, or a clip. Arrays are BGR,
        (H, W, 3), uint8; tensors RGB, ([B,] 3, H, W), 0 to 1.
    stride : int
        Of the frames of clips.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    InvalidArgumentError
        It is something else.
    UnsupportedError
        It is a camera or a stream.
    """
    for index, (path, one) in enumerate(_listed(source)):
        if isinstance(one, np.ndarray):
            yield Item(path or f"image{index}.jpg", one)
        elif is_clip(path) or path.lower().endswith(".gif"):
            yield from Clip(path, one, stride).items()
        else:
            yield Item(path, read_image(io.BytesIO(one) if isinstance(one, bytes) else one))


@dataclass(frozen=True)
class Clip:
    """A clip that can be read several times.

    Attributes
    ----------
    path : str
        Of its file, or ``image0.jpg`` for images in memory.
    frames : str, bytes or list of arrays
        Where its frames are.
    stride : int
        Each so many-th frame counts.
    """

    path: str
    frames: Any
    stride: int = 1

    def open(self) -> FrameSource:
        """Return its frames, each `stride`-th."""
        found = open_frames(self.frames)
        return found if self.stride == 1 else open_frames(_Strided(found, self.stride))

    def items(self) -> Iterator[Item]:
        """Yield its frames."""
        source = open_frames(self.frames)
        rate = _rate(source)
        with suppress(EndOfFrames):
            for index in count(0, self.stride):
                if source.count is not None and index >= source.count:
                    return
                yield Item(self.path, source.read(index), index // self.stride, rate / self.stride)


def clip(source: Any, stride: int = 1) -> Clip:
    """Return the clip that a source is: a file, an address, a folder, or images in memory."""
    if not isinstance(source, (str, os.PathLike)):
        return Clip("image0.jpg", [item.pixels for item in items(source)], stride)
    name = os.fspath(source)
    _refuse_live(name)
    return Clip(name, _fetched(name) if name.startswith(_WEB) else name, stride)


def _rate(source: FrameSource) -> float:
    """Return how many frames a second has, by the times of the first two; 30 if none are known."""
    times = [source.time(index) for index in (0, 1)] if (source.count or 0) > 1 else []
    known = [time for time in times if time is not None]
    return float(1 / (known[1] - known[0])) if len(set(known)) == 2 else 30.0


class _Strided:
    """Each `stride`-th frame of a source."""

    def __init__(self, source: FrameSource, stride: int) -> None:
        self._source, self._stride = source, stride

    def __len__(self) -> int:
        return -(-(self._source.count or 0) // self._stride)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        return self._source.read(index * self._stride)


def _listed(source: Any) -> Iterator[tuple[str, Any]]:
    """Yield each part of a source with its path: a name, contents of a file, or RGB pixels."""
    if source is None:
        raise InvalidArgumentError(
            "source: expected an image, found None; ultralytics takes images of its own then"
        )
    if isinstance(source, (list, tuple)):
        for one in source:
            yield from _listed(one)
    elif is_torch(source) or (isinstance(source, np.ndarray) and source.ndim == 4):
        yield from (("", one) for one in _of_tensor(source))
    elif is_pil(source):
        yield str(getattr(source, "filename", "") or ""), as_rgb(source)
    elif isinstance(source, np.ndarray):
        yield "", _of_array(source)
    elif isinstance(source, (str, os.PathLike)):
        yield from _named(os.fspath(source))
    else:
        raise InvalidArgumentError(
            "source: expected a path, an address, a PIL image, an array (H, W, 3) in BGR, a "
            f"tensor (B, 3, H, W) or a list of these, found {shown(source)}"
        )


def _named(name: str) -> Iterator[tuple[str, Any]]:
    """Yield what a name stands for: files, or contents of an address."""
    _refuse_live(name)
    if name.startswith(_WEB):
        yield name.rpartition("/")[2].partition("?")[0] or "image0.jpg", _fetched(name)
    elif "*" in name:
        found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207  (absolute ones too)
        if not found:
            raise FileNotFoundError(f"source: expected files like {name!r}, found none")
        yield from ((one, one) for one in found)
    elif Path(name).is_dir():
        yield from ((str(path), str(path)) for path in images_of(name, clips=True).files)
    else:
        yield name, name


def _refuse_live(name: str) -> None:
    if name.startswith(_LIVE) or name.isdigit() or name.endswith(_LISTS):
        raise UnsupportedError(
            f"source: expected files or images, found {name!r}: cameras, screens and lists of "
            "streams are not read here; sam_rlx.VideoPredictor.push takes frames as they come"
        )


def _fetched(address: str) -> bytes:
    request = urllib.request.Request(address, headers={"User-Agent": "sam_rlx"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
        data: bytes = answer.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise InvalidArgumentError(
            f"source: expected at most {_MAX_BYTES} bytes at {address}, found more"
        )
    return data


def _of_tensor(images: Any) -> Iterator[NDArray[np.uint8]]:
    """Yield the images of a tensor ([B,] 3, H, W), which are RGB."""
    values = np.asarray(images.detach().cpu() if is_torch(images) else images)
    stack = values[None] if values.ndim == 3 else values
    if stack.ndim != 4 or stack.shape[1] != 3:
        raise InvalidArgumentError(
            f"source: expected a tensor of shape (B, 3, H, W), found {values.shape}"
        )
    yield from (as_rgb(np.ascontiguousarray(image.transpose(1, 2, 0))) for image in stack)


def _of_array(image: NDArray[Any]) -> NDArray[np.uint8]:
    """Return an array (H, W, 3) in BGR, or (H, W) in grey, as RGB."""
    if image.ndim == 3 and image.shape[2] in (3, 4):
        image = image[:, :, 2::-1]
    return as_rgb(np.ascontiguousarray(image))


__dir__ = public_names(__name__)
