"""The page of ``sam-rlx serve`` in real Chromium: gestures, pixels, and the masks behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from support.cases import quick
from support.interactive import serving
from support.jupyter import PATIENCE, Canvas, wait_for
from support.mask_messages import shown_mask

pytestmark = pytest.mark.timeout(600)

COINS = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
POINT, OTHER, THIRD = (346.5, 185.5), (295.5, 190.5), (335.5, 44.5)
CORNERS = ((300.5, 150.5), (380.5, 220.5))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a server of its own answers."""
    with serving("--threads", "1") as found:
        yield found


class Tab:
    """A page that shows an image."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.requests: list[str] = []
        self.problems: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)
        page.goto(address)
        page.locator(".srx-example").click(timeout=1000 * PATIENCE)
        self.canvas = Canvas(page)
        self.ready()

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def ready(self) -> None:
        """Wait until the image is encoded and nothing is asked."""
        self.canvas.wait("!f.busy")

    def settled(self, condition: str = "true") -> dict[str, Any]:
        """Return what is shown, after all that was asked is answered and a condition holds."""
        self.canvas.wait(f"!f.busy && ({condition})")
        state: dict[str, Any] = self.canvas.front("f")
        return state

    def masks(self) -> list[np.ndarray]:
        """Return the masks that the page has of all objects."""
        shown = self.canvas.root.evaluate("(root) => root.front.peek({ masks: true }).masks")
        return [shown_mask(head, bits) for head, bits in shown]

    def check(self, predictor: sam_rlx.ImagePredictor) -> None:
        """Compare all masks with those of the prompts that the page tells of.

        An object leaves the pixels of those before it alone.
        """
        taken: Any = np.False_
        for one, mask in zip(self.canvas.front("f.objects"), self.masks(), strict=True):
            points = [point[:2] for point in one["marks"]]
            found = predictor.predict(
                point_coords=points or None,
                point_labels=[point[2] for point in one["marks"]] or None,
                box=one["boxes"][0] if one["boxes"] else None,
                multimask_output=len(points) == 1 and not one["boxes"],
            )
            np.testing.assert_array_equal(mask, found.masks[one["candidate"]] & ~taken)
            taken = taken | mask


@pytest.fixture(params=quick([1, 2], 1), ids=["ratio 1", "ratio 2"])
def tab(chrome: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Tab]:
    context = chrome.new_context(
        device_scale_factor=request.param, viewport={"width": 1000, "height": 900}
    )
    tab = Tab(context.new_page(), address)
    yield tab
    context.close()
    assert tab.problems == []


def test_gestures(tab: Tab, predictor: sam_rlx.ImagePredictor) -> None:
    """Every gesture, and each state bit by bit that of `ImagePredictor`."""
    canvas = tab.canvas
    plain = canvas.pixel(*POINT)
    canvas.move(*POINT)
    wait_for(lambda: canvas.pixel(*POINT) != plain, "a hover")
    assert tab.settled()["objects"] == []
    canvas.click(*POINT)
    (one,) = tab.settled("f.objects.length === 1")["objects"]
    assert np.abs(np.subtract(one["marks"][0][:2], POINT)).max() <= 1
    tab.check(predictor)
    canvas.click(*OTHER, button="right")
    (one,) = tab.settled("f.objects[0].points === 2")["objects"]
    assert [point[2] for point in one["marks"]] == [1, 0]
    tab.check(predictor)
    canvas.press("Control+z")
    tab.settled("f.objects[0].points === 1")
    tab.check(predictor)
    canvas.press("Control+Shift+z")
    tab.settled("f.objects[0].points === 2")
    canvas.press("Enter")
    tab.settled("f.current === null")
    canvas.drag(*CORNERS)
    state = tab.settled("f.objects.length === 2")
    assert np.abs(np.subtract(state["objects"][1]["boxes"][0], np.ravel(CORNERS))).max() <= 1
    tab.check(predictor)
    canvas.press("j")
    tab.settled("f.current === 1")
    canvas.press("j")
    tab.settled("f.current === 2")
    canvas.press("Delete")
    tab.settled("f.objects.length === 1")
    canvas.click(*THIRD)
    tab.settled("f.objects.length === 2")
    canvas.press("Escape")
    tab.settled("f.objects.length === 1 && f.current === null")
    tab.check(predictor)
    for key in "dbmx":
        canvas.press(key)
    assert len(tab.settled()["objects"]) == 1
    assert all(url.split("/")[2].startswith("127.0.0.1:") for url in tab.requests if "//" in url)


def test_positions_are_right_at_zoom_4(tab: Tab, predictor: sam_rlx.ImagePredictor) -> None:
    canvas = tab.canvas
    before = canvas.front("f.scale")
    canvas.move(*POINT)
    for _ in range(40):
        if canvas.front("f.scale") >= 4 * before:
            break
        canvas.press("+")
    center = canvas.front("[0, f.left, f.top, f.scale]")
    assert center[3] >= 4 * before
    box = canvas.canvas.bounding_box()
    x, y = (box["width"] / 2 - center[1]) / center[3], (box["height"] / 2 - center[2]) / center[3]
    canvas.click(x, y)
    (one,) = tab.settled("f.objects.length === 1")["objects"]
    assert np.abs(np.subtract(one["marks"][0][:2], (x, y))).max() <= 1 / center[3] + 0.01
    tab.check(predictor)


def test_keys_alone(chrome: Any, address: str, predictor: sam_rlx.ImagePredictor) -> None:
    """Without a mouse: Tab reaches the image, Shift and arrows aim, I and U click."""
    context = chrome.new_context(viewport={"width": 640, "height": 400})
    tab = Tab(context.new_page(), address)
    keys, canvas = tab.page.keyboard, tab.canvas
    assert canvas.canvas.bounding_box()["height"] <= 0.9 * 400  # of a small or enlarged window
    for _ in range(40):
        keys.press("Tab")
        if canvas.canvas.evaluate("(canvas) => document.activeElement === canvas"):
            break
    keys.press("i")  # nothing is aimed at
    before = canvas.pixels_hash()
    for _ in range(3):
        keys.press("Shift+ArrowRight")
    canvas.wait("f.hover")
    assert canvas.pixels_hash() != before
    aimed = canvas.front("[f.aimed.x, f.aimed.y]")
    keys.press("i")
    (one,) = tab.settled("f.objects.length === 1")["objects"]
    assert one["marks"] == [[*aimed, 1]]
    tab.check(predictor)
    keys.press("Shift+ArrowUp")
    keys.press("u")
    (one,) = tab.settled("f.objects[0].points === 2")["objects"]
    assert one["marks"][1][2] == 0
    assert one["marks"][1][1] < aimed[1]
    tab.check(predictor)
    keys.press("Enter")
    tab.settled("f.current === null")
    left = canvas.front("f.left")
    keys.down(" ")
    canvas.drag((100, 100), (140, 100))
    keys.up(" ")
    canvas.wait(f"f.left > {left}")
    assert len(tab.settled()["objects"]) == 1
    assert tab.problems == []
    context.close()


def test_touch(chrome: Any, address: str, predictor: sam_rlx.ImagePredictor) -> None:
    """A touch is a click, a long one a right click; two fingers zoom and click nothing."""
    context = chrome.new_context(viewport={"width": 390, "height": 700}, has_touch=True)
    tab = Tab(context.new_page(), address)
    tab.page.touchscreen.tap(*tab.canvas.client(*POINT))
    tab.settled("f.objects.length === 1")
    devtools = context.new_cdp_session(tab.page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        where = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": where})

    touch("touchStart", tab.canvas.client(*OTHER))
    tab.canvas.wait("f.dragged > 600")
    touch("touchEnd")
    (one,) = tab.settled("f.objects[0].points === 2")["objects"]
    assert [point[2] for point in one["marks"]] == [1, 0]
    tab.check(predictor)
    fixed, at = tab.canvas.client(100, 100), tab.canvas.client(150, 100)
    before = tab.canvas.front("f.scale")
    touch("touchStart", fixed)
    touch("touchStart", fixed, at)
    for step in (0.5, 1):
        touch("touchMove", fixed, (at[0] + step * (at[0] - fixed[0]), at[1]))
    touch("touchEnd")
    tab.canvas.wait(f"Math.abs(f.scale / {before} - 2) < 0.1")
    assert near(tab.canvas.client(100, 100), fixed)
    (one,) = tab.settled("f.dragged === null")["objects"]
    assert one["points"] == 2
    assert tab.problems == []
    context.close()


def said_on(page: Any) -> str:
    """Return the sentence over the image."""
    return str(page.inner_text(".srx-badge"))


def near(found: Any, wanted: Any) -> bool:
    return bool(np.abs(np.subtract(found, wanted)).max() < 2)


def test_two_tabs_and_a_second_image(
    chrome: Any, address: str, predictor: sam_rlx.ImagePredictor
) -> None:
    context = chrome.new_context(viewport={"width": 900, "height": 800})
    first, second = Tab(context.new_page(), address), Tab(context.new_page(), address)
    first.page.bring_to_front()
    first.canvas.click(*POINT)
    first.settled("f.objects.length === 1")
    second.page.bring_to_front()
    second.canvas.click(*THIRD)
    second.settled("f.objects.length === 1")
    for tab in (first, second):
        tab.check(predictor)
    assert (first.masks()[0] != second.masks()[0]).any()
    second.page.set_input_files("input.srx-files", str(COINS.with_name("coffee.jpg")))
    wait_for(
        lambda: second.page.evaluate(
            "document.querySelector('.srx')?.front?.peek()?.name === 'coffee.jpg'"
        ),
        "another image",
    )
    assert Canvas(second.page).front("f.objects.length") == 0
    assert len(first.settled()["objects"]) == 1
    assert first.problems == second.problems == []
    context.close()


def test_an_export_is_opened_again(chrome: Any, address: str, tmp_path: Path) -> None:
    """Yesterday's objects are there with the image, and clicks go on with them."""
    context = chrome.new_context(viewport={"width": 900, "height": 800})
    before = Tab(context.new_page(), address)
    before.canvas.click(*POINT)
    before.settled("f.objects.length === 1")
    before.canvas.press("Enter")
    before.canvas.click(*THIRD)
    before.settled("f.objects.length === 2")
    before.canvas.press("F2")
    before.page.keyboard.type("second")
    before.page.keyboard.press("Enter")
    said = before.settled("f.objects[1].name === 'second'")["objects"]
    with before.page.expect_download() as download:
        before.canvas.press("Control+e")
        before.page.keyboard.press("Enter")
    file = tmp_path / "objects.json"
    download.value.save_as(file)
    after = Tab(context.new_page(), address)
    after.page.set_input_files("input.srx-files", [str(COINS), str(file)])
    wait_for(lambda: said_on(after.page) == "Objects loaded: 2", "loaded objects")
    after.canvas = Canvas(after.page)
    after.ready()
    kept = [[one[key] for key in ("name", "color", "score")] for one in said]
    objects = after.settled("f.objects.length === 2")["objects"]
    assert [[one[key] for key in ("name", "color", "score")] for one in objects] == kept
    for one, other in zip(after.masks(), before.masks(), strict=True):
        np.testing.assert_array_equal(one, other)
    after.canvas.press("Shift+J")
    after.canvas.click(*OTHER, button="right")
    (one,) = after.settled("f.objects[1].points === 1")["objects"][1:]
    assert (one["name"], one["marks"][0][2]) == ("second", 0)
    file.write_text(file.read_text().replace("303", "302"))
    after.page.set_input_files("input.srx-saved", str(file))
    wait_for(lambda: "expected masks of 384 x 303" in said_on(after.page), "an error")
    assert len(after.settled()["objects"]) == 2
    assert before.problems == after.problems == []
    context.close()


def test_what_is_wrong_is_said(chrome: Any, address: str, tmp_path: Path) -> None:
    context = chrome.new_context()
    tab = Tab(context.new_page(), address)
    text = tmp_path / "words.png"
    text.write_text("no image")
    tab.page.set_input_files("input.srx-files", str(text))
    wait_for(lambda: "words.png cannot be read" in said_on(tab.page), "an error")
    assert tab.canvas.front("f.link") == "open"
    bare = context.new_page()
    bare.goto(address.partition("?")[0])
    assert "token: expected" in bare.inner_text("body")
    context.close()
