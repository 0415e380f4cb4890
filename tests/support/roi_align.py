"""What torchvision lacks where its C++ library cannot be loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def within_the_map(interpolate: Callable[..., Any]) -> Callable[..., Any]:
    """Make samples of RoIAlign more than one cell outside of the map zero.

    torchvision's operator does so on every device. What stands in for it repeats the border.
    """

    def inside(maps: Any, ids: Any, y: Any, x: Any, ymask: Any, xmask: Any) -> Any:
        height, width = maps.shape[-2:]
        rows = ((y >= -1) & (y <= height))[:, None, :, None, :, None]
        cols = ((x >= -1) & (x <= width))[:, None, None, :, None, :]
        return interpolate(maps, ids, y, x, ymask, xmask) * (rows & cols)

    return inside
