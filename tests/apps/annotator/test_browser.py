"""The widget in real Chromium, in JupyterLab and Notebook 7: what is seen, and what Python has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import io
from support.cases import quick
from support.jupyter import Canvas, JupyterServer, NotebookPage, shared_folder, wait_for

pytestmark = pytest.mark.timeout(900)

ASSETS = Path(sam_rlx.__file__).parent / "assets"
POINT, OTHER, THIRD = (346.5, 185.5), (295.5, 190.5), (335.5, 44.5)
BOX = ((300.0, 150.0), (380.0, 220.0))

# What a view does is written down after each change, for the test to read.
WIDGET = """
import json, os, numpy as np, sam_rlx
from pathlib import Path
from sam_rlx.widget import SegmentWidget
model = sam_rlx.load_model("sam-nano")
coins = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
w = SegmentWidget(model, coins, project="work")

def dump(change=None):
    objects = w.objects
    said = {
        "revision": w.revision,
        "current": None if w.current is None else objects.index(w.current),
        "objects": [[one.name, one.points, one.labels, one.box, one.candidate] for one in objects],
    }
    with open("new.npz", "wb") as file:
        np.savez(file, said=json.dumps(said), masks=np.array([one.mask for one in objects]))
    os.replace("new.npz", STATE)

STATE = "state.npz"
w.observe(dump, "revision")
dump()
w
"""


class State:
    """What Python had after the last change.

    `wait` waits for the canvas too, if it is given, until it has all answers.
    """

    def __init__(self, folder: Path, canvas: Canvas | None = None) -> None:
        self.path = folder / "state.npz"
        self.canvas = canvas

    def read(self) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        with np.load(self.path) as arrays:
            return json.loads(str(arrays["said"])), arrays["masks"]

    def wait(self, condition: Any, what: str) -> tuple[dict[str, Any], NDArray[np.bool_]]:
        def found() -> Any:
            if not self.path.exists():
                return None
            state = self.read()
            return state if condition(state[0]) else None

        state = wait_for(found, what)
        if self.canvas is not None:
            self.canvas.wait("!f.busy")
        return state  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model() -> sam_rlx.Model:
    return sam_rlx.load_model("sam-nano")


@pytest.fixture(scope="module")
def image() -> NDArray[np.uint8]:
    return io.read_image(ASSETS / "coins.jpg")


def answers(predictor: sam_rlx.ImagePredictor, entry: Any) -> NDArray[np.bool_]:
    """Return the mask that the prompts of an object give, before others keep their pixels."""
    _, points, labels, box, candidate = entry
    alone = len(points) == 1 and box is None
    found = predictor.predict(
        point_coords=points or None,
        point_labels=labels or None,
        box=box,
        multimask_output=alone,
    )
    return found.masks[candidate]


def near(found: Any, wanted: Any, distance: float) -> bool:
    return bool(np.abs(np.subtract(found, wanted)).max() <= distance)


def forget(server: JupyterServer) -> None:
    """Remove the work of an earlier notebook, whose kernel may still run."""
    for path in [server.work / "state.npz", *server.work.glob("work.sam_rlx.*")]:
        path.unlink(missing_ok=True)


def opened(chrome: Any, server: JupyterServer, path: str, ratio: int) -> NotebookPage:
    forget(server)
    name = f"{path.replace('/', '_')}.ipynb"
    server.notebook(name, WIDGET, "1 + 1")
    context = chrome.new_context(viewport={"width": 1280, "height": 900}, device_scale_factor=ratio)
    return NotebookPage(context.new_page(), server, name, path)


@pytest.mark.parametrize(("path", "ratio"), quick([("lab/tree", 1), ("notebooks", 2)], 0))
def test_gestures_are_the_predictors_and_the_notebook_stays(
    chrome: Any,
    server: JupyterServer,
    predictor: sam_rlx.ImagePredictor,
    image: NDArray[np.uint8],
    path: str,
    ratio: int,
) -> None:
    notebook = opened(chrome, server, path, ratio)
    notebook.run_all()
    canvas = Canvas(notebook.page)
    state = State(server.work, canvas)
    canvas.wait("!f.busy")
    assert canvas.front("f.ratio") == ratio
    check_hover(canvas, state)
    check_clicks(canvas, state, predictor, image)
    check_keys(canvas, state, predictor)
    check_zoom(canvas, state, predictor, image)
    cells = notebook.cells()
    for key in "ddbmx":
        canvas.press(key)
    assert notebook.cells() == cells
    assert not notebook.foreign()
    check_stored_size(notebook, server)
    notebook.page.context.close()


# The cell ends when the click was answered, or says that it waited in vain. What the widget says
# meanwhile, it says in the name of this cell: answers of views must not wait for the cell then.
SLEEP = """import time
w.cancel()
Path("asleep").touch()
for _ in range(600):
    time.sleep(0.1)
    if Path("answered").exists():
        break
else:
    Path("waited").touch()
Path("awake").touch()
"""


@pytest.mark.slow  # test_two_views_a_busy_kernel_and_a_restart has a cell that runs, too
@pytest.mark.parametrize("path", ["lab/tree", "notebooks"])
def test_a_click_beside_a_sleeping_cell(chrome: Any, server: JupyterServer, path: str) -> None:
    for left in ("asleep", "answered", "waited", "awake"):
        (server.work / left).unlink(missing_ok=True)
    forget(server)
    server.notebook("sleep.ipynb", WIDGET, SLEEP)
    context = chrome.new_context(viewport={"width": 1100, "height": 1600})
    notebook = NotebookPage(context.new_page(), server, "sleep.ipynb", path)
    notebook.command("notebook:run-cell-and-select-next")
    canvas = Canvas(notebook.page)
    canvas.wait("!f.busy")
    notebook.command("notebook:run-cell-and-select-next")
    wait_for((server.work / "asleep").exists, "a sleeping cell")
    canvas.click(*POINT)
    canvas.wait("f.objects.length === 1")
    assert not (server.work / "waited").exists()
    (server.work / "answered").touch()
    wait_for((server.work / "awake").exists, "the end of the cell")
    context.close()


def check_hover(canvas: Canvas, state: State) -> None:
    """Moving the mouse changes pixels, and nothing in Python."""
    before = canvas.pixels_hash()
    canvas.move(*POINT)
    canvas.wait("f.hover")
    assert canvas.pixels_hash() != before
    assert state.read()[0]["revision"] == 0
    canvas.page.mouse.move(2, 2)
    canvas.wait("!f.hover && !f.busy")
    assert canvas.pixels_hash() == before


def check_clicks(
    canvas: Canvas, state: State, predictor: sam_rlx.ImagePredictor, image: NDArray[np.uint8]
) -> None:
    canvas.click(*POINT)
    said, masks = state.wait(lambda now: len(now["objects"]) == 1, "a click")
    assert near(said["objects"][0][1], [POINT], 0.6)
    assert (masks[0] == answers(predictor, said["objects"][0])).all()
    check_pixels(canvas, masks[0], image)
    canvas.click(*OTHER, button="right")
    said, masks = state.wait(lambda now: len(now["objects"][0][1]) == 2, "a right click")
    assert said["objects"][0][2] == [1, 0]
    assert near(said["objects"][0][1], [POINT, OTHER], 0.6)
    assert (masks[0] == answers(predictor, said["objects"][0])).all()
    canvas.page.keyboard.down("Shift")
    canvas.click(*THIRD)
    canvas.page.keyboard.up("Shift")
    said, masks = state.wait(lambda now: len(now["objects"][0][1]) == 3, "a modified click")
    assert said["objects"][0][2] == [1, 0, 0]
    assert (masks[0] == answers(predictor, said["objects"][0])).all()


def check_pixels(canvas: Canvas, mask: NDArray[np.bool_], image: NDArray[np.uint8]) -> None:
    """What is seen is the image, and the mask's colour over it where the mask is."""
    canvas.page.mouse.move(2, 2)
    canvas.wait("!f.busy && !f.hover")
    color = np.array(canvas.front("f.objects[0].color"))
    share = canvas.front("f.opacity")
    inside = mask.copy()
    for axis, step in ((0, 1), (0, -1), (1, 1), (1, -1)):
        inside &= np.roll(mask, step, axis)
    rows, columns = np.nonzero(inside & ~near_points(mask.shape))
    outside = np.nonzero(~mask & ~near_points(mask.shape))
    random = np.random.default_rng(0)
    for at in random.choice(len(rows), 12):
        y, x = int(rows[at]), int(columns[at])
        wanted = image[y, x] * (1 - share) + color * share
        assert near(canvas.pixel(x + 0.5, y + 0.5), wanted, 12), (x, y)
    for at in random.choice(len(outside[0]), 12):
        y, x = int(outside[0][at]), int(outside[1][at])
        assert near(canvas.pixel(x + 0.5, y + 0.5), image[y, x], 12), (x, y)


def near_points(shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return where a click's disc or a name is drawn."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    return (np.hypot(x - POINT[0], y - POINT[1]) < 6) | ((y < 170) & (y > 130) & (x > 250))


def check_keys(canvas: Canvas, state: State, predictor: sam_rlx.ImagePredictor) -> None:
    canvas.press("Control+z")
    state.wait(lambda now: len(now["objects"][0][1]) == 2, "an undo")
    canvas.press("Control+y")
    state.wait(lambda now: len(now["objects"][0][1]) == 3, "a redo")
    canvas.press("Control+z")
    state.wait(lambda now: len(now["objects"][0][1]) == 2, "an undo")
    canvas.press("Enter")
    state.wait(lambda now: now["current"] is None, "Enter")
    canvas.drag(*BOX)
    said, masks = state.wait(lambda now: len(now["objects"]) == 2, "a box")
    assert near(said["objects"][1][3], np.ravel(BOX), 0.6)
    assert (masks[1] == (answers(predictor, said["objects"][1]) & ~masks[0])).all()
    canvas.press("Escape")
    state.wait(lambda now: len(now["objects"]) == 1, "Escape")
    canvas.click(*THIRD)
    state.wait(lambda now: len(now["objects"]) == 2, "a second object")
    canvas.press("Shift+Digit3")
    said, masks = state.wait(lambda now: now["objects"][1][4] == 2, "the third candidate")
    assert (masks[1] == (answers(predictor, said["objects"][1]) & ~masks[0])).all()
    canvas.press("j")
    state.wait(lambda now: now["current"] == 0, "the first object")
    for _ in range(3):  # quick presses, also before the answer came: each is one step
        canvas.press("j")
    canvas.wait("!f.busy")
    state.wait(lambda now: now["current"] == 1, "the second object")
    canvas.press("Delete")
    state.wait(lambda now: len(now["objects"]) == 1, "Delete")


def check_zoom(
    canvas: Canvas, state: State, predictor: sam_rlx.ImagePredictor, image: NDArray[np.uint8]
) -> None:
    """At four times the size the position under the mouse is the one that is clicked."""
    first = canvas.front("f.scale")
    x, y = 60.5, 52.5
    canvas.move(x, y)
    canvas.canvas.focus()
    while canvas.front("f.scale") < 4 * first:
        before = canvas.front("f.scale")
        canvas.page.mouse.wheel(0, -200)
        canvas.wait(f"f.scale > {before}")
    canvas.page.mouse.move(2, 2)
    canvas.wait("!f.busy && !f.hover")
    for at in ((x, y), (x - 9, y + 6), (x + 8, y - 5)):
        assert canvas.pixel(*at) == image[int(at[1]), int(at[0])].tolist()
    canvas.press("Enter")
    state.wait(lambda now: now["current"] is None, "Enter")
    canvas.click(x, y)
    said, masks = state.wait(lambda now: len(now["objects"]) == 2, "a click at zoom 4")
    assert near(said["objects"][1][1], [[x, y]], 0.2)
    assert (masks[1] == (answers(predictor, said["objects"][1]) & ~masks[0])).all()
    left = canvas.front("f.left")
    canvas.press("ArrowLeft")
    canvas.wait(f"f.left === {left} + 40")
    canvas.press("0")
    canvas.wait(f"Math.abs(f.scale - {first}) < 1e-9")


def check_stored_size(notebook: NotebookPage, server: JupyterServer) -> None:
    """A stored notebook is small, and shows the image where no widget runs."""
    notebook.command("docmanager:save")
    path = server.work / notebook.name
    text = wait_for(
        lambda: (text := path.read_text()) and "image/jpeg" in text and text, "a stored notebook"
    )
    assert len(text) < 300_000
    check_html(notebook, path)


def check_html(notebook: NotebookPage, path: Path) -> None:
    """The stored notebook as HTML shows the image without a kernel or a network."""
    pytest.importorskip("nbconvert")
    command = [sys.executable, "-m", "nbconvert", "--to", "html", str(path)]
    environment = {**os.environ, "JUPYTER_PATH": str(shared_folder())}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    html = path.with_suffix(".html")
    page = notebook.page.context.new_page()
    page.route(lambda url: not url.startswith(("file:", "data:")), lambda route: route.abort())
    page.goto(html.as_uri(), wait_until="domcontentloaded")
    shown = page.locator(".jp-OutputArea-output img")
    shown.wait_for()
    assert shown.evaluate("(image) => [image.naturalWidth, image.naturalHeight]") == [384, 303]
    assert page.locator(".srx").count() == 0
    page.close()


def test_two_views_a_busy_kernel_and_a_restart(
    chrome: Any, server: JupyterServer, predictor: sam_rlx.ImagePredictor
) -> None:
    forget(server)
    (server.work / "go").unlink(missing_ok=True)
    busy = (
        "import time\nw.cancel()\nother = sam_rlx.ImagePredictor(model)\nother.set_image(w.image)\n"
        "Path('running').touch()\n"
        "while not Path('go').exists():\n"
        "    other.predict(point_coords=[[5, 5]], point_labels=[1])\n    time.sleep(0.02)\n"
    )
    server.notebook("twice.ipynb", WIDGET, "w", busy)
    context = chrome.new_context(viewport={"width": 1100, "height": 1600})
    notebook = NotebookPage(context.new_page(), server, "twice.ipynb")
    for number in range(2):
        notebook.command("notebook:run-cell-and-select-next")
        Canvas(notebook.page, number).wait("!f.busy")
    first, second = Canvas(notebook.page, 0), Canvas(notebook.page, 1)
    state = State(server.work)
    notebook.command("notebook:run-cell-and-select-next")
    wait_for((server.work / "running").exists, "a running cell")
    # The cell that predicts on the same model still runs: clicks and hovers are answered.
    first.canvas.scroll_into_view_if_needed()
    first.click(*POINT)
    _, masks = state.wait(lambda now: len(now["objects"]) == 1, "a click beside a running cell")
    for step in range(30):
        first.move(30 + 10 * step, 60)
    first.wait("!f.busy")
    assert not first.front("f.error")
    (server.work / "go").touch()
    assert (masks[0] == answers(predictor, state.read()[0]["objects"][0])).all()
    notebook.page.mouse.move(2, 2)
    for view in (first, second):
        view.wait("f.objects.length === 1 && !f.busy && !f.hover")
    assert first.pixels_hash() == second.pixels_hash()
    second.canvas.scroll_into_view_if_needed()
    second.click(*OTHER, button="right")
    state.wait(lambda now: len(now["objects"][0][1]) == 2, "a click on the other view")
    first.wait("f.objects[0].points === 2")
    # Waits for the new kernel: a server that ends while one starts does not end.
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    first.wait("f.link === 'gone'")
    assert "run the cell again" in first.root.locator(".srx-badge").inner_text()
    (server.work / "state.npz").unlink()
    notebook.page.evaluate(
        "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }"
    )
    notebook.command("notebook:run-cell-and-select-next")
    state.wait(lambda now: now["revision"] == 0, "the cell that runs again")
    wait_for(lambda: first.front("f && f.link === 'open' && f.drawn && !f.busy"), "a new widget")
    first.canvas.scroll_into_view_if_needed()
    said, kept = state.read()
    assert [len(one[1]) for one in said["objects"]] == [2]
    first.click(*THIRD)
    _, masks = state.wait(lambda now: len(now["objects"]) == 2, "a click after the restart")
    assert (masks[0] == kept[0]).all()
    first.press("Control+z")  # the history is there too
    first.press("Control+z")
    state.wait(
        lambda now: [len(one[1]) for one in now["objects"]] == [1], "undo of the time before"
    )
    context.close()
