"""What notebooks show of results: masks in the colours of their objects, as a PNG file's bytes."""

import math
from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.drawing.overlay import color, drawn
from sam_rlx._internal.media.image_files import pillow
from sam_rlx.errors import MissingExtraError

# Pixels of the longest side of an image, and of all panels beside each other.
_SIDE = 480
_WIDTH = 960
_MAX_PANELS = 12
_GAP = 6
_GROUND = (46, 46, 50)


def png(masks: Iterable[NDArray[Any]], hw: tuple[int, int], captions: list[str]) -> bytes | None:
    """Return all masks on one dark ground, large ones below small ones.

    Parameters
    ----------
    masks : iterable of (H, W)
        bool, or logits.
    hw : (int, int)
        H and W.
    captions : list of str
        One a mask.

    Returns
    -------
    bytes or None
        None without Pillow: a notebook then shows the text of the result.
    """
    step = _step(hw, _SIDE)
    small = [mask[::step, ::step] > 0 for mask in masks]
    order = sorted(range(len(small)), key=lambda index: -int(small[index].sum()))
    ground = _ground(hw, step)
    try:
        image = drawn(
            ground,
            [small[index] for index in order],
            [color(index) for index in order],
            [captions[index] for index in order],
        )
        return _encoded(image)
    except MissingExtraError:
        return None


def panels(masks: Sequence[NDArray[Any]], captions: Sequence[str]) -> bytes | None:
    """Return masks (H, W) in rows of panels, the first dozen of them, as `png`."""
    count = min(len(masks), _MAX_PANELS)
    if count == 0:
        return None
    columns = min(count, 3)
    hw: tuple[int, int] = masks[0].shape
    step = _step(hw, min(_SIDE, _WIDTH // columns))
    ground = _ground(hw, step)
    height, width = ground.shape[:2]
    rows = math.ceil(count / columns)
    sheet = np.full(
        (rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3), 255, np.uint8
    )
    try:
        for index in range(count):
            top, left = (height + _GAP) * (index // columns), (width + _GAP) * (index % columns)
            sheet[top : top + height, left : left + width] = drawn(
                ground,
                [np.ascontiguousarray(masks[index][::step, ::step] > 0)],
                [color(index)],
                [captions[index]],
            )
        return _encoded(sheet)
    except MissingExtraError:
        return None


def _step(hw: tuple[int, int], side: int) -> int:
    return max(1, math.ceil(max(hw) / side))


def _ground(hw: tuple[int, int], step: int) -> NDArray[np.uint8]:
    shape = (math.ceil(hw[0] / step), math.ceil(hw[1] / step), 3)
    return np.full(shape, _GROUND, np.uint8)


def _encoded(pixels: NDArray[np.uint8]) -> bytes:
    buffer = BytesIO()
    pillow("Image").fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
