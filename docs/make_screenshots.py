"""Make the screenshots of docs/screenshots: the page, Jupyter, texts, a video and a parity report.

Run ``python docs/make_screenshots.py [NAME ...]`` from the checkout, with chromium on PATH; needs
the extra ``test``, and ``parity`` for the report.
"""

import contextlib
import io as streams
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import skimage
from make_images import STREET
from PIL import Image

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support import cookbook  # noqa: E402
from support.interactive import Server, serving  # noqa: E402
from support.jupyter import PATIENCE, Canvas, JupyterServer, NotebookPage, browser  # noqa: E402

WIDTH = 1100
COINS = ((346, 185), (335, 44), (55, 50))
IDLE = "!f.busy"
# The street of docs/media, and photographs of scikit-image behind it; the class of each object.
PHOTOS = ("coffee.png", "chelsea.png", "astronaut.png", "rocket.jpg")
CLASSES, DIGITS = ("trailer", "helmet"), "222331111"

IMAGE_CELL = """import sam_rlx
from sam_rlx.widget import SegmentWidget

w = SegmentWidget(sam_rlx.load_model("sam-nano"), "coins.jpg")
w"""
VIDEO_CELL = """import sam_rlx
from sam_rlx.widget import VideoWidget

v = VideoWidget(sam_rlx.load_model("sam2-nano"), "clip.mp4")
v"""


def clicked(canvas: Canvas) -> None:
    """Click three coins, and keep all but the last."""
    canvas.wait(IDLE)
    for number, coin in enumerate(COINS):
        canvas.click(*coin)
        canvas.wait(f"f.objects.length === {number + 1} && !f.busy")
        if number < len(COINS) - 1:
            canvas.press("Enter")
            canvas.wait("f.current === null && !f.busy")


def notebook(chrome: Any, folder: Path, cell: str, act: Callable[[Canvas], None]) -> bytes:
    """Run a cell in JupyterLab, do something with its widget, and take a screenshot."""
    server = JupyterServer(folder)
    try:
        for name in ("coins.jpg", "clip.mp4"):
            (server.work / name).write_bytes((folder / name).read_bytes())
        server.notebook("example.ipynb", cell)
        page = chrome.new_page(viewport={"width": WIDTH, "height": 900})
        opened = NotebookPage(page, server, "example.ipynb")
        opened.command("application:toggle-left-area")
        opened.run_all()
        act(Canvas(page))
        return bytes(page.screenshot())
    finally:
        server.close()


def annotator(chrome: Any, folder: Path) -> bytes:
    """Show nine objects of three classes on a photograph of a folder."""
    photos = folder / "annotated"
    photos.mkdir()
    shutil.copy(ROOT / "docs" / "media" / "street.jpg", photos / "0 street.jpg")
    for at, name in enumerate(PHOTOS):
        shutil.copy(Path(skimage.__file__).parent / "data" / name, photos / f"{at + 1} {name}")
    server = Server(str(photos))
    try:
        page = chrome.new_page(viewport={"width": 1366, "height": 820})
        page.goto(server.project(photos))
        canvas = Canvas(page)
        canvas.wait(IDLE)
        for number, name in enumerate(CLASSES):
            page.locator(".srx-classes button").first.click()
            page.keyboard.type(name)
            page.keyboard.press("Enter")
            canvas.wait(f"f.classes.length === {number + 2} && {IDLE}")
        for number, (digit, prompt) in enumerate(zip(DIGITS, STREET, strict=True)):
            if "box" in prompt:
                x0, y0, x1, y1 = prompt["box"]
                canvas.drag((x0, y0), (x1, y1))
            for point in prompt.get("point_coords", []):
                canvas.wait(IDLE)
                canvas.click(*point)
            canvas.wait(f"f.objects.length === {number + 1} && {IDLE}")
            canvas.press(digit)
            canvas.wait(f"f.objects.at(-1).class === {digit} && {IDLE}")
            if number < len(STREET) - 1:
                canvas.press("Enter")
                canvas.wait(f"f.current === null && {IDLE}")
        page.mouse.move(3, 3)
        canvas.wait(f"f.sharp && {IDLE}")
        return bytes(page.screenshot())
    finally:
        server.kill()


def jupyter(chrome: Any, folder: Path) -> bytes:
    """Show three coins in the widget."""
    return notebook(chrome, folder, IMAGE_CELL, clicked)


def video(chrome: Any, folder: Path) -> bytes:
    """Show two objects that were tracked through a clip."""

    def act(canvas: Canvas) -> None:
        canvas.wait(IDLE)
        for number, ((x0, y0), (x1, y1)) in enumerate(
            (((30, 30), (93, 91)), ((225, 150), (288, 212)))
        ):
            canvas.drag((x0, y0), (x1, y1))
            canvas.wait(f"f.objects.length === {number + 1} && !f.busy")
            canvas.press("Enter")
            canvas.wait("f.current === null && !f.busy")
        canvas.press("t")
        last = cookbook.FRAMES - 1
        canvas.wait("f.running === false && !f.busy")
        for frame in range(1, last):
            canvas.press(".")
            canvas.wait(f"f.frame === {frame} && f.shown === 2")

    return notebook(chrome, folder, VIDEO_CELL, act)


def page_of(chrome: Any, address: str) -> Any:
    """Open the page of a server."""
    page = chrome.new_page(viewport={"width": WIDTH, "height": 800})
    page.goto(address)
    page.locator(".srx-openfiles").wait_for(timeout=1000 * PATIENCE)
    return page


def serve(chrome: Any, folder: Path) -> bytes:
    """Show three coins on the page of the server."""
    with serving() as address:
        page = page_of(chrome, address)
        page.click(".srx-example")
        clicked(Canvas(page))
        return bytes(page.screenshot())


def text(chrome: Any, folder: Path) -> bytes:
    """Show what a text found on the page of the server."""
    with serving("--model", "sam3-nano") as address:
        page = page_of(chrome, address)
        page.set_input_files("input.srx-files", str(folder / "photos" / "table_1.jpg"))
        canvas = Canvas(page)
        canvas.wait(IDLE)
        for number, words in enumerate(cookbook.SHAPES):
            page.get_by_label("Find by words").fill(words)
            page.get_by_label("Find by words").press("Enter")
            canvas.wait(f"f.objects.length > {number} && {IDLE}")
        return bytes(page.screenshot())


def parity(chrome: Any, folder: Path) -> bytes:
    """Show the page that ``sam-rlx parity --html`` writes."""
    from sam_rlx.apps import cli

    stages = [word for stage in ("image", "point", "box") for word in ("--stage", stage)]
    with contextlib.chdir(folder):  # the report names its files
        cli.main(
            ["parity", "mine.safetensors", "--image", "photo.jpg", *stages, "--html", "r.html"]
        )
    page = chrome.new_page(viewport={"width": WIDTH, "height": 800})
    page.goto((folder / "r.html").as_uri())
    return bytes(page.screenshot())


MAKERS = {maker.__name__: maker for maker in (annotator, jupyter, serve, text, video, parity)}


def main() -> None:
    """Write the screenshots that are named, or all."""
    target = ROOT / "docs" / "screenshots"
    target.mkdir(exist_ok=True)
    for name in sys.argv[1:] or MAKERS:
        with tempfile.TemporaryDirectory() as folder, browser() as chrome:
            cookbook.lay_out(Path(folder))
            shot = Image.open(streams.BytesIO(MAKERS[name](chrome, Path(folder)))).convert("RGB")
        shot.save(target / f"{name}.webp", quality=80, method=6)
        print(f"{name}.webp", shot.size, (target / f"{name}.webp").stat().st_size, "bytes")


if __name__ == "__main__":
    main()
