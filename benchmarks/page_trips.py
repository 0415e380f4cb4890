"""Time the way from the mouse to the painted mask on the page of ``sam-rlx serve``, in Chromium.

    python benchmarks/page_trips.py [--models sam-nano sam2-nano vit_b] [--moves 200]
    python benchmarks/page_trips.py --models sam-nano --size 5120 4040 --limit 100
    python benchmarks/page_trips.py --models sam-nano --objects 3 300 --ratio 1.5

Each move of the mouse is answered before the next one. A trip begins with the event's own time
stamp, in the browser, and ends when the mask is drawn. Its parts: until the page asks (which waits
for the browser's next frame), until the answer is there, and drawing. `vit_b` has random weights.
With several counts of `--objects` the last line of a model says how much longer a trip takes with
the last count than with the first. Exit status 1 where a median is above `--limit`, or that ratio
above `--ratio`.
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from sam_rlx.io import pillow

from bench_models import checkpoint

# The packaged image at four times its sides: a hover is computed at the size of a preview.
SIZE = (1536, 1212)
# Before the page: notes when a hover is sent, and when its answer comes.
NOTE = """() => {
  const isHover = (bytes) => /"type": ?"hover"/.test(new TextDecoder().decode(new Uint8Array(
    bytes.buffer || bytes, (bytes.byteOffset || 0) + 4, Math.min(bytes.byteLength - 4, 60))));
  globalThis.times = { event: 0, sent: 0, came: 0 };
  globalThis.WebSocket = class extends WebSocket {
    constructor(...all) {
      super(...all);
      this.addEventListener("message", ({ data }) => {
        if (isHover(data)) times.came = performance.now();
      });
    }
    send(bytes) {
      if (isHover(bytes)) times.sent = performance.now();
      super.send(bytes);
    }
  };
}"""
RECORD = """(root) => {
  globalThis.trips = [];
  for (const kind of ["pointermove", "pointerrawupdate"])
    root.addEventListener(kind, (found) => { times.event = found.timeStamp; }, true);
  root.addEventListener("painted", () => {
    const { event, sent, came } = times, drawn = performance.now();
    trips.push([drawn - event, sent - event, came - sent, drawn - came]);
  });
}"""


@contextmanager
def server(model: str | Path, threads: int | None) -> Iterator[str]:
    command = [sys.executable, "-m", "sam_rlx", "serve", "--port", "0", "--model", str(model)]
    command += [] if threads is None else ["--threads", str(threads)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield next(filter(None, (re.match(r"page: +(\S+)", line) for line in process.stdout)))[1]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()


def photograph(size: tuple[int, int]) -> bytes:
    path = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
    file = io.BytesIO()
    pillow("Image").open(path).convert("RGB").resize(size).save(file, "JPEG", quality=92)
    return file.getvalue()


SHOWN = "document.querySelector('.srx')?.front?.peek()"


@contextmanager
def opened(browser: Any, address: str, size: tuple[int, int]) -> Iterator[Any]:
    """Show the image on a page, encoded: the page."""
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.add_init_script(f"({NOTE})()")
    page.goto(address)
    page.locator(".srx-openfiles").wait_for()
    name = {"name": "coins.jpg", "mimeType": "image/jpeg", "buffer": photograph(size)}
    page.set_input_files("input.srx-files", name)
    page.wait_for_function(f"() => ({SHOWN})?.busy === false", timeout=600_000)
    page.locator(".srx").evaluate(RECORD)
    yield page
    page.close()


def trips(page: Any, size: tuple[int, int], moves: int) -> list[list[float]]:
    """Return the times of each move: whole trip, until asked, answer, drawing."""
    root = page.locator(".srx")
    box = root.locator("canvas.srx-view").bounding_box()
    scale, left, top = page.evaluate(f"(({{ scale, left, top }}) => [scale, left, top])({SHOWN})")
    rng = np.random.default_rng(0)
    page.evaluate("() => { globalThis.trips.length = 0; }")
    for number in range(moves + 5):
        x, y = rng.uniform(0.05, 0.95, 2) * size
        page.mouse.move(box["x"] + left + x * scale, box["y"] + top + y * scale)
        page.wait_for_function(f"() => trips.length > {number}", timeout=60_000)
    found: list[list[float]] = page.evaluate("trips")
    return found[5:]  # the first ones warm up


def add_objects(page: Any, size: tuple[int, int], count: int) -> None:
    """Click until there are so many objects; the last one is current, which hovers change."""
    root = page.locator(".srx")
    box = root.locator("canvas.srx-view").bounding_box()
    random = np.random.default_rng(count)
    while (now := page.evaluate(SHOWN))["busy"] or len(now["objects"]) < count:
        if now["error"]:
            raise RuntimeError(now["error"])
        if now["busy"]:
            page.wait_for_timeout(1)
            continue
        x, y = random.uniform(0.02, 0.98, 2) * size
        page.keyboard.press("Enter")
        at = box["x"] + now["left"] + x * now["scale"], box["y"] + now["top"] + y * now["scale"]
        page.keyboard.down("Alt")  # a new one, on another one too
        page.mouse.click(*at)
        page.keyboard.up("Alt")
        page.wait_for_timeout(1)


def measure(page: Any, size: tuple[int, int], moves: int, model: str, count: int) -> float:
    """Print a line; return the median trip."""
    add_objects(page, size, count)
    found = trips(page, size, moves)
    whole, asked, answer, draw = (statistics.median(part) for part in zip(*found, strict=True))
    high = float(np.quantile([trip[0] for trip in found], 0.9))
    print(
        f"{model:<12}{count:>8}{whole:>8.1f}{high:>8.1f}{asked:>13.1f}{answer:>8.1f}{draw:>7.1f}",
        flush=True,
    )
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["sam-nano", "sam2-nano", "sam3-nano"])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--size", type=int, nargs=2, default=SIZE, metavar=("W", "H"))
    parser.add_argument("--objects", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=float, metavar="MS", help="for each median")
    parser.add_argument("--ratio", type=float, help="for the last count against the first")
    args = parser.parse_args(arguments)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        parser.error("expected chromium on PATH, found none")
    from playwright.sync_api import sync_playwright

    slow = False
    size = tuple(args.size)
    print(f"{args.moves} moves on {size[0]} x {size[1]} pixels, medians in ms")
    columns = f"{'trip':>8}{'p90':>8}{'until asked':>13}{'answer':>8}{'draw':>7}"
    print(f"{'model':<12}{'objects':>8}{columns}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for model in args.models:
            source = checkpoint(model) if model == "vit_b" else model
            with (
                server(source, args.threads) as address,
                opened(browser, address, size) as page,
            ):
                medians = [
                    measure(page, size, args.moves, model, count) for count in sorted(args.objects)
                ]
            slow |= args.limit is not None and max(medians) > args.limit
            if len(medians) > 1:
                ratio = medians[-1] / medians[0]
                print(f"{model}: ratio {ratio:.2f}")
                slow |= args.ratio is not None and ratio > args.ratio
        browser.close()
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
