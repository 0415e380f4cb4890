"""What a person should look at in a tracked clip: one table of thresholds, each with its reason."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator import repair
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask

# By reason: the threshold, and the sentence.
THRESHOLDS: Mapping[str, tuple[float, str]] = {
    "score": (0.5, "the score is {0:.2f}, below {1:g}"),
    "area": (1.6, "the area is {0:.1f} times that of the frame before or after, above {1:g}"),
    "jump": (0.5, "the middle moves by {0:.2f} of the box, above {1:g}"),
    "parts": (1, "it has {0:.0f} parts"),
    "overlap": (0.4, "it overlaps the frame before by {0:.2f} only, below {1:g}"),
    "touches": (0.1, "{0:.0%} of it touches another object, above {1:.0%}"),
    "reappears": (0, "it comes back; frames without it: {0:.0f}"),
}
_CRUMB = 0.02  # of the largest part: smaller parts are none that a person looks at


@dataclass(frozen=True)
class Finding:
    """A frame of an object to be checked.

    Attributes
    ----------
    object, frame : int
    reason : str
        A key of `THRESHOLDS`.
    value : float
        What was found.
    rank : float
        How far beyond the threshold it is; the largest comes first.
    """

    object: int
    frame: int
    reason: str
    value: float
    rank: float

    @property
    def text(self) -> str:
        """The reason as a sentence has it."""
        threshold, said = THRESHOLDS[self.reason]
        return said.format(self.value, threshold)


def to_check(objects: Sequence[Object]) -> list[Finding]:
    """Return what should be looked at in the masks of a clip, the worst first.

    Only masks that tracking made are judged; of an object and a frame there is one finding, the
    worst one.
    """
    found: dict[tuple[int, int], Finding] = {}
    for one in objects:
        others = [other for other in objects if other.number != one.number]
        for finding in _of_object(one, others):
            key = finding.object, finding.frame
            if key not in found or found[key].rank < finding.rank:
                found[key] = finding
    return sorted(found.values(), key=lambda each: (-each.rank, each.object, each.frame))


def _of_object(one: Object, others: Sequence[Object]) -> Iterator[Finding]:
    shapes = {at: _Shape.of(one.masks[at].packed) for at in sorted(one.masks)}
    there = [at for at, shape in shapes.items() if shape.area]
    steps = [
        (shapes[b].middle[0] - shapes[a].middle[0], shapes[b].middle[1] - shapes[a].middle[1])
        for a, b in itertools.pairwise(there)
        if b == a + 1
    ]
    motion = np.median(np.array(steps), axis=0) if steps else np.zeros(2)
    before: int | None = None
    good: int | None = None  # the last frame that follows from one before it
    for at in there:
        mask, shape = one.masks[at], shapes[at]
        if mask.how == "tracked":
            yield from _alone(one.number, at, mask, shape)
            yield from _beside(one.number, at, mask.packed, shape, others)
            if before is not None and before == at - 1:
                found = list(_after(one.number, at, shapes[before], shape, motion))
                if found and good is not None and good != before:  # what was odd is over
                    moved = motion * (at - good)
                    found = found if any(_after(0, at, shapes[good], shape, moved)) else []
                yield from found
                good = good if found else at
            elif before is not None and _was_lost(one, before, at):
                yield _beyond(one.number, at, "reappears", at - before - 1, at - before)
        if mask.how != "tracked" or before != at - 1:
            good = at
        before = at


@dataclass(frozen=True, eq=False)
class _Shape:
    """A mask, and what its neighbours are compared with."""

    mask: PackedMask
    area: int
    middle: tuple[float, float]
    side: float  # of its box, the longer one

    @classmethod
    def of(cls, mask: PackedMask) -> "_Shape":
        part = mask.part()
        area = int(part.sum())
        if not area:
            return cls(mask, 0, (0.0, 0.0), 0.0)
        rows, columns = np.nonzero(part)
        x0, y0, x1, y1 = mask.box
        middle = float(columns.mean()) + x0, float(rows.mean()) + y0
        return cls(mask, area, middle, float(max(x1 - x0, y1 - y0)))


def _alone(number: int, at: int, mask: Mask, shape: _Shape) -> Iterator[Finding]:
    least = THRESHOLDS["score"][0]
    if mask.score < least:
        yield _beyond(number, at, "score", mask.score, least / max(mask.score, 1e-3))
    areas = repair.parts_of(mask.packed.part()).areas
    count = int((areas >= _CRUMB * areas.max()).sum())
    if count > THRESHOLDS["parts"][0]:
        yield _beyond(number, at, "parts", count, 1.0 + 0.1 * count)


def _after(
    number: int, at: int, before: _Shape, now: _Shape, motion: NDArray[np.float64]
) -> Iterator[Finding]:
    """Compare a frame with the one before it."""
    most = THRESHOLDS["area"][0]
    ratio = max(now.area / before.area, before.area / now.area)
    if ratio > most:
        yield _beyond(number, at, "area", ratio, ratio / most)
    most = THRESHOLDS["jump"][0]
    dx = now.middle[0] - before.middle[0] - motion[0]
    dy = now.middle[1] - before.middle[1] - motion[1]
    jump = float(np.hypot(dx, dy)) / before.side
    if jump > most:
        yield _beyond(number, at, "jump", jump, jump / most)
    least = THRESHOLDS["overlap"][0]
    overlap = _moved_iou(before.mask, now.mask, motion)
    if overlap < least:
        yield _beyond(number, at, "overlap", overlap, least / max(overlap, 0.1))


def _moved_iou(before: PackedMask, now: PackedMask, motion: NDArray[np.float64]) -> float:
    """Return the IoU of two masks, the first moved by whole pixels."""
    dx, dy = (round(float(each)) for each in motion)
    x0, y0, x1, y1 = before.box
    moved = (x0 + dx, y0 + dy, x1 + dx, y1 + dy)
    shared = _shared(moved, before.part(), now.box, now.part())
    union = int(before.part().sum()) + int(now.part().sum()) - shared
    return shared / union


def _shared(
    a: Sequence[int], a_part: NDArray[np.bool_], b: Sequence[int], b_part: NDArray[np.bool_]
) -> int:
    """Return the pixels that two masks, each with its box, have both."""
    x0, y0, x1, y1 = max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])
    if x0 >= x1 or y0 >= y1:
        return 0
    one = a_part[y0 - a[1] : y1 - a[1], x0 - a[0] : x1 - a[0]]
    other = b_part[y0 - b[1] : y1 - b[1], x0 - b[0] : x1 - b[0]]
    return int((one & other).sum())


def _beside(
    number: int, at: int, mask: PackedMask, shape: _Shape, others: Sequence[Object]
) -> Iterator[Finding]:
    """Tell how much of a mask lies on others."""
    most = THRESHOLDS["touches"][0]
    shares = [
        _shared(mask.box, mask.part(), other.masks[at].packed.box, other.masks[at].packed.part())
        for other in others
        if at in other.masks and other.masks[at].packed.bits
    ]
    share = max(shares, default=0) / shape.area
    if share > most:
        yield _beyond(number, at, "touches", share, share / most)


def _was_lost(one: Object, before: int, at: int) -> bool:
    """Tell whether tracking saw nothing between two frames."""
    between = [one.masks[frame] for frame in range(before + 1, at) if frame in one.masks]
    return any(mask.how == "tracked" for mask in between)


def _beyond(number: int, frame: int, reason: str, value: float, rank: float) -> Finding:
    return Finding(number, frame, reason, float(value), float(rank))
