"""Undo and redo on the page, in real Chromium: random gestures, and results of all kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import quick
from support.jupyter import wait_for
from support.views import DISCS, View, after, discs, masks, moving_discs, painted

MODEL = "sam3-nano"  # knows words and clips
pytestmark = pytest.mark.timeout(1200)


def all_of(view: View) -> list[Any]:
    """Return all that is in the history of an image: objects and their masks, and classes."""
    now = view.idle()
    parts = ("id", "name", "class", "locked", "note", "marks", "boxes", "candidate")
    found = masks(view)
    objects = [
        [[one[part] for part in parts], found[one["id"]].tobytes()] for one in now["objects"]
    ]
    return [objects, now["classes"], now["layer"]]


def steps(view: View, key: str, most: int = 500) -> int:
    """Press a key until nothing is left to do; return how often something was."""
    for count in range(most):
        before = view.idle()["n"]
        view.key(key)
        if view.idle()["n"] == before:
            return count
    raise AssertionError(f"{key}: no end")


class Hand:
    """Does one random gesture after the other, with the mouse and by keys."""

    def __init__(self, view: View, seed: int) -> None:
        self.view = view
        self.random = np.random.default_rng(seed)

    def at(self) -> tuple[float, float]:
        x, y = self.random.uniform((4, 4), (316, 236))
        return float(x), float(y)

    def do(self) -> None:
        kinds = (self.click, self.click, self.outside, self.box, self.key, self.key, self.paint)
        kinds[int(self.random.integers(len(kinds)))]()
        self.view.idle()

    def click(self) -> None:
        self.view.canvas.click(*self.at())

    def outside(self) -> None:
        self.view.canvas.click(*self.at(), button="right")

    def box(self) -> None:
        (x, y), (dx, dy) = self.at(), self.random.uniform(-60, 60, 2)
        to = float(np.clip(x + dx, 2, 318)), float(np.clip(y + dy, 2, 238))
        self.view.canvas.drag((x, y), to)

    def key(self) -> None:
        keys = ("Enter", "Delete", "c", "j", "q", "m", "Control+z", "Control+y", "Escape", "1", "2")
        self.view.key(str(self.random.choice(keys)))

    def paint(self) -> None:
        self.view.key(str(self.random.choice(["b", "e", "l", "x"])))
        painted(self.view, self.at(), self.at(), self.at())
        self.view.key("s")


@pytest.mark.parametrize("seed", quick(range(20), 0))
def test_thousand_sequences(view: View, tmp_path: Path, seed: int) -> None:
    """Random gestures are undone to the start and redone to the end; all is as it was.

    1,000 seeds without a browser: test_history.py, and those of sessions: test_random_gestures.py.
    """
    view.open(discs(tmp_path / "discs.png"))
    first = all_of(view)
    hand = Hand(view, seed)
    for _ in range(25):
        hand.do()
    view.key("Escape")
    steps(view, "Control+y")
    last = all_of(view)
    count = steps(view, "Control+z")
    assert count > 5
    assert all_of(view) == first
    assert steps(view, "Control+y") == count
    assert all_of(view) == last


def test_undo_of_results(view: View, tmp_path: Path) -> None:
    """Everything mode, words on all images, a loaded file and repairs are each one step back."""
    view.open(*(discs(tmp_path / f"{at}.png", at) for at in range(2)))
    view.click(*DISCS[2])
    view.key("Enter")

    def back_and_forth(act: Any) -> None:
        before = all_of(view)
        act()
        done = all_of(view)
        assert done != before
        view.key("Control+z")
        view.idle()
        assert all_of(view) == before
        view.key("Control+Shift+z")
        assert all_of(view) == done

    with view.page.expect_download() as download:
        view.key("Control+e")
        view.page.keyboard.press("Enter")
    file = tmp_path / "objects.json"
    download.value.save_as(file)

    def found() -> None:
        view.page.keyboard.press("g")
        view.idle(lambda now: now["layer"])

    back_and_forth(found)
    back_and_forth(lambda: after(view, lambda: view.page.keyboard.press("k")))
    back_and_forth(lambda: after(view, lambda: load(view, file)))

    def words() -> None:
        view.key("/")
        view.page.keyboard.type("circle")
        after(view, lambda: view.page.keyboard.press("Shift+Enter"))
        wait_for(lambda: "of 2 images" in view.said(), "an end of the search")
        view.page.keyboard.press("Escape")

    back_and_forth(words)
    view.to(1)
    assert len(view.idle()["objects"]) > 0
    view.key("Control+z")
    view.idle(lambda now: now["objects"] == [])
    view.to(0)
    view.page.locator(".srx-objects .srx-object").first.click()
    view.idle(lambda now: now["current"] is not None)

    def paint() -> None:
        view.key("b")
        after(view, lambda: painted(view, (140.0, 140.0), (172.0, 141.0)))

    back_and_forth(paint)
    back_and_forth(
        lambda: after(view, view.page.locator(".srx-context [aria-label*='mooth']").click)
    )


def load(view: View, file: Path) -> None:
    view.page.set_input_files("input.srx-saved", str(file))


@pytest.mark.slow
def test_undo_of_results_of_tracking(view: View, tmp_path: Path) -> None:
    """A tracking is one step back, and comes back whole."""
    view.open(moving_discs(tmp_path / "clip.gif", 6))
    view.click(40, 40)
    view.key("Enter")

    def lanes() -> list[int]:
        count = []
        for frame in range(6):
            view.goto(frame)
            count.append(view.idle(lambda now, frame=frame: now["frame"] == frame)["shown"])
        return count

    assert lanes() == [1, 0, 0, 0, 0, 0]
    view.key("Home")
    view.key("t")
    view.idle()
    assert lanes() == [1] * 6
    view.key("Control+z")
    assert lanes() == [1, 0, 0, 0, 0, 0]
    view.key("Control+Shift+z")
    assert lanes() == [1] * 6
