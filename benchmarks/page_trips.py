"""Time the way from the mouse to the painted mask on the page of ``sam-rlx serve``, in Chromium.

    python benchmarks/page_trips.py [--models sam-nano sam2-nano vit_b] [--moves 200]

Each move of the mouse is answered before the next one. A trip begins with the event's own time
stamp, in the browser, and ends when the mask is drawn. Its parts: until the page asks (which waits
for the browser's next frame), until the answer is there, and drawing. `vit_b` has random weights.
Exit status 1 where a median is above `--limit`.
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

# The packaged image at four times its size: a hover is computed at the size of a preview.
SIZE = (1536, 1212)
RECORD = """(root) => {
  const front = root.front;
  const send = front.model.send.bind(front.model);
  const answered = front.on_hover.bind(front);
  let event = 0, sent = 0;
  globalThis.trips = [];
  for (const kind of ["pointermove", "pointerrawupdate"])
    front.canvas.addEventListener(kind, (found) => { event = found.timeStamp; }, true);
  front.model.send = (head, ...rest) => {
    if (head.type === "hover") sent = performance.now();
    return send(head, ...rest);
  };
  front.on_hover = (head, buffers) => {
    const came = performance.now();
    answered(head, buffers);
    const drawn = performance.now();
    globalThis.trips.push([drawn - event, sent - event, came - sent, drawn - came]);
  };
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


def photograph() -> bytes:
    path = Path(sam_rlx.__file__).parent / "assets" / "coins.jpg"
    file = io.BytesIO()
    pillow("Image").open(path).convert("RGB").resize(SIZE).save(file, "JPEG", quality=92)
    return file.getvalue()


def trips(browser: Any, address: str, moves: int) -> list[list[float]]:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto(address)
    page.wait_for_function("() => globalThis.page?.maxBytes > 0")
    name = {"name": "coins.jpg", "mimeType": "image/jpeg", "buffer": photograph()}
    page.set_input_files("#files", name)
    idle = "f.bitmap && f.status === '' && !f.waiting.size"
    page.wait_for_function(
        f"() => {{ const f = document.querySelector('.srx')?.front; return f && {idle}; }}",
        timeout=600_000,
    )
    root = page.locator(".srx")
    root.evaluate(RECORD)
    box = root.locator("canvas").bounding_box()
    scale, left, top = root.evaluate("(r) => [r.front.scale, r.front.left, r.front.top]")
    rng = np.random.default_rng(0)
    for number in range(moves + 5):
        x, y = rng.uniform(0.05, 0.95, 2) * SIZE
        page.mouse.move(box["x"] + left + x * scale, box["y"] + top + y * scale)
        page.wait_for_function(f"() => trips.length > {number}", timeout=60_000)
    found: list[list[float]] = page.evaluate("trips")
    page.close()
    return found[5:]  # the first ones warm up


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["sam-nano", "sam2-nano", "sam3-nano"])
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--limit", type=float, metavar="MS", help="for the median of each model")
    args = parser.parse_args(arguments)
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        parser.error("expected chromium on PATH, found none")
    from playwright.sync_api import sync_playwright

    slow = False
    print(f"{args.moves} moves on {SIZE[0]} x {SIZE[1]} pixels, medians in ms")
    print(f"{'model':<12}{'trip':>8}{'p90':>8}{'until asked':>13}{'answer':>8}{'draw':>7}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for model in args.models:
            source = checkpoint(model) if model == "vit_b" else model
            with server(source, args.threads) as address:
                found = trips(browser, address, args.moves)
            whole, asked, answer, draw = (
                statistics.median(part) for part in zip(*found, strict=True)
            )
            high = float(np.quantile([trip[0] for trip in found], 0.9))
            print(f"{model:<12}{whole:>8.1f}{high:>8.1f}{asked:>13.1f}{answer:>8.1f}{draw:>7.1f}")
            slow |= args.limit is not None and whole > args.limit
        browser.close()
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
