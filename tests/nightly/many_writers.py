"""Threads and processes that write one file: no writer fails, and the file is always whole.

Example: ``python tests/nightly/many_writers.py --count 100``
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np
from sam_rlx._core import NamedTensors
from sam_rlx._internal.files import saved_tensors

WRITERS = 8
FORMAT = {"format": "sam_rlx.many_writers"}


def write(path: Path, writer: int, count: int) -> list[str]:
    """Write `count` files that consist of the writer's number; return the errors."""
    errors = []
    size = 20_000 + 1000 * writer  # files of several lengths show what a mixture of two leaves
    for _ in range(count):
        try:
            saved = NamedTensors({"writer": np.full(size, writer, np.int64)})
            saved_tensors.write(path, saved, FORMAT)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


def check(path: Path) -> str | None:
    """Return what is wrong with the file, None if it is whole."""
    try:
        values = NamedTensors.read(path).arrays["writer"]
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    one = len(values) == 20_000 + 1000 * values[0] and (values == values[0]).all()
    return None if one else "a mixture"


def _process(path: Path, writer: int, count: int, results: multiprocessing.SimpleQueue) -> None:
    results.put(write(path, writer, count))


def run(path: Path, count: int, *, processes: bool) -> Counter[str]:
    """Let `WRITERS` threads or processes write `path`, and read it all the while."""
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    tasks = []
    for writer in range(WRITERS):
        arguments = (path, writer, count, results)
        made = context.Process if processes else threading.Thread
        tasks.append(made(target=_process, args=arguments))
    write(path, 0, 1)
    for task in tasks:
        task.start()
    wrong: Counter[str] = Counter()
    while any(task.is_alive() for task in tasks):
        wrong.update(filter(None, [check(path)]))
        if not results.empty():
            wrong.update(results.get())
    for task in tasks:
        task.join()
    while not results.empty():
        wrong.update(results.get())
    wrong.update(filter(None, [check(path)]))
    wrong.update(f"left behind: {other.name}" for other in path.parent.iterdir() if other != path)
    return wrong


def main(count: int = 100, seed: int = 0) -> int:
    """Write `count` files from each writer, print one line of counts, return how many were wrong.

    There is no chance in it; `seed` is taken for the caller's sake.
    """
    del seed
    wrong: Counter[str] = Counter()
    for processes in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            wrong.update(run(Path(folder) / "one.safetensors", count, processes=processes))
    print(
        f"many_writers: {WRITERS} threads and {WRITERS} processes, {2 * WRITERS * count} writes, "
        f"wrong {wrong.total()}"
    )
    for text, times in wrong.most_common(20):
        print(f"  {times} x {text[:200]}")
    return wrong.total()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    raise SystemExit(main(parser.parse_args().count) > 0)
