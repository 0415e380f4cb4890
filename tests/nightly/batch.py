"""Batches against kills: each image has one row, equal to those of a run that nothing disturbed.

``python tests/nightly/batch.py [--images N] [--kills N] [--engines local ray] [--jobs JOB ...]``
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sam_rlx import batch, errors, io

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import batches

ENGINES = ("local", "ray")
BOX = "20,20,300,220"
BLOCK = 8
# Seconds without any new row after which a run is said to hang, on a busy machine.
PATIENCE = 240.0
# Adds a line for each image that a worker reads.
LOG = """
import os
from sam_rlx._batch import finders
_logged = finders.read_image
def read_image(item):
    with open(os.environ["BATCH_LOG"], "a") as file:
        file.write(item.path + "\\n")
    return _logged(item)
finders.read_image = read_image
"""


def write_photographs(folder: Path, count: int, seed: int) -> None:
    """Write crops of photographs as JPEG, 480 to 640 pixels long or as long as they are."""
    from skimage import data

    names = ("astronaut", "coffee", "chelsea", "rocket", "coins", "camera")
    sources = [getattr(data, name)() for name in names]
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for index in range(count):
        source = sources[index % len(sources)]
        image = source if source.ndim == 3 else np.stack([source] * 3, axis=-1)
        height, width = (min(side, int(rng.integers(300, 641))) for side in image.shape[:2])
        top = int(rng.integers(0, image.shape[0] - height + 1))
        left = int(rng.integers(0, image.shape[1] - width + 1))
        crop = image[top : top + height, left : left + width]
        io.write_image(folder / f"photo-{index:05d}.jpg", np.ascontiguousarray(crop))


def _processes() -> Iterator[tuple[int, int, str]]:
    """Yield number, parent and command line of all processes."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (OSError, ValueError):
                continue
            yield int(entry.name), int(fields[1]), words


def children(parent: int, word: str) -> list[int]:
    """Return the processes below another whose command line has a word."""
    found = list(_processes())
    below = {parent}
    for _ in range(4):
        below |= {number for number, above, _ in found if above in below}
    return [number for number, _, words in found if number in below and word in words]


WORKERS = {"local": "sam_rlx._batch.worker", "ray": "MapWorker"}


@dataclass
class Run:
    """One batch, as often as it takes."""

    inputs: Path
    out: Path
    engine: str
    workers: int
    box: str = BOX
    hooks: str = LOG
    cores: int | None = None
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.site = Path(tempfile.mkdtemp(dir=self.out.parent, prefix="site-"))
        batches.write_hooks(self.site, self.hooks)
        self.log = self.site / "log"
        self.log.write_text("")
        self.output = self.site / "output"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command, or start it again."""
        words = batches.command(self.inputs, "--out", self.out, "--box", self.box)
        words += ["--engine", self.engine, "--block", str(BLOCK), "--threads", "1"]
        words += ["--workers", str(self.workers)]
        if self.cores is not None:
            words = ["taskset", "-c", "0", *words]
        with self.output.open("ab") as output:
            env = {"PYTHONPATH": str(self.site), "BATCH_LOG": str(self.log)}
            return batches.started(words, output, **env)

    def finish(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for the end; kill what makes no progress, and return None then."""
        before, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            now = len(self.reads())
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None
        return process.returncode

    def reads(self) -> list[str]:
        """Return the images that workers have begun, in order."""
        return self.log.read_text().splitlines()

    def complete(self, expected: int = 0) -> int | None:
        """Run to the end; print what was said at an unexpected one."""
        status = self.finish(self.start())
        if status != expected:
            print(self.output.read_text(errors="replace")[-2000:], flush=True)
        return status


@dataclass
class Bench:
    """The folder of a night, its images, and the rows of a run that nothing disturbed."""

    folder: Path
    images: int
    seed: int
    kills: int
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = self.folder / "photos"
        write_photographs(self.inputs, self.images, self.seed)
        self.whole = self.folder / "whole"
        run = Run(self.inputs, self.whole, "local", 1)
        start = time.monotonic()
        self.check(run.complete() == 0, "whole: the undisturbed run failed")
        seconds = time.monotonic() - start
        print(f"{self.images} images with one local worker: {seconds:.0f} s", flush=True)

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
    status = Run(bench.inputs, out, engine, 2).complete()
    bench.check(status == 0, f"equal: {engine} ended with {status}")
    differ = bench.compare(out, f"equal, {engine}")
    print(f"equal: {engine}: {len(batches.digests(out))} files, {differ} differ", flush=True)


def _target(rng: random.Random, engine: str, driver: int) -> tuple[str, int]:
    """Choose what is killed: the driver, a worker, or Ray's daemon."""
    kinds = {"driver": [driver], "worker": children(driver, WORKERS[engine])}
    if engine == "ray":
        kinds["raylet"] = children(driver, "/raylet/raylet ")
    name = rng.choice([name for name, numbers in kinds.items() if numbers])
    return name, rng.choice(kinds[name])


def kills(bench: Bench, engine: str) -> None:
    """SIGKILL at random moments; a killed driver is started again."""
    rng = random.Random(bench.seed)
    out = bench.folder / f"kills-{engine}"
    run = Run(bench.inputs, out, engine, 2)
    counts: Counter[str] = Counter()
    process = run.start()
    for number in range(bench.kills):
        wanted = (number + rng.random()) * bench.images / bench.kills
        batches.wait_for(lambda wanted=wanted: len(run.reads()) >= wanted, process)
        if process.poll() is None:
            name, victim = _target(rng, engine, process.pid)
            counts[name] += 1
            os.kill(victim, signal.SIGKILL)
            if name == "raylet":
                counts["driver ended"] += run.finish(process) != 0
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
    times = Counter(run.reads())
    twice = sum(times.values()) - bench.images
    allowed = BLOCK * sum(counts[name] for name in ("driver", "worker", "raylet")) * 2
    bench.check(twice <= allowed, f"kills: {engine}: {twice} images were begun again")
    seen = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"kills: {engine}: {seen}; {twice} images begun again; {differ} differ", flush=True)


def interrupts(bench: Bench, engine: str) -> None:
    """Three ends in three ways: Ctrl-C, SIGTERM, SIGKILL."""
    out = bench.folder / f"interrupts-{engine}"
    run = Run(bench.inputs, out, engine, 2)
    for number, name in enumerate(("SIGINT", "SIGTERM", "SIGKILL"), 1):
        process = run.start()
        wanted = number * bench.images // 4
        batches.wait_for(lambda wanted=wanted: len(run.reads()) >= wanted, process)
        status = batches.kill(process, getattr(signal, name))
        print(f"interrupts: {engine}: {name} after {len(run.reads())}: status {status}", flush=True)
        bench.check(status != 0, f"interrupts: {engine} had ended before {name}")
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
    run = Run(inputs, out, engine, 1, hooks=batches.POISON + LOG)
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
    run = Run(inputs, out, engine, 1, cores=1)
    process = run.start()
    batches.wait_for(lambda: len(run.reads()) > 9, process)
    batches.kill(process)
    status = run.complete()
    bench.check(status == 0, f"one_cpu: {engine} ended with {status}")
    print(f"one_cpu: {engine}: status {status}", flush=True)


def changed(bench: Bench, engine: str) -> None:
    """A changed prompt refuses to go on."""
    out = bench.folder / "whole"
    before = batches.digests(out)
    status = Run(bench.inputs, out, engine, 1, box="20,20,300,221").complete(1)
    good = status == 1 and batches.digests(out) == before
    bench.check(good, f"changed: {engine}: expected status 1 and the same rows, found {status}")
    try:
        batch.run(bench.inputs, out, boxes=[[20, 20, 300, 221]], block=BLOCK, engine=engine)
    except errors.StateError as error:
        print(f"changed: {engine}: {error}", flush=True)


def memory(bench: Bench, engine: str) -> None:
    """Resident memory of a worker does not grow with the number of images."""
    run = Run(bench.inputs, bench.folder / f"memory-{engine}", engine, 1)
    process = run.start()
    sizes = []
    for share in (0.3, 0.9):
        batches.wait_for(lambda share=share: len(run.reads()) > share * bench.images, process)
        found = [0]
        for number in children(process.pid, WORKERS[engine]):
            try:
                status = Path(f"/proc/{number}/status").read_text()
                found.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)
            except (OSError, IndexError):
                continue
        sizes.append((len(run.reads()), max(found)))
    run.finish(process)
    grown = sizes[1][1] - sizes[0][1]
    bench.check(grown < 0.1 * sizes[0][1] + 16, f"memory: {engine}: {grown} MB more")
    words = ", ".join(f"{size} MB after {done} images" for done, size in sizes)
    print(f"memory: {engine}: {words}", flush=True)


def rate(bench: Bench, engine: str) -> None:
    """Tell how much faster two workers are than one. A busy machine says little here."""
    seconds = []
    for workers in (1, 2):
        run = Run(bench.inputs, bench.folder / f"rate-{engine}-{workers}", engine, workers)
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
    job.__name__: job for job in (equal, kills, interrupts, poison, one_cpu, changed, memory, rate)
}


def main(
    images: int,
    seed: int,
    engines: tuple[str, ...] = ENGINES,
    jobs: tuple[str, ...] = tuple(JOBS),
    kill_count: int = 10,
) -> int:
    """Run the jobs for the engines; return the number of problems."""
    folder = Path(tempfile.mkdtemp(prefix="sam_rlx_batch_"))
    try:
        bench = Bench(folder, images, seed, kill_count)
        for engine in engines:
            for name in jobs:
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
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--jobs", nargs="+", choices=tuple(JOBS), default=tuple(JOBS))
    args = parser.parse_args()
    found = main(args.images, args.seed, tuple(args.engines), tuple(args.jobs), args.kills)
    sys.exit(found > 0)
