"""Time from a move of the mouse to the painted mask, of the widget in JupyterLab in Chromium.

``python benchmarks/interactive_trip.py --model sam-nano``: the median of 200 moves over an image of
1536 x 1212 pixels. Needs the extra ``test`` and chromium.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from support.jupyter import Canvas, JupyterServer, NotebookPage, browser  # noqa: E402

CELL = """import numpy as np, sam_rlx
from pathlib import Path
from PIL import Image
from sam_rlx.widget import SegmentWidget
coins = Image.open(Path(sam_rlx.__file__).parent / "assets" / "coins.jpg").convert("RGB")
w = SegmentWidget(sam_rlx.load_model({model!r}), np.asarray(coins.resize((1536, 1212))))
w"""

# Moves the mouse from inside of the page, and waits for the paint of each hover.
TRIPS = """async (root, moves) => {
  const f = root.front, times = [], rect = f.canvas.getBoundingClientRect();
  const pause = () => new Promise((done) => setTimeout(done, 0));
  for (let k = 0; k < moves; k++) {
    const x = rect.left + rect.width * (0.1 + 0.8 * ((k * 37) % 101) / 101);
    const y = rect.top + rect.height * (0.1 + 0.8 * ((k * 53) % 89) / 89);
    const before = f.painted?.seq, start = performance.now();
    f.canvas.dispatchEvent(new PointerEvent("pointermove", {clientX: x, clientY: y}));
    while (f.painted?.seq === before) {
      if (performance.now() - start > 60000) throw new Error("no answer to a move");
      await pause(); // gives the page its turn
    }
    times.push(f.painted.at - start);
  }
  return times;
}"""


def measure(model: str, moves: int, folder: Path) -> list[float]:
    """Return the time of each move in milliseconds."""
    server = JupyterServer(folder)
    try:
        server.notebook("trip.ipynb", CELL.format(model=model))
        with browser() as chrome:
            page = chrome.new_context(viewport={"width": 1280, "height": 900}).new_page()
            NotebookPage(page, server, "trip.ipynb").run_all()
            canvas = Canvas(page)
            canvas.wait("f.waiting.size === 0 && !f.status")
            canvas.root.evaluate(TRIPS, 10)
            times: list[float] = canvas.root.evaluate(TRIPS, moves)
            return times
    finally:
        server.close()


def main() -> None:
    """Print the median."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="sam-nano")
    parser.add_argument("--moves", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        times = sorted(measure(arguments.model, arguments.moves, Path(folder)))
    middle, late = times[len(times) // 2], times[int(len(times) * 0.9)]
    print(f"{arguments.model}: median {middle:.1f} ms, nine of ten below {late:.1f} ms")


if __name__ == "__main__":
    main()
