"""Results of two runs of a program, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TOLD = {"seconds", "loading", "failed"}  # no results
LEAST_IOU = 0.999


class Agreement(NamedTuple):
    """How far two runs agree."""

    iou: float  # the least of their masks; 0 where shapes differ
    is_enough: bool  # LEAST_IOU at least, or one pixel of a small mask that differs


def compared(meta: Path, ours: Path) -> Agreement:
    """Compare the masks that two files hold.

    Numbers that are no masks, such as scores, must agree to 1e-3 of their largest.
    """
    with np.load(meta) as a, np.load(ours) as b:
        expected, names = set(a.files) - TOLD, set(b.files) - TOLD
        if names != expected and not (names < expected and failed(ours)):
            raise ValueError(f"expected results {sorted(expected)}, found {sorted(names)}")
        found = [_agreement(name, a[name], b[name]) for name in sorted(names)]
    return Agreement(
        min((each.iou for each in found), default=0.0), all(e.is_enough for e in found)
    )


def _agreement(name: str, expected: NDArray[Any], found: NDArray[Any]) -> Agreement:
    if expected.shape != found.shape:
        print(f"    {name}: expected shape {expected.shape}, found {found.shape}")
        return Agreement(0.0, False)
    if expected.dtype != bool:
        scale = np.abs(expected).max(initial=1e-6)
        worst = np.abs(expected - found.astype(expected.dtype)).max(initial=0) / scale
        if worst > 1e-3:
            print(f"    {name}: differs by {worst:.1e} of its largest value")
        return Agreement(float(worst <= 1e-3), bool(worst <= 1e-3))
    a, b = (x.reshape(-1, x.shape[-2] * x.shape[-1]) for x in (expected, found))
    either, both = (a | b).sum(1), (a & b).sum(1)
    values = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    enough = (values >= LEAST_IOU) | (either - both <= 1)
    return Agreement(float(values.min(initial=1.0)), bool(enough.all()))


def masks_of(path: Path) -> tuple[int, int]:
    """Return how many masks a file holds, and how many of them are neither empty nor full."""
    count = real = 0
    with np.load(path) as arrays:
        for name in set(arrays.files) - TOLD:
            if arrays[name].dtype == bool:
                share = arrays[name].mean((-2, -1)).ravel()
                count, real = count + share.size, real + int(((share > 0) & (share < 1)).sum())
    return count, real


def times(path: Path) -> float:
    """Return the seconds of work of a run."""
    with np.load(path) as arrays:
        return float(arrays["seconds"])


def failed(path: Path) -> dict[str, str]:
    """Return the parts of a program that did not run, and their errors."""
    with np.load(path) as arrays:
        found: dict[str, str] = json.loads(str(arrays["failed"]))
    return found
