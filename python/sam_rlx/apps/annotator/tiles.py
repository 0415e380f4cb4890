"""Parts of a large image and of its masks, as they are seen: at full resolution or by halves.

At level k a pixel stands for 2**k x 2**k pixels of the image: of the image their mean, of a mask
whether one of them is in it, so that thin parts stay.
"""

import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.sent_masks import sent
from sam_rlx.apps.annotator.sources import encoded
from sam_rlx.apps.annotator.values import Object

TILE = 512  # pixels of a tile's sides, at its level
WHOLE = 2048  # pixels of an image's longer side up to which it is sent as a whole
_NEAREST, _FARTHER = 95, 90  # qualities of JPEG: at level 0, and above it
_BAND = 8  # rows: those of a block of JPEG
Box: TypeAlias = tuple[int, int, int, int]


def level_of(hw: tuple[int, int]) -> int:
    """Return the level at which an image is sent as a whole: 0 where its sides are small."""
    level = 0
    while max(hw) > WHOLE << level:
        level += 1
    return level


class Pyramid:
    """An image (H, W, 3), and its halves, which are made when they are needed."""

    def __init__(self, image: NDArray[np.uint8]) -> None:
        self.image = image
        self._lock = threading.Lock()  # several threads send
        self._levels = [image]

    def level(self, level: int) -> NDArray[np.uint8]:
        """Return the image at a level: (ceil(H / 2**level), ceil(W / 2**level), 3)."""
        with self._lock:
            while len(self._levels) <= level:
                self._levels.append(_half(self._levels[-1]))
            return self._levels[level]

    def tile(self, level: int, column: int, row: int) -> bytes:
        """Return a tile as the bytes of an image file.

        PNG of a small image and where it is no larger than JPEG, as for drawings; else JPEG, whose
        pixels are most exact where one looks nearest.
        """
        whole = self.level(level)
        x, y = column * TILE, row * TILE
        part = np.ascontiguousarray(whole[y : y + TILE, x : x + TILE])
        quality = _NEAREST if level == 0 else _FARTHER
        lossless = self.image.shape[0] * self.image.shape[1] <= 1 << 20
        if lossless or _is_drawn(part):
            return encoded(part, "PNG")
        return encoded(part, "JPEG", quality)

    def tiles(self, level: int, numbers: Iterable[Sequence[int]]) -> list[bytes]:
        """Return tiles, which several threads encode: their columns and rows are given."""
        with ThreadPoolExecutor() as threads:
            return list(threads.map(lambda one: self.tile(level, *one), numbers))

    def has(self, level: int, column: int, row: int) -> bool:
        """Tell whether there is a tile."""
        height, width = (-(-side // (1 << level)) for side in self.image.shape[:2])
        return bool(column * TILE < width and row * TILE < height)


def _is_drawn(part: NDArray[np.uint8]) -> bool:
    """Tell of a tile whether PNG is no larger than JPEG, by two bands: all of it takes longer."""
    height = part.shape[0]
    bands = np.concatenate([part[height * third // 3 :][:_BAND] for third in (1, 2)])
    return len(encoded(bands, "PNG")) <= len(encoded(bands, "JPEG", _FARTHER))


def _half(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the means of 2 x 2 pixels; the last row and column stand for themselves if odd."""
    height, width = image.shape[:2]
    even = np.pad(image, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    wide = even[0::2].astype(np.uint16) + even[1::2]
    total = wide[:, 0::2] + wide[:, 1::2]
    return ((total + 2) // 4).astype(np.uint8)


def masks_in(
    objects: Sequence[Object], frame: int, level: int, box: Box
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return heads and buffers of the masks of a frame, as far as they lie in a box.

    Parameters
    ----------
    objects : sequence of Object
    frame : int
    level : int
    box : (int, int, int, int)
        (x0, y0, x1, y1) in pixels of the image.
    """
    size = 1 << level
    x0, y0, x1, y1 = box
    # Whole cells, so that a cell at the border of the box says what it says elsewhere.
    wide = (x0 // size * size, y0 // size * size, -(-x1 // size) * size, -(-y1 // size) * size)
    parts = {
        one.number: one.masks[frame].packed.within(wide).coarse(size)
        for one in objects
        if frame in one.masks
    }
    seen = {number: part for number, part in parts.items() if not part.is_empty}
    heads, buffers = sent((part, 0) for part in seen.values())
    return [{**head, "object": at} for head, at in zip(heads, seen, strict=True)], buffers
