"""A worker process of the local engine.

It reads lines of JSON from its standard input: the job, then blocks; it answers on what was its
standard output. When its input ends while it works, whoever started it has gone or does not want
the work any more: it takes back the item that it has begun, and ends at once.
"""

import json
import os
import queue
import signal
import sys
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO

from sam_rlx.apps.batch.fatal import told
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.work import BlockWorker

_STOPPED = 3


class _Worker:
    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._work: BlockWorker | None = None

    def listen(self) -> None:
        """Take orders until there are no more, which ends the process."""
        for line in sys.stdin:
            self._orders.put(json.loads(line))
        if self._work is not None:
            self._work.stop()
        os._exit(_STOPPED)

    def serve(self) -> None:
        """Do the orders."""
        job = Job.from_json(self._orders.get())
        self._work = work = BlockWorker(job)
        self._tell({"ready": True})
        while True:
            order = self._orders.get()
            items = [Item.from_json(fields) for fields in order["items"]]
            work.run(order["block"], items, self._report)
            self._tell({"block": order["block"]})

    def _report(self, index: int, error: str | None) -> None:
        self._tell({"item": index, "error": error})

    def _tell(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")
        self._answers.flush()

    def fail(self, error: BaseException) -> None:
        """Tell of an error that ends the job."""
        with suppress(OSError):
            self._tell(told(error))


def main() -> None:
    """Serve until the input ends."""
    # Ctrl-C goes to all processes of a terminal. The one that started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    # What libraries print is no answer.
    with Path(os.devnull).open("w") if sys.stderr is None else nullcontext(sys.stderr) as aside:
        os.dup2(aside.fileno(), sys.stdout.fileno())
    worker = _Worker(answers)
    threading.Thread(target=worker.listen, daemon=True).start()
    try:
        worker.serve()
    except Exception as error:
        worker.fail(error)
        raise SystemExit(1) from None
