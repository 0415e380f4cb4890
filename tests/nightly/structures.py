"""Changed structures of whole files and folders: each is read, or refused with an error of ours.

Models of ``.ggml``, Trainer folders, objects of images (NPZ, COCO), tables of Parquet, folders of
batches (manifests, journals, rows, sessions of clips) and YAML configs are changed by the seed:
their trees, columns, arrays and headers, as well as their bytes. Processes with a limit of memory
read them; one that takes too long is ended. ``python tests/nightly structures --seconds 600``
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import tiny_sam2

from nightly.structure_changes import changed
from nightly.structure_kinds import KINDS, Kind, read

HANG = 60  # seconds
ADDRESSES = 6 << 30  # bytes of a reader's address space
# Memory that an input may take: so many times its size, and so many bytes more.
TIMES, MORE = 10, 30 << 20


def _memory(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def attempt(kind: str, folder: Path, target: str) -> str:
    """Read an input: ``"read"``, ``"refused"``, or an error that is not ours."""
    import sam_rlx

    try:
        read(kind, folder, target)
    except sam_rlx.SamRlxError as error:
        return "refused" if "expected" in str(error) else f"without an expectation: {error}"
    except OSError as error:
        told = error.errno is not None or "expected" in str(error)
        return "refused" if told else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def serve() -> None:
    """Read inputs that lines of standard input name, and answer with result, time and memory."""
    import resource

    import sam_rlx.batch  # noqa: F401

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    for line in sys.stdin:
        kind, folder, target = json.loads(line)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, start = _memory("VmRSS"), time.monotonic()
        result = attempt(kind, Path(folder), target)
        seconds, peak = time.monotonic() - start, max(0, _memory("VmHWM") - before)
        answers.write(json.dumps([result[:300], seconds, peak]) + "\n")
        answers.flush()


class Reader:
    """A process that reads inputs; begun anew where one ends it or takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def _start(self) -> None:
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self._lines.put(line)
            self._lines.put("")

        threading.Thread(target=listen, daemon=True).start()
        self._process = process

    def ask(self, *question: str) -> tuple[str, float, int]:
        """Return result, seconds and bytes of one input."""
        if self._process is None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        start = time.monotonic()
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=HANG)
        except queue.Empty:
            self.end()
            return f"hang: nothing within {HANG} s", time.monotonic() - start, 0
        if not line:
            status = self._process.wait()
            self.end()
            return f"crash: exit status {status}", time.monotonic() - start, 0
        result, seconds, peak = json.loads(line)
        return result, seconds, peak

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@dataclass
class Found:
    """What the inputs of one kind have come to."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)  # seconds, number of the input
    largest: tuple[int, int, int] = (0, 0, -1)  # bytes of memory, of the input, its number

    def add(self, number: int, size: int, answer: tuple[str, float, int]) -> None:
        """Count an answer."""
        result, seconds, peak = answer
        if result in ("read", "refused") and peak > TIMES * size + MORE:
            result = f"memory: {peak >> 20} MB for {size} bytes"
        fine = result in ("read", "refused")
        self.counts[result if fine else "wrong"] += 1
        if not fine:
            self.wrong[f"input {number}: {result}"] += 1
        self.slowest = max(self.slowest, (seconds, number))
        self.largest = max(self.largest, (peak, size, number))

    def line(self, name: str) -> str:
        """Return the line that tells of it."""
        counts = ", ".join(f"{key} {self.counts[key]}" for key in ("read", "refused", "wrong"))
        peak, size, _ = self.largest
        return (
            f"{name}: {self.counts.total()} inputs: {counts}; slowest {self.slowest[0]:.2f} s "
            f"(input {self.slowest[1]}), most memory {peak >> 20} MB for {size >> 10} kB"
        )


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def input_of(kind: Kind, seed: int, number: int) -> dict[str, bytes]:
    """Return the files of one input: the same for the same seed and number."""
    return changed(kind.files, np.random.default_rng([seed, number]))


def main(
    seconds: float = 600, seed: int = 0, names: tuple[str, ...] = tuple(KINDS), most: int = 10**9
) -> int:
    """Read changed inputs for a time, `most` of each kind; print counts; return the wrong ones."""
    folder = Path(tempfile.mkdtemp(prefix="sam_rlx_structures_"))
    reader = Reader()
    found = {name: Found() for name in names}
    try:
        tiny_sam2.save_safetensors(folder / "tiny.safetensors", tiny_sam2.TINY, tiny_sam2.weights())
        kinds = []
        for name in names:
            (folder / name / "inputs").mkdir(parents=True)
            kinds.append(KINDS[name](folder / name))
        for kind in kinds:  # as they are, they are read
            _write(folder / "changed", kind.files)
            answer = reader.ask(kind.name, str(folder / "changed"), kind.target)
            if answer[0] != "read":
                found[kind.name].wrong[f"unchanged: {answer[0]}"] += 1
        end, number = time.monotonic() + seconds, 0
        while time.monotonic() < end and number < most * len(kinds):
            kind = kinds[number % len(kinds)]
            files = input_of(kind, seed, number)
            _write(folder / "changed", files)
            answer = reader.ask(kind.name, str(folder / "changed"), kind.target)
            found[kind.name].add(number, sum(map(len, files.values())), answer)
            number += 1
    finally:
        reader.end()
        shutil.rmtree(folder, ignore_errors=True)
    for name, one in found.items():
        print(one.line(name))
        for text, _ in one.wrong.most_common(20):
            print(f"  {text}".encode("ascii", "backslashreplace").decode())
    wrong = sum(one.wrong.total() for one in found.values())
    total = sum(one.counts.total() for one in found.values())
    print(f"structures: {total} inputs, seed {seed}, wrong {wrong}", flush=True)
    return wrong


if __name__ == "__main__" and sys.argv[1:] == ["--serve"]:
    serve()
