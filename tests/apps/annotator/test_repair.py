"""Repair of masks: strokes equal NumPy's distances, the rest equals SciPy's morphology."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sam_rlx.apps.annotator import repair
from sam_rlx.errors import InvalidArgumentError

ndimage = pytest.importorskip("scipy.ndimage", reason="the judge of morphology")

HW = (47, 61)
CROSS = ndimage.generate_binary_structure(2, 1)
SQUARE = ndimage.generate_binary_structure(2, 2)


def blobs(seed: int, hw: tuple[int, int] = HW) -> NDArray[np.bool_]:
    """Return smooth random shapes with holes and crumbs, up to the border."""
    values = np.random.default_rng(seed).normal(size=hw)
    mask = ndimage.gaussian_filter(values, 1.0 + seed % 3) > 0
    mask[20:27, 20:30] = True
    mask[22:25, 23 : 26 + seed % 2] = mask[22, 28] = False
    return np.asarray(mask, np.bool_)


def distances(path: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far each pixel's middle is from a path: the nearest of its pieces."""
    y, x = np.mgrid[: HW[0], : HW[1]] + 0.5
    found = np.full(HW, np.inf)
    for a, b in zip(path, [*path[1:], path[-1]], strict=True):
        step = b - a
        length = float(step @ step)
        t = ((x - a[0]) * step[0] + (y - a[1]) * step[1]) / length if length else np.zeros(HW)
        t = np.clip(t, 0, 1)
        found = np.minimum(found, np.hypot(x - a[0] - t * step[0], y - a[1] - t * step[1]))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_stroke_has_the_pixels_near_its_path(seed: int) -> None:
    random = np.random.default_rng(seed)
    path = random.uniform(-10, 70, (1 + seed % 5, 2))
    radius = float(random.choice([1, 2.5, 7, 40]))
    wanted = distances(path)
    found = repair.stroke(HW, [tuple(point) for point in path], radius)
    clear = abs(wanted - radius) > 1e-9
    assert (found == (wanted <= radius))[clear].all()


@pytest.mark.parametrize("seed", range(20))
def test_a_lasso_has_the_pixels_inside(seed: int) -> None:
    random = np.random.default_rng(seed)
    path = random.uniform(-8, 66, (3 + seed % 6, 2))
    y, x = np.mgrid[: HW[0], : HW[1]] + 0.5
    inside = np.zeros(HW, np.bool_)
    for a, b in zip(path, np.roll(path, -1, axis=0), strict=True):
        crosses = (a[1] > y) != (b[1] > y)
        at = a[0] + (y - a[1]) * (b[0] - a[0]) / (b[1] - a[1])
        inside ^= crosses & (at < x)
    assert (repair.lasso(HW, [tuple(point) for point in path]) == inside).all()


def test_a_lasso_of_whole_pixels() -> None:
    found = repair.lasso(HW, [(3, 2), (10, 2), (10, 7), (3, 7)])
    wanted = np.zeros(HW, np.bool_)
    wanted[2:7, 3:10] = True
    assert (found == wanted).all()


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_parts_are_those_of_scipy(seed: int, corners: bool) -> None:
    mask = blobs(seed) if seed else np.zeros(HW, np.bool_)
    labels, count = ndimage.label(mask, SQUARE if corners else CROSS)
    found = repair.parts_of(mask, corners=corners)
    assert found.count == count
    assert sorted(found.areas) == sorted(np.bincount(labels.ravel())[1:])
    for part in range(count):
        pixels = found.mask(np.arange(count) == part)
        assert len(np.unique(labels[pixels])) == 1
        assert (labels == labels[pixels][0]).sum() == pixels.sum()


def holes_of(mask: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    filled = ndimage.binary_fill_holes(mask, SQUARE)
    labels, count = ndimage.label(filled & ~mask, SQUARE)
    return [labels == k + 1 for k in range(count)]


@pytest.mark.parametrize("seed", range(15))
def test_holes_are_filled(seed: int) -> None:
    mask = blobs(seed)
    holes = holes_of(mask)
    assert holes
    everything = np.logical_or.reduce(holes)
    assert (repair.holes(mask, 1e9) == everything).all()
    largest = repair.holes(mask)
    assert largest.sum() == max(hole.sum() for hole in holes)
    assert any((largest == hole).all() for hole in holes)
    small = [hole for hole in holes if hole.sum() <= 3]
    wanted = np.logical_or.reduce([np.zeros(HW, np.bool_), *small])
    assert (repair.holes(mask, 3) == wanted).all()
    assert not repair.holes(mask | everything).any()


@pytest.mark.parametrize("seed", range(15))
def test_crumbs_are_small_parts_but_the_largest(seed: int) -> None:
    mask = blobs(seed)
    labels, count = ndimage.label(mask, CROSS)
    areas = np.bincount(labels.ravel())[1:]
    wanted = np.zeros(HW, np.bool_)
    for k in range(count):
        if areas[k] <= 20 and k != int(areas.argmax()):
            wanted |= labels == k + 1
    assert (repair.crumbs(mask, 20) == wanted).all()
    assert not repair.crumbs(np.zeros(HW, np.bool_), 5).any()


@pytest.mark.parametrize("radius", [1.0, 1.5, 3.0, 6.2])
@pytest.mark.parametrize("seed", range(8))
def test_smooth_is_opening_and_closing_by_a_disc(seed: int, radius: float) -> None:
    mask = blobs(seed)
    reach = int(radius)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disc = np.hypot(x, y) <= radius
    opened = ndimage.binary_dilation(
        ndimage.binary_erosion(mask, disc, border_value=1), disc, border_value=0
    )
    closed = ndimage.binary_erosion(
        ndimage.binary_dilation(opened, disc, border_value=0), disc, border_value=1
    )
    assert (repair.smooth(mask, radius) == closed).all()


@pytest.mark.parametrize("seed", range(8))
def test_connected_parts_come_from_large_to_small(seed: int) -> None:
    mask = blobs(seed)
    labels, _ = ndimage.label(mask, CROSS)
    found = repair.connected(mask)
    areas = [int(part.sum()) for part in found]
    assert areas == sorted(np.bincount(labels.ravel())[1:].tolist(), reverse=True)
    assert (np.sum(found, axis=0) == mask).all()


def test_a_line_divides_a_mask_and_loses_nothing() -> None:
    mask = np.zeros(HW, np.bool_)
    mask[10:30, 5:45] = True
    mask[40:44, 50:55] = True  # a part that the line leaves alone
    pieces = repair.split(mask, [(20.5, 0), (20.5, 46)])
    assert len(pieces) == 2
    assert (pieces[0] ^ pieces[1] == mask).all()
    assert pieces[0][40:44, 50:55].all()
    assert pieces[1][10:30, 5:20].all()
    assert pieces[0][10:30, 21:45].all()
    with pytest.raises(InvalidArgumentError, match="line: expected one that divides"):
        repair.split(mask, [(20.5, 0), (20.5, 20)])


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_a_slanted_line_touch_nowhere_else(seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = np.zeros(HW, np.bool_)
    mask[8:40, 6:56] = True
    a, b = random.uniform(0, 61), random.uniform(0, 61)
    pieces = repair.split(mask, [(a, -1), (b, 48)])
    assert len(pieces) == 2
    assert (pieces[0] ^ pieces[1] == mask).all()
    y, x = np.mgrid[: HW[0], : HW[1]] + 0.5
    side = x - (a + (b - a) * (y + 1) / 49)
    for piece in pieces:
        far = side[piece & (abs(side) > 1.5)]
        assert (far > 0).all() or (far < 0).all()
