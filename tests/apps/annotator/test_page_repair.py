"""Classes, repair by hand, answers and points, on the page and in JupyterLab, in real Chromium."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from PIL import Image
from sam_rlx import io
from sam_rlx.apps.annotator.lock import ProjectLock
from sam_rlx.apps.annotator.store import FOLDER_PROJECT
from sam_rlx.apps.serve import kept
from sam_rlx.widget import SegmentWidget
from scipy import ndimage
from support.cases import quick
from support.half_size import half_size
from support.interactive import serving
from support.jupyter import wait_for
from support.views import DISCS, View, after, discs, masks, painted, view_in

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return discs(tmp_path_factory.mktemp("images") / "discs.png")


@pytest.fixture(params=quick(["page", "lab/tree"], 0))
def view(
    request: pytest.FixtureRequest, chrome: Any, image: Path, tmp_path: Path
) -> Iterator[View]:
    """The image on the page, or in JupyterLab."""
    with view_in(request, chrome) as found:
        found.open(Path(shutil.copy(image, tmp_path)))  # without the work that is beside the other
        yield found


def stroke(hw: tuple[int, int], path: list[list[float]], radius: float) -> NDArray[np.bool_]:
    """Return the pixels near a path, one after the other."""
    y, x = np.mgrid[: hw[0], : hw[1]] + 0.5
    found = np.zeros(hw, bool)
    for (ax, ay), (bx, by) in zip(path, [*path[1:], path[-1]], strict=True):
        dx, dy = bx - ax, by - ay
        length = dx * dx + dy * dy
        along = np.clip(((x - ax) * dx + (y - ay) * dy) / length, 0, 1) if length else 0 * x
        found |= (x - ax - along * dx) ** 2 + (y - ay - along * dy) ** 2 <= radius * radius
    return found


def test_classes(view: View) -> None:
    """A new class by its name, digits for the current object and the next ones, a successor."""
    view.click(*DISCS[0])
    assert [one["name"] for one in view.idle()["classes"]] == ["object"]
    for name in ("ball", "disc"):
        view.page.locator(".srx-classes button").first.click()
        view.page.keyboard.type(name)
        after(view, lambda: view.page.keyboard.press("Enter"))
    now = view.idle()
    assert [(one["name"], one["digit"]) for one in now["classes"]] == [
        ("object", "1"), ("ball", "2"), ("disc", "3"),
    ]  # fmt: skip
    assert now["nextClass"] == 3
    now = after(view, lambda: view.page.keyboard.press("2"))
    assert (now["objects"][0]["class"], now["nextClass"]) == (2, 2)
    assert now["objects"][0]["name"] == "ball 1"
    view.key("Enter")
    now = view.click(*DISCS[1])
    assert [one["class"] for one in now["objects"]] == [2, 2]
    view.page.locator(".srx-class .srx-n").nth(1).dblclick()
    view.page.keyboard.type("globe")
    now = after(view, lambda: view.page.keyboard.press("Enter"))
    assert [one["name"] for one in now["objects"]] == ["globe 1", "globe 2"]
    colors = {tuple(one["color"]) for one in now["classes"]}
    assert len(colors) == 3
    view.page.locator(".srx-class").nth(1).hover()
    view.page.locator(".srx-class .srx-hide").nth(1).click()
    view.page.locator("dialog select").select_option(label="disc")
    now = after(view, lambda: view.page.locator("dialog .srx-main").click())
    assert [one["name"] for one in now["classes"]] == ["object", "disc"]
    assert [one["class"] for one in now["objects"]] == [3, 3]
    now = after(view, lambda: view.page.keyboard.press("Control+z"))
    assert [one["class"] for one in now["objects"]] == [2, 2]


@pytest.mark.slow
def test_classes_of_sixty(chrome: Any, servers: Any, image: Path, tmp_path: Path) -> None:
    """60 classes have 60 colours; nine have digits, and the last one can be chosen too."""
    file = Path(shutil.copy(image, tmp_path))
    widget = SegmentWidget(half_size("sam-nano"), file)
    for number in range(2, 61):
        widget.class_add(f"class {number}")
    widget.close()
    server = servers(str(file))
    view = View(chrome, server.project(file))
    classes = view.idle(lambda now: len(now["classes"]) == 60)["classes"]
    assert len({tuple(one["color"]) for one in classes}) == 60
    assert [one["digit"] for one in classes[:9]] == [*"123456789"]
    view.page.locator(".srx-class").last.click()
    assert view.idle(lambda now: now["nextClass"] == 60)
    assert view.click(*DISCS[0])["objects"][0]["name"] == "class 60 1"
    view.key("7")
    view.idle(lambda now: now["objects"][0]["class"] == 7)
    view.close()


@pytest.mark.parametrize(
    ("ratio", "zoom", "pen"),
    quick([(1, 0, True), (2, 0, False), (1, 6, False), (2, -9, True), (1, -9, False)], 0),
)
def test_strokes_equal_numpy(
    chrome: Any, address: str, image: Path, ratio: int, zoom: int, pen: bool
) -> None:
    """What brush, eraser and lasso give is what NumPy gives for the same path, at any zoom."""
    view = View(chrome, address, (1100, 800), device_scale_factor=ratio)
    view.open(image)
    view.canvas.move(160, 170)  # what stays where it is
    whole = view.idle()["scale"]
    nearest = max(whole * np.exp(0.15 * zoom), 0.9 * whole)
    view.wheel(
        -100 if zoom > 0 else 100, lambda now: now["scale"] == pytest.approx(nearest) or not zoom
    )
    view.click(*DISCS[2])
    before = masks(view)[1]
    view.key("b")
    path: Any = None

    def brush() -> None:
        nonlocal path
        path = painted(view, (140.0, 140.0), (160.5, 133.0), (172.0, 141.0), pen=pen)

    after(view, brush)
    radius = view.idle()["radius"]
    wanted = before | stroke(before.shape, path, radius)
    np.testing.assert_array_equal(masks(view)[1], wanted)
    view.key("e")
    view.key("[")

    def erase() -> None:
        nonlocal path
        path = painted(view, (150.0, 172.0), (165.0, 186.0), pen=pen)

    after(view, erase)
    wanted &= ~stroke(before.shape, path, view.idle()["radius"])
    np.testing.assert_array_equal(masks(view)[1], wanted)
    view.key("l")

    def lasso() -> None:
        nonlocal path
        path = painted(view, (120.0, 150.0), (180.0, 150.5), (150.0, 220.0), pen=pen)

    after(view, lasso)
    low, high = (inside(before.shape, path, shift) for shift in (-1e-6, 1e-6))
    clear = low == high  # a middle on an edge may be on either side of it
    assert clear.mean() > 0.999
    np.testing.assert_array_equal(masks(view)[1] & clear, (wanted | low) & clear)
    for _ in range(3):
        after(view, lambda: view.page.keyboard.press("Control+z"))
    np.testing.assert_array_equal(masks(view)[1], before)
    view.close()


def inside(hw: tuple[int, int], path: list[list[float]], shift: float) -> NDArray[np.bool_]:
    """Return the pixels whose middle has an odd number of edges to its left."""
    y, x = np.mgrid[: hw[0], : hw[1]] + 0.5 + shift
    found = np.zeros(hw, bool)
    for (ax, ay), (bx, by) in zip(path, [*path[1:], path[0]], strict=True):
        if ay == by:
            continue
        crosses = (y >= min(ay, by)) & (y < max(ay, by))
        found ^= crosses & (ax + (y - ay) / (by - ay) * (bx - ax) < x)
    return found


def test_fill_smooth_split_merge(view: View) -> None:
    """Each is what SciPy gives for the mask that was there."""
    view.click(*DISCS[2])
    view.key("e")
    after(view, lambda: painted(view, (165.0, 190.0), (165.2, 190.0)))
    holed = masks(view)[1]
    assert not holed[190, 165]
    after(view, lambda: view.page.locator(".srx-context [aria-label*='holes']").click())
    np.testing.assert_array_equal(masks(view)[1], ndimage.binary_fill_holes(holed))
    view.key("x")
    whole = masks(view)[1]
    assert view.idle()["tool"] == "split"
    after(view, lambda: painted(view, (150.3, 120.0), (150.3, 239.0)))
    parts = masks(view)
    assert len(parts) == 2
    assert not (parts[1] & parts[2]).any()
    np.testing.assert_array_equal(parts[1] | parts[2], whole)
    for part in parts.values():
        assert ndimage.label(part)[1] == 1
    numbers = sorted(parts)
    view.page.locator(".srx-object").nth(0).click()
    view.page.locator(".srx-object").nth(1).click(modifiers=["Control"])
    assert view.idle()["chosen"] == [numbers[1]]
    after(view, lambda: view.page.keyboard.press("m"))
    (merged,) = masks(view).values()
    np.testing.assert_array_equal(merged, whole)


def test_answers_and_points(view: View, image: Path) -> None:
    """Three answers as images; points that move and go are what the predictor gives for them."""
    predictor = sam_rlx.ImagePredictor(half_size("sam-nano"))
    predictor.set_image(io.read_image(image))

    def check() -> None:
        now = view.idle()
        marks = now["objects"][0]["marks"]
        found = predictor.predict(
            point_coords=[mark[:2] for mark in marks],
            point_labels=[mark[2] for mark in marks],
            multimask_output=len(marks) == 1,
        )
        np.testing.assert_array_equal(masks(view)[1], found.masks[now["objects"][0]["candidate"]])

    view.click(*DISCS[0])
    check()
    shown = view.page.locator(".srx-answer canvas:visible")
    assert shown.count() == 3
    seen = set()
    for at in range(3):
        view.page.locator(".srx-answer").nth(at).click()
        view.idle(lambda now, at=at: now["objects"][0]["candidate"] == at)
        check()
        seen.add(shown.nth(at).evaluate("(canvas) => canvas.toDataURL()"))
    assert len(seen) == 3
    x, y = DISCS[0]
    after(view, lambda: view.canvas.drag((x, y), (x + 12, y + 9)))
    (mark,) = view.idle()["objects"][0]["marks"]
    assert np.abs(np.subtract(mark[:2], (x + 12, y + 9))).max() < 1.5
    check()
    after(view, lambda: view.canvas.click(x - 60, y, button="right"))
    check()
    view.canvas.move(x - 60, y)
    after(view, lambda: view.page.keyboard.press("Delete"))
    assert view.idle()["objects"][0]["points"] == 1
    check()
    view.key("e")
    after(view, lambda: view.canvas.click(x + 12, y + 9))
    assert view.idle()["objects"] == []


def test_locked_and_hidden_objects(view: View) -> None:
    """A locked object takes no prompt, and says so; a hidden one is not seen and not chosen."""
    view.click(*DISCS[0])
    after(view, lambda: view.page.keyboard.press("q"))
    assert view.idle()["objects"][0]["locked"]
    view.canvas.click(DISCS[0][0] + 20, DISCS[0][1])
    wait_for(lambda: "locked" in view.said(), "a sentence about the lock")
    after(view, lambda: view.page.keyboard.press("q"))
    view.key("h")
    assert view.idle()["hidden"] == [1]
    view.key("Enter")
    now = view.click(DISCS[0][0] + 20, DISCS[0][1])
    assert len(now["objects"]) == 1 or now["current"] != 1


def test_notes(view: View) -> None:
    """A note is written, read, and taken away."""
    view.click(*DISCS[0])
    field = view.page.locator(".srx-note")

    def write(words: str) -> list[str]:
        field.click()
        field.locator("input").fill(words)
        after(view, lambda: view.page.keyboard.press("Enter"))
        return [one["note"] for one in view.idle()["objects"]]

    assert field.inner_text() == "Add a note"
    assert write("a cut edge") == ["a cut edge"]
    assert field.inner_text() == "a cut edge"
    assert write("") == [""]
    assert field.inner_text() == "Add a note"


def test_the_start_page_says_how_far_projects_are(chrome: Any, address: str, image: Path) -> None:
    first = View(chrome, address)
    first.open(image, discs(image.with_name("third.png"), 3))
    first.click(*DISCS[0])
    first.key("Enter")
    after(first, lambda: first.page.locator(".srx-done").click())
    first.close()
    second = View(chrome, address)
    line = second.page.locator(".srx-known small").first.inner_text()
    second.close()
    assert line.startswith("1 of 2 done · ")


def test_a_project_that_another_process_has_is_taken_over(chrome: Any, image: Path) -> None:
    with serving("--threads", "1") as address:
        first = View(chrome, address)
        first.open(image)
        first.click(*DISCS[0])
        project = first.page.url.partition("/p/")[2][:16]
        first.close()
    lock = ProjectLock(kept.folder_of(project) / FOLDER_PROJECT)
    assert lock.acquire() is None
    with serving("--threads", "1") as address:
        second = View(chrome, address)
        second.page.locator(".srx-known a").click()
        second.idle(lambda now: len(now["objects"]) == 1)
        assert second.page.locator("span.srx-saved").inner_text() == "Read only"
        second.page.get_by_text("Take over", exact=True).click()
        wait_for(
            lambda: second.page.locator("span.srx-saved").inner_text() != "Read only", "an answer"
        )
        second.click(*DISCS[1])
        assert second.idle()["saved"]
        second.close()
    lock.release()


def test_changed_images_are_asked_for_once(view: View) -> None:
    """The sentence has an answer as a button, which is sent."""
    head = '{ type: "note", text: "a.png has other content than before", about: "changed" }'
    for words in ("Keep them", "Hold them aside"):
        view.page.evaluate(f"document.querySelector('.srx').front.hear({head}, [], null)")
        view.page.get_by_text(words, exact=True).click()
        now = view.idle()
        assert not now["error"]
        assert view.said() == ""


def test_a_mask_of_a_clip_is_taken_away(chrome: Any, address: str, image: Path) -> None:
    clip = image.with_name("clip.gif")
    with Image.open(image) as one:
        frames = [one.copy(), one.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]
    frames[0].save(clip, save_all=True, append_images=frames[1:], duration=100)
    view = View(chrome, address)
    view.open(clip)
    view.click(*DISCS[0])
    view.idle(lambda now: now["shown"] == 1)
    view.page.locator(".srx-context").get_by_text("No mask", exact=True).click()
    view.idle(lambda now: now["shown"] == 0)
    view.key("Control+z")
    view.idle(lambda now: now["shown"] == 1)
    view.close()
