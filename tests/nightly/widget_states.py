"""Images of the widget's states in JupyterLab, for a person to look at.

``python tests/nightly/widget_states.py build/widget_states``: light and dark theme, a wide and a
narrow window; each with four objects, with texts and SAM 3, and with a video. Needs the extra
``test`` and chromium.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.jupyter import Canvas, JupyterServer, NotebookPage, browser  # noqa: E402

IMPORTS = """import numpy as np, sam_rlx
from pathlib import Path
from sam_rlx import io
from sam_rlx.widget import SegmentWidget, VideoWidget
assets = Path(sam_rlx.__file__).parent / "assets"
"""
OBJECTS = """w = SegmentWidget(sam_rlx.load_model("sam-nano"), assets)
w.show([w._session.sources.name(k) for k in range(len(w._session.sources))].index("coins.jpg"))
for point in ((346, 185), (335, 44), (55, 50), (215, 185)):
    w.click(*point)
    w.commit()
w.rename(1, "größte Münze, mit einem sehr langen Namen")
w.rename(2, "硬币")
w.select(2)
w.click(300, 44, 0)
w"""
TEXTS = """pixels = np.full((300, 420, 3), 60, np.uint8)
y, x = np.ogrid[:300, :420]
for cx, cy, color in ((80, 80, (220, 40, 40)), (220, 160, (220, 40, 40)), (340, 90, (50, 90, 230))):
    pixels[(x - cx) ** 2 + (y - cy) ** 2 < 45**2] = color
t = SegmentWidget(sam_rlx.load_model("sam3-nano"), pixels)
t.text("red circle")
t"""
VIDEO = """coins = io.read_image(assets / "coins.jpg")
clip = np.stack([np.roll(coins, 3 * k, axis=1) for k in range(6)])
v = VideoWidget(sam_rlx.load_model("sam2-nano"), clip)
v.click(0, 335, 44)
v.commit()
v.click(0, 55, 50)
v.propagate()
v"""
STILL = "!f.busy"


def main() -> None:
    """Write the images."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own, browser() as chrome:
        server = JupyterServer(Path(own))
        try:
            server.notebook("states.ipynb", IMPORTS + OBJECTS, TEXTS, VIDEO)
            for theme in ("JupyterLab Light", "JupyterLab Dark"):
                _theme(chrome, server, theme, folder)
        finally:
            server.close()


def _theme(chrome: Any, server: JupyterServer, theme: str, folder: Path) -> None:
    dark = theme.endswith("Dark")
    context = chrome.new_context(
        viewport={"width": 1100, "height": 1000}, color_scheme="dark" if dark else "light"
    )
    page = context.new_page()
    notebook = NotebookPage(page, server, "states.ipynb")
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme
    )
    for number in range(3):  # one after the other: each has its encoder's threads
        notebook.command("notebook:run-cell-and-select-next")
        Canvas(page, number).wait(STILL)
    for width in (1100, 560):
        page.set_viewport_size({"width": width, "height": 1000})
        for number, name in enumerate(("objects", "texts", "video")):
            canvas = Canvas(page, number)
            canvas.wait(STILL)
            canvas.root.scroll_into_view_if_needed()
            if name == "video":
                canvas.press("Home")
                for _ in range(3):
                    canvas.press(".")
                canvas.wait(f"{STILL} && f.frame === 3 && f.drawn")
            else:
                canvas.move(215, 170)
                canvas.wait("f.hover")
            path = folder / f"{name}_{'dark' if dark else 'light'}_{width}.png"
            canvas.root.screenshot(path=path)
            print(path, flush=True)
    context.close()


if __name__ == "__main__":
    main()
