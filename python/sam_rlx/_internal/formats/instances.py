"""The one form of results that every format reads: objects with run lengths, and what is known."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core

OBJECT = "object"  # what an object is called that has no name


@dataclass(frozen=True, eq=False)
class Instance:
    """One object of a result on one image.

    Attributes
    ----------
    counts : ndarray of uint32
        Run lengths in column-major order, beginning with zeros.
    size : (int, int)
        Height and width of the image.
    name : str
        Its category: the text that named it, or "object".
    score : float, optional
        The network's own estimate.
    track : hashable, optional
        The object's name in a video.
    frame : int, optional
        The frame of a video.
    fields : mapping
        Further entries of its annotation, such as ``stability_score``; what JSON can hold.
    """

    counts: NDArray[np.uint32]
    size: tuple[int, int]
    name: str = OBJECT
    score: float | None = None
    track: Hashable | None = None
    frame: int | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and end position of each run of ones, in column-major order."""
        ends = np.cumsum(self.counts, dtype=np.int64)
        stops = ends[1::2]
        starts = ends[::2][: len(stops)]
        filled = stops > starts
        return starts[filled], stops[filled]

    @cached_property
    def area(self) -> int:
        """Pixels of the mask."""
        starts, stops = self._runs
        return int((stops - starts).sum())

    @cached_property
    def box(self) -> tuple[int, int, int, int]:
        """The smallest (x, y, width, height) in pixels around the mask; zeros if it is empty."""
        starts, stops = self._runs
        if not len(starts):
            return 0, 0, 0, 0
        height = self.size[0]
        x0, x1 = int(starts[0] // height), int((stops[-1] - 1) // height)
        first, last = starts % height, (stops - 1) % height
        y0, y1 = int(first.min()), int(last.max())
        if (starts // height != (stops - 1) // height).any():  # a run goes on in the next column
            y0, y1 = 0, height - 1
        return x0, y0, x1 - x0 + 1, y1 - y0 + 1

    @property
    def centroid(self) -> tuple[float, float]:
        """Mean (x, y) of the mask's pixel indices; NaN if it is empty."""
        if not self.area:
            return float("nan"), float("nan")
        starts, stops = self._runs
        height = self.size[0]
        x = int((_columns_before(stops, height) - _columns_before(starts, height)).sum())
        y = int((_rows_before(stops, height) - _rows_before(starts, height)).sum())
        return x / self.area, y / self.area

    def mask(self) -> NDArray[np.bool_]:
        """Return the mask as bool (H, W)."""
        return _core.rle_decode(self.counts, self.size)

    def window(self, x: int, y: int, width: int, height: int) -> NDArray[np.bool_]:
        """Return the part of the mask in a box within the image, as bool (height, width)."""
        rows = self.size[0]
        starts, stops = (
            np.clip(each - x * rows, 0, width * rows).astype(np.uint32) for each in self._runs
        )
        ends = np.stack([starts, stops], axis=1).ravel()
        counts = np.diff(ends, prepend=np.uint32(0), append=np.uint32(width * rows))
        part = _core.rle_decode(counts.astype(np.uint32), (rows, width))
        return part[y : y + height]

    def mean_color(self, pixels: NDArray[np.uint8]) -> tuple[float, float, float]:
        """Return the mean RGB value of an image (H, W, 3) under the mask; NaN if it is empty."""
        if not self.area:
            nan = float("nan")
            return nan, nan, nan
        x, y, width, height = self.box
        inside = pixels[y : y + height, x : x + width][self.window(x, y, width, height)]
        red, green, blue = inside.mean(axis=0, dtype=np.float64).tolist()
        return red, green, blue

    def outlines(self, tolerance: float = 0.0) -> list[list[NDArray[np.int32]]]:
        """Return the parts of the mask as rings of corners; see `masks/outline.h` of the core."""
        return _core.rle_to_outlines(self.counts, self.size, tolerance)


def _columns_before(position: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the sum of the column numbers of all positions before each."""
    columns, rest = np.divmod(position, height)
    total: NDArray[np.int64] = height * (columns * (columns - 1) // 2) + rest * columns
    return total


def _rows_before(position: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """Return the sum of the row numbers of all positions before each."""
    columns, rest = np.divmod(position, height)
    total: NDArray[np.int64] = columns * (height * (height - 1) // 2) + rest * (rest - 1) // 2
    return total


def plain_name(name: Hashable) -> Any:
    """Return an object's name as JSON has it: numbers and texts as they are, others as text."""
    if isinstance(name, np.integer):
        return int(name)
    return name if isinstance(name, (int, float, str)) else str(name)
