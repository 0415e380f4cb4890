"""Measure the machine's peak of float32 multiply-adds: ``python benchmarks/peak.py THREADS``.

Needs an editable install (`sam_rlx._testing`). Prints GFLOP/s of all threads at once.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

LANES = {"amx": 16, "avx512": 16, "avx2": 8}  # floats of a register, 4 elsewhere
REPETITIONS, ROUNDS = 2500, 10  # of a tenth of a second each: the best one had the machine alone


def flop(isa: str) -> int:
    """Arithmetic of one repetition of `_testing.bench.peak`."""
    return 2**15 * 16 * LANES.get(isa.partition("_")[0], 4)


def rounds(threads: int) -> list[float]:
    """GFLOP/s in each round: the work of all threads over the time until the last one is done."""
    from sam_rlx import _testing, build_info

    work = 1e-9 * flop(build_info()["default_isa"]) * REPETITIONS * threads

    def seconds(pool: ThreadPoolExecutor) -> float:
        start = time.perf_counter()
        list(pool.map(_testing.bench.peak, [REPETITIONS] * threads))
        return time.perf_counter() - start

    with ThreadPoolExecutor(threads) as pool:
        return [work / seconds(pool) for _ in range(ROUNDS)]


def gflops(threads: int) -> float:
    """The best round."""
    return max(rounds(threads))


if __name__ == "__main__":
    print(gflops(int(sys.argv[1])))
