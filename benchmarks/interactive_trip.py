"""Time from a move of the mouse to the painted mask, of the widget in JupyterLab in Chromium.

    python benchmarks/interactive_trip.py --model sam-nano
    python benchmarks/interactive_trip.py --size 5120 4040 --limit 150
    python benchmarks/interactive_trip.py --objects 3 300 --ratio 1.5

Prints the median of 200 moves. With several counts of `--objects` also how much longer a trip takes
with the last count than with the first. Exit status 1 where a median is above `--limit`, or that
ratio above `--ratio`. Needs the extra ``test`` and chromium.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.jupyter import Canvas, JupyterServer, NotebookPage, browser  # noqa: E402

CELL = """import numpy as np, sam_rlx
from pathlib import Path
from PIL import Image
from sam_rlx.widget import SegmentWidget
coins = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coins.jpg").convert("RGB")
w = SegmentWidget(sam_rlx.load_model({model!r}), np.asarray(coins.resize(({width}, {height}))))
w"""

# Round objects side by side, until there are so many.
OBJECTS = """width, height = {width}, {height}
across = int(np.ceil(np.sqrt({count})))
y, x = np.ogrid[:height, :width]
radius = 0.4 * min(width, height) / across
for k in range(len(w.objects), {count}):
    middle = (k % across + 0.5) * width / across, (k // across + 0.5) * height / across
    w.start((x - middle[0]) ** 2 + (y - middle[1]) ** 2 < radius**2)
w.commit()"""

# Moves the mouse from inside of the page, and waits for the paint of each hover.
TRIPS = """async (root, moves) => {
  const f = root.front, times = [], canvas = root.querySelector("canvas.srx-view");
  const rect = canvas.getBoundingClientRect();
  const pause = () => new Promise((done) => setTimeout(done, 0));
  for (let k = 0; k < moves; k++) {
    const x = rect.left + rect.width * (0.1 + 0.8 * ((k * 37) % 101) / 101);
    const y = rect.top + rect.height * (0.1 + 0.8 * ((k * 53) % 89) / 89);
    const before = f.painted?.seq, start = performance.now();
    canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
    while (f.painted?.seq === before) {
      if (performance.now() - start > 60000) throw new Error("no answer to a move");
      await pause(); // gives the page its turn
    }
    times.push(f.painted.at - start);
  }
  return times;
}"""


def measure(
    model: str, size: tuple[int, int], counts: list[int], moves: int, folder: Path
) -> Iterator[list[float]]:
    """Give the times of the moves with each count of objects, in milliseconds."""
    server = JupyterServer(folder)
    width, height = size
    cells = [CELL.format(model=model, width=width, height=height)]
    cells += [OBJECTS.format(count=count, width=width, height=height) for count in counts]
    try:
        server.notebook("trip.ipynb", *cells)
        with browser() as chrome:
            page = chrome.new_context(viewport={"width": 1280, "height": 900}).new_page()
            notebook = NotebookPage(page, server, "trip.ipynb")
            notebook.command("notebook:run-cell-and-select-next")
            canvas = Canvas(page)
            for count in counts:
                notebook.command("notebook:run-cell-and-select-next")
                canvas.wait(f"!f.busy && f.objects.length === {count}")
                canvas.canvas.scroll_into_view_if_needed()
                canvas.root.evaluate(TRIPS, 10)
                yield canvas.root.evaluate(TRIPS, moves)
    finally:
        server.close()


def main() -> int:
    """Print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="sam-nano")
    parser.add_argument("--moves", type=int, default=200)
    parser.add_argument("--size", type=int, nargs=2, default=(1536, 1212), metavar=("W", "H"))
    parser.add_argument("--objects", type=int, nargs="+", default=[0], metavar="N")
    parser.add_argument("--limit", type=float, metavar="MS", help="for each median")
    parser.add_argument("--ratio", type=float, help="for the last count against the first")
    args = parser.parse_args()
    size, counts = tuple(args.size), sorted(args.objects)
    medians = []
    with tempfile.TemporaryDirectory() as folder:
        for count, times in zip(
            counts, measure(args.model, size, counts, args.moves, Path(folder)), strict=True
        ):
            medians.append(statistics.median(times))
            late = statistics.quantiles(times, n=10)[-1]
            print(
                f"{args.model}, {size[0]} x {size[1]}, {count} objects: median {medians[-1]:.1f} "
                f"ms, nine of ten below {late:.1f} ms",
                flush=True,
            )
    slow = args.limit is not None and max(medians) > args.limit
    if len(medians) > 1:
        ratio = medians[-1] / medians[0]
        print(f"{args.model}: ratio {ratio:.2f}")
        slow |= args.ratio is not None and ratio > args.ratio
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
