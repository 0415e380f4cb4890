"""The widget in JupyterLab where it is heavy: ``nox -s annotator``."""

from __future__ import annotations

from typing import Any

import pytest
from support.jupyter import Canvas, JupyterServer, NotebookPage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MODELS = """import numpy as np, sam_rlx
from pathlib import Path
from PIL import Image
from sam_rlx.widget import SegmentWidget, VideoWidget
coins = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coins.jpg").convert("RGB")
"""
STILL = "!f.busy"


def opened(chrome: Any, server: JupyterServer, name: str, *cells: str) -> NotebookPage:
    server.notebook(name, *cells)
    context = chrome.new_context(viewport={"width": 1100, "height": 900})
    notebook = NotebookPage(context.new_page(), server, name)
    notebook.command("notebook:run-cell-and-select-next")
    return notebook


def test_300_objects_are_seen_and_hovers_go_on(chrome: Any, server: JupyterServer) -> None:
    cell = MODELS + (
        "w = SegmentWidget(sam_rlx.load_model('sam-nano'), np.asarray(coins))\n"
        "for k in range(300):\n"
        "    mask = np.zeros((303, 384), bool)\n"
        "    mask[10 * (k // 20):10 * (k // 20) + 8, 19 * (k % 20):19 * (k % 20) + 15] = True\n"
        "    w.start(mask)\n"
        "w.commit()\nw"
    )
    canvas = Canvas(opened(chrome, server, "many.ipynb", cell).page)
    canvas.wait(f"{STILL} && f.objects.length === 300")
    canvas.move(346, 185)
    canvas.wait("f.hover")
    canvas.page.context.close()


def test_20_megapixels_are_clicked_at_full_size(chrome: Any, server: JupyterServer) -> None:
    cell = MODELS + (
        "big = np.asarray(coins.resize((5120, 4040)))\n"
        "w = SegmentWidget(sam_rlx.load_model('sam-nano'), big)\nw"
    )
    canvas = Canvas(opened(chrome, server, "big.ipynb", cell).page)
    canvas.wait(STILL)
    canvas.move(4613, 2467)
    canvas.wait("f.hover")
    assert max(canvas.front("f.hover")) == 1024
    canvas.click(4613, 2467)
    canvas.wait("f.objects.length === 1 && !f.busy")
    canvas.page.context.close()


def test_video(chrome: Any, server: JupyterServer) -> None:
    cell = MODELS + (
        "clip = np.stack([np.roll(np.asarray(coins), 3 * t, axis=1) for t in range(6)])\n"
        "v = VideoWidget(sam_rlx.load_model('sam2-nano'), clip)\nv"
    )
    canvas = Canvas(opened(chrome, server, "video.ipynb", cell).page)
    canvas.wait(STILL)
    canvas.click(335, 44)
    canvas.wait("f.objects.length === 1 && !f.busy")
    canvas.press("t")
    canvas.wait("f.running === false && !f.busy")
    for frame in range(1, 6):
        canvas.press(".")
        canvas.wait(f"f.frame === {frame} && f.shown === 1")
    canvas.press("Enter")
    canvas.wait("f.current === null")
    canvas.click(55, 50)
    canvas.wait("f.objects.length === 2 && f.frame === 5 && f.shown === 2")
    canvas.page.context.close()
