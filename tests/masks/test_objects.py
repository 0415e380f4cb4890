"""Which masks of an image are objects: made scenes with known counts, and the rule on arrays."""

import numpy as np
import pytest
from sam_rlx import _core

HW = (80, 120)
Y, X = np.mgrid[: HW[0], : HW[1]]


def disc(cx, cy, radius):
    return np.hypot(X - cx, Y - cy) < radius


def kept(masks):
    counts = [_core.rle_encode(mask) for mask in masks]
    return _core.keep_objects(counts, masks[0].shape).tolist()


def judged(masks):
    """The rule of cpp/masks/objects.h, on whole arrays."""
    ndimage = pytest.importorskip("scipy.ndimage", reason="fills holes")

    def large(mask):
        labels, count = ndimage.label(mask, np.ones((3, 3)))
        areas = np.bincount(labels[mask], minlength=count + 1)
        return mask & (areas >= 0.25 * areas.max(initial=0))[labels]

    filled = [ndimage.binary_fill_holes(large(mask), np.ones((3, 3))) for mask in masks]
    edge = [int(0.01 * side) for side in masks[0].shape]

    def is_ground(mask):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        ends = [(rows, edge[0], mask.shape[0]), (columns, edge[1], mask.shape[1])]
        return all(at[0] <= near and at[-1] + 1 >= side - near for at, near, side in ends)

    def clean(mask):
        parts = np.bincount(ndimage.label(mask, np.ones((3, 3)))[0][mask])
        return 2 * parts.max() - parts.sum()

    order = [i for i, mask in enumerate(masks) if mask.any() and not is_ground(mask)]
    order = order or [i for i, mask in enumerate(masks) if mask.any()]
    order.sort(key=lambda i: -filled[i].sum())
    objects, gone = [], set()
    for turn, index in enumerate(order):
        if index in gone:
            continue
        whole = filled[index]
        inside = [
            i
            for i in order[turn + 1 :]
            if i not in gone and (filled[i] & whole).sum() / filled[i].sum() >= 0.8
        ]
        same = [i for i in inside if (filled[i] & whole).sum() / (filled[i] | whole).sum() >= 0.8]
        apart = []
        for i in (i for i in inside if i not in same):
            if all((filled[i] & filled[j]).sum() / filled[i].sum() <= 0.2 for j in apart):
                apart.append(i)
        covered = sum((filled[i] & whole).sum() for i in apart)
        if len(apart) > 1 and covered / whole.sum() >= 0.8:
            continue
        gone.update(inside)
        objects.append(max([index, *same], key=lambda i: clean(masks[i])))
    return sorted(objects)


def test_parts_go():
    cup = disc(40, 40, 30)
    assert kept([disc(40, 40, 8), cup, disc(50, 45, 5)]) == [1]


def test_a_ring_and_its_disc_are_one():
    coin, face = disc(40, 40, 20), disc(40, 40, 15)
    rim = coin & ~face
    assert kept([face, rim]) == [1]
    assert kept([rim, coin, face]) == [1]
    assert kept([coin, rim]) == [0]


def test_specks_on_other_objects_count_against_a_mask():
    coin = disc(40, 40, 20)
    specks = [coin | disc(90, 30, radius) for radius in (2, 7)]
    assert kept([specks[1], coin, specks[0]]) == [1]
    assert kept([specks[1], specks[0]]) == [1]
    assert kept([coin & ~disc(40, 40, 9), specks[0]]) == [1]  # a ring has less
    # What is compared is the mask without them: an IoU of 0.72 with them, of 0.90 without.
    assert kept([coin | disc(90, 30, 9.9), disc(40, 40, 19)]) == [1]


def test_a_mask_of_two_objects_loses_the_one_that_is_found_alone():
    left, right, dot = disc(30, 40, 14), disc(80, 40, 14), disc(105, 20, 4)

    def separated(*masks):
        counts = _core.without_other_objects([_core.rle_encode(mask) for mask in masks], HW)
        return [_core.rle_decode(each, HW) for each in counts]

    joint = left | right | dot
    found = separated(joint, left)
    assert (found[0] == (right | dot)).all()
    assert (found[1] == left).all()
    # A rim is the same object as its disc; both of them leave nothing.
    rim = right & ~disc(80, 40, 9)
    found = separated(joint, left, rim)
    assert not found[0].any()
    assert (found[2] == rim).all()
    # Small parts, parts that nobody else has, and one mask alone stay.
    for masks in ([joint, dot], [joint, joint], [left, right], [joint], [np.zeros(HW, bool)]):
        assert all((a == b).all() for a, b in zip(separated(*masks), masks, strict=True))
    assert _core.without_other_objects([], HW) == []


def test_unions_of_objects_go():
    coins = [disc(20, 20, 10), disc(45, 20, 10), disc(70, 20, 10), disc(100, 60, 12)]
    two, three = coins[0] | coins[1], coins[0] | coins[1] | coins[2]
    rim = coins[3] & ~disc(100, 60, 8)
    assert kept([three, *coins, two, rim]) == [1, 2, 3, 4]


def test_the_ground_goes_where_there_is_more():
    coins = [disc(20, 20, 10), disc(60, 40, 10)]
    ground = ~(coins[0] | coins[1])
    assert kept([ground, *coins]) == [1, 2]
    assert kept([ground]) == [0]
    assert kept([np.zeros(HW, bool), coins[0]]) == [1]


def test_of_no_masks_none_are_kept():
    assert _core.keep_objects([], HW).tolist() == []
    assert kept([np.zeros(HW, bool)]) == []


@pytest.mark.parametrize("seed", range(30))
def test_random_masks_are_kept_as_on_whole_arrays(seed):
    rng = np.random.default_rng(seed)
    masks = [rng.random(HW) < 0.9] if seed % 3 == 0 else []
    for _ in range(8):
        cx, cy, radius = rng.uniform(0, HW[1]), rng.uniform(0, HW[0]), rng.uniform(3, 30)
        whole, inner = disc(cx, cy, radius), disc(cx, cy, radius * rng.uniform(0.3, 0.95))
        masks += [whole, inner, whole & ~inner]
    masks += [masks[a] | masks[b] for a, b in rng.integers(0, len(masks), (5, 2))]
    masks = [masks[i] for i in rng.permutation(len(masks))]
    # Equal areas have an order of their own: first ones first, in both.
    assert kept(masks) == judged(masks)


@pytest.mark.parametrize("count", [1, 7, 24])
def test_made_scenes_have_their_counts(count):
    """Coins on a grid, each with a rim, a face and a relief, in pairs with their unions."""
    hw = (200, 300)
    y, x = np.mgrid[: hw[0], : hw[1]]
    masks, coins = [], []
    for number in range(count):
        cx, cy = 25 + 48 * (number % 6), 25 + 48 * (number // 6)
        distance = np.hypot(x - cx, y - cy)
        coin, face = distance < 22, distance < 17
        coins.append(coin)
        masks += [face, coin & ~face, distance < 6, coin]
    masks += [a | b for a, b in zip(coins[::2], coins[1::2], strict=False)]
    masks.append(~np.any(coins, axis=0))
    assert len(kept(masks)) == count
