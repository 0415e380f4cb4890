"""Run every fuzz target that is built, each for some seconds."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "data" / "corpus"
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=65536")


def main(seconds: int, seed: int, build: Path = BUILD) -> int:
    """Print a line of counts for each target; return the number of targets that failed."""
    targets = sorted(path for path in build.glob("fuzz_*") if path.is_file() and not path.suffix)
    if not targets:
        print(f"fuzz: expected targets in {build}, found none; build them with --preset fuzz")
        return 1
    failed = 0
    for target in targets:
        with tempfile.TemporaryDirectory() as new:
            crash = f"-artifact_prefix={build}/{target.name}-"
            command = [str(target), *LIMITS, f"-max_total_time={seconds}", f"-seed={seed}", crash]
            done = subprocess.run(
                [*command, new, str(CORPUS)], stderr=subprocess.PIPE, text=True, errors="replace"
            )
        found = re.findall(r"Done (\d+) runs", done.stderr)
        memory = re.findall(r"rss: (\d+)Mb", done.stderr)
        failed += done.returncode != 0
        result = "ok" if done.returncode == 0 else f"failed\n{done.stderr[-4000:]}"
        runs, most = (found or ["?"])[-1], max(map(int, memory), default=0)
        print(f"{target.name}: {runs} runs, at most {most} MB: {result}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(60, 1) > 0)
