"""One batch of a nightly run: its images, its processes, how it is started and watched."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sam_rlx import io
from support import batches

BOX = "20,20,300,220"
BLOCK = 8
# Seconds without any new image after which a run is said to hang, on a busy machine. Ray alone may
# take five starts of more than a minute there.
PATIENCE = 480.0
# Seconds between two looks at the memory of workers.
LOOK = 2.0
# Adds a line for each image that a worker reads.
LOG = """
import os
from sam_rlx.apps.batch import finders
_opened = finders.opened
def opened(item, *, in_tiles):
    with open(os.environ["BATCH_LOG"], "a") as file:
        file.write(item.path + "\\n")
    return _opened(item, in_tiles=in_tiles)
finders.opened = opened
"""


def write_photographs(folder: Path, count: int, seed: int, side: int) -> None:
    """Write crops of photographs as JPEG, with a longer side of up to so many pixels."""
    from PIL import Image
    from skimage import data

    names = ("astronaut", "coffee", "chelsea", "rocket", "coins", "camera")
    sources = [Image.fromarray(getattr(data, name)()).convert("RGB") for name in names]
    rng = np.random.default_rng(seed)
    folder.mkdir()
    for index in range(count):
        source = sources[index % len(sources)]
        width = side - int(rng.integers(0, side // 8))
        height = width * 2 // 3 + int(rng.integers(0, 9))
        scale = rng.uniform(0.6, 1.0) * min(source.width / width, source.height / height)
        left = rng.uniform(0, source.width - scale * width)
        top = rng.uniform(0, source.height - scale * height)
        box = (left, top, left + scale * width, top + scale * height)
        crop = source.resize((width, height), Image.Resampling.BICUBIC, box)
        io.write_image(folder / f"photo-{index:05d}.jpg", np.asarray(crop))


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


WORKERS = {"local": "sam_rlx.apps.batch.worker", "ray": "MapWorker"}
RAYLET = "/raylet/raylet "


@dataclass
class Run:
    """One batch, as often as it takes."""

    inputs: Path
    out: Path
    engine: str
    workers: int
    options: tuple[str, ...] = ()
    box: str = BOX
    hooks: str = LOG
    cores: int | None = None
    log: Path = field(init=False)
    # Images begun, and MB of the largest worker then.
    memory: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site = Path(tempfile.mkdtemp(dir=self.out.parent, prefix="site-"))
        batches.write_hooks(self.site, self.hooks)
        self.log = self.site / "log"
        self.log.write_text("")
        self.output = self.site / "output"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the command, or start it again."""
        words = batches.command(self.inputs, "--output", self.out, "--box", self.box)
        words += ["--engine", self.engine, "--block", str(BLOCK), "--threads", "1"]
        words += ["--workers", str(self.workers), *self.options]
        if self.cores is not None:
            words = ["taskset", "-c", "0", *words]
        with self.output.open("ab") as output:
            env = {"PYTHONPATH": str(self.site), "BATCH_LOG": str(self.log)}
            return batches.started(words, output, **env)

    def finish(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for the end; kill what makes no progress, and return None then."""
        before, since, looked = -1, time.monotonic(), 0.0
        while process.poll() is None:
            time.sleep(0.2)
            now = len(self.reads())
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                self.memory.append((now, self.largest(process.pid)))
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None
        return process.returncode

    def largest(self, driver: int) -> int:
        """Return the resident megabytes of the largest worker."""
        found = [0]
        for number in children(driver, WORKERS[self.engine]):
            try:
                status = Path(f"/proc/{number}/status").read_text()
                found.append(int(status.split("VmRSS:")[1].split()[0]) // 1024)
            except (OSError, IndexError):
                continue
        return max(found)

    def grown(self, images: int) -> tuple[int, int]:
        """Return the most megabytes while the first third was done, and while the rest was."""
        early = [size for done, size in self.memory if done <= images / 3]
        late = [size for done, size in self.memory if done > images / 3]
        return max(early, default=0), max(late, default=0)

    def reads(self) -> list[str]:
        """Return the images that workers have begun, in order."""
        return self.log.read_text().splitlines()

    def complete(self, expected: int = 0) -> int | None:
        """Run to the end; print what was said at an unexpected one."""
        status = self.finish(self.start())
        if status != expected:
            print(self.output.read_text(errors="replace")[-2000:], flush=True)
        return status
