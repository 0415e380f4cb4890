"""How messages describe a clip and its masks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.predict import preview_hw
from sam_rlx.apps.annotator.values import Object, PackedMask


def sampled(mask: PackedMask, hw: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask on a smaller grid (H, W)."""
    rows = ((np.arange(hw[0]) + 0.5) * mask.hw[0] / hw[0]).astype(np.intp)
    columns = ((np.arange(hw[1]) + 0.5) * mask.hw[1] / hw[1]).astype(np.intp)
    return np.ascontiguousarray(mask.to_mask()[np.ix_(rows, columns)])


def unique_names(tracks: Sequence[Object]) -> dict[int, str]:
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
