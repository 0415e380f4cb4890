"""The page of ``sam-rlx serve`` as a person uses it: files, keys, the pointer, and what is seen."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from support.half_size import SIDES
from support.interactive import serving
from support.jupyter import Canvas, JupyterServer, NotebookPage, wait_for
from support.mask_messages import shown_mask

# Middles of the discs of `discs`.
DISCS = ((80, 70), (210, 90), (150, 180))


def discs(path: Path, seed: int = 0, hw: tuple[int, int] = (240, 320)) -> Path:
    """Write an image of three discs on a dark ground with grain."""
    random = np.random.default_rng(seed)
    y, x = np.ogrid[: hw[0], : hw[1]]
    pixels = np.full((*hw, 3), 45 + seed * 9, np.uint8)
    colors = ((220, 70, 60), (70, 120, 220), (230, 200, 60))
    for (cx, cy), color in zip(DISCS, colors, strict=True):
        pixels[(y - cy) ** 2 + (x - cx) ** 2 < 34**2] = color
    noisy = np.clip(pixels + random.normal(0, 6, pixels.shape), 0, 255)
    Image.fromarray(noisy.astype(np.uint8)).save(path)
    return path


def disc_at(number: int, t: int) -> tuple[float, float]:
    """Return where a disc of `moving_discs` is."""
    return (40 + 0.9 * t, 40) if number == 0 else (120, 70 - 0.3 * t)


def moving_discs(path: Path, frames: int, hw: tuple[int, int] = (96, 200)) -> Path:
    """Write a clip, as a GIF, of two discs that move."""
    y, x = np.mgrid[: hw[0], : hw[1]]
    made = []
    for t in range(frames):
        pixels = np.full((*hw, 3), 90, np.uint8)
        for number, color in enumerate(((210, 60, 40), (40, 90, 210))):
            cx, cy = disc_at(number, t)
            pixels[np.hypot(x - cx, y - cy) < 15] = color
        made.append(Image.fromarray(pixels))
    made[0].save(path, save_all=True, append_images=made[1:], duration=40)
    return path


class View:
    """A page on which a person works.

    Parameters
    ----------
    chrome : playwright Browser
    address : str
        Of a server.
    size : (int, int)
        Of the window.
    options
        Of the browser's context.
    """

    def __init__(
        self, chrome: Any, address: str, size: tuple[int, int] = (1366, 768), **options: Any
    ) -> None:
        self.context = chrome.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._heard)
        self.go(address)

    def go(self, address: str) -> None:
        """Go to an address: the first page, a project, or a blank page."""
        self.page.goto(address)
        begin = self.page.locator(".srx-openfiles")
        if address.startswith("http"):
            wait_for(lambda: begin.is_visible() or self.peek(), "an image, or a beginning")

    def _heard(self, message: Any) -> None:
        if message.type == "error":
            self.problems.append(message.text)

    def open(self, *files: Path) -> dict[str, Any]:
        """Open images, and wait until the first of these is shown."""
        before = self.peek()
        self.page.set_input_files("input.srx-files", [str(file) for file in files])
        count = len(files) + (before["count"] if before else 0)
        return self.idle(lambda now: now["count"] >= count or now["error"])

    def peek(self) -> dict[str, Any] | None:
        """Return what the view shows; None before there is an image."""
        found: dict[str, Any] | None = self.page.evaluate(
            "document.querySelector('.srx')?.front?.peek() ?? null"
        )
        return found

    def idle(
        self,
        condition: Callable[[dict[str, Any]], Any] = lambda now: True,
        what: str = "a view at rest",
    ) -> dict[str, Any]:
        """Wait until nothing is asked and a condition holds; return what is shown then."""

        def found() -> Any:
            now = self.peek()
            return now if now and not now["busy"] and condition(now) else None

        return wait_for(found, what)  # type: ignore[no-any-return]

    @property
    def canvas(self) -> Canvas:
        """The image."""
        return Canvas(self.page)

    def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Wait until a condition holds, whatever else is going on."""

        def found() -> Any:
            now = self.peek()
            return now if now and condition(now) else None

        return wait_for(found, "a condition of the view")  # type: ignore[no-any-return]

    def settled(self) -> dict[str, Any]:
        """Wait until all that was done is answered, also after a break of the connection."""
        return self.idle(lambda now: now["link"] == "open" and not now["outbox"])

    def to(self, index: int) -> None:
        """Go to an image of the queue by keys."""
        while (at := self.settled()["index"]) != index:
            self.page.keyboard.press("d" if at < index else "a")

    def wheel(self, turn: float, until: Callable[[dict[str, Any]], Any]) -> None:
        """Turn the wheel over what is under the mouse until a condition holds.

        `turn` is below 0 to come nearer.
        """
        now = self.idle()
        while not until(now):
            before = now["scale"]
            self.page.mouse.wheel(0, turn)
            wait_for(lambda: (self.peek() or {}).get("scale") != before, "another scale")  # noqa: B023
            now = self.idle()

    def resize(self, width: int, height: int) -> None:
        """Give the window another size, and wait until the image has its own anew."""
        self.page.set_viewport_size({"width": width, "height": height})
        wait_for(lambda: self.page.evaluate(RESIZED, [width, height]), "another size")

    def goto(self, frame: int) -> None:
        """Go to a frame of a clip, by the slider."""
        self.page.locator("input.srx-seek").fill(str(frame))

    def drop(self, file: Path, event: str = "drop") -> None:
        """Drop a file on the page, or paste it there."""
        data = base64.b64encode(file.read_bytes()).decode()
        kind = mimetypes.guess_type(file.name)[0]
        self.page.evaluate(DROP, [event, file.name, kind, data])

    def click(self, x: float, y: float, **options: Any) -> dict[str, Any]:
        """Click on the image, and wait for the answer."""
        before = self.idle()
        self.canvas.click(x, y, **options)
        return self.idle(lambda now: now["n"] > before["n"] or now["current"] != before["current"])

    def key(self, key: str) -> dict[str, Any]:
        """Press a key, wherever the focus is."""
        self.page.keyboard.press(key)
        return self.idle()

    def said(self) -> str:
        """Return the sentence over the image, "" if there is none."""
        self.peek()
        badge = self.page.locator(".srx-badge")
        return str(badge.inner_text()) if badge.is_visible() else ""

    def saved(self) -> str:
        """Return what the mark in the top bar says of where the work is."""
        return str(self.page.locator("span.srx-saved").inner_text())

    def box(self, selector: str) -> tuple[float, float, float, float] | None:
        """Return (x0, y0, x1, y1) of an element on the page; None if it is not seen."""
        found = self.page.locator(selector).first
        box = found.bounding_box() if found.count() else None
        if box is None or not box["width"] or not box["height"]:
            return None
        return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]

    def names(self) -> Sequence[str]:
        """Return the names of the objects."""
        now = self.peek()
        return [one["name"] for one in now["objects"]] if now else []

    def close(self, *expected: str) -> None:
        """Close the page, on which nothing went wrong but what has one of these words."""
        self.context.close()
        assert [one for one in self.problems if not any(word in one for word in expected)] == []


DROP = """([event, name, type, data]) => {
  const transfer = new DataTransfer();
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  transfer.items.add(new File([bytes], name, { type }));
  const made = event === "drop" ? new DragEvent("drop", { dataTransfer: transfer })
    : new ClipboardEvent("paste", { clipboardData: transfer });
  document.dispatchEvent(made);
}"""
# Whether the window has a size, and the sheet of the image that of its element.
RESIZED = """([width, height]) => {
  const canvas = document.querySelector("canvas.srx-view");
  const fits = (pixels, side) => Math.abs(pixels - side * devicePixelRatio) <= 1;
  return innerWidth === width && innerHeight === height && canvas &&
    fits(canvas.width, canvas.clientWidth) && fits(canvas.height, canvas.clientHeight);
}"""
# Each run of it shows a widget on the files that are named then.
CELL = """import json, sam_rlx
from pathlib import Path
from sam_rlx.widget import SegmentWidget, VideoWidget
model, side, *files = json.loads(Path("open.json").read_text())
kind = VideoWidget if files[0].endswith(".gif") else SegmentWidget
model = sam_rlx.load_model(model, image_size=side)
w = kind(model, files[0] if len(files) == 1 else files, num_threads=1)
w"""


class NotebookView(View):
    """The widget in a notebook, used as a page is.

    Parameters
    ----------
    chrome : playwright Browser
    server : JupyterServer
    path : {"lab/tree", "notebooks"}
        JupyterLab or Notebook 7.
    model : str
    """

    def __init__(
        self, chrome: Any, server: JupyterServer, path: str = "lab/tree", model: str = "sam-nano"
    ) -> None:
        self.context = chrome.new_context(viewport={"width": 1366, "height": 900})
        self.page = self.context.new_page()
        self.problems = []
        self.work, self.model = server.work, model
        name = f"view_{path.partition('/')[0]}.ipynb"
        server.notebook(name, CELL, "1 + 1")
        self.notebook = NotebookPage(self.page, server, name, path)
        if path == "lab/tree":
            self.notebook.command("application:toggle-left-area")

    def open(self, *files: Path) -> dict[str, Any]:
        """Show a widget on these files, instead of the one before."""
        (self.work / "open.json").write_text(
            json.dumps([self.model, SIDES.get(self.model), *map(str, files)])
        )
        before = (self.peek() or {}).get("view")
        self.run_cell()
        return self.idle(lambda now: now["view"] != before)

    def run_cell(self) -> None:
        """Run the cell of the widget."""
        self.page.evaluate(
            "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }"
        )
        self.notebook.command("notebook:run-cell")

    def key(self, key: str) -> dict[str, Any]:
        """Press a key with the focus in the widget."""
        if not self.page.evaluate("!!document.activeElement?.closest('.srx')"):
            self.canvas.canvas.focus()
        return super().key(key)

    def run(self, code: str) -> Any:
        """Run code in the kernel; return what it prints, as JSON."""
        status, text = self.page.evaluate(RUN, code)
        assert status == "ok", text
        return json.loads(text) if text else None


RUN = """async (code) => {
  const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
  const future = kernel.requestExecute({ code, store_history: false });
  let text = "";
  future.onIOPub = ({ header, content }) => {
    if (header.msg_type === "stream") text += content.text;
    if (header.msg_type === "error") text += content.evalue;
  };
  const { content } = await future.done;
  return [content.status, text];
}"""


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a server of the module answers, with the packaged model that it names as `MODEL`."""
    model = getattr(request.module, "MODEL", "sam-nano")
    with serving("--threads", "1", "--model", model) as found:
        yield found


@pytest.fixture
def view(chrome: Any, address: str) -> Iterator[View]:
    """A page of that server."""
    found = View(chrome, address)
    yield found
    found.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three images of discs, in a folder of their own."""
    made = tmp_path / "photos"
    made.mkdir()
    for at in range(3):
        discs(made / f"disc {at}.png", at)
    return made


@contextmanager
def view_in(request: pytest.FixtureRequest, chrome: Any) -> Iterator[View]:
    """Give a view where the parameter of a fixture says: on a "page", or in a notebook's path.

    A page is that of the fixture `address`, a notebook of `server`.
    """
    if request.param == "page":
        found = View(chrome, request.getfixturevalue("address"), (1100, 800))
    else:
        found = NotebookView(chrome, request.getfixturevalue("server"), request.param)
    yield found
    found.close()


def masks(view: View) -> dict[int, NDArray[np.bool_]]:
    """Return the masks that the page has, by number of the object."""
    shown = view.page.evaluate("document.querySelector('.srx').front.peek({ masks: true })")
    pairs = zip(shown["objects"], shown["masks"], strict=True)
    return {one["id"]: shown_mask(head, bits) for one, (head, bits) in pairs}


def after(view: View, act: Any) -> dict[str, Any]:
    """Do something that makes an edit, and wait for it."""
    before = view.idle()["n"]
    act()
    return view.idle(lambda now: now["n"] > before)


def painted(view: View, *path: tuple[float, float], pen: bool = False) -> list[list[float]]:
    """Drag along a path of the image; return the positions of the stroke that the page sends."""
    devtools = view.context.new_cdp_session(view.page)

    def pointer(kind: str, at: tuple[float, float]) -> None:
        x, y = view.canvas.client(*at)
        held = kind != "mouseMoved" or at != path[0]
        head = {"type": kind, "x": x, "y": y, "pointerType": "pen" if pen else "mouse"}
        button = {"button": "left", "buttons": 1, "clickCount": 1} if held else {}
        devtools.send("Input.dispatchMouseEvent", head | button)

    pointer("mouseMoved", path[0])
    pointer("mousePressed", path[0])
    for at in path[1:]:
        pointer("mouseMoved", at)
    drawn: list[list[float]] = view.page.evaluate(
        "document.querySelector('.srx').front.peek().path"
    )
    pointer("mouseReleased", path[-1])
    devtools.detach()
    return drawn
