"""How messages describe a clip and its masks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.limits import MAX_FRAMES
from sam_rlx.apps.annotator.predict import preview_hw
from sam_rlx.apps.annotator.values import Gone, Object, PackedMask

HELD = ("hand", "checked")  # masks that tracking leaves alone


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


def stale_runs(one: Object) -> list[list[int]]:
    """Return runs of frames, [first, end], whose tracked masks prompts came after.

    A prompt reaches from its frame to the next masks that a person made or checked, both ways.
    """
    if not one.asked:
        return []
    held = [at for at, mask in one.masks.items() if mask.how in HELD]
    reaches = [
        (
            max((at for at in held if at < frame), default=-1),
            min((at for at in held if at > frame), default=MAX_FRAMES),
            version,
        )
        for frame, version in one.asked
    ]
    runs: list[list[int]] = []
    for at in sorted(one.masks):
        mask = one.masks[at]
        if mask.how != "tracked" or not any(
            low < at < high and mask.since < version for low, high, version in reaches
        ):
            continue
        if runs and runs[-1][1] == at:
            runs[-1][1] = at + 1
        else:
            runs.append([at, at + 1])
    return runs


def asked_anew(before: Object, after: Object) -> Object:
    """Return an object that notes on which frames its prompts differ from those before."""
    differ = set(before.prompts) ^ set(after.prompts)
    frames = {one.frame for one in differ if not isinstance(one, Gone)}
    version = max(before.version, after.version) + 1
    known = {**dict(after.asked), **dict.fromkeys(frames, version)}
    return replace(after, asked=tuple(sorted(known.items()))) if frames else after


def clip_head(hw: tuple[int, int], count: int, texts: bool) -> dict[str, Any]:
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
        "texts": texts,
    }
