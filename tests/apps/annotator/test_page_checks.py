"""What a person needs of the front end, in real Chromium, on the page and in notebooks."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support import cases
from support.cases import quick
from support.half_size import half_size
from support.interactive import serving
from support.jupyter import wait_for
from support.views import DISCS, NotebookView, View, after, discs, moving_discs, view_in

pytest.importorskip("anywidget")
from sam_rlx.widget import SegmentWidget

pytestmark = pytest.mark.timeout(600)

# Window, least share of it that is the stage.
SIZES = (((1920, 1080), 0.70), ((1366, 768), 0.60), ((900, 640), 0.60), ((390, 844), 0.75))
PARTS = ("top", "rail", "stage", "panel", "strip", "status")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three images of discs."""
    return [discs(tmp_path / f"disc {k}.png", k) for k in range(3)]


@pytest.fixture(params=quick(["page", "lab/tree", "notebooks"], 0))
def anywhere(request: pytest.FixtureRequest, chrome: Any) -> Iterator[View]:
    """A view of the page, of JupyterLab, and of Notebook 7."""
    with view_in(request, chrome) as found:
        yield found


# ------------------------------------------------------------------ keys

# Where the focus may be: nowhere, on the image, on a button, in a list, on a slider, after a menu.
FOCUSES: dict[str, Callable[[View], Any]] = {
    "nowhere": lambda view: view.page.evaluate("document.activeElement?.blur()"),
    "the image": lambda view: view.canvas.canvas.focus(),
    "a button": lambda view: view.page.locator(".srx-tool").first.focus(),
    "a clicked button": lambda view: view.page.locator(".srx-pc").click(),
    "an object": lambda view: [one.focus() for one in view.page.locator(".srx-object").all()],
    "a clicked object": lambda view: [
        one.click() for one in view.page.locator(".srx-object").all()
    ],
    "a slider": lambda view: view.page.locator(".srx-foot input").focus(),
    "after a menu": lambda view: [view.page.locator(".srx-project").click() for _ in range(2)],
    "beside the view": lambda view: view.page.mouse.click(640, 4),
    "after a dialog": lambda view: [view.key("?"), view.key("Escape")],
}
# By key: what differs before and after.
EFFECTS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "o": lambda now: now["outline"],
    "+": lambda now: now["scale"],
    "z": lambda now: now["scale"],
    "0": lambda now: now["scale"],
    "ArrowLeft": lambda now: now["left"],
    "Shift+ArrowUp": lambda now: now["aimed"],
    "j": lambda now: now["current"],
    "Shift+J": lambda now: now["current"],
    "h": lambda now: now["hidden"],
    "d": lambda now: now["index"],
    "a": lambda now: now["index"],
    "PageDown": lambda now: now["index"],
    "PageUp": lambda now: now["index"],
    "?": lambda now: now["open"],
    "Escape": lambda now: now["open"],
    "Control+e": lambda now: now["open"],
}


@pytest.mark.parametrize("focus", quick([*FOCUSES], 3, 5))
def test_keys_everywhere(anywhere: View, files: list[Path], focus: str) -> None:
    """Keys are heard wherever the focus is; what they do is seen."""
    view = anywhere
    if focus == "beside the view" and isinstance(view, NotebookView):
        pytest.skip("there the notebook hears them")
    view.open(*files)
    for disc in DISCS[:2]:
        view.click(*disc)
        view.key("Enter")
    for key, seen in EFFECTS.items():
        if key == "Escape":
            view.page.keyboard.press("?")
        elif key not in ("Shift+J", "h", "0"):
            FOCUSES[focus](view)
        if key in ("a", "PageUp"):
            view.idle(lambda now: now["index"] > 0)
        before = view.idle()
        view.page.keyboard.press(key)
        changed = view.idle(
            lambda now, seen=seen, before=before: seen(now) != seen(before), f"{key}, {focus}"
        )
        if changed["open"]:
            view.key("Escape")


def edits(now: dict[str, Any]) -> Any:
    return now["n"]


# What is pressed in this order on an image with two objects, and what differs then.
WORK: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("j", lambda now: now["current"]),
    ("1", lambda now: now["nextClass"]),
    *((key, edits) for key in ("q", "q", "c", "Shift+Digit3", "Control+z")),
    *((key, edits) for key in ("Control+Shift+z", "Control+z", "Control+y")),
    *((key, lambda now: now["tool"]) for key in ("b", "e", "l", "s", "x", "Escape")),
    *((key, lambda now: now["radius"]) for key in ("]", "[")),
    ("Alt+h", lambda now: now["hidden"]),
    ("Alt+h", lambda now: now["hidden"]),
    ("Enter", lambda now: now["current"]),
    ("Shift+ArrowLeft", lambda now: now["aimed"]),
    ("Shift+ArrowRight", lambda now: now["aimed"]),
    ("Shift+ArrowUp", lambda now: now["aimed"]),
    ("Shift+ArrowDown", lambda now: now["aimed"]),
    *((key, edits) for key in ("i", "u", "Delete", "Control+z")),
    ("j", lambda now: now["current"]),
    ("Backspace", edits),
    ("-", lambda now: now["scale"]),
    ("=", lambda now: now["scale"]),
    *((key, lambda now: now["left"]) for key in ("ArrowRight", "ArrowLeft")),
    *((key, lambda now: now["top"]) for key in ("ArrowDown", "ArrowUp")),
    ("g", lambda now: now["layer"]),
    ("k", lambda now: now["layer"]),
    ("Control+Enter", lambda now: now["index"]),
    ("2", lambda now: now["nextClass"]),
    ("r", lambda now: now["nextClass"]),
]
# On a clip with an object that was tracked.
ON_CLIPS: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    *((key, lambda now: now["frame"]) for key in ("End", "Home", ".", ",", "Shift+.", "Shift+,")),
    ("t", edits),
    ("y", edits),
    ("Space", lambda now: now["playing"]),
    ("Space", lambda now: now["playing"]),
]
# Each has a test of its own: a name, words, two objects, the full screen, what is to be checked,
# what no export has.
ELSEWHERE = {"F2", "/", "Shift+Enter", "M", "F", "N", "Shift+D"}
SPOKEN = {"Control+": "Ctrl+", "Arrow": "", "Digit": "", "Escape": "Esc"}


@pytest.mark.slow
def test_keys_everywhere_is_of_each_row(view: View, files: list[Path], tmp_path: Path) -> None:
    """Each key of the page of keys does something."""
    view.open(*files)
    view.page.locator(".srx-classes button").first.click()
    view.page.keyboard.type("ball")
    after(view, lambda: view.page.keyboard.press("Enter"))
    for disc in DISCS[:2]:
        view.click(*disc)
        view.key("Enter")
    view.to(1)
    view.click(*DISCS[0])
    view.key("1")
    view.key("Enter")
    view.to(0)
    view.key("2")
    for key, seen in WORK:
        before = view.idle()
        view.page.keyboard.press(key)
        view.idle(lambda now, seen=seen, before=before: seen(now) != seen(before), key)
    view.page.keyboard.press("f")
    assert view.page.evaluate("!!document.fullscreenElement")
    view.page.keyboard.press("f")
    view.open(moving_discs(tmp_path / "clip.gif", 12))
    view.click(40, 40)
    for key, seen in ON_CLIPS:
        before = view.idle()
        view.page.keyboard.press(key)
        view.until(lambda now, seen=seen, before=before: seen(now) != seen(before))
        view.until(lambda now: not now["running"])
    rows = view.page.evaluate("document.querySelector('.srx').front.peek({ keys: true }).keys")
    pressed = set()
    for key in [*EFFECTS, *(key for key, _ in WORK), *(key for key, _ in ON_CLIPS)]:
        for word, said in SPOKEN.items():
            key = key.replace(word, said)
        pressed.add(
            "+".join(part[:1].upper() + part[1:] for part in key.split("+")) if key != "+" else key
        )
    for row in rows:
        for key in row["keys"]:
            some = {f"{key[:-6]}{digit}" for digit in range(1, 10)} if " to " in key else {key}
            assert (some & (pressed | ELSEWHERE)) or " to " in key, (row["title"], key)


def test_keys_everywhere_but_in_fields(anywhere: View, files: list[Path]) -> None:
    """A name may have all letters; after Enter and Esc keys are heard again."""
    view = anywhere
    view.open(*files)
    view.click(*DISCS[0])
    view.page.locator(".srx-object .srx-n").dblclick()
    view.page.keyboard.type("odd zebra")
    view.page.keyboard.press("PageDown")  # no letter: it is heard here too
    view.idle(lambda now: now["index"] == 1)
    view.page.keyboard.press("Escape")
    view.page.keyboard.press("PageUp")
    now = view.idle(lambda now: now["index"] == 0)
    view.page.locator(".srx-object .srx-n").dblclick()
    view.page.keyboard.type("odd zebra")
    view.page.keyboard.press("Enter")
    view.idle(lambda now: now["objects"][0]["name"] == "odd zebra")
    view.page.keyboard.press("Control+z")
    view.idle(lambda now: now["objects"][0]["name"] == "object 1")
    view.page.locator(".srx-object .srx-n").dblclick()
    view.page.keyboard.type("no")
    view.page.keyboard.press("Escape")
    now = view.key("o")
    assert now["outline"]
    assert now["objects"][0]["name"] == "object 1"


def test_every_key_is_on_the_page_of_keys(view: View, files: list[Path]) -> None:
    view.open(files[0])
    view.key("?")
    page = view.page.locator(".srx-keys").inner_text()
    rows = view.page.evaluate("document.querySelector('.srx').front.peek({ keys: true }).keys")
    assert len(rows) > 40
    for row in rows:
        assert row["title"] in page or not row["keys"]
        for key in row["keys"]:
            assert key in page
    keys = [key for row in rows for key in row["keys"]]
    assert len(keys) == len(set(keys))  # no key does two things
    view.key("Escape")


# ------------------------------------------------------------------ layout


def area(box: tuple[float, float, float, float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def common(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    """Return the area that two boxes share."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return max(width, 0) * max(height, 0)


@pytest.mark.parametrize(("scheme", "zoom"), quick([("light", 1), ("dark", 2), ("light", 2)], 0))
def test_layout(chrome: Any, address: str, files: list[Path], scheme: str, zoom: int) -> None:
    """The image has its share of the window; all else is seen, and nothing lies on another.

    A browser's zoom of 200 % is half of the window's CSS pixels: the least is that of the largest
    size that fits into it.
    """
    view = View(chrome, address, color_scheme=scheme, device_scale_factor=zoom)
    view.open(*files)
    view.click(*DISCS[0])
    for (width, height), least in SIZES:
        inner = (width // zoom, height // zoom)
        view.resize(*inner)
        view.idle()
        stage = view.box("canvas.srx-view")
        assert stage is not None
        share = area(stage) / (inner[0] * inner[1])
        assert share >= (least if zoom == 1 else 0.4), (inner, share)
        over = view.page.evaluate(
            "[document.documentElement.scrollHeight - innerHeight,"
            " document.documentElement.scrollWidth - innerWidth]"
        )
        assert max(over) <= 0, (inner, over)
        check_parts(view)
        check_controls(view, (0, 0, *inner))
        assert "object 1" in view.page.locator(".srx-pick").inner_text()
    view.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_layout_of_cells(chrome: Any, server: Any, files: list[Path], scheme: str) -> None:
    """In cells of 500 to 1,500 pixels nothing is cut, and nothing lies on another."""
    view = NotebookView(chrome, server)
    view.page.emulate_media(color_scheme=scheme)
    view.page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
        f"JupyterLab {scheme.title()}",
    )
    view.open(*files)
    view.click(*DISCS[0])
    for width in (500, 700, 930, 1100, 1300, 1500):
        view.page.set_viewport_size({"width": width + 170, "height": 1100})
        view.page.wait_for_timeout(300)
        view.canvas.root.scroll_into_view_if_needed()
        view.idle()
        root, stage = view.box(".srx"), view.box("canvas.srx-view")
        assert root is not None
        assert stage is not None
        assert area(stage) / area(root) > 0.5, width
        check_parts(view)
        check_controls(view, root)
        assert "object 1" in view.page.locator(".srx-pick").inner_text()
    view.close()


def check_parts(view: View) -> None:
    """Check that no part lies on another."""
    parts = {part: box for part in PARTS if (box := view.box(f".srx-{part}"))}
    for (one, a), (other, b) in combinations(parts.items(), 2):
        assert common(a, b) < 1, (one, other)


CONTROLS = """() => [...document.querySelectorAll('.srx button, .srx input')].filter((one) =>
  one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && one.type !== "file" &&
  !one.closest(".srx-film, .srx-list, .srx-panel")).map((one) => {
  const { x, y, width, height } = one.getBoundingClientRect();
  const top = document.elementFromPoint(x + width / 2, y + height / 2);
  const free = one === top || one.contains(top);
  return [one.title || one.textContent, x, y, x + width, y + height, free,
    one.scrollWidth <= one.clientWidth + 1];
})"""


def check_controls(view: View, box: tuple[float, float, float, float]) -> None:
    """Check that every button is inside of a box, and can be clicked in its middle."""
    for name, x0, y0, x1, y1, free, whole in view.page.evaluate(CONTROLS):
        inside = x0 >= box[0] - 1 and y0 >= box[1] - 1 and x1 <= box[2] + 1 and y1 <= box[3] + 1
        assert inside, (box, name, x0, y0, x1, y1)
        assert free, (box, name)
        assert whole, (box, name)


# ------------------------------------------------------------------ images that cannot be read


@pytest.mark.parametrize("broken", quick(["1", "0", "2", "01"], 0))
def test_broken_images(anywhere: View, files: list[Path], tmp_path: Path, broken: str) -> None:
    """They are stepped over with a mark and a sentence, and can be mended while open."""
    view = anywhere
    wrong = [int(at) for at in broken]
    whole = files[0].read_bytes()
    for at in wrong:
        files[at].write_bytes(files[at].read_bytes()[:300])
    view.open(*files)
    right = [at for at in range(3) if at not in wrong]
    assert view.idle()["index"] == right[0]
    seen = [right[0]]
    for _ in range(len(right) - 1):
        view.key("d")
        seen.append(view.idle(lambda now: now["index"] not in seen)["index"])
    assert seen == right

    def mend() -> None:
        for at in wrong:
            mended = whole if at == 0 else discs(tmp_path / "new.png", at).read_bytes()
            files[at].write_bytes(mended)

    if wrong[0] == 1:  # the sentence comes behind the image
        wait_for(lambda: "disc 1.png cannot be read" in view.said(), "a sentence")
    if isinstance(view, NotebookView):
        view.key("f")  # a cell has no room for the strip of images
        button = view.page.locator(".srx-reel button").nth(wrong[0])
        if wrong[0] > right[-1]:  # nobody went there so far
            button.click()
            wait_for(lambda: f"disc {wrong[0]}.png cannot be read" in view.said(), "a sentence")
            view.page.locator(".srx-reel .srx-bad").wait_for()
        button.click()
        mend()
        view.page.locator(".srx-broken .srx-plain").click()
    else:
        mend()
        view.page.set_input_files("input.srx-files", [str(files[at]) for at in wrong])
    view.idle(lambda now: now["name"] in {files[at].name for at in wrong})


def test_broken_images_alone(view: View, tmp_path: Path) -> None:
    (tmp_path / "words.png").write_text("no image")
    view.page.set_input_files("input.srx-files", [str(tmp_path / "words.png")])
    wait_for(lambda: "words.png cannot be read" in view.said(), "a sentence")
    assert view.page.locator(".srx-example").is_visible()  # one can go on
    view.page.locator(".srx-example").click()
    assert view.idle()["name"] == "coins.jpg"


# ------------------------------------------------------------------ sentences


def test_sentences(chrome: Any, files: list[Path]) -> None:
    """What is not found is said, with what one can do; long work has a name and can be stopped."""
    with serving("--threads", "1", "--model", "sam3-nano") as address:
        view = View(chrome, address)
        view.open(files[0])
        view.key("/")
        view.page.keyboard.type("giraffe")
        view.page.keyboard.press("Enter")
        wait_for(lambda: "giraffe" in view.said(), "a sentence about the word")
        assert "sam3-nano" in view.said()
        assert "red circle" in view.said()
        view.page.keyboard.press("Escape")
        view.idle()
        view.page.keyboard.press("g")
        stop = view.page.locator(".srx-stop")
        stop.wait_for()
        stop.click()
        wait_for(lambda: view.peek() and not view.peek()["busy"], "the end of the work")  # type: ignore[index]
        view.close()


# ------------------------------------------------------------------ zoom


# Rows and columns of the image below: fine parts, around a corner of four tiles.
FINE_ROWS, FINE_COLUMNS = slice(896, 1152), slice(1408, 1664)


def fine_image(hw: tuple[int, int]) -> np.ndarray:
    """Return dark and bright pixels (H, W): combs, single pixels, and chance."""
    bright = np.zeros(hw, bool)
    bright[:, 200:1200:2] = True  # columns
    bright[200:800:2, 1200:2200] = True  # rows
    bright[1000:2000:7, 1700:3000:7] = True
    random = np.random.default_rng(5)
    bright[FINE_ROWS, FINE_COLUMNS] = random.random((256, 256)) < 0.5
    return bright


@pytest.mark.parametrize(("height", "width"), quick([(1824, 2736), (3648, 5472)], 0))
def test_zoom_is_true(view: View, tmp_path: Path, height: int, width: int) -> None:
    """At 8 times and at 1:1 each pixel of a large image is seen, and has sharp sides."""
    hw = height, width
    bright = fine_image(hw)
    Image.fromarray(np.where(bright, 215, 40).astype(np.uint8)).save(tmp_path / "fine.png")
    view.open(tmp_path / "fine.png")

    def seen(low: float, high: float) -> list[np.ndarray]:
        """Return which pixels of the image are seen, and the brightness of each at three points."""
        wait_for(lambda: (view.peek() or {})["sharp"], "all tiles")
        now = view.idle()
        shown = view.page.evaluate(
            "document.querySelector('canvas.srx-view').toDataURL().split(',')[1]"
        )
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(shown))).convert("L"))
        ratio, samples = now["ratio"], []
        for name, size, side in (("top", 0, hw[0]), ("left", 1, hw[1])):
            begin = np.floor(now[name] * ratio + 0.5)
            scale = now["scale"] * ratio
            first = max(int(np.ceil(-begin / scale)), 0)
            last = min(int((pixels.shape[size] - begin) / scale), side)
            samples.append((np.arange(first, last), begin, scale))
        (rows, y, scale), (columns, x, _) = samples
        found: list[np.ndarray] = [bright[np.ix_(rows, columns)]]
        for part in (low, 0.5, high):
            v, u = (np.floor(b + (at + part) * scale) for b, at in ((y, rows), (x, columns)))
            found.append(pixels[np.ix_(v.astype(int), u.astype(int))])
        return found

    middles = (1536, 1024), (hw[1] - 60, 1100), (1200, 500)
    for x, y in middles if cases.full else middles[:1]:
        view.key("0")
        view.canvas.move(x, y)
        view.wheel(-400, lambda now: now["scale"] >= 8)
        view.page.mouse.move(3, 3)
        expected, *samples = seen(0.2, 0.8)
        assert expected.size > 4000
        for sample in samples:  # sides of the square are as bright as its middle
            assert ((sample > 128) == expected).all()
            assert np.abs(sample.astype(int) - samples[1]).max() == 0
        view.key("z")
        assert view.idle()["scale"] == pytest.approx(1)
        expected, _, middle, _ = seen(0.5, 0.5)
        assert expected.size > 300_000
        assert ((middle > 128) == expected).all()
    view.key("0")
    now = view.idle()
    wait_for(lambda: (view.peek() or {})["sharp"], "all tiles")
    comb = [view.canvas.pixel(x, 500)[0] for x in range(400, 1000, 3)]
    assert np.abs(np.array(comb) - 127).max() < 25, now["scale"]  # a fine comb is gray, far away
    assert now["tiles"] <= 64


def test_zoom_is_true_of_masks(view: View, tmp_path: Path) -> None:
    """Seen large, a comb of columns on a large image has each of its columns, and no other."""
    height, width = 2400, 3600
    Image.fromarray(np.full((height, width, 3), 128, np.uint8)).save(tmp_path / "gray.png")
    comb = np.zeros((height, width), bool)
    comb[1100:1300, 1701:1901:2] = True
    with closing(SegmentWidget(half_size("sam-nano"), tmp_path / "gray.png")) as widget:
        widget.start(comb, "comb")
        widget.save(tmp_path / "comb.json")
    view.page.set_input_files(
        "input.srx-files", [str(tmp_path / "gray.png"), str(tmp_path / "comb.json")]
    )
    view.idle(lambda now: len(now["objects"]) == 1)
    view.canvas.move(1800, 1200)
    view.wheel(-400, lambda now: now["scale"] >= 8)
    view.page.mouse.move(3, 3)

    def painted() -> list[bool]:
        now = view.idle()
        row = [view.canvas.pixel(x + 0.5, 1200.5) for x in range(1790, 1810)]
        return [max(abs(value - 128) for value in pixel) > 12 for pixel in row] if now else []

    wait_for(lambda: painted() == comb[1200, 1790:1810].tolist(), "the columns as they are")
