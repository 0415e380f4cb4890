"""Outlines as rings: valid for shapely, exact without a tolerance, near with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

_core = pytest.importorskip("sam_rlx._core")
shapely = pytest.importorskip("shapely", reason="shapely judges outlines")


def _noise(rng: np.random.Generator, side: int = 40) -> np.ndarray:
    """A mask of pixels, blocks and discs: holes in holes, and corners that touch."""
    height, width = rng.integers(1, side, 2)
    step = int(rng.integers(1, 6))
    coarse = rng.random((height // step + 1, width // step + 1)) < rng.uniform(0.1, 0.9)
    mask = np.kron(coarse, np.ones((step, step), bool))[:height, :width]
    rows, columns = np.ogrid[:height, :width]
    for _ in range(int(rng.integers(0, 4))):
        x, y, radius = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(1, side / 2)
        mask = mask ^ ((columns - x) ** 2 + (rows - y) ** 2 < radius**2)
    return np.ascontiguousarray(mask)


def _outlines(mask: np.ndarray, tolerance: float = 0.0) -> Any:
    return _core.rle_to_outlines(_core.rle_encode(mask), mask.shape, tolerance)


def _shape(outlines: Any) -> Any:
    return shapely.MultiPolygon([(part[0], part[1:]) for part in outlines])


def _filled(outlines: Any, hw: tuple[int, int]) -> np.ndarray:
    """The pixels whose centre is inside, by shapely."""
    rows, columns = np.mgrid[: hw[0], : hw[1]]
    return shapely.contains_xy(_shape(outlines), columns + 0.5, rows + 0.5)


def _check(mask: np.ndarray, tolerances: tuple[float, ...]) -> None:
    exact = _outlines(mask)
    shape = _shape(exact)
    assert shape.is_valid, shapely.is_valid_reason(shape)
    assert shape.area == mask.sum()
    np.testing.assert_array_equal(_filled(exact, mask.shape), mask)
    for part in exact:
        assert shapely.LinearRing(part[0]).is_ccw  # clockwise where y points down
        assert not any(shapely.LinearRing(hole).is_ccw for hole in part[1:])
    for tolerance in tolerances:
        found = _outlines(mask, tolerance)
        simple = _shape(found)
        assert simple.is_valid, shapely.is_valid_reason(simple)
        assert [len(part) for part in found] == [len(part) for part in exact]
        for part, before in zip(found, exact, strict=True):
            for ring, full in zip(part, before, strict=True):
                assert 3 <= len(ring) <= len(full)
                line = shapely.LinearRing(ring)
                left_out = shapely.distance(line, shapely.points(full))
                assert left_out.max() <= tolerance + 1e-9


def test_outlines_of_random_masks_are_valid() -> None:
    rng = np.random.default_rng(66)
    for _ in range(1000):
        mask = _noise(rng)
        for tolerance in (0.0, 1.0):
            shape = _shape(_outlines(mask, tolerance))
            assert shape.is_valid, shapely.is_valid_reason(shape)


def test_outlines_of_random_masks_are_exact_or_near() -> None:
    rng = np.random.default_rng(67)
    for _ in range(120):
        _check(_noise(rng), (0.5, 1.5, 4.0))


@pytest.mark.slow
def test_outlines_of_all_small_masks() -> None:
    for number in range(1 << 12):
        bits = np.array([number >> position & 1 for position in range(12)], bool)
        _check(bits.reshape(3, 4), (0.8, 3.0))


def test_corners_that_touch() -> None:
    two = np.array([[1, 0], [0, 1]], bool)
    assert len(_outlines(two)) == 2
    # A loop that closes in a corner: the hole touches the outer ring there.
    loop = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0]], bool)
    [[outer, hole]] = _outlines(loop)
    assert {(2, 2)} == {tuple(corner) for corner in outer.tolist()} & {
        tuple(corner) for corner in hole.tolist()
    }
    assert _shape(_outlines(loop)).is_valid


def test_a_disc_becomes_few_corners() -> None:
    rows, columns = np.ogrid[:400, :400]
    disc = (columns - 200) ** 2 + (rows - 200) ** 2 < 150**2
    disc &= (columns - 220) ** 2 + (rows - 200) ** 2 > 40**2
    counts = []
    for tolerance, least in ((0.0, 1.0), (0.7, 0.994), (1.5, 0.99), (4.0, 0.97)):
        outlines = _outlines(disc, tolerance)
        filled = _filled(outlines, disc.shape)
        assert (filled & disc).sum() / (filled | disc).sum() >= least
        counts.append(sum(len(ring) for part in outlines for ring in part))
    assert counts[0] > 400
    assert counts == sorted(counts, reverse=True)
    assert counts[2] < 60


def test_an_empty_mask_has_no_outline() -> None:
    assert _outlines(np.zeros((3, 5), bool)) == []
    assert _outlines(np.zeros((3, 5), bool), 2.0) == []
