"""Time encode and batch under variables that bind threads to cores, beside the same without.

    python benchmarks/bound_threads.py [--variables OMP_PROC_BIND=true] [--rounds 5]

Job scripts of clusters set such variables. Processes with and without them take turns; each encodes
an image several times, and each batch has as many workers as fill the cores. Exit status 1 where a
median is larger than `--most` times that without.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import sam_rlx
from sam_rlx import io

BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
ENCODE = """
import sys, time
import sam_rlx
from sam_rlx import io
image = io.read_image(sys.argv[1])
predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(sys.argv[2]))
predictor.set_image(image)
start = time.perf_counter()
for _ in range(10):
    predictor.set_image(image)
print((time.perf_counter() - start) / 10)
"""
BATCH = """
import sys, time
from sam_rlx import batch
start = time.perf_counter()
batch.run(sys.argv[1], sys.argv[3], model=sys.argv[2], options={"points_per_side": 16})
print(time.perf_counter() - start)
"""


def seconds(code: str, words: list[str], environment: dict[str, str]) -> float:
    """Return what a process prints in the end."""
    free = {name: value for name, value in os.environ.items() if name not in BINDING}
    command = [sys.executable, "-c", code, *words]
    found = subprocess.run(
        command, env={**free, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return float(found.stdout.split()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variables", nargs="+", default=["OMP_PROC_BIND=true"])
    parser.add_argument("--model", default="sam-nano")
    parser.add_argument("--images", type=int, default=64, help="of the batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most", type=float, default=1.1)
    args = parser.parse_args()
    bound = dict(word.split("=", 1) for word in args.variables)
    environments = {"without": {}, " ".join(args.variables): bound}
    info = sam_rlx.build_info()
    print(f"{info['cores']} cores, {info['default_isa']}, sam_rlx {info['version']}, {args.model}")
    times: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        rng = np.random.default_rng(0)
        for number in range(args.images):
            image = rng.integers(0, 255, (480, 640, 3), np.uint8)
            io.write_image(folder / "images" / f"{number:03}.png", image)
        for turn in range(args.rounds):
            for what, environment in environments.items():
                words = [str(folder / "images" / "000.png"), args.model]
                times.setdefault(("encode", what), []).append(seconds(ENCODE, words, environment))
                words = [str(folder / "images"), args.model, str(folder / f"{turn} {what}")]
                times.setdefault(("batch", what), []).append(seconds(BATCH, words, environment))
    worst = 0.0
    for kind in ("encode", "batch"):
        free, tied = (statistics.median(times[kind, what]) for what in environments)
        worst = max(worst, tied / free)
        spread = ", ".join(f"{value:.4f}" for value in times[kind, list(environments)[1]])
        print(
            f"{kind}: {free:.4f} s without, {tied:.4f} s with ({spread}), {tied / free:.2f} of it"
        )
    return 0 if worst <= args.most else 1


if __name__ == "__main__":
    sys.exit(main())
