"""Overlays of the core against the same drawing written in NumPy, pixel by pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core, viz
from sam_rlx.generator import MaskRecord

_POINTS = {1: (57, 211, 83), 0: (240, 62, 62), -1: (150, 150, 150)}
_BOXES = {1: (255, 214, 10), 0: (240, 62, 62)}


def _mean(values: np.ndarray, radius: int) -> np.ndarray:
    """Mean over a square, columns first, with edge values repeated."""
    for axis in (0, 1):
        pad = [(0, 0), (0, 0)]
        pad[axis] = (radius + 1, radius)
        total = np.cumsum(np.pad(values, pad, mode="edge"), axis=axis, dtype=np.float64)
        size = 2 * radius + 1
        high = np.take(total, range(size, total.shape[axis]), axis=axis)
        low = np.take(total, range(total.shape[axis] - size), axis=axis)
        values = ((high - low) / size).astype(np.float32)
    return values


def _mask(canvas: np.ndarray, mask: np.ndarray, rgb: Any, opacity: float, line: float) -> None:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) == 0:
        return
    radius = int(np.ceil(line))
    top, bottom = max(0, rows[0] - radius), rows[-1] + radius + 1
    left, right = max(0, columns[0] - radius), columns[-1] + radius + 1
    inside = mask[top:bottom, left:right].astype(np.float32)
    share = _mean(_mean(inside, radius), radius)
    border = np.clip(2 - 4 * np.abs(share - np.float32(0.5)), 0, 1).astype(np.float32)
    filling = np.float32(opacity) * inside
    alpha = (filling + (1 - filling) * border)[:, :, np.newaxis]
    region = canvas[top:bottom, left:right]
    paint = np.asarray(rgb, np.float32)
    light = paint + (255 - paint) * np.float32(0.35)
    blend = border[:, :, np.newaxis]
    region += alpha * (blend * light + (1 - blend) * paint - region)


def _mark(canvas: np.ndarray, distance: np.ndarray, layers: list[tuple[float, Any]]) -> None:
    for size, paint in layers:
        alpha = np.clip(size + 0.5 - distance, 0.0, 1.0)[:, :, np.newaxis]
        canvas += alpha * (np.asarray(paint, np.float32) - canvas)


def _box(canvas: np.ndarray, box: Any, line: float, rgb: Any) -> None:
    y, x = np.ogrid[: canvas.shape[0], : canvas.shape[1]]
    across = np.abs(x + 0.5 - (box[0] + box[2]) / 2) - (box[2] - box[0]) / 2
    down = np.abs(y + 0.5 - (box[1] + box[3]) / 2) - (box[3] - box[1]) / 2
    distance = np.abs(np.maximum(across, down))
    _mark(canvas, distance, [((line + 2.0) / 2, (20, 20, 20)), (line / 2, rgb)])


def _point(canvas: np.ndarray, point: Any, line: float, rgb: Any) -> None:
    y, x = np.ogrid[: canvas.shape[0], : canvas.shape[1]]
    distance, radius = np.hypot(x + 0.5 - point[0], y + 0.5 - point[1]), 3.2 * line
    rings = [(radius + 1.0, (20, 20, 20)), (radius, (255, 255, 255)), (radius * 0.72, rgb)]
    _mark(canvas, distance, rings)


def _reference(image: np.ndarray, masks: list[np.ndarray], opacity: float, **marks: Any) -> Any:
    canvas = image.astype(np.float32)
    line = max(2.0, min(image.shape[:2]) / 220.0)
    for index, mask in enumerate(masks):
        _mask(canvas, mask, viz.color(index), opacity, line)
    for box, label in zip(marks.get("boxes", []), marks.get("box_labels", []), strict=True):
        _box(canvas, np.asarray(box, float), line, _BOXES[label])
    points, labels = marks.get("point_coords", []), marks.get("point_labels", [])
    for point, label in zip(points, labels, strict=True):
        _point(canvas, point, line, _POINTS[label])
    return np.rint(canvas).astype(np.uint8)


def _masks(rng: np.random.Generator, hw: tuple[int, int]) -> list[np.ndarray]:
    """Discs in and over the image, single pixels, everything, nothing."""
    y, x = np.ogrid[: hw[0], : hw[1]]
    masks = []
    for _ in range(4):
        centre = rng.uniform(-0.2, 1.2, 2) * hw
        radius = rng.uniform(0.05, 0.5) * max(hw)
        masks.append((y - centre[0]) ** 2 + (x - centre[1]) ** 2 < radius**2)
    return [*masks, rng.random(hw) < 0.02, np.ones(hw, bool), np.zeros(hw, bool)]


@pytest.mark.parametrize("hw", [(1, 1), (7, 5), (33, 64), (80, 121), (701, 530)])
def test_pixels_are_those_of_the_formula(hw: tuple[int, int]) -> None:
    rng = np.random.default_rng(hw[0])
    image = rng.integers(0, 256, (*hw, 3), dtype=np.uint8)
    masks = _masks(rng, hw)
    sides = (hw[1], hw[0])
    marks = {
        "point_coords": rng.uniform(-0.1, 1.1, (6, 2)) * sides,
        "point_labels": [1, 0, -1, 1, 0, 1],
        "boxes": [[-5, -5, hw[1] / 2, hw[0] / 2], [10, 10, 10, 10], [hw[1], hw[0], 1, 2.5]],
        "box_labels": [1, 0, 1],
    }
    for chosen, opacity, others in (
        (masks[:1], 0.5, {}),
        (masks, 0.37, {}),
        (masks, 1.0, marks),
        ([], 0.5, marks),
    ):
        drawn = viz.overlay(image, chosen, opacity=opacity, **others)
        np.testing.assert_array_equal(drawn, _reference(image, chosen, opacity, **others))


def test_strided_images_and_masks() -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (60, 80, 3), dtype=np.uint8)
    mask = _masks(rng, (60, 80))[0]
    flipped = viz.overlay(image[::-1], mask[::-1])
    np.testing.assert_array_equal(
        flipped, viz.overlay(image[::-1].copy(), np.ascontiguousarray(mask[::-1]))
    )
    counted = viz.overlay(image, mask.astype(np.uint8) * 255)
    np.testing.assert_array_equal(counted, viz.overlay(image, mask))


@pytest.mark.parametrize("hw", [(40, 50), (33, 97), (300, 70), (1, 9), (9, 1)])
def test_records_are_drawn_from_their_runs(hw: tuple[int, int]) -> None:
    """As their masks are: of any form, also empty and full ones, in bands that cut them."""
    rng = np.random.default_rng(sum(hw))
    y, x = np.mgrid[: hw[0], : hw[1]]
    masks = [
        np.zeros(hw, bool),
        np.ones(hw, bool),
        rng.random(hw) < 0.5,
        (y - hw[0] / 2) ** 2 + (x - hw[1] / 3) ** 2 < (min(hw) / 3) ** 2,
        (y >= hw[0] - 2) & (x < 3),
        (x >= hw[1] - 1),
    ]
    image = rng.integers(0, 256, (*hw, 3), np.uint8)
    records = [
        MaskRecord(
            dict.fromkeys(("bbox", "predicted_iou", "point_coords", "stability_score", "crop_box"))
            | {"counts": _core.rle_encode(mask), "size": hw, "area": int(mask.sum())}
        )
        for mask in masks
    ]
    order = sorted(range(len(masks)), key=lambda at: -records[at].area)
    expected = viz.overlay(image, [masks[at] for at in order], identities=order, opacity=0.4)
    np.testing.assert_array_equal(viz.overlay_records(image, records, opacity=0.4), expected)


def test_records_of_another_image_are_refused() -> None:
    fields = dict.fromkeys(("bbox", "predicted_iou", "point_coords", "stability_score", "crop_box"))
    record = MaskRecord(fields | {"counts": np.array([6], np.uint32), "size": (2, 3), "area": 0})
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"records\[0\]: expected a mask of"):
        viz.overlay_records(np.zeros((3, 2, 3), np.uint8), [record])
