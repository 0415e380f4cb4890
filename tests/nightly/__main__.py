"""Long runs against faults: ``python tests/nightly [--seed N] [--scale X] [JOB[:PART] ...]``.

Or for a given time: ``python tests/nightly structures --seconds 600``.

Every job prints its counts. The exit status is 1 if one of them found something. Some jobs have
parts that can run alone: ``parity_sizes:hiera-t-2.0``, ``packed_widths:Q3_K``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

# Module of each job, and the amount of its work: seconds of `IN_SECONDS`, else a count
# (of the site none, of packed widths and parity sizes the types or models).
JOBS = {
    "fuzz": 60,
    "structures": 1200,
    "damaged_files": 2000,
    "many_writers": 100,
    "kills": 200,
    "video_operations": 500,
    "batch": 48,
    "doors": 1,
    "site_pages": 1,
    "packed_widths": 6,
    "parity_sizes": 4,
    "weights_read_back": 3,
    "read_by_others": 1,
    "large_scenes": 500,
}
# Jobs whose amount is a time: of each fuzz target, and of all structures.
IN_SECONDS = ("fuzz", "structures")
# Jobs whose parts can be named: `PARTS` of their module.
WITH_PARTS = ("packed_widths", "parity_sizes")


def _run(job: str, scale: float, seconds: int | None, seed: int) -> bool:
    """Run a job or one part of it; tell whether all was well."""
    start = time.monotonic()
    name, _, part = job.partition(":")
    amount = max(1, round(JOBS[name] * scale))
    if seconds is not None and name in IN_SECONDS:
        amount = seconds
    try:
        module = importlib.import_module(f"nightly.{name}")
        problems = module.main(amount, seed, part) if part else module.main(amount, seed)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        problems = 1
    result = "failed" if problems else "ok"
    print(f"{job}: {result} after {time.monotonic() - start:.0f} s", flush=True)
    return not problems


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs that are named, or all."""
    parser = argparse.ArgumentParser(prog="python tests/nightly", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB[:PART]", help=", ".join(JOBS))
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all jobs")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual amount of work")
    parser.add_argument("--seconds", type=int, help=f"of {', '.join(IN_SECONDS)}, each")
    args = parser.parse_args(arguments)
    for job in args.jobs:
        name, colon, part = job.partition(":")
        if name not in JOBS or (colon and name not in WITH_PARTS):
            parser.error(f"expected {', '.join(JOBS)}, found {job}")
        parts = importlib.import_module(f"nightly.{name}").PARTS if colon else ()
        if colon and part not in parts:
            parser.error(f"expected a part of {name}, {', '.join(parts)}, found {part}")
    print(f"seed {args.seed}")
    results = [_run(job, args.scale, args.seconds, args.seed) for job in args.jobs or list(JOBS)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
