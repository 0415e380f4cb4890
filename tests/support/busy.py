"""Run a command on a busy machine: ``python tests/support/busy.py [--processes N] COMMAND...``.

N processes (8 unless given) compute beside the command and end with it, whatever happens: the
command fails, this script gets a signal, or it is killed outright. The exit status is that of the
command.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType, TracebackType
from typing import NoReturn

PROCESSES = 8
# Ends by itself when the process that started it is gone.
COMPUTE = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


class Busy:
    """Processes that compute until the end of the block."""

    def __init__(self, processes: int = PROCESSES) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._count = processes

    def __enter__(self) -> Busy:
        try:
            for _ in range(self._count):
                command = [sys.executable, "-I", "-S", "-c", COMPUTE, str(os.getpid())]
                self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for sent in SIGNALS:  # another one would cut the end short
        signal.signal(sent, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run a command on a busy machine.")
    parser.add_argument("--processes", type=int, default=PROCESSES, metavar="N")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND...")
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("expected a command, found none")
    for sent in SIGNALS:
        signal.signal(sent, _stop)
    with Busy(options.processes):
        command = subprocess.Popen(options.command)
        try:
            status = command.wait()
        finally:
            command.terminate()  # nothing, if it has ended
            command.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
