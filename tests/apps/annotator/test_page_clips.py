"""Clips on the page, in real Chromium: work while tracking goes on, and what is to be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from sam_rlx.apps.annotator.store import load as load_project
from sam_rlx.apps.annotator.values import Document, Mask, Object, PackedMask
from sam_rlx.apps.serve import kept
from sam_rlx.widget import VideoWidget
from support.cases import quick
from support.half_size import half_size
from support.views import View, after, disc_at, moving_discs

from .test_checks import FAULTS, FRAMES, HW
from .test_checks import clip as made_masks

pytestmark = pytest.mark.timeout(1200)


def kept_document(view: View) -> Document:
    """Return the objects of the shown item as they lie on the disk."""
    identity = view.page.url.partition("/p/")[2][:16]
    loaded = load_project(kept.folder_of(identity) / FOLDER_PROJECT)
    return loaded.history.document(view.idle()["key"])


@pytest.mark.parametrize("frames", quick([12, 120], 0))
def test_clip_in_background(chrome: Any, servers: Any, tmp_path: Path, frames: int) -> None:
    """While a clip is tracked one hovers, clicks, takes back; the track is the undisturbed one."""
    path = moving_discs(tmp_path / "clip.gif", frames)
    server = servers("--model", "sam2-nano")
    view = View(chrome, server.address)
    view.open(path)
    view.click(*disc_at(0, 0))
    (mark,) = view.idle()["objects"][0]["marks"]
    view.key("Enter")
    view.page.keyboard.press("t")
    view.until(lambda now: now["running"])
    view.canvas.move(*disc_at(1, 0))
    view.until(lambda now: now["hover"])
    middle = frames // 2
    other = disc_at(1, middle)
    view.goto(middle)
    view.until(lambda now: now["frame"] == middle and now["drawn"])
    view.canvas.click(*other)
    view.until(lambda now: len(now["objects"]) == 2)
    view.canvas.click(other[0] + 40, 8, button="right")
    view.until(lambda now: now["objects"][1]["points"] == 2)
    view.page.keyboard.press("Control+z")
    view.until(lambda now: now["objects"][1]["points"] == 1)
    view.idle(lambda now: not now["running"])
    one, two = kept_document(view).objects
    assert sorted(two.masks) == [middle]
    assert sorted(one.masks) == list(range(frames))
    video = sam_rlx.VideoPredictor(half_size("sam2-nano"), str(path))
    video.add_prompt(0, 1, point_coords=[mark[:2]], point_labels=[1])
    for found in video.propagate():
        mask = one.masks[found.frame_index].packed.to_mask()
        np.testing.assert_array_equal(mask, found.masks[1])
    view.close()


@pytest.mark.parametrize("fault", quick(FAULTS, 0))
def test_to_check(chrome: Any, servers: Any, tmp_path: Path, fault: str) -> None:
    """N leads to the fault of a clip, and says what it is; "Right" takes it off the list."""
    path = moving_discs(tmp_path / "clip.gif", FRAMES, HW)
    at, (spoil, reasons) = 64, FAULTS[fault]
    shapes = made_masks(at)
    spoil(shapes, at)
    tracked = {t: Mask(PackedMask.of(mask), 0.9, "tracked") for t, mask in shapes.items()}
    widget = VideoWidget(half_size("sam2-nano"), path)
    made = Object(1, "ball", (200, 60, 60), masks=tracked)
    session = widget._session
    session.project.edit(session.key, lambda known: known.with_objects(made), "load", "load")
    (first, *others) = session.checks()
    assert (first.frame, len(others) <= 2) == (at, True)
    assert first.reason in reasons
    widget.close()
    server = servers(str(path), "--model", "sam2-nano")
    view = View(chrome, server.project(path))
    view.idle(lambda now: len(now["objects"]) == 1)
    rows = view.page.locator(".srx-warn.srx-row")
    assert rows.count() == 1 + len(others)
    assert rows.first.inner_text().split("\n")[-1] == first.text
    view.key("n")
    view.idle(lambda now: now["frame"] == min(one.frame for one in (first, *others)))
    rows.first.click()
    view.idle(lambda now: now["frame"] == at and now["current"] == 1)
    after(view, lambda: view.page.keyboard.press("y"))
    view.idle(lambda now: f"{at + 1}" not in [row.split("\n")[0] for row in rows.all_inner_texts()])
    view.close()
