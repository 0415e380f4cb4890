"""Objects cut out of their image: colours, and the mask as opacity."""

import math

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.formats.instances import Instance

_REACH = 3.0  # standard deviations of a soft edge that are computed


def cutout(
    pixels: NDArray[np.uint8], instances: list[Instance], *, crop: bool, soft_edge: float
) -> NDArray[np.uint8]:
    """Return what masks cover together as RGBA.

    Parameters
    ----------
    pixels : uint8 (H, W, 3)
        The image.
    instances : list of Instance
        The masks.
    crop : bool
        True: only the box around them, with room for the soft edge; of empty masks (0, 0, 4).
    soft_edge : float
        Standard deviation in pixels of a Gaussian filter on the opacity; 0 leaves it 0 or 255.

    Returns
    -------
    uint8 (h, w, 4)
        Colours are those of the image, and black where the opacity is 0.
    """
    height, width = pixels.shape[:2]
    x0, y0, x1, y1 = _around(instances, math.ceil(_REACH * soft_edge), (height, width))
    covered = np.zeros((y1 - y0, x1 - x0), np.bool_)
    for instance in instances:
        if instance.area:
            covered |= instance.window(x0, y0, x1 - x0, y1 - y0)
    opacity = covered.view(np.uint8) * np.uint8(255)
    if soft_edge and opacity.size:
        opacity = _blurred(opacity, soft_edge)
    if not crop:
        whole = np.zeros((height, width), np.uint8)
        whole[y0:y1, x0:x1] = opacity
        x0, y0, x1, y1, opacity = 0, 0, width, height, whole
    result = np.empty((*opacity.shape, 4), np.uint8)
    np.multiply(pixels[y0:y1, x0:x1], opacity[..., None] != 0, out=result[..., :3])
    result[..., 3] = opacity
    return result


def _around(instances: list[Instance], room: int, hw: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the corners x0, y0, x1, y1 of the box around all masks with room, in the image."""
    boxes = [instance.box for instance in instances if instance.area]
    if not boxes:
        return 0, 0, 0, 0
    x, y, width, height = np.array(boxes).T
    return (
        max(0, int(x.min()) - room),
        max(0, int(y.min()) - room),
        min(hw[1], int((x + width).max()) + room),
        min(hw[0], int((y + height).max()) + room),
    )


def _blurred(opacity: NDArray[np.uint8], sigma: float) -> NDArray[np.uint8]:
    """Return a Gaussian filter of opacities; beyond the border they go on as at it."""
    radius = math.ceil(_REACH * sigma)
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    weights /= weights.sum()
    values = opacity.astype(np.float32)
    for axis in (0, 1):
        padding = [(0, 0), (0, 0)]
        padding[axis] = (radius, radius)
        padded = np.pad(values, padding, mode="edge")
        count = values.shape[axis]
        values = np.zeros_like(values)
        for offset, weight in enumerate(weights.astype(np.float32)):
            part = [slice(None), slice(None)]
            part[axis] = slice(offset, offset + count)
            values += weight * padded[tuple(part)]
    return np.rint(np.clip(values, 0, 255)).astype(np.uint8)
