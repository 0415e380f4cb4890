"""Objects of a video, and how messages describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.clicks import preview_hw
from sam_rlx.apps.annotator.document import Box, Color
from sam_rlx.apps.annotator.masks import PackedMask


@dataclass(frozen=True)
class FramePrompts:
    """What was said of one object on one frame."""

    points: tuple[tuple[float, float], ...] = ()
    labels: tuple[int, ...] = ()
    box: Box | None = None


@dataclass(frozen=True, eq=False)
class Track:
    """One object of a video: its name, its colour, and what was said of it, in order."""

    number: int
    name: str
    color: Color
    steps: tuple[tuple[int, FramePrompts], ...] = ()

    @property
    def prompts(self) -> dict[int, FramePrompts]:
        """The prompts that count, by frame."""
        return dict(self.steps)

    def __repr__(self) -> str:
        return f"<{self.name!r}: prompts on frames {sorted(self.prompts)}>"


def sampled(mask: PackedMask, hw: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask on a smaller grid (H, W)."""
    rows = ((np.arange(hw[0]) + 0.5) * mask.hw[0] / hw[0]).astype(np.intp)
    columns = ((np.arange(hw[1]) + 0.5) * mask.hw[1] / hw[1]).astype(np.intp)
    return np.ascontiguousarray(mask.to_mask()[np.ix_(rows, columns)])


def unique_names(tracks: Sequence[Track]) -> dict[int, str]:
    """Return a name for each object, by its number: its own, with the number if others have it."""
    names: dict[int, str] = {}
    taken = {track.name for track in tracks}
    for track in tracks:
        name = track.name
        if name in names.values():
            name = f"{track.name} ({track.number})"
            while name in taken:
                name += "'"
        taken.add(name)
        names[track.number] = name
    return names


def clip_head(hw: tuple[int, int], count: int) -> dict[str, Any]:
    """Return what a view is told of a video of so many frames."""
    height, width = hw
    small = preview_hw(hw)
    return {
        "type": "image",
        "kind": "video",
        "index": 0,
        "count": 1,
        "name": "video",
        "width": width,
        "height": height,
        "preview": [small[1], small[0]],
        "grid": [small[1], small[0]],
        "step": 1,
        "frames": count,
        "texts": False,
    }


def described(track: Track) -> dict[str, Any]:
    """Return what a state says of an object."""
    points, boxes = [], []
    for frame, given in track.prompts.items():
        marks = zip(given.points, given.labels, strict=True)
        points += [[x, y, label, frame] for (x, y), label in marks]
        boxes += [] if given.box is None else [[*given.box, frame]]
    return {
        "id": track.number,
        "name": track.name,
        "color": list(track.color),
        "points": points,
        "boxes": boxes,
        "candidate": 0,
        "candidates": 1,
        "score": None,
        "text": None,
        "mask": None,
    }
