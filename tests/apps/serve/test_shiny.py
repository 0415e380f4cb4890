"""The widget in a real Shiny app, whose messages need the session that they are for."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_server_in_front import free_port, running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

APP = """
from pathlib import Path
import sam_rlx
from shiny import App, ui
from shinywidgets import output_widget, render_widget
from sam_rlx.widget import SegmentWidget

model = sam_rlx.load_model("sam-nano")

def server(input, output, session):
    @render_widget
    def w():
        image = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
        return SegmentWidget(model, image, num_threads=1)

app = App(ui.page_fluid(output_widget("w")), server)
"""


@pytest.mark.skipif(importlib.util.find_spec("shinywidgets") is None, reason="needs shinywidgets")
def test_a_click_in_a_shiny_app_is_answered(chrome: Any, tmp_path: Path) -> None:
    """Though nothing else happens in the app; and its rules for rows leave the image its room."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    (tmp_path / "app.py").write_text(APP)
    port = free_port()
    command = [sys.executable, "-m", "shiny", "run", "--port", str(port), str(tmp_path / "app.py")]
    with running(command, port):
        page = chrome.new_page(viewport={"width": 1100, "height": 800})
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("canvas.srx-view").wait_for(timeout=60_000)
        shown = "document.querySelector('.srx').front.peek()"
        page.wait_for_function(f"{shown}?.drawn && !{shown}.busy", timeout=60_000)
        box = page.locator("canvas.srx-view").bounding_box()
        assert box["height"] > 400
        page.locator("canvas.srx-view").click(position={"x": 520, "y": 280})
        page.locator(".srx-object").wait_for(timeout=60_000)
        page.close()
