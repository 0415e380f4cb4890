"""Run fuzz targets that are built, each for some seconds.

    python tests/nightly/fuzz.py SECONDS [TARGET ...]

What libFuzzer finds is kept in the build folder for the next run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "data" / "corpus"
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=65536")


def main(seconds: int, seed: int, build: Path = BUILD, names: Sequence[str] = ()) -> int:
    """Print a line of counts for each target, or each named; return how many of them failed."""
    built = {path.name: path for path in build.glob("fuzz_*") if path.is_file() and not path.suffix}
    chosen = names or sorted(built)
    missing = [name for name in chosen if name not in built]
    if missing or not chosen:
        wanted = ", ".join(missing) or "targets"
        found = ", ".join(sorted(built)) or "none"
        print(f"fuzz: expected {wanted} in {build}, found {found}; build them with --preset fuzz")
        return max(1, len(missing))
    return sum(not _run(built[name], seconds, seed) for name in chosen)


def _run(target: Path, seconds: int, seed: int) -> bool:
    """Run a target and print what it did; tell whether all was well."""
    kept = target.parent / "corpus" / target.name
    kept.mkdir(parents=True, exist_ok=True)
    crash = f"-artifact_prefix={target}-"
    command = [str(target), *LIMITS, f"-max_total_time={seconds}", f"-seed={seed}", crash]
    done = subprocess.run(
        [*command, str(kept), str(CORPUS)], stderr=subprocess.PIPE, text=True, errors="replace"
    )
    found = re.findall(r"Done (\d+) runs", done.stderr)
    memory = re.findall(r"rss: (\d+)Mb", done.stderr)
    result = "ok" if done.returncode == 0 else f"failed\n{done.stderr[-4000:]}"
    runs, most = (found or ["?"])[-1], max(map(int, memory), default=0)
    print(f"{target.name}: {runs} runs, at most {most} MB: {result}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("seconds", type=int, help="of each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all that are built")
    args = parser.parse_args()
    sys.exit(main(args.seconds, 1, names=args.targets) > 0)
