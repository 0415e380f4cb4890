"""What to check in a clip: known faults are found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from sam_rlx.apps.annotator.checks import THRESHOLDS, to_check
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask

HW, FRAMES = (90, 200), 120
Masks = dict[int, NDArray[np.bool_]]


def disc(x: float, y: float, radius: float) -> NDArray[np.bool_]:
    row, column = np.mgrid[: HW[0], : HW[1]]
    return np.asarray(np.hypot(column - x, row - y) < radius)


def path(t: int) -> tuple[float, float]:
    return 20 + 1.3 * t, 45 + 12 * np.sin(t / 9)


def clip(seed: int = 0) -> Masks:
    """Return a disc that moves and breathes, with rough edges."""
    random = np.random.default_rng(seed)
    masks = {}
    for t in range(FRAMES):
        masks[t] = disc(*path(t), 12 + 1.5 * np.sin(t / 11) + random.uniform(-0.3, 0.3))
    return masks


def as_object(masks: Masks, number: int = 1, scores: dict[int, float] | None = None) -> Object:
    packed = {
        t: Mask(PackedMask.of(mask), (scores or {}).get(t, 0.9), "tracked")
        for t, mask in masks.items()
    }
    return Object(number, "a", (0, 0, 0), masks=packed)


def grown(masks: Masks, t: int) -> None:
    masks[t] = disc(*path(t), 19)


def jumped(masks: Masks, t: int) -> None:
    x, y = path(t)
    for later in range(t, FRAMES):
        x, y = path(later)
        masks[later] = disc(x, y - 20, 12)


def in_parts(masks: Masks, t: int) -> None:
    x, y = path(t)
    masks[t] = masks[t] | disc(x, y + 22, 5)


def squeezed(masks: Masks, t: int) -> None:
    row, column = np.mgrid[: HW[0], : HW[1]]
    x, y = path(t)
    masks[t] = (abs(column - x) < 30) & (abs(row - y) < 4)


def gone(masks: Masks, t: int) -> None:
    for at in range(t - 5, t):
        masks[at] = np.zeros(HW, np.bool_)


FAULTS: dict[str, tuple[Callable[[Masks, int], None], set[str]]] = {
    "grown": (grown, {"area"}),
    "jumped": (jumped, {"jump", "overlap"}),
    "in parts": (in_parts, {"parts"}),
    "squeezed": (squeezed, {"overlap", "area"}),
    "reappears": (gone, {"reappears"}),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("at", [31, 64, 97])
def test_a_fault_is_found(name: str, at: int) -> None:
    spoil, reasons = FAULTS[name]
    masks = clip(at)
    spoil(masks, at)
    found = to_check([as_object(masks)])
    assert found[0].frame == at
    assert found[0].reason in reasons
    assert len(found) <= 1 + 2, "more than two false ones"
    assert found[0].text


def test_a_low_score_and_a_touch_are_found() -> None:
    masks = clip()
    one = as_object(masks, scores={50: 0.2})
    other = as_object({70: disc(path(70)[0] + 14, path(70)[1], 12)}, 2)
    found = {(each.object, each.frame): each.reason for each in to_check([one, other])}
    assert found == {(1, 50): "score", (1, 70): "touches", (2, 70): "touches"}


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_found_where_nothing_is_wrong(seed: int) -> None:
    assert to_check([as_object(clip(seed))]) == []


def test_what_a_person_made_is_not_judged() -> None:
    masks = clip()
    grown(masks, 40)
    one = as_object(masks)
    checked = {**one.masks, 40: replace(one.masks[40], how="checked")}
    assert [o.frame for o in to_check([replace(one, masks=checked)])] in ([], [41])


def test_each_reason_has_a_sentence() -> None:
    for threshold, text in THRESHOLDS.values():
        assert text.format(0.3, threshold)
