"""Record docs/widget.webp: the widget in JupyterLab, in real Chromium, on a cat of scikit-image.

Run ``python docs/record_widget.py`` from the checkout; needs the extra ``test`` and chromium.
"""

import io as streams
import shutil
import sys
import tempfile
from pathlib import Path

import skimage
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.jupyter import Canvas, JupyterServer, NotebookPage, browser  # noqa: E402

CELL = """import sam_rlx
from sam_rlx.widget import SegmentWidget

w = SegmentWidget(sam_rlx.load_model("sam-nano"), "cat.png")
w"""
CLICKED = ((168, 112), (322, 135), (263, 243))  # two eyes and the nose
SIZE, SHOWN = {"width": 1000, "height": 860}, 720
STEP_MS, REST_MS = 110, 900


class Film:
    """Screenshots of a page, with the mouse drawn where it is."""

    def __init__(self, canvas: Canvas) -> None:
        self.canvas = canvas
        self.frames: list[Image.Image] = []
        self.times: list[int] = []

    def shoot(self, at: tuple[float, float], milliseconds: int) -> None:
        """Take a screenshot that is shown for so long."""
        shot = Image.open(streams.BytesIO(self.canvas.page.screenshot())).convert("RGB")
        arrow = Image.new("RGBA", (12, 12), (0, 0, 0, 0))
        for y in range(12):
            for x in range(12 - y):
                edge = x == 0 or y == 0 or x == 11 - y
                arrow.putpixel((x, y), (0, 0, 0, 255) if edge else (255, 255, 255, 255))
        x, y = self.canvas.client(*at)
        shot.paste(arrow, (round(x), round(y)), arrow)
        height = round(shot.height * SHOWN / shot.width)
        self.frames.append(shot.resize((SHOWN, height), Image.Resampling.LANCZOS))
        self.times.append(milliseconds)

    def glide(self, start: tuple[float, float], end: tuple[float, float], steps: int) -> None:
        """Move the mouse, and wait at each step for the mask under it."""
        for step in range(1, steps + 1):
            part = step / steps
            at = (start[0] + part * (end[0] - start[0]), start[1] + part * (end[1] - start[1]))
            self.canvas.move(*at)
            self.canvas.wait("!f.busy")
            self.shoot(at, STEP_MS)


def record(folder: Path) -> Film:
    """Click eyes and nose, and go back and forth by one."""
    server = JupyterServer(folder)
    try:
        cat = Path(skimage.__file__).parent / "data" / "chelsea.png"
        shutil.copy(cat, server.work / "cat.png")
        server.notebook("cat.ipynb", CELL)
        with browser() as chrome:
            page = chrome.new_context(viewport=SIZE).new_page()
            notebook = NotebookPage(page, server, "cat.ipynb")
            notebook.command("application:toggle-left-area")
            notebook.run_all()
            canvas = Canvas(page)
            canvas.wait("!f.busy")
            film, at = Film(canvas), (200.0, 120.0)
            for position in CLICKED:
                film.glide(at, position, 5)
                canvas.click(*position)
                canvas.wait("!f.busy")
                film.shoot(position, REST_MS)
                canvas.press("Enter")
                canvas.wait("!f.busy && f.current === null")
                at = position
            for key in ("Control+z", "Control+y"):
                canvas.press(key)
                canvas.wait("!f.busy")
                film.shoot(at, REST_MS)
    finally:
        server.close()
    return film


def main() -> None:
    """Write the animation."""
    with tempfile.TemporaryDirectory() as folder:
        film = record(Path(folder))
    target = ROOT / "docs" / "widget.webp"
    first, *others = film.frames
    first.save(
        target,
        save_all=True,
        append_images=others,
        duration=film.times,
        loop=0,
        quality=55,
        method=6,
    )
    print(f"{target}: {len(film.frames)} frames, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
