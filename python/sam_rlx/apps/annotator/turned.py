"""Positions that are turned clockwise, as CVAT and Label Studio store turned shapes."""

import math
from collections.abc import Iterable


def cosine_and_sine(degrees: float) -> tuple[float, float]:
    """Return those of an angle, which are whole for quarter turns."""
    quarter, rest = divmod(degrees % 360.0, 90.0)
    if rest == 0.0:
        return ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarter) % 4]
    angle = math.radians(degrees)
    return math.cos(angle), math.sin(angle)


def turned(
    about: tuple[float, float], offsets: Iterable[tuple[float, float]], degrees: float
) -> list[tuple[float, float]]:
    """Return the positions (x, y) in pixels at some offsets (dx, dy) from a point, turned."""
    (x, y), (cos, sin) = about, cosine_and_sine(degrees)
    return [(x + dx * cos - dy * sin, y + dx * sin + dy * cos) for dx, dy in offsets]
