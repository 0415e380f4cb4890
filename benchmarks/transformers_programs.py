"""Runs programs of transformers' pages, cards and courses on transformers and on the drop-in.

    python benchmarks/transformers_programs.py [FILE ...] [--cpu] [--page]

FILE is one of ``programs/transformers``: all by default. Each runs four times, in processes of its
own, on folders of the packaged models: with transformers; by ``python -m sam_rlx.compat --with
transformers``, where no line is changed; with another import; and without PyTorch, whose lines are
written otherwise. Training has to stop with the words of the drop-in, with PyTorch alone.

Prints a row for each file: the steps that ran, the least IoU of masks in the three ways beside
transformers, seconds of steps; with ``--cpu`` CPU seconds of one core, which others on the machine
change little. ``--page`` writes the table of all files into docs/compat.md. Needs transformers 5
and PyTorch. The exit status is 1 if a step did not run, or gave other masks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from PIL import Image
from sam_rlx.compat.transformers.refusals import RefusedError
from sam_rlx.conversion import convert

from programs import clocks, comparison, tables

RUN = Path(__file__).resolve().parent / "programs" / "transformers" / "four_ways.py"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "compat.md"
MARK = "programs of transformers"
HEAD = "| program | steps | least IoU | transformers, s | here, s | no PyTorch, s | note |"
# What a packaged model runs, and the name that its classes begin with.
JOBS = {
    "sam": ("sam-nano", ["Sam"]),
    "clicks": ("sam2-nano", ["Sam2"]),
    "everything": ("sam-nano", ["Sam"]),
    "clips": ("sam2-nano", ["Sam2VideoModel"]),
    "training": ("sam-nano", []),
}
WAYS = {
    "transformers": ([], []),
    "unchanged": (["-m", "sam_rlx.compat", "--with", "transformers"], []),
    "changed": ([], ["--changed"]),
    "no PyTorch": ([], ["--without-torch"]),
}


def images_of(file: str, scratch: Path) -> list[str]:
    """Write two images of other sizes, or the frames of a clip."""
    assets = Path(sam_rlx.__file__).parent / "assets"
    coffee, coins = (
        Image.open(assets / name).convert("RGB") for name in ("coffee.jpg", "coins.jpg")
    )
    if file == "clips":
        pixels = np.asarray(coffee.resize((160, 107)))
        frames = [Image.fromarray(np.roll(pixels, 3 * index, 1)) for index in range(5)]
    elif file == "everything":  # of coffee this model finds nothing by the pipeline's thresholds
        frames = [coins.resize((160, 126)), coins.crop((0, 0, 192, 152))]
    else:
        frames = [coffee.resize((160, 107)), coffee.crop((200, 0, 500, 400)).resize((90, 120))]
    for index, frame in enumerate(frames):
        frame.save(scratch / f"{file}{index}.png")
    return [str(scratch / f"{file}{index}.png") for index in range(len(frames))]


def run(way: str, job: dict[str, Any], scratch: Path) -> Path:
    """Run a job in one of `WAYS`; return the file of what it gave."""
    jobs, out = scratch / "jobs.json", scratch / f"{way}.npz"
    jobs.write_text(json.dumps([job]), encoding="utf-8")
    before, after = WAYS[way]
    command = [sys.executable, *before, str(RUN), str(jobs), str(out), *after]
    subprocess.run(command, check=True)
    return out


def row(file: str, scratch: Path, clock: str) -> tuple[str, bool]:
    """Run a program in all ways, with a clock of `time`: its row, and whether all is well."""
    model, arguments = JOBS[file]
    folder = scratch / model
    if not folder.exists():
        convert(model, folder)
    job = {
        "file": file,
        "arguments": [*arguments, str(folder)],
        "images": images_of(file, scratch),
        "clock": clock,
    }
    stops = file == "training"
    ways = [way for way in WAYS if not (stops and way == "no PyTorch")]
    found = {way: run(way, job, scratch) for way in ways}
    first, *rest = found.values()
    failed = comparison.failed(first)
    steps = len(_ran(first)) + len(failed)
    ran = min(len(_ran(path)) for path in rest)
    if stops:
        errors = [error for path in rest for error in comparison.failed(path).values()]
        told = [error for error in errors if error.startswith(RefusedError.__name__)]
        note = f"{len(set(told))} stop with words" if len(told) == 2 * steps else "; ".join(errors)
        is_good, iou = not failed and len(told) == 2 * steps, None
    else:
        pairs = [] if failed else [comparison.compared(first, path) for path in rest]
        iou = min((each.iou for each in pairs), default=None)
        note = "; ".join(
            error for path in found.values() for error in comparison.failed(path).values()
        )
        is_good = not note and all(each.is_enough for each in pairs)
    times = [f"{comparison.times(path):.2f}" for path in (first, rest[0], *rest[2:])]
    cells = [
        f"`{file}.py`",
        f"{ran} of {steps}",
        "" if iou is None else f"{iou:.4f}",
        *times,
        *[""] * (3 - len(times)),
        note,
    ]
    return tables.row(cells), is_good


def _ran(path: Path) -> set[str]:
    """Return the names of the steps that gave something."""
    with np.load(path) as arrays:
        names = set(arrays.files) - comparison.TOLD
    return {name.rsplit(".", 1)[0] for name in names}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", default=list(JOBS), help=f"of {', '.join(JOBS)}")
    parser.add_argument("--cpu", action="store_true", help="CPU seconds of one core (Linux)")
    parser.add_argument("--page", action="store_true", help="write the table into docs/compat.md")
    options = parser.parse_args()
    if unknown := set(options.files) - set(JOBS):
        parser.error(f"files: expected some of {list(JOBS)}, found {sorted(unknown)}")
    if options.page and set(options.files) != set(JOBS):
        parser.error("--page: the page has the rows of all files; expected no FILE")
    clock = clocks.chosen(options.cpu).__name__
    rows, lost = [], []
    print(HEAD, flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for file in options.files:
            line, is_good = row(file, Path(scratch), clock)
            rows.append(line)
            print(line, flush=True)
            if not is_good:
                lost.append(file)
    if options.page:
        tables.write(PAGE, MARK, HEAD, rows)
    return tables.closing(rows, lost)


if __name__ == "__main__":
    sys.exit(main())
