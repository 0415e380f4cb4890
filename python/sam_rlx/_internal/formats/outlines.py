"""Outlines of masks as lists of coordinates."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.formats.instances import Instance

# The outer ring (N, 2) of a part of a mask, and those of its holes.
Rings = Sequence[NDArray[np.int32]]


def flat_polygons(instance: Instance, tolerance: float = 0.0) -> list[list[float]]:
    """Return the outlines as COCO has them, [x0, y0, x1, y1, ...] in pixels: one of each part.

    COCO has no holes: each is cut open, by a line from the outline around it there and back. Filled
    by the even-odd rule, as pycocotools does, they give the mask.
    """
    if not tolerance:
        return _core.rle_to_polygons(instance.counts, instance.size, True)
    return [one_line([rings]) for rings in instance.outlines(tolerance)]


def one_line(parts: Sequence[Rings]) -> list[float]:
    """Return all rings of a mask as one closed line [x0, y0, x1, y1, ...].

    From the first corner lines lead to the first one of each other ring there and back: filled by
    the even-odd rule it is what the rings are.
    """
    rings = [ring for part in parts for ring in part]
    if not rings:
        return []
    first, *others = rings
    start = first[:1]
    line = [first]
    for ring in others:
        line += [start, ring, ring[:1]]
    if others:
        line.append(start)
    corners: list[float] = np.concatenate(line).ravel().astype(np.float64).tolist()
    return corners
