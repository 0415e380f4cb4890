"""Time a click for several numbers of threads: more threads may not make it slower.

    python benchmarks/click_threads.py [--models sam-nano vit_b] [--threads 1 2 4 8 16]

`vit_b` has random weights, which are made once. Numbers of threads take turns, and each is the
median of its rounds. Exit status 1 where a click takes longer than `--slack` times the shortest of
fewer threads.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import run
from bench_models import checkpoint
from workloads import sample_image

MODELS = ("sam-nano", "sam2-nano", "sam3-nano", "vit_b")
PRECISIONS = ("float32", "bfloat16", "int8")


def milliseconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - start)


def interleaved(
    calls: Sequence[Callable[[], Any]], rounds: int, repeats: int
) -> list[tuple[float, float]]:
    """Medians of each call in a row, and of the first after a change of threads."""
    rows: list[list[float]] = [[] for _ in calls]
    first: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, times, begins in zip(calls, rows, first, strict=True):
            begins.append(milliseconds(call))
            times += [milliseconds(call) for _ in range(repeats)]
    return [
        (statistics.median(times), statistics.median(begins))
        for times, begins in zip(rows, first, strict=True)
    ]


def measured(
    model: str, precision: str, threads: Sequence[int], rounds: int
) -> Iterator[tuple[str, list[float]]]:
    """Rows of a model: what was timed, and its milliseconds for each number of threads."""
    import sam_rlx

    path = checkpoint(model) if model == "vit_b" else model
    loaded = sam_rlx.load_model(path, precision=precision)
    image = sample_image(480, 640)
    predictors = [sam_rlx.ImagePredictor(loaded, num_threads=count) for count in threads]
    encode = [lambda p=p: p.set_image(image) for p in predictors]
    click = [lambda p=p: p.predict(point_coords=[[320, 240]], point_labels=[1]) for p in predictors]
    encodings = interleaved(encode, 1 if model == "vit_b" else 3, 2)
    clicks = interleaved(click, rounds, 20)
    yield "click", [median for median, _ in clicks]
    yield "first click", [begin for _, begin in clicks]
    yield "image", [median for median, _ in encodings]


def is_slower(times: Sequence[float], slack: float) -> bool:
    """Whether more threads take longer than `slack` times the best of fewer."""
    return any(later > slack * min(times[:index]) for index, later in enumerate(times) if index > 0)


def main() -> int:
    import sam_rlx

    cores = sam_rlx.build_info()["cores"]
    default = sorted({*(n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores), cores})
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["float32"])
    parser.add_argument("--threads", nargs="+", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--slack", type=float, default=1.1)
    options = parser.parse_args()
    threads = sorted(set(options.threads))
    print(run.heading("Clicks", threads[-1]) + "\n")
    print(f"| ms, median | {' | '.join(f'{n} threads' for n in threads)} |")
    print(f"| --- |{' --- |' * len(threads)}")
    slower = []
    for model in options.models:
        for precision in options.precisions:
            for what, times in measured(model, precision, threads, options.rounds):
                row = f"{model}, {precision}: {what}"
                print(f"| {row} | {' | '.join(f'{t:.2f}' for t in times)} |", flush=True)
                if what == "click" and is_slower(times, options.slack):
                    slower.append(row)
    for row in slower:
        print(f"slower with more threads: {row}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
