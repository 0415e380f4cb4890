"""Does memory stay flat on a long video? Tracks one and prints resident memory on the way.

    python benchmarks/video_memory.py
    python benchmarks/video_memory.py --frames 1000 --image-size 1024 --engine sam_rlx
    python benchmarks/video_memory.py --text "red circle"

Hiera-T with random weights. At its own side of 1024 a thousand frames take more than an hour on
two cores, so the default is a side of 128, which takes a few minutes: how many frames are kept does
not depend on the side, what one frame leaves behind grows with its square. Frames are given to
both engines one at a time; upstream's own loader would hold all of them. Ours keeps the results of
64 frames, so it grows for 14 frames more after the first figure. Pages of the mapped checkpoint do
not count. Each engine runs in a process of its own. Needs Linux.

With a text, frames are pushed one by one to a session of sam3-nano, which follows what it names:
discs that cross the image again and again. It forgets who was not seen for 300 frames, so the
first figure comes after 400: from then on as many leave as come. Upstream takes no frames one by
one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import client
import resident
import rivals
import run
from workloads import Workload

EARLY = 50  # frames after which everything that is allocated once is there
EARLY_WITH_TEXT = 400  # and all objects that are remembered
ENGINES = ("sam_rlx", "pytorch")
HEAD = ("engine", "after {early} frames", "after {frames}", "growth", "per frame", "ms a frame")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=1000)
    parser.add_argument("--early", type=int, help="frames before the first figure")
    parser.add_argument("--image-size", type=int, default=128, help="a multiple of 32")
    parser.add_argument("--objects", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--text", help="follow what it names on pushed frames, with sam3-nano")
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=list(ENGINES))
    options = parser.parse_args()
    if options.early is None:
        options.early = EARLY_WITH_TEXT if options.text else EARLY
    if options.frames <= options.early:
        parser.error(f"--frames: expected more than {options.early}, found {options.frames}")
    if options.image_size % 32 or options.image_size < 32:
        parser.error(f"--image-size: expected a multiple of 32, found {options.image_size}")
    return options


def write_weights(workload: Workload) -> None:
    """Make the checkpoint, in a process that ends before the measurement."""
    if workload.ours.exists():
        return
    if rivals.missing_packages("pytorch"):
        sys.exit(f"video_memory.py: {workload.ours} has to be made once where PyTorch is installed")
    if not client.export([workload]):
        sys.exit("video_memory.py: the checkpoint could not be made")


def follow(engine: str, workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    """Track the video in a process of its own."""
    order = {
        "engine": engine,
        "workload": workload.to_json(),
        "frames": options.frames,
        "early": options.early,
        "threads": options.threads,
        "text": options.text,
    }
    return client.answer_of("rivals.long_video", [json.dumps(order)], engine, options.threads)


def row(engine: str, found: dict[str, Any], options: argparse.Namespace) -> str:
    early, late = found["early"], found["late"]
    growth, frames = late - early, options.frames - options.early
    cells = (
        engine,
        f"{early / 1e6:.1f} MB",
        f"{late / 1e6:.1f} MB",
        f"{growth / 1e6:+.1f} MB",
        f"{growth / frames / 1e3:+.1f} kB",
        f"{1e3 * found['seconds'] / frames:.0f}",
    )
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    options = arguments()
    if resident.own() is None:
        sys.exit("video_memory.py: expected RssAnon in /proc/self/status, found none")
    side = options.image_size
    hw = (3 * side // 4, side)
    workload = Workload("video-1", "hiera_t", image_hw=hw, objects=options.objects, image_size=side)
    title = f"Hiera-T at {side} x {side}, {options.objects} object(s)"
    if options.text:
        title = f"sam3-nano, what {options.text!r} names on pushed frames"
        options.engine = ["sam_rlx"]
    else:
        write_weights(workload)
    print(
        f"{run.heading(title, options.threads)}\n\n"
        f"Resident memory while {options.frames} frames are tracked.\n"
    )
    print("| " + " | ".join(HEAD).format(early=options.early, frames=options.frames) + " |")
    print("| " + " | ".join("---" for _ in HEAD) + " |", flush=True)
    for engine in options.engine:
        if missing := rivals.missing_packages(engine):
            print(f"| {engine} | not measured: needs {', '.join(missing)} | | | | |", flush=True)
            continue
        print(row(engine, follow(engine, workload, options), options), flush=True)


if __name__ == "__main__":
    main()
