"""Words on images: captions of masks, readable on any background. Needs Pillow."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.drawing.fonts import Caption, Run, fitted
from sam_rlx._internal.media.image_files import pillow

# Left, top, right, bottom in pixels.
_Box = tuple[int, int, int, int]


def draw_captions(
    pixels: NDArray[np.uint8],
    masks: Sequence[NDArray[np.bool_]],
    captions: Sequence[str],
    colors: Sequence[tuple[int, int, int]],
) -> NDArray[np.uint8]:
    r"""Write a caption at the upper edge of each mask, on a plate of the mask's colour.

    Parameters
    ----------
    pixels : ndarray (H, W, 3), uint8
        The overlay so far.
    masks : sequence of bool (H, W)
        An empty one gets no caption.
    captions : sequence of str
        One a mask; "" for none. Letters that no font of this machine has become escapes such as
        ``\u72d7``; Latin letters lose their marks.
    colors : sequence of (int, int, int)
        RGB of each mask.

    Returns
    -------
    ndarray (H, W, 3), uint8
        A new image. Captions keep clear of each other as long as there is room.

    Raises
    ------
    MissingExtraError
        Pillow is not installed.
    """
    image = pillow("Image").fromarray(pixels)
    draw = pillow("ImageDraw").Draw(image)
    height, width = pixels.shape[:2]
    # Many captions are smaller.
    crowd = np.clip(np.sqrt(10 / max(1, len(masks))), 0.5, 1.0)
    size = int(np.clip(crowd * min(height, width) / 28, 10, 44))
    taken: list[_Box] = []
    for mask, words, color in zip(masks, captions, colors, strict=True):
        anchor = _anchor(mask)
        if anchor is None or not words:
            continue
        written = fitted(words, size)
        runs, (left, top, right, bottom) = _laid_out(draw, written)
        pad = max(2, size // 5)
        plate = int(right - left) + 2 * pad, int(bottom - top) + 2 * pad
        box = _free_position(anchor, plate, (height, width), taken)
        taken.append(box)
        edge = tuple(part // 3 for part in color)
        draw.rounded_rectangle(
            (box[0], box[1], box[2] - 1, box[3] - 1), radius=pad, fill=color, outline=edge
        )
        x, y = box[0] + pad - left, box[1] + pad - top
        for offset, run in runs:
            draw.text((x + offset, y), run.text, fill=_ink(color), font=run.font, anchor="ls")
    return np.asarray(image)


def _laid_out(draw: Any, caption: Caption) -> tuple[list[tuple[int, Run]], _Box]:
    """Return where each run begins on a common base line, and the box around all."""
    runs: list[tuple[int, Run]] = []
    boxes: list[_Box] = []
    x = 0
    for run in caption.runs:
        runs.append((x, run))
        boxes.append(draw.textbbox((x, 0), run.text, font=run.font, anchor="ls"))
        x += math.ceil(run.font.getlength(run.text))
    left, top, right, bottom = zip(*boxes, strict=True)
    return runs, (min(left), min(top), max(right), max(bottom))


def _ink(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """Black or white, whichever has the higher contrast with a colour."""
    linear = [(part / 255) ** 2.2 for part in color]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if luminance > 0.18 else (255, 255, 255)


def _anchor(mask: NDArray[np.bool_]) -> tuple[int, int] | None:
    """Return (x, y) of the middle of a mask's uppermost row, or None for an empty mask."""
    rows: NDArray[Any] = np.flatnonzero(mask.any(axis=1))
    if len(rows) == 0:
        return None
    columns = np.flatnonzero(mask[rows[0]])
    return int((columns[0] + columns[-1]) // 2), int(rows[0])


def _free_position(
    anchor: tuple[int, int], plate: tuple[int, int], hw: tuple[int, int], taken: list[_Box]
) -> _Box:
    """Return the first position above or below the anchor, within the image, that is free."""
    width, height = plate
    left = int(np.clip(anchor[0] - width // 2, 0, max(0, hw[1] - width)))
    positions = []
    # Steps away from the anchor, in half plates: above it, across its edge, below it.
    for step in (-2, 0, -3, 1, -4, 2, -5, 3, -6, 4):
        top = int(np.clip(anchor[1] + step * height // 2, 0, max(0, hw[0] - height)))
        positions.append((left, top, left + width, top + height))
    for position in positions:
        if not any(_meet(position, other) for other in taken):
            return position
    return positions[0]


def _meet(a: _Box, b: _Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
