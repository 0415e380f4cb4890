"""What a frame of a video costs with 1 to 48 objects of SAM 3.1, which follows 16 at once.

    python benchmarks/buckets.py                       # at the released sizes: hours of CPU
    python benchmarks/buckets.py --quick               # a tiny network
    python benchmarks/buckets.py --threads 1 --cpu     # where other programs run beside it
    python benchmarks/buckets.py --plot buckets.svg

Prints the seconds of a frame of a clip whose memories are full, the median of several frames, and
how many times one object's they are. Weights are random: those of a released file take the same
time. All objects are boxes on the first frame.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import sam_rlx

from workloads import sample_image, tiny, tiny_sam3

COUNTS = (1, 4, 8, 16, 17, 20, 32, 33, 48)
SIZE = (480, 640)  # height, width
MEMORIES = 16  # frames until nothing more is remembered


def save(path: Path, quick: bool) -> Path:
    """Write a file with random weights, of what videos need."""
    from support import tiny_sam3_1  # which workloads finds

    config = tiny_sam3_1.TINY if quick else tiny_sam3_1.RELEASED
    trunk = tiny_sam3.trunk_shapes(config, f"{tiny_sam3_1.NECK}trunk.")
    weights = {**tiny.random_state_dict(trunk, 0), **tiny_sam3_1.tracker_weights(config)}
    return tiny_sam3.save_safetensors(path, config, weights)


def seconds(model: sam_rlx.Model, count: int, options: argparse.Namespace) -> float:
    """Return the median seconds of a tracked frame with so many objects."""
    clock = time.process_time if options.cpu else time.perf_counter
    image = sample_image(*SIZE)
    clip = [np.roll(image, 3 * t, 1) for t in range(MEMORIES + options.frames + 1)]
    session = sam_rlx.VideoPredictor(model, clip, num_threads=options.threads)
    for obj in range(count):
        x, y = 80 * (obj % 8), 80 * (obj // 8)
        session.add_prompt(0, obj, box=[x + 4, y + 4, x + 76, y + 76])
    times = []
    before = clock()
    for frame in session.propagate():
        now = clock()
        if frame.frame_index > MEMORIES:
            times.append(now - before)
        before = now
    return statistics.median(times)


def plot(costs: dict[int, float]) -> str:
    """Draw seconds by number of objects as an SVG."""
    width, height, left, bottom = 560, 300, 60, 40
    top, last = max(costs.values()), max(costs)

    def at(count: int, cost: float) -> tuple[float, float]:
        x = left + (width - left - 20) * count / last
        return x, height - bottom - (height - bottom - 20) * cost / top

    points = [at(count, cost) for count, cost in costs.items()]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    marks = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points)
    labels = "".join(
        f'<text x="{at(count, 0)[0]:.1f}" y="{height - bottom + 18}" text-anchor="middle">{count}'
        "</text>"
        for count in costs
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">\n'
        f'<polyline points="{line}" fill="none" stroke="#36c"/>\n<g fill="#36c">{marks}</g>\n'
        f'{labels}<text x="4" y="14">seconds a frame: {top:.2f} at most, by objects</text>\n'
        "</svg>\n"
    )


def main() -> None:
    """Measure, print a table, and draw it if asked to."""
    parser = argparse.ArgumentParser(description="Objects of SAM 3.1 in a video.")
    parser.add_argument("--quick", action="store_true", help="a tiny network")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="numbers of objects")
    parser.add_argument("--frames", type=int, default=3, help="measured frames of each")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=("float32", "bfloat16", "int8"))
    parser.add_argument("--cpu", action="store_true", help="count CPU seconds of all threads")
    parser.add_argument("--plot", type=Path, help="SVG to write")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder) / "buckets.safetensors", options.quick)
        model = sam_rlx.load_model(path, precision=options.precision)
    costs = {count: seconds(model, count, options) for count in options.counts}
    one = costs[min(costs)]
    print("| objects | seconds a frame | times the first |\n| ---: | ---: | ---: |")
    for count, cost in costs.items():
        print(f"| {count} | {cost:.3f} | {cost / one:.2f} |")
    if options.plot is not None:
        options.plot.write_text(plot(costs), encoding="utf-8")


if __name__ == "__main__":
    main()
