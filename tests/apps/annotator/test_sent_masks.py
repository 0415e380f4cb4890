"""Masks in messages: they are what they were, and short."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from numpy.typing import NDArray
from sam_rlx.apps.annotator.sent_masks import deflated, sent
from sam_rlx.apps.annotator.values import PackedMask
from support.mask_messages import mask_of

HW = (307, 421)


def shapes() -> dict[str, NDArray[np.bool_]]:
    """Return masks of many kinds, of an odd size."""
    random = np.random.default_rng(3)
    y, x = np.ogrid[: HW[0], : HW[1]]
    inside = np.zeros(HW, np.bool_)
    inside[3:290, 9:400] = True
    return {
        "nothing": np.zeros(HW, np.bool_),
        "all": np.ones(HW, np.bool_),
        "a pixel": np.eye(1, HW[0] * HW[1], 70_001, dtype=np.bool_).reshape(HW),
        "a rectangle": inside,
        "a disc": (y - 150) ** 2 + (x - 200) ** 2 < 130**2,
        "noise": random.uniform(size=HW) < 0.5,
        "dots": random.uniform(size=HW) < 0.003,
        "a comb": inside & (x % 3 == 0),
        "a frame": inside ^ np.roll(inside, (5, 4), (0, 1)),
    }


@pytest.mark.parametrize("name", shapes())
def test_a_sent_mask_is_the_mask(name: str) -> None:
    mask = shapes()[name]
    packed = PackedMask.of(mask)
    (head,), (buffer,) = sent([(packed, 7)])
    assert head["id"] == 7
    assert (mask_of(head, buffer) == mask).all()
    assert len(buffer) <= len(packed.bits)
    assert ("runs" in head) == (buffer != packed.bits)
    if name in ("all", "a rectangle", "a disc", "a comb"):
        assert len(buffer) < len(packed.bits) / 8


def test_long_numbers_and_what_is_inflated() -> None:
    """Runs of more than 2**14 bits have three groups; small masks stay as they are."""
    wide = np.zeros((200, 8000), np.bool_)
    wide[[0, 0, 3, 199], [0, 7999, 4000, 5]] = True
    small = np.zeros((200, 8000), np.bool_)
    small[:9, :9] = True
    heads, buffers = sent((PackedMask.of(mask), at) for at, mask in enumerate((wide, small, wide)))
    assert deflated(heads) == [0, 2]
    assert deflated(heads, 3) == [3, 5]
    assert max(zlib.decompress(buffers[0])[:3]) > 127
    for mask, head, buffer in zip((wide, small, wide), heads, buffers, strict=True):
        assert (mask_of(head, buffer) == mask).all()


def test_the_ground_around_500_objects_is_short() -> None:
    """The ground of 20 megapixels, as views get it, without 500 discs: below 2 kB, not 277."""
    ground = np.ones((1216, 1824), np.bool_)
    y, x = np.ogrid[-19:20, -19:20]
    for at in range(500):
        top, left = int((at // 23 + 0.25) * 49.7), int((at % 23 + 0.25) * 79.3)
        ground[top : top + 39, left : left + 39] &= x**2 + y**2 >= 19**2
    packed = PackedMask.of(ground)
    assert len(packed.bits) > 270_000
    (head,), (buffer,) = sent([(packed, 1)])
    assert len(buffer) < 2000
    assert (mask_of(head, buffer) == ground).all()
