"""Results of two runs of a program, compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLD = {"seconds", "loading", "failed"}  # no results
LEAST_IOU = 0.999


def least_iou(meta: Path, ours: Path) -> float:
    """Return the least IoU of the masks that two files hold; 0 where shapes differ.

    Numbers that are no masks, such as scores, must agree to 1e-3 of their largest.
    """
    with np.load(meta) as a, np.load(ours) as b:
        expected, names = set(a.files) - TOLD, set(b.files) - TOLD
        if names != expected and not (names < expected and failed(ours)):
            raise ValueError(f"expected results {sorted(expected)}, found {sorted(names)}")
        found = [_agreement(name, a[name], b[name]) for name in sorted(names)]
    return min(found, default=0.0)


def _agreement(name: str, expected: NDArray[Any], found: NDArray[Any]) -> float:
    if expected.shape != found.shape:
        print(f"    {name}: expected shape {expected.shape}, found {found.shape}")
        return 0.0
    if expected.dtype != bool:
        scale = np.abs(expected).max(initial=1e-6)
        worst = np.abs(expected - found.astype(expected.dtype)).max(initial=0) / scale
        if worst > 1e-3:
            print(f"    {name}: differs by {worst:.1e} of its largest value")
        return 1.0 if worst <= 1e-3 else 0.0
    a, b = (x.reshape(-1, x.shape[-2] * x.shape[-1]) for x in (expected, found))
    either, both = (a | b).sum(1), (a & b).sum(1)
    values = np.where(either > 0, both / np.maximum(either, 1), 1.0)
    return float(values.min(initial=1.0))


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
