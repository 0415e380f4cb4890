"""Masks over an image, in the colours of their objects."""

import colorsys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.drawing.captions import draw_captions

Color = tuple[int, int, int]
# Boxes and points, and the colour of each.
Marks = tuple[NDArray[np.float64], list[Color], NDArray[np.float64], list[Color]]

# Steps of the golden ratio visit the colour circle without coming near an earlier hue for long.
_GOLDEN = 0.618033988749895


def color(identity: int) -> Color:
    """Return the RGB colour (0 to 255) of object number `identity`."""
    hue = (0.58 + identity * _GOLDEN) % 1.0
    value = 1.0 if identity % 2 == 0 else 0.88
    red, green, blue = colorsys.hsv_to_rgb(hue, 0.72, value)
    return round(255 * red), round(255 * green), round(255 * blue)


def line_width(hw: tuple[int, int]) -> float:
    """Return how wide outlines are, in pixels."""
    return max(2.0, min(hw) / 220.0)


def drawn(
    pixels: NDArray[np.uint8],
    masks: list[NDArray[np.bool_]],
    colors: list[Color],
    captions: Sequence[str] | None,
    marks: Marks | None = None,
    opacity: float = 0.5,
) -> NDArray[np.uint8]:
    """Return a new image (H, W, 3) with masks, boxes and points, and one caption a mask.

    Raises
    ------
    MissingExtraError
        There are captions, and Pillow is not installed.
    """
    line = line_width((pixels.shape[0], pixels.shape[1]))
    marks = marks or (np.zeros((0, 4)), [], np.zeros((0, 2)), [])
    image = _core.overlay(pixels, masks, colors, opacity, line, *marks)
    return image if captions is None else draw_captions(image, masks, captions, colors)
