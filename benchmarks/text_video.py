"""How long does a frame take on which a text's objects are searched and followed?

    python benchmarks/text_video.py
    python benchmarks/text_video.py --objects 5 --warmup 7 --engine sam_rlx

SAM 3 at its released size with random weights; every frame shows the same image. The best
findings of frame 0 are followed, as many as `--objects` says; `--warmup` frames fill the memory,
then one frame is timed. Ours and upstream's video model run in processes of their own, and the
shares of ours are printed. Upstream is not charged for the encoder while it warms up: it gets the
features of frame 0 again. Takes a quarter of an hour on two cores, and 8 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import client
import rivals
import run
from workloads import TEXT_VIDEO, Workload

ENGINES = ("sam_rlx", "pytorch")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--objects", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=7, help="frames before the timed one")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--quick", action="store_true", help="a tiny network, to try the program")
    return parser.parse_args()


def in_process(task: str, order: dict[str, Any], engine: str = "pytorch") -> dict[str, Any]:
    """Do a task in a process of its own."""
    return client.answer_of(
        "rivals.text_video", [task, json.dumps(order)], engine, order["threads"]
    )


def main() -> None:
    options = arguments()
    if missing := rivals.missing_packages("pytorch"):
        sys.exit(f"text_video.py: the weights are made with PyTorch, missing {missing}")
    variant = "tiny" if options.quick else "sam3"
    workload = Workload(TEXT_VIDEO, variant, objects=options.objects)
    order = {"workload": workload.to_json(), "threads": options.threads, "warmup": options.warmup}
    in_process("weights", order)
    order |= in_process("threshold", order, "sam_rlx")
    found = {engine: in_process(engine, order, engine) for engine in options.engine}
    print(run.heading("A frame with a text prompt", options.threads) + "\n")
    for engine, figures in found.items():
        print(
            f"{engine}: {figures['seconds']:.2f} s for a frame with {figures['objects']} objects "
            f"and {options.warmup} frames before it, peak {figures['peak_rss'] / 1e9:.2f} GB"
        )
        for part, seconds in figures.get("parts", {}).items():
            print(f"    {part:14} {seconds:8.3f} s  {100 * seconds / figures['seconds']:5.1f} %")
    if len(found) == 2:
        ratio = found["sam_rlx"]["seconds"] / found["pytorch"]["seconds"]
        print(f"ratio sam_rlx / pytorch: {ratio:.2f}")


if __name__ == "__main__":
    main()
