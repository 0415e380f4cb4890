"""Arrays of frames that may lie on a disk: what one frame needs is read, and given back."""

import mmap
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.media.recent import KEPT_BYTES
from sam_rlx.errors import InvalidArgumentError

_CHANNELS = (1, 3, 4)


def is_array_of_frames(frames: Any) -> bool:
    """Tell whether an object has the shape of an array, and gives its parts by number."""
    return (
        isinstance(getattr(frames, "shape", None), tuple)
        and hasattr(frames, "dtype")
        and hasattr(frames, "__getitem__")
    )


class ArrayFrames(Sequence[Any]):
    """The frames (H, W) or (H, W, C) of an array, which is never read whole.

    Arrays of dask, zarr, h5py and tensorstore that tell their blocks are read a block at a time if
    one is not too large: a block of several frames is else read for each of them. Pages of a
    mapped file are given back to the system.

    Parameters
    ----------
    array : array
        (T, H, W) or (T, H, W, C).

    Raises
    ------
    InvalidArgumentError
        It has another number of axes, or is one image.
    """

    def __init__(self, array: Any) -> None:
        shape = tuple(array.shape)
        one_image = len(shape) == 3 and shape[2] in _CHANNELS
        if len(shape) not in (3, 4) or one_image:
            hint = ": for one image give image[None]" if one_image else ""
            hint = ": choose a channel or a slice of it first" if len(shape) > 4 else hint
            raise InvalidArgumentError(
                f"frames: expected an array (T, H, W) or (T, H, W, C), found shape {shape}{hint}"
            )
        self._array = array
        self._ends = _block_ends(array)
        self._mapped: np.memmap[Any, Any] | None = None  # the last frame of a mapped file
        self._block: tuple[int, NDArray[Any]] | None = None  # its first frame, and its frames

    def __len__(self) -> int:
        return int(self._array.shape[0])

    def __getitem__(self, index: Any) -> Any:
        if self._ends is None:
            frame = self._array[index]
            if isinstance(frame, np.memmap):
                give_back(self._mapped)
                self._mapped = frame
            return frame
        number = bisect_right(self._ends, index)
        start = self._ends[number - 1] if number else 0
        if self._block is None or self._block[0] != start:
            self._block = None  # before the next one takes memory
            block = as_array("frames", self._array[start : self._ends[number]])
            self._block = (start, block)
        return self._block[1][index - start]


def _block_ends(array: Any) -> list[int] | None:
    """Return where the blocks of an array end along its first axis; None: frames are read alone."""
    chunks = getattr(array, "chunks", None)
    if isinstance(array, np.ndarray) or not isinstance(chunks, tuple) or not chunks:
        return None
    count = int(array.shape[0])
    first = chunks[0]
    if isinstance(first, int) and first > 0:
        ends = [*range(first, count, first), count]
    elif isinstance(first, tuple) and all(isinstance(size, int) for size in first):
        ends = list(accumulate(first))
    else:
        return None
    values = int(np.prod([int(side) for side in array.shape[1:]], dtype=np.int64))
    longest = max(b - a for a, b in zip([0, *ends], ends, strict=False))
    itemsize = getattr(array.dtype, "itemsize", 8)
    return ends if longest > 1 and longest * values * itemsize <= KEPT_BYTES else None


def give_back(frame: np.memmap[Any, Any] | None) -> None:
    """Let the system take back the pages of a frame, which are read again if they are needed."""
    mapped = getattr(frame, "_mmap", None)
    if frame is None or not isinstance(mapped, mmap.mmap) or not hasattr(mapped, "madvise"):
        return
    shared = frame.mode in ("r", "r+")  # pages of "c" have changes that are nowhere else
    if shared and frame.flags.c_contiguous and frame.size:
        at = frame.ctypes.data - np.frombuffer(mapped, np.uint8).ctypes.data
        start = at // mmap.PAGESIZE * mmap.PAGESIZE
        mapped.madvise(mmap.MADV_DONTNEED, start, at + frame.nbytes - start)
