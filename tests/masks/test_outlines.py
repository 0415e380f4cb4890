"""Outlines from run lengths are those of a walk around the pixels, corner for corner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

_core = pytest.importorskip("sam_rlx._core")

MASKS = hnp.arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 12)))
# Clockwise: east, south, west, north; and the pixel ahead at the left of each, from a corner.
STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
LEFT = ((0, -1), (0, 0), (-1, 0), (-1, -1))
EAST, WEST = 0, 2


class Walk:
    """Goes along the edges of pixels with the mask at the right hand; turns left where it can."""

    def __init__(self, mask):
        self.mask = np.pad(mask, 1)

    def at(self, x, y):
        return self.mask[y + 1, x + 1]

    def step(self, state):
        x, y, direction = state
        x, y = x + STEPS[direction][0], y + STEPS[direction][1]
        right, left = (direction + 1) % 4, (direction + 3) % 4
        if self.at(x + LEFT[direction][0], y + LEFT[direction][1]):
            direction = left
        elif not self.at(x + LEFT[right][0], y + LEFT[right][1]):
            direction = right
        return x, y, direction

    def border(self, start):
        """Return all states of a border, from `start` on."""
        states = [start]
        while (state := self.step(states[-1])) != start:
            states.append(state)
        return states

    def lower_edges(self, start):
        return {(y - 1, x - 1) for x, y, direction in self.border(start) if direction == WEST}


def starts(mask):
    """Return the first upper edge of each component, by columns."""
    labels, _ = _testing_components(mask)
    seen, found = set(), []
    for x, y in zip(*np.nonzero(mask.T), strict=True):
        if labels[y, x] not in seen:
            seen.add(labels[y, x])
            found.append((int(x), int(y), EAST))
    return found


def _testing_components(mask):
    testing = pytest.importorskip("sam_rlx._testing")
    return testing.connected_components(mask)


def cuts(walk, mask, outer):
    """Return the first edge of each hole, by the pixel whose upper edge its cut ends at."""
    seen = set().union(*(walk.lower_edges(start) for start in outer))
    found = {}
    for y, x in zip(*np.nonzero(mask), strict=True):
        y, x = int(y), int(x)
        if (y, x) in seen or walk.at(x, y + 1):
            continue
        seen |= walk.lower_edges((x + 1, y + 1, WEST))
        top = y
        while walk.at(x, top - 1):
            top -= 1
        found[x, top] = (x + 1, y + 1, WEST)
    return found


def outline(walk, start, holes):
    """Return the corners of a border, with the holes that are cut open to it."""
    corners = []

    def add(state):
        if not corners or corners[-1] != state[:2]:
            corners.append(state[:2])

    def follow(first, is_outer):
        add(first)
        state = first
        while True:
            before, state = state, walk.step(state)
            hole = holes.get(before[:2]) if before[2] == EAST else None
            if hole:
                add(state)
                follow(hole, False)
                add(state)
            if state == first:
                if not is_outer:
                    add(state)
                return
            if state[2] != before[2]:
                add(state)

    follow(start, True)
    return [number for corner in corners for number in corner]


def expected(mask, holes):
    walk = Walk(mask)
    outer = starts(mask)
    found = cuts(walk, mask, outer) if holes else {}
    return [outline(walk, start, found) for start in outer]


def counts_of(mask):
    flat = np.concatenate([[False], mask.ravel(order="F")])
    edges = np.flatnonzero(np.diff(flat))
    return np.diff(np.concatenate([[0], edges, [flat.size - 1]])).astype(np.uint32)


def check(mask):
    for holes in (False, True):
        right = expected(mask, holes)
        assert _core.mask_to_polygons(mask, holes) == right
        assert _core.rle_to_polygons(counts_of(mask), mask.shape, holes) == right


@settings(max_examples=150, deadline=None)
@given(MASKS)
def test_outlines_of_small_masks(mask):
    check(mask)


@pytest.mark.parametrize("density", [0.3, 0.5, 0.7, 0.9])
def test_outlines_of_noise_with_holes_and_touching_corners(density):
    check(np.random.default_rng(round(10 * density)).random((31, 23)) < density)


def test_outlines_of_holes_in_holes():
    mask = np.zeros((40, 40), bool)
    for inset in range(0, 20, 3):
        mask[inset : 40 - inset, inset : 40 - inset] ^= True
    mask[9, 2:30:2] ^= True
    check(mask)


def test_runs_of_a_column_that_follow_each_other_are_one():
    # One, after none of zeros, one more: runs that other programs may write.
    counts = np.array([5, 3, 0, 2, 0, 0, 15], np.uint32)
    mask = _core.rle_decode(counts, (5, 5))
    assert _core.rle_to_polygons(counts, (5, 5), True) == expected(mask, True)


def test_work_follows_the_runs_and_not_the_image():
    """Runs of 2^31 pixels have outlines: nothing is made that is as large as the image."""
    side = 46_000
    first = 1000 * side + 7
    rest = side * side - first - side - 3
    counts = np.array([first, 2, side - 2, 3, rest], np.uint32)
    corners = [1000, 7, 1002, 7, 1002, 10, 1001, 10, 1001, 9, 1000, 9]
    assert _core.rle_to_polygons(counts, (side, side), True) == [corners]


@pytest.mark.parametrize("shape", [(7, 130), (64, 64), (129, 65), (1, 70), (70, 1)])
@pytest.mark.parametrize("density", [0.02, 0.5, 0.98])
def test_noise_is_encoded_as_runs(shape, density):
    mask = np.random.default_rng(shape[1]).random(shape) < density
    assert _core.rle_encode(mask).tolist() == counts_of(mask).tolist()
    checks = np.indices(shape).sum(axis=0) % 2 == 1
    for dense in (checks, ~checks):
        assert _core.rle_encode(dense).tolist() == counts_of(dense).tolist()
