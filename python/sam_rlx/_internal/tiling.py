"""Large images in tiles: where tiles lie, and masks of the image from those of its tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_integer
from sam_rlx._internal.arrays.prompts import Prompts
from sam_rlx._internal.media.windows import WindowReader
from sam_rlx.errors import InvalidArgumentError

_MIN_TILE, _MAX_TILE = 32, 1 << 15
_DEFAULT_OVERLAP = 8  # a tile has so many overlaps
_AROUND_BOX = 4  # of a box's longer side, one part of so many has to be around it in its tile

Report = Callable[[int, int], None]


class Tile(NamedTuple):
    """Rows y0 to y1 and columns x0 to x1 of an image, ends not included."""

    y0: int
    y1: int
    x0: int
    x1: int

    @property
    def hw(self) -> tuple[int, int]:
        """Height and width."""
        return self.y1 - self.y0, self.x1 - self.x0

    @property
    def xyxy(self) -> tuple[int, int, int, int]:
        """The sides as the core has them."""
        return self.x0, self.y0, self.x1, self.y1


@dataclass(frozen=True)
class Tiling:
    """Tiles of `side` x `side` pixels that overlap by `overlap`."""

    side: int
    overlap: int

    def tiles(self, hw: tuple[int, int]) -> list[Tile]:
        """Return the tiles of an image, row by row.

        All have the full side, if the image has: the last ones of a row and of a column end with
        the image, and overlap by more.
        """
        rows, columns = (self._starts(side) for side in hw)
        return [
            Tile(y, min(y + self.side, hw[0]), x, min(x + self.side, hw[1]))
            for y in rows
            for x in columns
        ]

    def _starts(self, length: int) -> list[int]:
        if length <= self.side:
            return [0]
        step = self.side - self.overlap
        count = math.ceil((length - self.side) / step) + 1
        return [min(index * step, length - self.side) for index in range(count)]


def as_tiling(tile: int | None, overlap: int | None) -> Tiling | None:
    """Return the tiles of the arguments `tile` and `overlap`; None without `tile`.

    Raises
    ------
    InvalidArgumentError
        A value is out of range, or there is an overlap alone.
    """
    if tile is None:
        if overlap is not None:
            raise InvalidArgumentError("tile: expected a side in pixels beside overlap, found None")
        return None
    side = as_integer("tile", tile, _MIN_TILE, _MAX_TILE)
    if overlap is None:
        return Tiling(side, side // _DEFAULT_OVERLAP)
    return Tiling(side, as_integer("overlap", overlap, 0, side // 2))


def of_tile(report: Report | None, index: int, count: int) -> Report | None:
    """Return what reports the work on tile `index` of `count` as a part of all."""
    if report is None:
        return None
    return lambda done, total: report(index * total + done, count * total)


@dataclass
class TileMasks:
    """Masks of tiles, kept as run lengths of the image.

    Attributes
    ----------
    hw : (int, int)
        Of the image.
    tiles : list of Tile
        All of them, also those without masks.
    mask_side : int
        Of the network's low-resolution masks: how exactly their edges are known.
    """

    hw: tuple[int, int]
    tiles: Sequence[Tile]
    mask_side: int
    tile_of: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    _counts: list[NDArray[np.uint32]] = field(default_factory=list)

    def add(self, tile: int, counts: NDArray[np.uint32], score: float, label: int = 0) -> None:
        """Add the run lengths of a mask of a tile, by the number of the tile."""
        where = self.tiles[tile]
        self._counts.append(_core.mask_in_image(counts, where.hw, (where.y0, where.x0), 1, self.hw))
        self.tile_of.append(tile)
        self.scores.append(score)
        self.labels.append(label)

    def merged(self) -> list[_core.MergedMask]:
        """Return the masks of the image, by the rule of `masks/tiles.h` of the core."""
        longest = max(max(tile.hw) for tile in self.tiles)
        return _core.merge_tiles(
            self._counts,
            np.array(self.tile_of, np.int64),
            np.array(self.scores, np.float32),
            np.array(self.labels, np.int64),
            np.array([tile.xyxy for tile in self.tiles], np.int64),
            self.hw,
            math.ceil(longest / self.mask_side),
        )

    def around(self, members: Sequence[int]) -> Tile:
        """Return the smallest window that has the tiles of some masks."""
        tiles = np.array([self.tiles[self.tile_of[member]] for member in members])
        (y0, _, x0, _), (_, y1, _, x1) = tiles.min(axis=0).tolist(), tiles.max(axis=0).tolist()
        return Tile(y0, y1, x0, x1)


@dataclass(frozen=True)
class PromptWindow:
    """A window of the image in which prompt sets are answered.

    Its pixels are read reduced, `factor` x `factor` to one.
    """

    tile: Tile
    factor: int

    def read(self, image: WindowReader) -> NDArray[np.uint8]:
        """Return its pixels."""
        return image.read_reduced(*self.tile, self.factor)

    def placed(self, masks: NDArray[np.bool_], hw: tuple[int, int]) -> list[NDArray[np.uint32]]:
        """Return the run lengths, in the image, of masks (K, h, w) of the window."""
        corner = (self.tile.y0, self.tile.x0)
        size = (masks.shape[1], masks.shape[2])
        return [
            _core.mask_in_image(_core.rle_encode(mask), size, corner, self.factor, hw)
            for mask in masks
        ]

    def prompts(self, prompts: Prompts, sets: Sequence[int]) -> dict[str, Any]:
        """Return some prompt sets in pixels of the window, as the core takes them."""
        corner = np.array([self.tile.x0, self.tile.y0], np.float64)
        coords, boxes = prompts.point_coords, prompts.boxes
        return {
            "point_coords": None if coords is None else (coords[sets] - corner) / self.factor,
            "point_labels": None if prompts.point_labels is None else prompts.point_labels[sets],
            "boxes": None if boxes is None else (boxes[sets] - np.tile(corner, 2)) / self.factor,
        }


def check_prompts(prompts: Prompts, hw: tuple[int, int]) -> None:
    """Raise `InvalidArgumentError` for a point or box outside of the image."""
    coords, labels, boxes = prompts.point_coords, prompts.point_labels, prompts.boxes
    if coords is not None and labels is not None:
        points = np.ascontiguousarray(coords.reshape(-1, 2))
        _core.check_points("point_coords", points, labels.reshape(-1), hw, "an image")
    if boxes is not None:
        _core.check_boxes("box", boxes, hw, "an image")


def windows_of(
    prompts: Prompts, hw: tuple[int, int], tiling: Tiling
) -> dict[PromptWindow, list[int]]:
    """Return the window of each prompt set, with the numbers of its sets, from top to bottom.

    A set goes to the tile that has its box and points farthest from the tile's inner edges: those
    that are not edges of the image. A set of which no tile has a quarter of its longer side around
    it gets a window of its own, which is one and a half times as long as it, or as a tile, and
    square if the image allows. What is longer than a tile is reduced to one by an integer factor.
    """
    tiles = tiling.tiles(hw)
    sides = np.array(tiles, np.float64)  # y0, y1, x0, x1
    found: dict[PromptWindow, list[int]] = {}
    for index in range(prompts.count):
        y0, y1, x0, x1 = _extent(prompts, index, hw)
        longer = max(y1 - y0, x1 - x0)
        gaps = np.stack([y0 - sides[:, 0], sides[:, 1] - y1, x0 - sides[:, 2], sides[:, 3] - x1])
        is_inner = np.stack(
            [sides[:, 0] > 0, sides[:, 1] < hw[0], sides[:, 2] > 0, sides[:, 3] < hw[1]]
        )
        room = np.where(is_inner | (gaps < 0), gaps, np.inf).min(axis=0)
        best = int(room.argmax())
        window = PromptWindow(tiles[best], 1)
        if room[best] < longer / _AROUND_BOX:
            window = _own_window((y0, y1, x0, x1), longer, hw, tiling)
        found.setdefault(window, []).append(index)
    return dict(sorted(found.items(), key=lambda item: item[0].tile))


def _extent(prompts: Prompts, index: int, hw: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return the smallest y0, y1, x0, x1 within the image around box and points of a set."""
    parts = []
    if prompts.boxes is not None:
        parts.append(prompts.boxes[index].reshape(-1, 2))
    if prompts.point_coords is not None and prompts.point_labels is not None:
        counts = prompts.point_labels[index] >= 0
        parts.append(prompts.point_coords[index][counts if counts.any() or parts else ...])
    ends = np.concatenate(parts)
    low, high = (np.clip(end, 0, [hw[1], hw[0]]) for end in (ends.min(axis=0), ends.max(axis=0)))
    return float(low[1]), float(high[1]), float(low[0]), float(high[0])


def _own_window(
    extent: tuple[float, float, float, float], longer: float, hw: tuple[int, int], tiling: Tiling
) -> PromptWindow:
    side = max(tiling.side, math.ceil(longer * (1 + 2 / _AROUND_BOX)))
    y0, x0 = (
        max(0, min(round((low + high - side) / 2), length - side))
        for low, high, length in ((*extent[:2], hw[0]), (*extent[2:], hw[1]))
    )
    tile = Tile(y0, min(y0 + side, hw[0]), x0, min(x0 + side, hw[1]))
    return PromptWindow(tile, math.ceil(max(tile.hw) / tiling.side))
