"""The default engine: worker processes on this machine."""

import errno
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from sam_rlx.apps.batch.fatal import raised
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.journal import MAX_ATTEMPTS
from sam_rlx.errors import InternalError
from sam_rlx.model import build_info

# Called with the index of an item that is done, and its error or None.
Report = Callable[[int, str | None], None]
ItemsOf = Callable[[int], Sequence[Item]]
# A worker, and a line that it has written; an empty one at its end.
Heard: TypeAlias = "queue.SimpleQueue[tuple[_Worker, bytes]]"

# Seconds after which a wait begins anew: Windows tells of Ctrl-C between two waits.
_WAIT = 0.5


# What a worker process runs. `sys.path` is complete before the first import of its own.
_START = "import sys; sys.path[:] = {path!a}; from sam_rlx.apps.batch.worker import main; main()"


def search_path() -> list[str]:
    """Return where processes of a batch import from: where this one does.

    The current folder is left out, as files there may have the names of modules: those of a folder
    of images are not code. This package itself is found also there, after everything else.
    """
    package = str(Path(__file__).parents[3])
    entries = [os.path.abspath(entry) for entry in sys.path if entry]  # noqa: PTH100
    path = [entry for entry in entries if not _is_current(entry)]
    return path if package in path else [*path, package]


def _command() -> list[str]:
    """Return the command of a worker."""
    names = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s"}
    flags = [option for name, option in names.items() if getattr(sys.flags, name)]
    return [sys.executable, "-P", *flags, "-c", _START.format(path=search_path())]


def _is_current(folder: str) -> bool:
    try:
        return os.path.samefile(folder, ".")  # noqa: PTH121  # also through links
    except OSError:
        return False


class _Worker:
    """One process, and the block that it works on."""

    def __init__(self, job: Job, heard: Heard) -> None:
        self.process = subprocess.Popen(_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.block: int | None = None
        # A thread for each pipe: Windows waits for several sockets, but not for several pipes.
        threading.Thread(target=self._listen, args=(heard,), daemon=True).start()
        self._send(job.to_json())

    def _listen(self, heard: Heard) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # a worker that is killed leaves a part of its last line
                    heard.put((self, line))
        heard.put((self, b""))

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with _broken_pipe():  # its end is seen when it is read from
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def order(self, block: int, items: Sequence[Item]) -> None:
        """Give it a block."""
        self.block = block
        self._send({"block": block, "items": [item.to_json() for item in items]})

    def end(self) -> None:
        """End it: what it has begun is taken back."""
        assert self.process.stdin is not None
        with _broken_pipe():
            self.process.stdin.close()

    def wait(self, seconds: float) -> None:
        """Wait for its end; kill it if that takes too long."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def _broken_pipe() -> Iterator[None]:
    """Pass over the error of a pipe whose reader has gone; Windows calls it a wrong argument."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EINVAL):
            raise


class LocalEngine:
    """Shares blocks out to processes. One that ends before its time is replaced.

    Parameters
    ----------
    job : Job
        What to do.
    workers : int
        Number of processes.
    """

    def __init__(self, job: Job, workers: int) -> None:
        self._job = job
        self._count = workers
        self._workers: list[_Worker] = []
        self._heard: Heard = queue.SimpleQueue()
        self._deaths: Counter[int | None] = Counter()

    def run(self, blocks: Sequence[int], items_of: ItemsOf, report: Report) -> None:
        """Do blocks; `report` hears of each item that is done.

        Raises
        ------
        SamRlxError, OSError
            What a worker cannot go on after: the model does not load, the disk is full.
        """
        self._pending = deque(blocks)
        self._items_of = items_of
        try:
            for _ in range(min(self._count, len(self._pending))):
                self._start()
            while self._workers:
                worker, line = self._next_line()
                if worker in self._workers:  # else it was not needed any more
                    self._hear(worker, line, report)
        finally:
            for worker in self._workers:
                worker.end()
            for worker in self._workers:
                worker.wait(10.0)

    def _next_line(self) -> tuple[_Worker, bytes]:
        while True:
            with suppress(queue.Empty):
                return self._heard.get(timeout=_WAIT)

    def _start(self) -> None:
        self._workers.append(_Worker(self._job, self._heard))

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.end()
        worker.wait(10.0)

    def _hear(self, worker: _Worker, line: bytes, report: Report) -> None:
        if not line:
            self._replace(worker)
            return
        answer = json.loads(line)
        if "fatal" in answer:
            raise raised(answer)
        if "item" in answer:
            report(answer["item"], answer["error"])
        else:
            worker.block = None
            self._next(worker)

    def _next(self, worker: _Worker) -> None:
        if self._pending:
            block = self._pending.popleft()
            worker.order(block, self._items_of(block))
        else:
            self._remove(worker)

    def _replace(self, worker: _Worker) -> None:
        """Put a new process in the position of one that has ended."""
        block = worker.block
        self._remove(worker)
        self._deaths[block] += 1
        # Each death costs an item one of its attempts, unless the process fails by itself.
        most = MAX_ATTEMPTS * (1 if block is None else 1 + len(self._items_of(block)))
        if self._deaths[block] > most:
            raise InternalError(
                f"batch: expected worker processes that stay, found {self._deaths[block]} that "
                f"ended with exit status {worker.process.returncode}"
            )
        if block is not None:
            self._pending.appendleft(block)
        self._start()


def run(
    job: Job, workers: int | None, blocks: Sequence[int], items_of: ItemsOf, report: Report
) -> None:
    """Do blocks on this machine, by default with as many processes as fill its cores."""
    count = workers or max(1, build_info()["cores"] // job.threads)
    LocalEngine(job, count).run(blocks, items_of, report)
