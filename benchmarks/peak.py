"""Measure the machine's peak of float32 multiply-adds: ``python benchmarks/peak.py THREADS``.

Needs an editable install (`sam_rlx._testing`). Prints GFLOP/s of all threads at once.
"""

from __future__ import annotations

import signal
import sys
import time
from types import FrameType, TracebackType

LANES = {"amx": 16, "avx512": 16, "avx2": 8}  # floats of a register, 4 elsewhere
PIECES, ROUNDS = 2500, 10  # for each thread, a tenth of a second: the best had the machine alone
SLICE_PIECES, EVERY_S = 250, 0.1  # a hundredth of a second of each tenth, or less often


def flop(isa: str) -> int:
    """Arithmetic of one piece of `_testing.bench.peak`."""
    return 2**13 * 48 * LANES.get(isa.partition("_")[0], 4)


def gflops(threads: int, pieces: int = PIECES, rounds: int = ROUNDS) -> float:
    """GFLOP/s of chains of multiply-adds in the best round, after one that is not measured.

    A round has so many pieces for each thread: who is free takes the next one.
    """
    from sam_rlx import _testing, build_info

    work = 1e-9 * flop(build_info()["default_isa"]) * pieces * threads
    times = _testing.bench.peak(rounds, pieces=pieces * threads, num_threads=threads)
    return float(work / min(wall for wall, _ in times))


class Beside:
    """What chains of multiply-adds reach while a call runs: between its layers, as signals.

    The library lets Python handle signals after each layer; the handler stops the clock and runs
    the chains. `seconds` are those of the call alone, `gflop` what the chains would have done in
    them: each stretch of the call at the mean rate of its two ends.
    """

    def __init__(self, threads: int) -> None:
        self.seconds = self.gflop = 0.0
        self._threads = threads

    def __enter__(self) -> Beside:
        self._rate = gflops(self._threads, SLICE_PIECES, 1)
        self._handler = signal.signal(signal.SIGALRM, self._pause)
        self._go_on()
        return self

    def _go_on(self) -> None:
        # One signal at a time: a second one would come in the midst of the chains.
        signal.setitimer(signal.ITIMER_REAL, EVERY_S)
        self._start = time.perf_counter()

    def _pause(self, _number: int, _frame: FrameType | None) -> None:
        self._measure()
        self._go_on()

    def _measure(self) -> None:
        seconds = time.perf_counter() - self._start
        rate = gflops(self._threads, SLICE_PIECES, 1)
        self.seconds += seconds
        self.gflop += seconds * (self._rate + rate) / 2
        self._rate = rate

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # one that is under way would start anew
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        if kind is None:
            self._measure()


if __name__ == "__main__":
    print(gflops(int(sys.argv[1])))
