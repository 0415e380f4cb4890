"""Measure the machine's peak of float32 multiply-adds: ``python benchmarks/peak.py THREADS``.

Needs an editable install (`sam_rlx._testing`). Prints GFLOP/s of all threads at once.
"""

from __future__ import annotations

import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

LANES = {"avx512": 16, "avx2": 8}  # floats of a register, 4 elsewhere
REPETITIONS = 5000  # a fifth of a second: all threads run together most of the time


def flop(isa: str) -> int:
    """Arithmetic of one repetition of `_testing.bench.peak`."""
    return 2**15 * 16 * LANES.get(isa, 4)


def gflops(threads: int) -> float:
    from sam_rlx import _testing, build_info

    work = 1e-9 * flop(build_info()["default_isa"])

    def one(_: int) -> float:
        return work / statistics.median(wall for wall, _ in _testing.bench.peak(REPETITIONS))

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, range(threads)))


if __name__ == "__main__":
    print(gflops(int(sys.argv[1])))
