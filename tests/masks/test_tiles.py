"""Masks of tiles become masks of an image: the rule of the core against one on whole arrays."""

from itertools import combinations

import numpy as np
import pytest
from sam_rlx import _core
from sam_rlx.errors import InvalidArgumentError

HW = (61, 90)
TILES = [(x, y, min(x + 40, 90), min(y + 35, 61)) for y in (0, 26) for x in (0, 25, 50)]
SEAM_IOU = 0.5


def inside(tile, hw=HW):
    x0, y0, x1, y1 = tile
    window = np.zeros(hw, bool)
    window[y0:y1, x0:x1] = True
    return window


def cut_sides(mask, tile, margin, hw=HW):
    """Left, top, right, bottom: inner edges of the tile that the mask comes near."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) == 0:
        return [False] * 4
    x0, y0, x1, y1 = tile
    return [
        x0 > 0 and columns[0] < x0 + margin,
        y0 > 0 and rows[0] < y0 + margin,
        x1 < hw[1] and columns[-1] + 1 > x1 - margin,
        y1 < hw[0] and rows[-1] + 1 > y1 - margin,
    ]


def without_cut_specks(mask, tile, margin):
    ndimage = pytest.importorskip("scipy.ndimage", reason="finds components")
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    parts = [labels == number for number in range(1, count + 1)]
    largest = max((part.sum() for part in parts), default=0)
    specks = [p for p in parts if p.sum() < 0.1 * largest and any(cut_sides(p, tile, margin))]
    return mask & ~np.any([np.zeros_like(mask), *specks], axis=0)


def is_seen_better(mask, cut, own, tiles):
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    for x0, y0, x1, y1 in tiles:
        holds = x0 <= columns[0] and y0 <= rows[0] and x1 > columns[-1] and y1 > rows[-1]
        more = [x0 < own[0], y0 < own[1], x1 > own[2], y1 > own[3]]
        if holds and any(a and b for a, b in zip(cut, more, strict=True)):
            return True
    return False


def judged(masks, tile, scores, labels, tiles, margin):
    """The rule of cpp/masks/tiles.h, on whole arrays."""
    masks = [without_cut_specks(m, tiles[t], margin) for m, t in zip(masks, tile, strict=True)]
    cut = [cut_sides(m, tiles[t], margin) for m, t in zip(masks, tile, strict=True)]
    same = np.zeros((len(masks), len(masks)), bool)
    for a, b in combinations(range(len(masks)), 2):
        overlap = inside(tiles[tile[a]]) & inside(tiles[tile[b]])
        if tile[a] == tile[b] or labels[a] != labels[b] or not overlap.any():
            continue
        one = masks[a] & overlap if any(cut[b]) else masks[a]
        other = masks[b] & overlap if any(cut[a]) else masks[b]
        shared = (masks[a] & masks[b]).sum()
        same[a, b] = same[b, a] = shared and shared / (one | other).sum() >= SEAM_IOU
    order = sorted(range(len(masks)), key=lambda i: -scores[i])
    whole, kept = [i for i in order if not any(cut[i])], []
    for i in whole:
        if not same[i, kept].any():
            kept.append(i)
    pieces = [i for i in order if any(cut[i]) and not same[i, whole].any()]
    sets = [[i] for i in kept]
    while pieces:
        members = [pieces[0]]
        for i in members:  # grows
            members += [j for j in pieces if same[i, j] and j not in members]
        pieces = [i for i in pieces if i not in members]
        sets.append(sorted(members, key=order.index))
    found = []
    for members in sorted(sets, key=min):
        i = members[0]
        is_single = len(members) == 1 and i not in kept
        if is_single and is_seen_better(masks[i], cut[i], tiles[tile[i]], tiles):
            continue
        found.append((np.any([masks[i] for i in members], axis=0), members))
    return found


def merged(masks, tile, scores, labels, tiles=TILES, margin=2, hw=HW):
    return _core.merge_tiles(
        [_core.rle_encode(mask) for mask in masks],
        np.array(tile, np.int64),
        np.array(scores, np.float32),
        np.array(labels, np.int64),
        np.array(tiles, np.int64),
        hw,
        margin,
    )


def test_rle_to_box_and_mask_in_image_as_numpy_does():
    rng = np.random.default_rng(0)
    for _ in range(60):
        h, w = rng.integers(1, 20, 2)
        mask = rng.random((h, w)) < rng.choice([0.0, 0.2, 0.8, 1.0])
        factor, y0, x0 = int(rng.integers(1, 4)), *rng.integers(-5, 30, 2).tolist()
        large = np.kron(mask, np.ones((factor, factor), bool))
        canvas = np.zeros((100, 120), bool)
        canvas[20 + y0 : 20 + y0 + h * factor, 20 + x0 : 20 + x0 + w * factor] = large
        expected = canvas[20:70, 20:75]
        counts = _core.mask_in_image(_core.rle_encode(mask), (h, w), (y0, x0), factor, (50, 55))
        assert counts.tolist() == _core.rle_encode(expected).tolist()
        box, same = _core.rle_to_box(counts, (50, 55)), _core.mask_to_box(expected)
        assert (box.x0, box.y0, box.x1, box.y1) == (same.x0, same.y0, same.x1, same.y1)


@pytest.mark.parametrize("seed", range(40))
def test_random_masks_merge_as_on_whole_arrays(seed):
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: HW[0], : HW[1]]
    masks, tile, labels = [], [], []
    for label in rng.integers(0, 2, 9):
        cy, cx = rng.random(2) * HW
        ry, rx = rng.uniform(2, 25, 2)
        for index, each in enumerate(TILES):
            if rng.random() < 0.2:
                continue
            shift = rng.normal(0, 1.0, 4)
            shape = ((y - cy - shift[0]) / ry) ** 2 + ((x - cx - shift[1]) / rx) ** 2
            speck = np.hypot(y - cy, x - cx - 1.4 * rx) < 0.2 * rx  # often beyond an edge
            mask = ((shape < 1 + 0.1 * shift[2]) | speck) & inside(each)
            if mask.any() or rng.random() < 0.05:
                masks.append(mask)
                tile.append(index)
                labels.append(int(label))
    scores = rng.choice([0.5, 0.7, 0.9], len(masks)).astype(np.float32).tolist()
    expected = judged(masks, tile, scores, labels, TILES, 2)
    found = merged(masks, tile, scores, labels)
    assert [each.members for each in found] == [members for _, members in expected]
    for each, (mask, _) in zip(found, expected, strict=True):
        assert each.counts.tolist() == _core.rle_encode(mask).tolist()


def test_an_object_over_many_tiles_is_one():
    """A bar through a row of tiles, of which no two distant ones overlap."""
    bar = np.zeros(HW, bool)
    bar[10:14, 3:88] = True
    masks = [bar & inside(tile) for tile in TILES[:3]]
    (found,) = merged(masks, [0, 1, 2], [0.5, 0.9, 0.8], [0, 0, 0])
    assert found.members == [1, 2, 0]
    assert (_core.rle_decode(found.counts, HW) == bar).all()


def test_a_whole_mask_is_preferred_and_a_part_of_it_stays_apart():
    car, wheel = np.zeros(HW, bool), np.zeros(HW, bool)
    car[5:20, 10:34] = True  # cut by the first tile's neighbour on the left, whole in the first
    wheel[15:20, 28:33] = True
    masks = [car, car & inside(TILES[1]), wheel]
    found = merged(masks, [0, 1, 1], [0.6, 0.9, 0.9], [0, 0, 0])
    assert [each.members for each in found] == [[0], [2]]


def test_specks_that_an_edge_cuts_are_none_of_an_object():
    cup, speck = np.zeros(HW, bool), np.zeros(HW, bool)
    cup[8:18, 27:37] = True
    speck[6:9, 38:40] = True  # at the right edge of the first tile
    masks = [cup | speck, cup & inside(TILES[1])]
    (found,) = merged(masks, [0, 1], [0.9, 0.8], [0, 0])
    assert found.members == [0]
    assert (_core.rle_decode(found.counts, HW) == cup).all()


def test_whole_masks_stay_apart_whatever_lies_on_both():
    """A piece of two objects is of one with pieces of both: it does not make one of them."""
    left, right = np.zeros(HW, bool), np.zeros(HW, bool)
    left[20:33, 5:20] = True
    right[20:33, 27:37] = True
    both = (left | right) & inside(TILES[3])
    masks = [left, right, right & inside(TILES[4]), both]
    found = merged(masks, [0, 1, 4, 3], [0.6, 0.7, 0.8, 0.9], [0] * 4)
    assert [each.members for each in found] == [[0], [1]]


def test_texts_keep_their_masks():
    mask = np.zeros(HW, bool)
    mask[5:20, 28:37] = True
    found = merged([mask, mask], [0, 1], [0.6, 0.9], [0, 1])
    assert [each.members for each in found] == [[0], [1]]


def test_without_masks_there_is_nothing():
    assert merged([], [], [], []) == []


def test_wrong_arguments_are_refused():
    mask = np.ones(HW, bool)
    with pytest.raises(InvalidArgumentError, match="expected an index of tiles, found 6"):
        merged([mask], [6], [0.5], [0])
    with pytest.raises(InvalidArgumentError, match="expected 1 tiles, scores and labels"):
        merged([mask], [0], [0.5, 0.6], [0])
    with pytest.raises(InvalidArgumentError, match="rle counts"):
        _core.merge_tiles(
            [np.array([3], np.uint32)],
            *(np.zeros(1, kind) for kind in (np.int64, np.float32, np.int64)),
            np.array(TILES, np.int64),
            HW,
            1,
        )
