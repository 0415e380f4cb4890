"""Measure what the page of ``sam-rlx serve`` costs, beside its budgets, in Chromium.

    python benchmarks/annotator.py
    python benchmarks/annotator.py --only hover zoom --models sam-nano vit_b --count 50
    python benchmarks/annotator.py --only click redraw --size 1600 1200 --objects 3 60 --count 10

Each part prints the median and the 90th percentile of `--count` times, in milliseconds:

hover     from the move of the mouse to the painted mask, by model; `vit_b` has random weights
zoom      from a turn of the wheel to all parts of a large image at the sharpness that is seen
click     from the release of the button on a small thing to its painted mask, beside few and many
          objects, and the bytes that the page gets
redraw    drawing all masks anew, after the view has moved, in the browser's own thread
opening   a folder of 10,000 images: from its address to the first image, and the server's memory
memory    of the server: before an image, with it, and after clicks and undo
front     bytes of the page's script, compressed

Needs the extra ``test`` and chromium. Exit status 1 where a figure is above its budget, if
``--check`` is given.
"""

from __future__ import annotations

import argparse
import gzip
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from PIL import Image

import page_trips
from bench_models import checkpoint

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.interactive import Server  # noqa: E402
from support.jupyter import browser  # noqa: E402
from support.views import View  # noqa: E402

# Where discs are, in parts of the image: what is clicked. Objects that are there lie above.
MARKS = tuple((0.05 + 0.1 * at, 0.95) for at in range(10))
MODELS = ("sam-nano", "sam2-nano", "sam3-nano", "vit_b")
# By part: the budget of the median in milliseconds, or of the figure in its unit.
BUDGETS = {
    "hover": 25.0,
    "hover vit_b": 60.0,
    "zoom": 60.0,
    "click ratio": 1.2,
    "click bytes": 4000.0,
    "redraw": 10.0,
    "opening": 2000.0,
    "opening memory": 200.0,
    "front": 35_000.0,
}
# Before the page's own script: counts the bytes that come.
COUNT = """() => {
  globalThis.received = 0;
  globalThis.WebSocket = class extends WebSocket {
    constructor(...all) {
      super(...all);
      this.addEventListener("message", ({ data }) => { received += data.byteLength; });
    }
  };
}"""
FRONT = "document.querySelector('.srx').front"
ZOOM = f"""async ([x, y]) => {{
  const front = {FRONT}, canvas = document.querySelector("canvas.srx-view");
  const next = () => new Promise((done) => requestAnimationFrame(done));
  front.act("fit");
  front.flush();
  await next();
  const box = canvas.getBoundingClientRect(), {{ scale, left, top }} = front.state.zoom;
  const start = performance.now();
  canvas.focus();
  canvas.dispatchEvent(new WheelEvent("wheel", {{ deltaY: -1800, bubbles: true, cancelable: true,
    clientX: box.left + left + x * scale, clientY: box.top + top + y * scale }}));
  front.flush();
  const asked = !front.peek().sharp;
  while (!front.peek().sharp) await next();
  return asked ? performance.now() - start : null;
}}"""
CLICK = f"""async ([x, y]) => {{
  const front = {FRONT}, canvas = document.querySelector("canvas.srx-view");
  const pause = () => new Promise((done) => setTimeout(done, 0));
  const box = canvas.getBoundingClientRect(), {{ scale, left, top }} = front.state.zoom;
  const at = {{ clientX: box.left + left + x * scale, clientY: box.top + top + y * scale,
    bubbles: true, cancelable: true, pointerId: 1, button: 0, altKey: true }};
  const before = front.state.n;
  globalThis.received = 0;
  canvas.setPointerCapture = () => {{}};
  canvas.dispatchEvent(new PointerEvent("pointerdown", at));
  const start = performance.now();
  canvas.dispatchEvent(new PointerEvent("pointerup", at));
  while (front.state.n === before || front.wire.busy) await pause();
  front.flush();
  return [performance.now() - start, received];
}}"""
# Whether the first image is there to be clicked on.
SHOWN = f"""() => {{
  const {{ bitmap, objectless, status }} = {FRONT}?.state ?? {{}};
  return bitmap && !objectless && !status.text;
}}"""
REDRAW = f"""(count) => {{
  const front = {FRONT}, times = [];
  const context = document.querySelector("canvas.srx-view").getContext("2d");
  for (let at = 0; at < count; at++) {{
    front.pan(at % 2 ? 8 : -8, 0);
    const start = performance.now();
    front.flush();
    context.getImageData(0, 0, 1, 1); // what was drawn is there
    times.push(performance.now() - start);
  }}
  return times;
}}"""


class Table:
    """Prints a line for each figure, and remembers which are above their budgets."""

    def __init__(self) -> None:
        self.above: list[str] = []

    def line(self, what: str, value: float, unit: str, budget: str = "", more: str = "") -> None:
        bound = BUDGETS.get(budget)
        beside = "" if bound is None else f"   budget {bound:,.0f}" if bound > 2 else f"   {bound}"
        print(f"{what:<44}{value:>10,.1f} {unit:<6}{more}{beside}", flush=True)
        if bound is not None and value > bound:
            self.above.append(what)

    def times(self, what: str, times: Sequence[float], budget: str = "") -> float:
        median = statistics.median(times)
        high = float(np.quantile(times, 0.9))
        self.line(what, median, "ms", budget, f"p90 {high:>8.1f}, {len(times)} times")
        return median


def resident(server: Server) -> float:
    """Return the memory of a server in MB."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


@contextmanager
def shown(chrome: Any, path: Path, *options: str) -> Iterator[tuple[View, Server]]:
    """Show what lies at a path on a page of its own server."""
    server = Server(str(path), *options)
    try:
        view = View(chrome, "about:blank", (1366, 768))
        view.page.add_init_script(f"({COUNT})()")
        view.go(server.project(path))
        view.idle()
        yield view, server
        view.close()
    finally:
        server.kill()


def photograph(folder: Path, size: tuple[int, int]) -> Path:
    """Write the packaged photograph, enlarged, with grain, and with discs in a row at `MARKS`."""
    path = folder / f"{size[0]}.jpg"
    coins = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
    with Image.open(coins) as image:
        pixels = np.asarray(image.convert("RGB").resize(size), np.int16)
    height, width = pixels.shape[:2]
    y, x = np.ogrid[:height, :width]
    for mark in MARKS:
        disc = (x - mark[0] * width) ** 2 + (y - mark[1] * height) ** 2 < (height / 60) ** 2
        pixels[disc] = (220, 70, 60)
    grain = np.random.default_rng(0).integers(-6, 7, pixels.shape[:2], np.int16)
    Image.fromarray(np.clip(pixels + grain[..., None], 0, 255).astype(np.uint8)).save(
        path, quality=92
    )
    return path


def with_objects(path: Path, count: int) -> None:
    """Make a project beside an image, of so many round objects in its upper nine tenths."""
    from sam_rlx.widget import SegmentWidget

    widget = SegmentWidget(sam_rlx.load_model("sam-nano"), path)
    whole, width = widget.image.shape[:2]
    height = int(0.9 * whole)
    across = int(np.ceil(np.sqrt(count)))
    radius = int(0.4 * min(width, height) / across)
    y, x = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    disc = x**2 + y**2 < radius**2
    for at in range(count):
        mask = np.zeros((whole, width), bool)
        top = int((at // across + 0.5) * height / across) - radius
        left = int((at % across + 0.5) * width / across) - radius
        mask[top : top + 2 * radius + 1, left : left + 2 * radius + 1] = disc
        widget.start(mask)
    widget.commit()
    widget.close()


def marks(view: View, count: int) -> list[list[float]]:
    """Return where discs are, one after the other and again."""
    width, height = view.page.evaluate(f"[{FRONT}.state.image.width, {FRONT}.state.image.height]")
    return [[x * width, y * height] for x, y in (MARKS[at % len(MARKS)] for at in range(count))]


def positions(view: View, count: int) -> list[list[float]]:
    """Return random positions of the shown image."""
    now = view.idle()
    width, height = view.page.evaluate(f"[{FRONT}.state.image.width, {FRONT}.state.image.height]")
    random = np.random.default_rng(int(now["count"]))
    return [list(map(float, at)) for at in random.uniform(0.05, 0.95, (count, 2)) * (width, height)]


def hover(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    size = page_trips.SIZE
    for model in args.models:
        source = checkpoint(model) if model == "vit_b" else model
        with (
            page_trips.server(source, args.threads) as address,
            page_trips.opened(chrome, address, size) as page,
        ):
            times = [trip[0] for trip in page_trips.trips(page, size, args.count)]
        budget = f"hover {model}"
        table.times(f"hover, {model}", times, budget if budget in BUDGETS else "hover")


def zoom(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    with shown(chrome, photograph(folder, tuple(args.size))) as (view, _):
        found = [view.page.evaluate(ZOOM, at) for at in positions(view, args.count)]
    times = [one for one in found if one is not None]
    what = f"zoom, {args.size[0]} x {args.size[1]} pixels"
    if times:
        table.times(what, times, "zoom")
    else:
        print(f"{what}: sent as a whole, without parts")


def click(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    medians = []
    for count in args.objects:
        path = photograph(folder, tuple(args.size))
        for old in folder.glob(f"{path.name}.sam_rlx.*"):
            old.unlink()
        with_objects(path, count)
        with shown(chrome, path) as (view, _):
            view.idle(lambda now, count=count: len(now["objects"]) == count)
            found = []
            for at in marks(view, args.count):
                found.append(view.page.evaluate(CLICK, at))
                view.page.keyboard.press("Control+z")
                view.idle(lambda now, count=count: len(now["objects"]) == count)
        times, sizes = zip(*found, strict=True)
        medians.append(table.times(f"click beside {count} objects", times))
        table.line(
            f"  bytes, largest {max(sizes):,}", statistics.median(sizes), "bytes", "click bytes"
        )
    if len(medians) > 1:
        table.line("click, most objects by fewest", medians[-1] / medians[0], "", "click ratio")


def redraw(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    path = photograph(folder, tuple(args.size))
    count = max(args.objects)
    with_objects(path, count)
    with shown(chrome, path) as (view, _):
        view.idle(lambda now: len(now["objects"]) == count)
        view.page.evaluate(REDRAW, 3)
        times = view.page.evaluate(REDRAW, args.count)
    table.times(f"redraw of {count} masks", times, "redraw")


def opening(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    sizes = []
    for count in (10, args.images):
        many = folder / f"{count} images"
        many.mkdir()
        pixels = np.zeros((32, 32, 3), np.uint8)
        for at in range(count):
            pixels[0, 0] = at % 256, at // 256, 0
            Image.fromarray(pixels).save(many / f"{at:05}.png")
        server = Server(str(many))
        try:
            view = View(chrome, "about:blank")
            start = time.perf_counter()
            view.go(server.project(many))
            view.page.wait_for_function(SHOWN)  # `idle` would read 10,000 names at each look
            seconds = time.perf_counter() - start
            sizes.append(resident(server))
            view.close()
        finally:
            server.kill()
    table.line(f"opening {args.images:,} images", 1000 * seconds, "ms", "opening")
    table.line("  memory more than with 10", sizes[1] - sizes[0], "MB", "opening memory")


def memory(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    bare = Server()
    view = View(chrome, bare.address)
    table.line("memory of the server, before an image", resident(bare), "MB")
    view.close()
    bare.kill()
    path = photograph(folder, tuple(args.size))
    with shown(chrome, path) as (view, server):
        pixels = 3 * args.size[0] * args.size[1] / 2**20
        table.line(f"  with an image of {pixels:,.0f} MB", resident(server), "MB")
        for part in range(2):
            for at in marks(view, args.count):
                view.page.evaluate(CLICK, at)
                view.page.keyboard.press("Control+z")
                view.idle()
            table.line(
                f"  after {(part + 1) * args.count} clicks and undos", resident(server), "MB"
            )


def front(chrome: Any, args: argparse.Namespace, table: Table, folder: Path) -> None:
    from sam_rlx.apps.annotator.front import joined

    text = joined().encode()
    table.line("front, gzip", float(len(gzip.compress(text, 9))), "bytes", "front")


PARTS: dict[str, Callable[[Any, argparse.Namespace, Table, Path], None]] = {
    part.__name__: part for part in (hover, zoom, click, redraw, opening, memory, front)
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--count", type=int, default=200, help="of times that are measured")
    parser.add_argument("--size", type=int, nargs=2, default=(5472, 3648), metavar=("W", "H"))
    parser.add_argument("--objects", type=int, nargs="+", default=[3, 500], metavar="N")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args(arguments)
    table = Table()
    with tempfile.TemporaryDirectory() as state, browser() as chrome:
        os.environ["XDG_STATE_HOME"] = state  # no work of the user's
        for name in args.only:
            with tempfile.TemporaryDirectory() as folder:
                PARTS[name](chrome, args, table, Path(folder))
    if table.above:
        print("above the budget: " + "; ".join(table.above))
    return int(args.check and bool(table.above))


if __name__ == "__main__":
    sys.exit(main())
