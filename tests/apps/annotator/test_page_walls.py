"""The page for everyone: a job by keys alone, by touch alone; names, contrast, strangers."""

from __future__ import annotations

import http.client
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cases import quick
from support.interactive import TOKEN, Server
from support.views import DISCS, View, after, discs

pytestmark = pytest.mark.timeout(1200)

JOB = [(0, DISCS), (1, DISCS[:2])]  # image, and what is clicked there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two images of discs, in a folder of their own."""
    made = tmp_path / "photos"
    made.mkdir()
    for at in range(2):
        discs(made / f"disc {at}.png", at)
    return made


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    running = Server(str(folder))
    yield running
    running.kill()


def aim(view: View, x: float, y: float) -> None:
    """Move the cross of the keys to a position of the image."""
    view.key("Shift+ArrowRight")
    for axis, keys in (("x", ("ArrowLeft", "ArrowRight")), ("y", ("ArrowUp", "ArrowDown"))):
        wanted = x if axis == "x" else y
        for _ in range(200):
            now = view.peek() or {}
            short = wanted - now["aimed"][axis]
            if abs(short) < 8:
                break
            view.page.keyboard.press(f"Shift+{keys[short > 0]}")


def test_keyboard_touch_and_walls_by_keys(chrome: Any, server: Server, folder: Path) -> None:
    """A class, objects on two images, an export: with keys alone."""
    view = View(chrome, server.project(folder))
    asked: list[str] = []
    view.page.on("request", lambda request: asked.append(request.url))
    keys = view.page.keyboard
    reach(view, "button", "New class")
    keys.press("Enter")
    keys.type("disc")
    after(view, lambda: keys.press("Enter"))
    assert view.idle()["nextClass"] == 2
    for index, positions in JOB:
        for position in positions:
            aim(view, *position)
            count = len(view.idle()["objects"])
            keys.press("i")
            view.idle(lambda now, count=count: len(now["objects"]) == count + 1)
            view.key("Enter")
        if index == 0:
            view.key("1")
            keys.press("Control+Enter")
            view.idle(lambda now: now["index"] == 1)
    view.key("Control+e")
    for _ in range(30):
        if view.page.evaluate("document.activeElement.value") == "yolo":
            break
        keys.press("ArrowDown")
    with view.page.expect_download() as download:
        keys.press("Enter")
    file = folder.with_name("keys.zip")
    download.value.save_as(file)
    check(file)
    own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
    assert [url for url in asked if not url.startswith(own)] == []
    view.close()


def check(file: Path) -> None:
    """Check that an export in YOLO's form has the objects of the job, with their classes."""
    with zipfile.ZipFile(file) as packed:
        lines = {
            Path(name).stem: packed.read(name).decode().split("\n")
            for name in packed.namelist()
            if name.endswith(".txt")
        }
    kinds = {name: [line[0] for line in found if line] for name, found in lines.items()}
    assert kinds == {"disc 0": ["1", "1", "1"], "disc 1": ["0", "0"]}


def reach(view: View, role: str, name: str) -> None:
    """Press Tab until the focus is on a control of this name."""
    for _ in range(120):
        view.page.keyboard.press("Tab")
        found = view.page.evaluate(
            "[document.activeElement.tagName.toLowerCase(), document.activeElement.ariaLabel]"
        )
        if found == [role, name]:
            return
    raise AssertionError(f"{name} is not reached by Tab")


@pytest.mark.slow
def test_keyboard_touch_and_walls_by_touch(chrome: Any, server: Server, folder: Path) -> None:
    """The same with a finger alone, on a telephone."""
    view = View(
        chrome, server.project(folder), (390, 844), has_touch=True, is_mobile=True,
        device_scale_factor=2,
    )  # fmt: skip

    def tap(selector: str, number: int = 0) -> None:
        view.page.locator(selector).locator("visible=true").nth(number).tap()

    view.idle(lambda now: now["count"] > 1)
    small = view.page.evaluate(
        """[...document.querySelectorAll('.srx button')].filter((one) => one.checkVisibility())
        .map((one) => [one.title, one.offsetWidth, one.offsetHeight])
        .filter(([, width, height]) => Math.min(width, height) < 36)"""
    )
    assert small == []
    tap(".srx-panelkey")
    tap("[aria-label='New class']")
    view.page.keyboard.type("disc")  # of the screen
    after(view, lambda: view.page.keyboard.press("Enter"))
    tap(".srx-panelkey")
    for index, positions in JOB:
        if index == 1:
            tap(".srx-class")
            view.idle(lambda now: now["nextClass"] == 1)
        for position in positions:
            count = len(view.idle()["objects"])
            view.page.touchscreen.tap(*view.canvas.client(*position))
            view.idle(lambda now, count=count: len(now["objects"]) == count + 1)
            tap(".srx-context .srx-main")
            view.idle(lambda now: now["current"] is None)
        if index == 0:
            tap(".srx-turn > button", 1)
            view.idle(lambda now: now["index"] == 1)
    tap(".srx-export")
    tap("dialog label.srx-form:has(input[value=yolo])")
    with view.page.expect_download() as download:
        tap("dialog .srx-main")
    file = folder.with_name("touch.zip")
    download.value.save_as(file)
    check(file)
    view.close()


# What a text is seen on: the first background behind it that is not clear.
CONTRAST = """() => {
  const parse = (words) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = words;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((value) => value / 255)
    .map((value) => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] > 200) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  for (const one of document.querySelectorAll(".srx *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const seen = one.checkVisibility({ opacityProperty: true });
    if (!own || !seen || one.closest(":disabled, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([contrast, one.className, one.textContent]);
  }
  return found;
}"""
NAMELESS = """[...document.querySelectorAll('.srx :is(button, input, select, [role=option], a)')]
  .filter((one) => one.checkVisibility() && !(one.ariaLabel || one.title || one.textContent.trim()
    || one.closest('label')?.textContent.trim())).map((one) => one.outerHTML)"""


@pytest.mark.parametrize("scheme", quick(["light", "dark"], 0))
@pytest.mark.slow
def test_keyboard_touch_and_walls_of_sight(
    chrome: Any, server: Server, folder: Path, scheme: str
) -> None:
    """Every control has a name; texts have a contrast of 4.5, in the dialogs too."""
    view = View(chrome, server.project(folder), color_scheme=scheme)
    view.click(*DISCS[0])

    def look() -> None:
        assert view.page.evaluate(NAMELESS) == []
        weak = [row for row in view.page.evaluate(CONTRAST) if row[0] < 4.5]
        assert weak == []

    look()
    view.key("Enter")
    view.key("z")
    look()
    for key in ("Control+e", "?"):
        view.key(key)
        look()
        view.key("Escape")
    roles = view.page.evaluate(
        "[...document.querySelectorAll('.srx [role]')].map((one) => one.getAttribute('role'))"
    )
    assert {"listbox", "option", "status", "radiogroup"} <= set(roles)
    for tool in view.page.locator(".srx-tool:visible").all():
        assert tool.get_attribute("aria-pressed") in ("true", "false")
    view.key("b")
    assert view.page.locator(".srx-tool[aria-pressed=true]").count() == 1
    view.close()


def answer(server: Server, path: str, **headers: str) -> int:
    """Return the status of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_keyboard_touch_and_walls_for_strangers(chrome: Any, server: Server, folder: Path) -> None:
    """A page of another site, another token, a path that climbs: refused, and said."""
    path = f"/{TOKEN}/"
    assert answer(server, path) == 200
    assert answer(server, path, Origin="http://evil.example") == 403
    assert answer(server, path, Host="evil.example") == 403
    assert answer(server, f"/{TOKEN[:-1]}x/") == 403
    for climbing in (f"/{TOKEN}/../../etc/passwd", f"/{TOKEN}/%2e%2e/%2e%2e/etc/passwd"):
        assert answer(server, climbing) in (403, 404)
    view = View(chrome, server.project(folder))
    refused = view.page.evaluate(
        """async (address) => {
          const socket = new WebSocket(address);
          return await new Promise((done) => { socket.onclose = ({ code }) => done(code); });
        }""",
        f"ws://127.0.0.1:{server.port}/session?token=wrong",
    )
    assert refused in (1006, 4403)
    view.close("WebSocket")
