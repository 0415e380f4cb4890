"""Images of a yellow disc, which all packaged models find."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw


def disc(x: int, y: int, radius: int = 22, size: tuple[int, int] = (161, 120)) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) in RGB of a disc on blue ground; `size` is (width, height)."""
    image = Image.new("RGB", size, (30, 60, 90))
    box = (x - radius, y - radius, x + radius, y + radius)
    ImageDraw.Draw(image).ellipse(box, fill=(230, 200, 40))
    return np.asarray(image)
