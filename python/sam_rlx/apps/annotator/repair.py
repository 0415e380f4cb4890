"""Repair of masks by hand, at full resolution: arithmetic on pixels alone.

Positions (x, y) are in pixels of the image, from its top left corner: the middle of the first pixel
is at (0.5, 0.5). Parts of a mask are joined by sides of pixels, holes by sides and corners.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.errors import InvalidArgumentError

Bools: TypeAlias = NDArray[np.bool_]
Path: TypeAlias = Sequence[tuple[float, float]]
Size: TypeAlias = tuple[int, int]


# ------------------------------------------------------------------ strokes


def stroke(hw: Size, path: Path, radius: float) -> Bools:
    """Return the pixels of a grid (H, W) whose middle is within `radius` of a path: bool (H, W)."""
    height, width = hw
    mask = np.zeros(hw, np.bool_)
    ends = [*path[1:], path[-1]]
    for (ax, ay), (bx, by) in zip(path, ends, strict=True):
        x0, x1 = _within(min(ax, bx) - radius, max(ax, bx) + radius, width)
        y0, y1 = _within(min(ay, by) - radius, max(ay, by) + radius, height)
        if x0 >= x1 or y0 >= y1:
            continue
        x = np.arange(x0, x1) + 0.5 - ax
        y = (np.arange(y0, y1) + 0.5 - ay)[:, None]
        dx, dy = bx - ax, by - ay
        length = dx * dx + dy * dy
        along = np.clip((x * dx + y * dy) / length, 0.0, 1.0) if length else 0.0
        near = (x - along * dx) ** 2 + (y - along * dy) ** 2 <= radius * radius
        mask[y0:y1, x0:x1] |= near
    return mask


def _within(low: float, high: float, size: int) -> tuple[int, int]:
    """Return the pixels between two positions, as far as there are some: first, end."""
    first = int(np.clip(np.floor(low), 0, size))
    return first, int(np.clip(np.ceil(high) + 1, first, size))


def lasso(hw: Size, path: Path) -> Bools:
    """Return the pixels whose middle is inside of a closed path, by the even-odd rule."""
    height, width = hw
    # Where a row crosses an edge, all pixels whose middle is right of that change sides.
    crossings = np.zeros((height, width + 1), np.uint8)
    corners = np.asarray(path, np.float64)
    for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        low, high = min(ay, by), max(ay, by)
        first = int(np.clip(np.ceil(low - 0.5), 0, height))
        end = int(np.clip(np.ceil(high - 0.5), first, height))
        rows = np.arange(first, end)
        if len(rows):
            x = ax + (rows + 0.5 - ay) * (bx - ax) / (by - ay)
            columns = np.clip(np.ceil(x - 0.5), 0, width).astype(np.intp)
            crossings[rows, columns] ^= 1
    return np.bitwise_xor.accumulate(crossings, axis=1)[:, :width].view(np.bool_)


# ------------------------------------------------------------------ parts and holes


@dataclass(frozen=True, eq=False)
class Parts:
    """The connected parts of a mask (H, W).

    Attributes
    ----------
    labels : int32 (H, W)
        0, or 1 + the number of the part.
    areas : int64 (N,)
        Pixels of each part.
    """

    labels: NDArray[np.int32]
    areas: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.areas)

    def at_border(self) -> Bools:
        """Tell of each part whether it reaches the border of the grid."""
        labels = self.labels
        outer = np.concatenate([labels[:1], labels[-1:], labels[:, :1].T, labels[:, -1:].T], axis=1)
        found = np.zeros(self.count + 1, np.bool_)
        found[outer] = True
        return found[1:]

    def mask(self, chosen: Bools) -> Bools:
        """Return the pixels of some parts; `chosen` says of each whether it is among them."""
        return np.concatenate([[False], chosen])[self.labels]


def parts_of(mask: Bools, *, corners: bool = False) -> Parts:
    """Find the connected parts of a mask; with `corners` pixels that share one are connected."""
    return Parts(*_core.label_components(np.ascontiguousarray(mask), corners))


def holes(mask: Bools, area: float | None = None) -> Bools:
    """Return the pixels of holes of at most `area` pixels; by default of the largest hole."""
    result = np.zeros_like(mask)
    part = _around(mask, 1)
    found = parts_of(~mask[part], corners=True)
    inner = ~found.at_border()
    if inner.any():
        areas = np.where(inner, found.areas, 0)
        largest = np.arange(found.count) == int(areas.argmax())
        result[part] = found.mask(largest if area is None else inner & (areas <= area))
    return result


def crumbs(mask: Bools, area: float) -> Bools:
    """Return the pixels of parts of at most `area` pixels, but for the largest part."""
    result = np.zeros_like(mask)
    part = _around(mask, 0)
    found = parts_of(mask[part])
    if found.count > 1:
        small = found.areas <= area
        small[int(found.areas.argmax())] = False
        result[part] = found.mask(small)
    return result


def _around(mask: Bools, room: int) -> tuple[slice, slice]:
    """Return the box of a mask with room around it, as far as the grid goes."""
    slices = []
    for axis in (1, 0):
        at = np.flatnonzero(mask.any(axis=axis))
        first, end = (int(at[0]), int(at[-1]) + 1) if len(at) else (0, 0)
        slices.append(slice(max(first - room, 0), end + room))
    return slices[0], slices[1]


# ------------------------------------------------------------------ smooth


def smooth(mask: Bools, radius: float) -> Bools:
    """Return the closing of the opening of a mask by a disc.

    Thin parts go that no disc of this radius fits into, then gaps that none fits into; beyond the
    border of the grid the mask is what fits best: it neither eats nor grows there.
    """
    result = np.zeros_like(mask)
    part = _around(mask, 2 * int(radius) + 2)
    opened = _dilated(~_dilated(~mask[part], radius), radius)
    result[part] = ~_dilated(~_dilated(opened, radius), radius)
    return result


def _dilated(mask: Bools, radius: float) -> Bools:
    """Return the pixels whose middle is within `radius` of that of one of the mask."""
    height, width = mask.shape
    reach = int(radius)
    counts = np.zeros((height, width + 1), np.int32)
    np.cumsum(mask, axis=1, out=counts[:, 1:])
    found = np.zeros_like(mask)
    columns = np.arange(width)
    for dy in range(-reach, reach + 1):
        half = int(np.sqrt(radius * radius - dy * dy))
        low, high = np.maximum(columns - half, 0), np.minimum(columns + half + 1, width)
        source = counts[max(dy, 0) : height + min(dy, 0)]
        target = found[max(-dy, 0) : height + min(-dy, 0)]
        target |= source[:, high] > source[:, low]
    return found


# ------------------------------------------------------------------ split


def connected(mask: Bools) -> list[Bools]:
    """Return the connected parts of a mask, from large to small."""
    found = parts_of(mask)
    order = np.argsort(-found.areas, kind="stable")
    return [found.mask(np.arange(found.count) == part) for part in order]


def split(mask: Bools, line: Path) -> list[Bools]:
    """Cut a mask along a line; return its pieces, from large to small.

    Parts that the line does not divide stay with the largest piece. No pixel is lost: those on the
    line go to a piece beside them.

    Raises
    ------
    InvalidArgumentError
        The line divides nothing.
    """
    cut = _line(mask.shape, line) & mask
    before, after = parts_of(mask), parts_of(mask & ~cut)
    # By part of the cut mask: the part of the whole mask that it comes from.
    of_part = np.zeros(after.count + 1, np.int64)
    of_part[after.labels] = before.labels
    of_part = of_part[1:]
    pieces = np.bincount(of_part, minlength=before.count + 1)
    divided = pieces[of_part] > 1
    if not divided.any():
        raise InvalidArgumentError("line: expected one that divides the mask, found none such")
    largest = int(np.argmax(np.where(divided, after.areas, 0)))
    piece_of = np.where(divided, np.arange(after.count), largest) + 1
    grown: NDArray[np.int64] = np.concatenate([[0], piece_of])[after.labels]
    _grow(grown, cut)
    grown[mask & (grown == 0)] = largest + 1  # parts that lie on the line as a whole
    labels, areas = np.unique(grown[mask], return_counts=True)
    order = np.argsort(-areas, kind="stable")
    return [grown == label for label in labels[order]]


def _grow(image: NDArray[np.int64], into: Bools) -> None:
    """Let labels go on into pixels beside them, the larger label first, until none is left."""
    while True:
        padded = np.pad(image, 1)
        beside = np.maximum.reduce(
            [padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]]
        )
        new = into & (image == 0) & (beside > 0)
        if not new.any():
            return
        image[new] = beside[new]


def _line(hw: Size, path: Path) -> Bools:
    """Return the pixels that a path passes; no two sides of it touch by a side of a pixel."""
    height, width = hw
    mask = np.zeros(hw, np.bool_)
    for (ax, ay), (bx, by) in zip(path, [*path[1:], path[-1]], strict=True):
        count = 2 * int(max(abs(bx - ax), abs(by - ay))) + 2
        t = np.linspace(0.0, 1.0, count)
        x = np.floor(ax + t * (bx - ax)).astype(np.int64)
        y = np.floor(ay + t * (by - ay)).astype(np.int64)
        inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
        mask[y[inside], x[inside]] = True
    return mask
