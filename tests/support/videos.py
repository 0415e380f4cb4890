"""A made-up video, and what its results are compared by. Needs NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np
import sam_rlx

HW = (45, 61)
POINT: dict[str, Any] = {"point_coords": [[20, 18]], "point_labels": [1]}


def frame_image(t: int, hw: tuple[int, int] = HW) -> np.ndarray:
    """Frame t of a made-up video."""
    y, x = np.mgrid[: hw[0], : hw[1]]
    frame = np.stack([3 * x % 256, 5 * y % 256, (x + y + 4 * t) % 256], axis=-1)
    frame[(x - 18 - t) ** 2 + (y - 18) ** 2 < 60] = (240, 30, 20)
    return frame.astype(np.uint8)


def results(session: sam_rlx.VideoPredictor, **options: Any) -> list[sam_rlx.VideoFrame]:
    return list(session.propagate(return_logits=True, **options))


def same(a: list[sam_rlx.VideoFrame], b: list[sam_rlx.VideoFrame]) -> bool:
    return len(a) == len(b) and all(
        x.frame_index == y.frame_index
        and x.scores == y.scores
        and x.logits is not None
        and y.logits is not None
        and all(np.array_equal(x.logits[k], y.logits[k]) for k in x.scores)
        for x, y in zip(a, b, strict=True)
    )
