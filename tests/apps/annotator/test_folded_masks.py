"""Masks that nobody shows are kept deflated; their values stay."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sam_rlx.apps.annotator import history as module
from sam_rlx.apps.annotator.history import History
from sam_rlx.apps.annotator.image_session import ImageSession
from sam_rlx.apps.annotator.shelf import Shelf
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask, masks_of
from support.half_size import half_size

HW = (480, 640)


def shapes(count: int, seed: int = 0) -> list[np.ndarray]:
    """Return shapes with waves at their edges; packed about 14 kB each, as masks of clicks are."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[: HW[0], : HW[1]]
    angle, far = np.arctan2(y - 240, x - 320), np.hypot(y - 240, x - 320)
    found = []
    for _ in range(count):
        radius = np.full(HW, 150.0)
        for waves in (2, 3, 5, 9, 23, 41):
            radius += 30 / waves * random.normal() * np.sin(waves * angle + random.uniform(0, 6))
        found.append(far < radius)
    return found


@pytest.mark.parametrize("at", range(4))
def test_a_folded_mask_is_the_same(at: int) -> None:
    pixels = [*shapes(2, at), np.zeros(HW, np.bool_), np.eye(*HW, dtype=np.bool_)][at]
    mask, other = PackedMask.of(pixels), PackedMask.of(pixels)
    before = mask.nbytes
    assert mask == other
    mask.fold()
    mask.fold()
    assert mask.nbytes < before or before < 200
    assert mask == other
    assert hash(mask) == hash(other)
    assert mask.bits == other.bits
    assert (mask.to_mask() == pixels).all()
    assert (mask.run_lengths() == other.run_lengths()).all()
    assert mask.coarse(3) == other.coarse(3)
    assert mask != PackedMask.of(~pixels)


@pytest.mark.parametrize("clicks", [1500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_history_of_many_clicks_is_small(clicks: int) -> None:
    """Below 2.2 kB a click: of 10,000 clicks about 20 MB."""
    some = shapes(24)
    history = History()
    tracemalloc.start()
    for n in range(clicks):
        moved = np.roll(some[n % len(some)], (n * 7) % 480, axis=0)
        mask = Mask(PackedMask.of(moved), 0.9, "click")
        one = Object(1 + n // 100, "a", (1, 2, 3), masks={0: mask})
        document = history.document("k").with_objects(one)
        history.record({"k": document}, "click", "click")
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    raw = np.mean([PackedMask.of(each).nbytes for each in some])
    print(f"{used / clicks:.0f} bytes a click, {used / 1e6:.1f} MB; packed {raw:.0f}")
    assert used / clicks < 2200 + 100 * raw / clicks + raw / 100
    for _ in range(30):
        history.undo("k")
    expected = np.roll(some[(clicks - 31) % len(some)], ((clicks - 31) * 7) % 480, axis=0)
    last = history.document("k").get(1 + (clicks - 31) // 100)
    assert last is not None
    assert (last.mask == expected).all()


def test_the_oldest_masks_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is forgotten: undo reads the masks back."""
    monkeypatch.setattr(module, "MAX_UNDO_BYTES", 60_000)
    some = shapes(5)
    history = History()
    states = []
    for n in range(60):
        moved = np.roll(some[n % 5], 5 * n, axis=0)
        one = Object(1, "a", (1, 2, 3), masks={0: Mask(PackedMask.of(moved), 0.9, "click")})
        history.record({"k": history.document("k").with_objects(one)}, "click", "click")
        states.append(moved)
    assert len(history.edits) == 60
    held = {id(m): m for e in history.edits for c in e.changes for m in masks_of(c.before)}
    assert sum(mask.nbytes for mask in held.values()) < 60_000
    for wanted in reversed(states[:-1]):
        history.undo("k")
        (one,) = history.document("k").objects
        assert (one.mask == wanted).all()
    while history.redo("k"):
        pass
    assert (history.document("k").objects[0].mask == states[-1]).all()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Shelf, "put", full)
    for n in range(60):
        one = Object(
            2, "b", (1, 2, 3), masks={0: Mask(PackedMask.of(np.roll(some[0], n)), 1, "hand")}
        )
        history.record({"k": history.document("k").with_objects(one)}, "click", "click")
    assert len(history.edits) < 120


def test_what_is_shown_is_not_folded_and_what_is_left_is() -> None:
    y, x = np.mgrid[:151, :203]
    images = []
    for k in range(2):
        pixels = np.full((151, 203, 3), 40 + k, np.uint8)
        pixels[np.hypot(x - 60, y - 60) < 40] = (220, 60, 50)
        images.append(pixels)
    session = ImageSession(half_size("sam-nano"), images)
    session.call("click", x=60.0, y=60.0)
    (one,) = session.document.objects
    raw = len(one.packed.bits)
    assert one.packed.nbytes == raw > 200
    session.call("commit")
    assert one.packed.nbytes == raw
    hidden = [each.packed for each in one.candidates if each.packed is not one.packed]
    assert any(mask.nbytes < len(mask.bits) for mask in hidden)
    session.call("image", index=1)
    assert all(m.nbytes < len(m.bits) or len(m.bits) <= 128 for m in masks_of(one))
    session.call("image", index=0)
    assert session.document.objects[0] == one
    session.close()
