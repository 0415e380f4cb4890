"""Leaving out, imports, and folders as clips on the page, in real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from sam_rlx.widget import SegmentWidget
from support.half_size import half_size
from support.jupyter import wait_for
from support.views import DISCS, View, discs

from tests.apps.annotator.test_import_as import zipped
from tests.apps.annotator.test_tracks_left import circles

MODEL = "sam3-nano"  # knows words and clips
pytestmark = pytest.mark.timeout(600)


def states(view: View) -> list[str]:
    return [state for _, state, _ in view.idle()["items"]]


def test_left_out_and_taken_in(view: View, tmp_path: Path) -> None:
    """A key leaves an image out; D steps over it, its number stays, the menu takes it in again."""
    view.open(*(discs(tmp_path / f"disc {k}.png", k) for k in range(3)))
    view.key("d")
    assert view.key("Shift+D")["index"] == 1
    wait_for(lambda: states(view)[1] == "left out", "an image that is left out")
    assert "Left out" in view.page.locator(".srx-status").inner_text()
    assert view.key("d")["index"] == 2
    assert view.key("a")["index"] == 0
    view.page.locator(".srx-film button").nth(1).click()
    now = view.idle(lambda now: now["index"] == 1)
    assert now["count"] == 3
    view.page.locator(".srx-project").click()
    view.page.get_by_text("Take this in again").click()
    wait_for(lambda: states(view)[1] == "begun", "an image that is taken in again")
    view.key("?")
    assert "Shift+D" in view.page.locator(".srx-keys").inner_text()


def test_import_dialog(view: View, tmp_path: Path) -> None:
    """The dialog says what files would add, adds it in one edit, and says what is wrong."""
    files = [discs(tmp_path / f"disc {k}.png", k) for k in range(2)]
    made = SegmentWidget(half_size("sam-nano"), files, project=False)
    made.class_add("cell")
    for at in range(2):
        made.show(at)
        made.click(*DISCS[at])
    made.export(tmp_path / "out", "cvat")
    masks = [made._session.annotated(at).objects[0].mask.sum() for at in range(2)]
    made.close()
    (tmp_path / "out.zip").write_bytes(zipped(tmp_path / "out"))
    (tmp_path / "bad.zip").write_bytes(b"PK nothing")
    view.open(*files)
    view.page.locator(".srx-project").click()
    view.page.get_by_text("Import from another program").click()
    field = view.page.locator("input.srx-importfile")
    field.set_input_files(str(tmp_path / "bad.zip"))
    dialog = view.page.locator("dialog[open]")
    dialog.get_by_text("expected a whole ZIP").wait_for(timeout=60_000)
    assert view.page.locator("dialog .srx-main").is_disabled()
    field.set_input_files(str(tmp_path / "out.zip"))
    dialog.get_by_text("2 objects to add").wait_for(timeout=60_000)
    said = dialog.inner_text()
    assert "2 images by path" in said
    assert "cell 2 (new class)" in said
    assert view.idle()["objects"] == []
    view.page.locator("dialog .srx-main").click()
    now = view.idle(lambda now: now["objects"])
    assert not view.page.locator("dialog[open]").count()
    assert [count for _, _, count in now["items"]] == [1, 1]
    assert [one["name"] for one in now["classes"]] == ["object", "cell"]
    view.key("Control+z")
    now = view.idle(lambda now: not now["objects"])
    assert [count for _, _, count in now["items"]] == [0, 0]
    assert len(masks) == 2


def test_a_folder_as_a_clip_and_words(view: View, tmp_path: Path) -> None:
    """A folder of numbered images is a clip; words are followed, and one undo takes them back."""
    folder = tmp_path / "walk"
    folder.mkdir()
    for t, pixels in enumerate(circles(45)):
        Image.fromarray(pixels).save(folder / f"{t}.png")
    view.page.set_input_files("input.srx-frames", str(folder))
    now = view.idle(lambda now: now["kind"] == "video")
    assert now["frames"] == 8
    view.key("/")
    view.page.keyboard.type("red circle")
    view.page.keyboard.press("Shift+Enter")
    now = view.idle(lambda now: len(now["objects"]) > 1)
    assert [one["name"] for one in now["objects"]][:2] == ["red circle 1", "red circle 2"]
    view.key("Escape")
    view.page.locator(".srx-lane button").first.click()
    view.idle(lambda now: now["current"] == 1)
    view.key("End")
    view.click(300, 20, button="right")
    stale = view.page.locator(".srx-stale")
    wait_for(lambda: stale.count() == 1, "a lane that is stale")
    view.key("t")
    view.idle(lambda now: not now["running"])
    wait_for(lambda: stale.count() == 0, "a lane that was tracked again")
    for _ in range(3):
        view.key("Control+z")
    assert view.idle()["objects"] == []
