"""A made scene of any size whose objects are known: it is drawn window by window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sam_rlx import _core
from sam_rlx._internal.media.windows import WindowReader

_NOISE = 256  # pixels of a square of noise that repeats
_KINDS = ("ellipse", "box", "petals")


class LargeScene(WindowReader):
    """Bright shapes on a dark ground, one in each cell of a grid, somewhere in it.

    Parameters
    ----------
    rows, columns : int
        Of the grid.
    cell : int
        Side of a cell in pixels.
    seed : int
        Of all that is chosen by chance.
    count : int, optional
        How many of the cells have an object, row by row. Default: all.
    """

    def __init__(
        self, rows: int, columns: int, cell: int = 268, seed: int = 0, count: int | None = None
    ) -> None:
        super().__init__((rows * cell, columns * cell))
        rng = np.random.default_rng(seed)
        count = rows * columns if count is None else count
        radius = rng.uniform(0.3, 0.44, count) * cell
        corner = np.stack(np.divmod(np.arange(count), columns), axis=1) * cell  # y, x
        room = cell * 0.47 - radius
        self.center = corner + cell / 2 + rng.uniform(-1, 1, (count, 2)) * room[:, None]
        self.radius = radius
        self._ratio = rng.uniform(0.75, 1.0, count)
        self._angle = rng.uniform(0, np.pi, count)
        self._kind = rng.integers(0, len(_KINDS), count)
        self._color = rng.integers(150, 256, (count, 3))
        self._noise = rng.integers(-8, 9, (_NOISE, _NOISE, 1)).astype(np.int16)

    def __len__(self) -> int:
        return len(self.radius)

    def box(self, index: int) -> tuple[int, int, int, int]:
        """Return rows y0 to y1 and columns x0 to x1 that hold an object."""
        y, x = self.center[index]
        r = self.radius[index]
        low, high = np.floor([y - r, x - r]).astype(int), np.ceil([y + r, x + r]).astype(int) + 1
        return int(low[0]), int(high[0]), int(low[1]), int(high[1])

    def mask(self, index: int, y0: int, y1: int, x0: int, x1: int) -> NDArray[np.bool_]:
        """Return the pixels of an object in a window."""
        y, x = np.mgrid[y0:y1, x0:x1] - self.center[index].reshape(2, 1, 1)
        cos, sin = np.cos(self._angle[index]), np.sin(self._angle[index])
        u, v = x * cos + y * sin, (y * cos - x * sin) / self._ratio[index]
        r = self.radius[index]
        kind = _KINDS[self._kind[index]]
        if kind == "ellipse":
            return np.asarray(np.hypot(u, v) < r)
        if kind == "box":
            return np.asarray(np.maximum(abs(u), abs(v)) < r * 0.7)
        return np.asarray(np.hypot(u, v) < r * (0.82 + 0.16 * np.cos(4 * np.arctan2(v, u))))

    def read(self, y0: int, y1: int, x0: int, x1: int) -> NDArray[np.uint8]:
        """Draw a window."""
        rows, columns = np.arange(y0, y1) % _NOISE, np.arange(x0, x1) % _NOISE
        pixels = 48 + np.repeat(self._noise[np.ix_(rows, columns)], 3, axis=2)
        for index in self.within(y0, y1, x0, x1):
            top, bottom, left, right = self.box(index)
            t, b, l0, r = max(top, y0), min(bottom, y1), max(left, x0), min(right, x1)
            part = pixels[t - y0 : b - y0, l0 - x0 : r - x0]
            inside = self.mask(index, t, b, l0, r)
            part[inside] += self._color[index].astype(np.int16) - 48
        return np.clip(pixels, 0, 255).astype(np.uint8)

    def within(self, y0: int, y1: int, x0: int, x1: int) -> list[int]:
        """Return the objects that may have pixels in a window."""
        (y, x), r = self.center.T, self.radius + 1
        touched = (y + r > y0) & (y - r < y1) & (x + r > x0) & (x - r < x1)
        return [int(index) for index in np.flatnonzero(touched)]

    def is_on_seam(self, index: int, tiles: Sequence[Any]) -> bool:
        """Tell whether an inner edge of a tile cuts an object."""
        y0, y1, x0, x1 = self.box(index)
        height, width = self.shape
        return any(
            any(0 < edge < height and y0 < edge < y1 and x0 < tile.x1 and x1 > tile.x0
                for edge in (tile.y0, tile.y1))
            or any(0 < edge < width and x0 < edge < x1 and y0 < tile.y1 and y1 > tile.y0
                   for edge in (tile.x0, tile.x1))
            for tile in tiles
        )  # fmt: skip

    def ious(self, index: int, masks: Sequence[NDArray[np.uint32]]) -> NDArray[np.float64]:
        """Return the IoU of an object with masks of the scene, given as run lengths."""
        y0, y1, x0, x1 = self.box(index)
        truth = self.mask(index, y0, y1, x0, x1)
        found = []
        for counts in masks:
            part = _core.mask_in_image(counts, self.shape, (-y0, -x0), 1, truth.shape)
            shared = int((_core.rle_decode(part, truth.shape) & truth).sum())
            area = int(counts[1::2].sum(dtype=np.int64))
            found.append(shared / (area + int(truth.sum()) - shared))
        return np.array(found)


def found_once(
    scene: LargeScene, masks: Sequence[NDArray[np.uint32]]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the best IoU of each object, and how many masks have an IoU of 0.5 with it."""
    boxes = np.array(
        [
            (b.y0, b.y1, b.x0, b.x1)
            for b in (_core.rle_to_box(counts, scene.shape) for counts in masks)
        ]
    ).reshape(-1, 4)
    best, count = np.zeros(len(scene)), np.zeros(len(scene), np.int64)
    for index in range(len(scene)):
        y0, y1, x0, x1 = scene.box(index)
        near = (boxes[:, 0] < y1) & (boxes[:, 1] >= y0) & (boxes[:, 2] < x1) & (boxes[:, 3] >= x0)
        ious = scene.ious(index, [masks[i] for i in np.flatnonzero(near)])
        best[index], count[index] = ious.max(initial=0.0), int((ious >= 0.5).sum())
    return best, count
