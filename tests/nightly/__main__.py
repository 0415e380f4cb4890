"""Long runs against faults: ``python tests/nightly [--seed N] [--scale X] [JOB ...]``.

Every job prints its counts. The exit status is 1 if one of them found something.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from pathlib import Path

# Module of each job, and the amount of its work: seconds of each fuzz target, else a count
# (of the site none, of packed widths and parity sizes the types or models).
JOBS = {
    "fuzz": 60,
    "damaged_files": 2000,
    "many_writers": 100,
    "kills": 200,
    "video_operations": 500,
    "batch": 48,
    "site_pages": 1,
    "packed_widths": 6,
    "parity_sizes": 4,
}


def _run(name: str, amount: int, seed: int) -> bool:
    """Run a job; tell whether all was well."""
    start = time.monotonic()
    try:
        problems = importlib.import_module(f"nightly.{name}").main(amount, seed)
    except Exception:
        traceback.print_exc(file=sys.stdout)
        problems = 1
    result = "failed" if problems else "ok"
    print(f"{name}: {result} after {time.monotonic() - start:.0f} s", flush=True)
    return not problems


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs that are named, or all."""
    parser = argparse.ArgumentParser(prog="python tests/nightly", description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of all jobs")
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual amount of work")
    args = parser.parse_args(arguments)
    for name in set(args.jobs) - set(JOBS):
        parser.error(f"expected {', '.join(JOBS)}, found {name}")
    print(f"seed {args.seed}")
    names = args.jobs or list(JOBS)
    results = [_run(name, max(1, round(JOBS[name] * args.scale)), args.seed) for name in names]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
