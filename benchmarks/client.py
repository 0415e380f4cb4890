"""The parent's side of a worker process, and rounds over several of them."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import rivals
from workloads import BUILD, Workload

HERE = Path(__file__).resolve().parent
# Thread pools spin for some milliseconds after their work; the next engine starts when it is over.
SETTLE_S = 0.3


class EngineFailedError(RuntimeError):
    """A worker process ended before it answered."""


class EngineUnableError(RuntimeError):
    """This machine lacks what an engine needs."""


@dataclass
class Measurement:
    """One row of the table."""

    engine: str
    seconds: list[float] = field(default_factory=list)
    prepare_seconds: float = 0.0
    peak_rss: int = 0
    sample: list[float] = field(default_factory=list)
    failure: str = ""
    unable: str = ""  # what this machine lacks

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def python(arguments: list[str], variables: dict[str, str], **options: Any) -> Any:
    """Start a Python process that finds the benchmark modules, in a clean thread environment."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("OMP_", "KMP_", "GOMP_", "MKL_", "GLIBC_TUNABLES"))
    }
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**inherited, "PYTHONPATH": path, **variables}
    return subprocess.Popen([sys.executable, *arguments], env=environment, cwd=HERE, **options)


def export(workloads: list[Workload], onnx: bool = False) -> bool:
    """Make what the engines load, in a process that ends before a measurement; True if all is."""
    orders = [json.dumps({**workload.to_json(), "onnx": onnx}) for workload in workloads]
    return bool(python(["-m", "rivals.export", *orders], {}).wait() == 0)


def answer_of(module: str, arguments: list[str], engine: str, threads: int) -> dict[str, Any]:
    """Run a module in an engine's environment to its end: the JSON of its last line."""
    variables = {"TQDM_DISABLE": "1"} | importlib.import_module(rivals.ENGINES[engine]).environment(
        threads
    )
    process = python(["-m", module, *arguments], variables, stdout=subprocess.PIPE, text=True)
    shown, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).name}: {engine} failed in {module}")
    found: dict[str, Any] = json.loads(shown.splitlines()[-1])
    return found


class Worker:
    """One engine in its own process. Use as a context manager: the process ends with it."""

    def __init__(self, engine: str, workload: Workload, threads: int) -> None:
        self.engine = engine
        BUILD.mkdir(parents=True, exist_ok=True)
        self.log_path = BUILD / f"{engine}_{workload.name}.log"
        self._log = self.log_path.open("w")
        self._process = python(
            ["-m", "rivals.worker", engine],
            rivals.adapter(engine).environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._first = {"do": "prepare", "workload": workload.to_json(), "threads": threads}

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            lines = self.log_path.read_text(errors="replace").strip().splitlines() or ["no output"]
            raise EngineFailedError(f"exit code {self._process.returncode}: {lines[-1]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def prepare(self) -> float:
        answer = self._ask(self._first)
        if "unable" in answer:
            raise EngineUnableError(answer["unable"])
        return float(answer["seconds"])

    def run(self) -> float:
        return float(self._ask({"do": "run"})["seconds"])

    def run_beside_chains(self, threads: int) -> tuple[float, float]:
        """Seconds, and what chains of multiply-adds would have done in them, in GFLOP."""
        answer = self._ask({"do": "run_beside_chains", "threads": threads})
        return answer["seconds"], answer["gflop"]

    def finish(self) -> tuple[int, list[float]]:
        answer = self._ask({"do": "finish"})
        return answer["peak_rss"], answer["sample"]


def interleave(
    engines: list[str], workload: Workload, threads: int, rounds: int, warmup: int
) -> list[Measurement]:
    """Measure one workload: A B C, A B C, ... so that all engines meet the same machine."""
    return interleave_pairs([(engine, workload) for engine in engines], threads, rounds, warmup)


def interleave_pairs(
    pairs: list[tuple[str, Workload]], threads: int, rounds: int, warmup: int
) -> list[Measurement]:
    """Measure engines, each on a workload of its own: a row of each pair, in their order.

    Only one worker computes at a time. An engine that fails, or cannot run here, keeps its row,
    with the reason.
    """
    rows = [Measurement(engine) for engine, _ in pairs]
    workers: list[Worker] = []
    try:
        for row, (engine, workload) in zip(rows, pairs, strict=True):
            workers.append(Worker(engine, workload, threads))
            _attempt(row, workers[-1], _prepare, warmup)
        for _ in range(rounds):
            for row, worker in zip(rows, workers, strict=True):
                time.sleep(SETTLE_S)
                _attempt(row, worker, _measure)
        for row, worker in zip(rows, workers, strict=True):
            _attempt(row, worker, _finish)
    finally:
        for worker in workers:
            worker.__exit__(None, None, None)
    return rows


def _attempt(row: Measurement, worker: Worker, step: Any, *arguments: Any) -> None:
    if row.failure or row.unable:
        return
    try:
        step(row, worker, *arguments)
    except EngineFailedError as error:
        row.failure = str(error)
    except EngineUnableError as error:
        row.unable = str(error)


def _prepare(row: Measurement, worker: Worker, warmup: int) -> None:
    row.prepare_seconds = worker.prepare()
    for _ in range(warmup):
        worker.run()


def _measure(row: Measurement, worker: Worker) -> None:
    row.seconds.append(worker.run())


def _finish(row: Measurement, worker: Worker) -> None:
    row.peak_rss, row.sample = worker.finish()
