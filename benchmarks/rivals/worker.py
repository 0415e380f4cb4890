"""The process of one engine and one workload: ``python -m rivals.worker ENGINE``.

Speaks JSON lines: {"do": "prepare", "workload": {...}, "threads": n}, {"do": "run"},
{"do": "run_beside_chains", "threads": n} and {"do": "finish"} on standard input, one answer each on
what was standard output. Everything that libraries print goes to standard error. An exception ends
the process; its parent shows it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

import peak
import resident
import rivals
from workloads import Workload

SAMPLES = 64


def sampled(values: Any) -> list[float]:
    """Return a few values, evenly spread, by which engines can be compared."""
    flat = np.asarray(values, np.float64).ravel()
    positions = np.linspace(0, flat.size - 1, min(SAMPLES, flat.size)).astype(int)
    return [float(x) for x in flat[positions]]


class Worker:
    def __init__(self, engine: str) -> None:
        self.adapter = rivals.adapter(engine)
        self.task: rivals.Task | None = None
        self.result: Any = None

    def prepare(self, workload: dict[str, Any], threads: int) -> dict[str, Any]:
        start = time.perf_counter()
        try:
            self.task = self.adapter.prepare(Workload.from_json(workload), threads)
        except rivals.UnableError as error:
            return {"unable": str(error)}
        return {"seconds": time.perf_counter() - start}

    def run(self) -> dict[str, Any]:
        assert self.task is not None, "prepare comes first"
        self.result = None  # what a caller would have let go by now
        start = time.perf_counter()
        result = self.task.call()
        seconds = time.perf_counter() - start
        if self.task.timed:
            seconds, result = result
        self.result = result
        return {"seconds": seconds}

    def run_beside_chains(self, threads: int) -> dict[str, Any]:
        with peak.Beside(threads) as beside:
            self.run()
        return {"seconds": beside.seconds, "gflop": beside.gflop}

    def finish(self) -> dict[str, Any]:
        assert self.task is not None, "prepare comes first"
        return {"peak_rss": resident.peak(), "sample": sampled(self.task.sample(self.result))}


def main() -> None:
    worker = Worker(sys.argv[1])
    # The pipe to the parent gets a descriptor that no library knows.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        message = json.loads(line)
        answer = getattr(worker, message.pop("do"))(**message)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
