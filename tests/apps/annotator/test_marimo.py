"""The widget in marimo, in real Chromium: ``nox -s marimo``."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray
from sam_rlx import io
from support.jupyter import Canvas, browser, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("marimo") is None, reason="marimo: nox -s marimo"),
]

COINS = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
POINT, OTHER = (346.5, 185.5), (295.5, 190.5)
BOX = ((300.0, 150.0), (380.0, 220.0))

# The second cell depends on the widget: marimo runs it again after each change.
NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import json, os
    import marimo as mo
    import numpy as np
    import sam_rlx
    from sam_rlx.widget import SegmentWidget

    w = mo.ui.anywidget(SegmentWidget(sam_rlx.load_model("sam-nano"), IMAGE))
    w
    return json, np, os, w


@app.cell
def _(json, np, os, w):
    said = {
        "value": w.value,
        "objects": [[one.points, one.labels, one.box, one.candidate] for one in w.objects],
    }
    with open("new.npz", "wb") as file:
        np.savez(file, said=json.dumps(said), masks=np.array([one.mask for one in w.objects]))
    os.replace("new.npz", "state.npz")
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Where marimo shows the notebook."""
    (tmp_path / "notebook.py").write_text(NOTEBOOK.replace("IMAGE", repr(str(COINS))))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ("--headless", "--no-token", "--host", "127.0.0.1", "--port", str(port))
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "marimo", "run", "notebook.py", *options],
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
            start_new_session=True,
        )

    def answers() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        wait_for(answers, "marimo")
        yield f"http://127.0.0.1:{port}/"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def test_gestures_are_the_predictors_and_run_dependent_cells(address: str, tmp_path: Path) -> None:
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
    predictor.set_image(io.read_image(COINS))

    def state(revision: int) -> tuple[list[Any], NDArray[np.bool_]]:
        """Return objects and masks that the dependent cell found at a revision."""

        def found() -> Any:
            with np.load(tmp_path / "state.npz") as arrays:
                said = json.loads(str(arrays["said"]))
                reached = said["value"] == {"revision": revision}  # the one trait that is published
                return (said["objects"], arrays["masks"]) if reached else None

        return wait_for(found, f"revision {revision}")  # type: ignore[no-any-return]

    def check(revision: int, points: list[Any], labels: list[int], box: Any = None) -> None:
        ((*found, candidate),), (mask,) = state(revision)
        assert found[1] == labels
        assert np.allclose(np.reshape(found[0], (-1, 2)), np.reshape(points, (-1, 2)), atol=0.6)
        assert (found[2] is None) == (box is None)
        assert box is None or np.allclose(found[2], np.ravel(box), atol=0.6)
        answer = predictor.predict(
            point_coords=found[0] or None,
            point_labels=labels or None,
            box=found[2],
            multimask_output=len(labels) == 1 and box is None,
        )
        np.testing.assert_array_equal(mask, answer.masks[candidate])

    with browser() as chrome:
        page = chrome.new_context(viewport={"width": 1200, "height": 900}).new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        canvas = Canvas(page)
        canvas.wait("!f.busy")
        before = canvas.pixels_hash()
        canvas.move(*POINT)
        canvas.wait("f.hover")
        assert canvas.pixels_hash() != before
        canvas.click(*POINT)
        check(1, [POINT], [1])
        canvas.click(*OTHER, button="right")
        check(2, [POINT, OTHER], [1, 0])
        canvas.press("Control+z")
        check(3, [POINT], [1])
        canvas.press("Delete")
        assert state(4)[0] == []
        canvas.drag(*BOX)
        check(5, [], [], BOX)
        own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        assert [url for url in asked if not url.startswith(own)] == []


def test_keyboard_touch_and_walls(address: str) -> None:
    """Keys alone make an object, letters stay in the widget, nothing is asked of other hosts."""
    with browser() as chrome:
        page = chrome.new_context(viewport={"width": 1200, "height": 900}).new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        canvas = Canvas(page)
        canvas.wait("!f.busy")
        for key in ("Shift+ArrowRight", "i"):
            canvas.press(key)
        canvas.wait("f.objects.length === 1 && !f.busy")
        canvas.press("Enter")
        canvas.wait("f.current === null && !f.busy")
        for key in "ddbmx":
            canvas.press(key)
        canvas.wait("f.objects.length === 1 && f.tool === 'brush'")
        own = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
        assert [url for url in asked if not url.startswith(own)] == []
