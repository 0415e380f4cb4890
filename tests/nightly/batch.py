"""Batches against kills: each image has one row, equal to those of a run that nothing disturbed.

``python tests/nightly/batch.py [--images N] [--kills N] [--engines local ray] [--jobs JOB ...]``
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import batches

from nightly.batch_runs import BLOCK, LOG, RAYLET, WORKERS, Run, children, write_photographs

ENGINES = ("local", "ray")


@dataclass
class Bench:
    """The folder of a night, its images, and the rows of a run that nothing disturbed."""

    folder: Path
    images: int
    seed: int
    kills: int = 10
    side: int = 640
    options: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = self.folder / "photos"
        write_photographs(self.inputs, self.images, self.seed, self.side)
        self.whole = self.folder / "whole"
        run = self.run(self.whole, "local", 1)
        start = time.monotonic()
        self.check(run.complete() == 0, "whole: the undisturbed run failed")
        seconds = time.monotonic() - start
        print(f"{self.images} images with one local worker: {seconds:.0f} s", flush=True)
        self.flat(run, "whole")

    def run(self, out: Path, engine: str, workers: int, **fields: Any) -> Run:
        """Return a batch of the images, or of others."""
        inputs = fields.pop("inputs", self.inputs)
        return Run(inputs, out, engine, workers, self.options, **fields)

    def flat(self, run: Run, what: str) -> None:
        """Tell the resident memory of a worker, which does not grow with the number of images."""
        early, late = run.grown(self.images)
        if self.images >= 100:  # the first ones fill the buffers
            self.check(late - early < 0.1 * early + 16, f"{what}: {late - early} MB more")
        words = f"{early} MB at most in the first third of the images, {late} MB after it"
        print(f"{what}: {run.engine}: {words}", flush=True)

    def check(self, good: bool, text: str) -> None:
        """Note a problem unless all is well."""
        if not good:
            self.problems.append(text)
            print(text, flush=True)

    def differing(self, out: Path) -> int:
        """Return how many files are not those of the undisturbed run."""
        found = batches.digests(out) if (out / "parts").is_dir() else {}
        wanted = batches.digests(self.whole)
        return sum(found.get(name) != wanted.get(name) for name in found.keys() | wanted.keys())

    def compare(self, out: Path, what: str) -> int:
        """Compare files, and count the rows."""
        differ = self.differing(out)
        self.check(differ == 0, f"{what}: {differ} files differ")
        names = [row["item"] for row in batches.rows(out)] if any(out.glob("parts/*")) else []
        good = len(names) == len(set(names)) == self.images
        self.check(good, f"{what}: expected {self.images} rows, found {len(names)}")
        return differ


def equal(bench: Bench, engine: str) -> None:
    """Two workers write what one writes."""
    out = bench.folder / f"equal-{engine}"
    run = bench.run(out, engine, 2)
    status = run.complete()
    bench.check(status == 0, f"equal: {engine} ended with {status}")
    bench.flat(run, "equal")
    differ = bench.compare(out, f"equal, {engine}")
    print(f"equal: {engine}: {len(batches.digests(out))} files, {differ} differ", flush=True)


def _target(rng: random.Random, engine: str, driver: int, number: int) -> tuple[str, int]:
    """Choose what is killed, in turn: the driver, a worker, or Ray's daemon."""
    kinds = {"driver": [driver], "worker": children(driver, WORKERS[engine])}
    if engine == "ray":
        kinds["raylet"] = children(driver, RAYLET)
    names = [name for name, numbers in kinds.items() if numbers]
    name = names[number % len(names)]
    return name, rng.choice(kinds[name])


def kills(bench: Bench, engine: str) -> None:
    """SIGKILL at random moments; what has ended by it is started again."""
    rng = random.Random(bench.seed)
    out = bench.folder / f"kills-{engine}"
    run = bench.run(out, engine, 2)
    counts: Counter[str] = Counter()
    slowest = 0.0
    process = run.start()
    for number in range(bench.kills):
        wanted = (number + rng.random()) * bench.images / bench.kills
        batches.wait_for(lambda wanted=wanted: len(set(run.reads())) >= wanted, process)
        if process.poll() is None:
            name, victim = _target(rng, engine, process.pid, number)
            counts[name] += 1
            os.kill(victim, signal.SIGKILL)
            if name == "raylet":
                since = time.monotonic()
                status = run.finish(process)
                slowest = max(slowest, time.monotonic() - since)
                counts["hung"] += status is None
                bench.check(status != 0, "kills: a driver ended well without its raylet")
            elif name == "driver":
                process.wait()
        if process.poll() is not None:
            process = run.start()
    status = run.finish(process)
    counts["hung"] += status is None
    for _ in range(3):
        if status != 0:
            status = run.complete()
    bench.check(status == 0, f"kills: {engine} ended with {status}")
    bench.check(not counts["hung"], f"kills: {engine} hung")
    differ = bench.compare(out, f"kills, {engine}")
    twice = len(run.reads()) - bench.images
    allowed = BLOCK * sum(counts[name] for name in ("driver", "worker", "raylet"))
    bench.check(twice <= allowed, f"kills: {engine}: {twice} images were begun again")
    seen = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"kills: {engine}: {seen}; {twice} images begun again; {differ} differ", flush=True)
    if counts["raylet"]:
        print(f"kills: {engine}: {slowest:.0f} s from a raylet's to the driver's end", flush=True)


def interrupts(bench: Bench, engine: str) -> None:
    """Three ends in three ways: Ctrl-C, SIGTERM, SIGKILL."""
    out = bench.folder / f"interrupts-{engine}"
    run = bench.run(out, engine, 2)
    ends = {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -9}
    for number, (name, wanted_status) in enumerate(ends.items(), 1):
        process = run.start()
        wanted = number * bench.images // 4
        batches.wait_for(lambda wanted=wanted: len(run.reads()) >= wanted, process)
        status = batches.kill(process, getattr(signal, name))
        print(f"interrupts: {engine}: {name} after {len(run.reads())}: status {status}", flush=True)
        good = status == wanted_status
        bench.check(good, f"interrupts: {engine}: expected status {wanted_status} after {name}")
    status = run.complete()
    bench.check(status == 0, f"interrupts: {engine} ended with {status}")
    differ = bench.compare(out, f"interrupts, {engine}")
    twice = len(run.reads()) - bench.images
    print(f"interrupts: {engine}: {twice} images begun again; {differ} differ", flush=True)


def _few(bench: Bench, name: str, count: int) -> Path:
    """Return a folder with the first images."""
    folder = bench.folder / name
    folder.mkdir()
    for path in sorted(bench.inputs.iterdir())[:count]:
        shutil.copy(path, folder)
    return folder


def poison(bench: Bench, engine: str) -> None:
    """An image that kills its process is listed after three tries; the others are done."""
    inputs = _few(bench, f"bad-{engine}", 6)
    (inputs / "poison.jpg").write_bytes(next(inputs.iterdir()).read_bytes())
    out = bench.folder / f"bad-out-{engine}"
    run = bench.run(out, engine, 1, inputs=inputs, hooks=batches.POISON + LOG)
    status = run.complete(1)
    failed = [row["item"] for row in batches.rows(out) if row["error"] is not None]
    tries = sum("poison" in path for path in run.reads())
    good = (status, failed, tries) == (1, ["poison"], 3)
    bench.check(good, f"poison: {engine}: status {status}, failed {failed}, {tries} tries")
    print(f"poison: {engine}: status {status}, failed {failed}, {tries} tries", flush=True)


def one_cpu(bench: Bench, engine: str) -> None:
    """One CPU does not hang, at the first run nor when it goes on."""
    inputs = _few(bench, f"one-{engine}", 20)
    out = bench.folder / f"one-cpu-{engine}"
    run = bench.run(out, engine, 1, inputs=inputs, cores=1)
    process = run.start()
    batches.wait_for(lambda: len(run.reads()) > 9, process)
    batches.kill(process)
    status = run.complete()
    bench.check(status == 0, f"one_cpu: {engine} ended with {status}")
    print(f"one_cpu: {engine}: status {status}", flush=True)


def changed(bench: Bench, engine: str) -> None:
    """A changed prompt refuses to go on."""
    before = batches.digests(bench.whole)
    run = bench.run(bench.whole, engine, 1, box="20,20,300,221")
    status = run.finish(run.start())
    good = status == 1 and batches.digests(bench.whole) == before
    bench.check(good, f"changed: {engine}: expected status 1 and the same rows, found {status}")
    print(f"changed: {engine}: {run.output.read_text().splitlines()[-1]}", flush=True)


def rate(bench: Bench, engine: str) -> None:
    """Tell how much faster two workers are than one. A busy machine says little here."""
    seconds = []
    for workers in (1, 2):
        run = bench.run(bench.folder / f"rate-{engine}-{workers}", engine, workers)
        process = run.start()
        batches.wait_for(lambda run=run: len(run.reads()) > 2 * BLOCK, process)
        done, start = len(run.reads()), time.monotonic()
        run.finish(process)
        seconds.append((time.monotonic() - start) / max(1, bench.images - done))
    ratio = seconds[0] / seconds[1]
    print(
        f"rate: {engine}: {1 / seconds[0]:.2f} and {1 / seconds[1]:.2f} images a second with "
        f"1 and 2 workers: {ratio:.2f} times",
        flush=True,
    )


JOBS: dict[str, Callable[[Bench, str], None]] = {
    job.__name__: job for job in (interrupts, equal, kills, poison, one_cpu, changed, rate)
}


def main(
    images: int,
    seed: int,
    engines: tuple[str, ...] = ENGINES,
    jobs: tuple[str, ...] = tuple(JOBS),
    **fields: Any,
) -> int:
    """Run the jobs for the engines; return the number of problems."""
    # What a shell starts in the background ignores Ctrl-C, and so would all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="sam_rlx_batch_"))
    try:
        bench = Bench(folder, images, seed, **fields)
        for name in jobs:
            for engine in engines:
                start = time.monotonic()
                JOBS[name](bench, engine)
                print(f"{name}: {engine}: {time.monotonic() - start:.0f} s", flush=True)
        print(f"batch: {images} images, seed {seed}: {len(bench.problems)} problems", flush=True)
        return len(bench.problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--side", type=int, default=640, help="pixels of an image's longer side")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--jobs", nargs="+", choices=tuple(JOBS), default=tuple(JOBS))
    parser.add_argument("options", nargs="*", help="of sam-rlx batch, behind --")
    args = parser.parse_args()
    found = main(
        args.images,
        args.seed,
        tuple(args.engines),
        tuple(args.jobs),
        kills=args.kills,
        side=args.side,
        options=tuple(args.options),
    )
    sys.exit(found > 0)
