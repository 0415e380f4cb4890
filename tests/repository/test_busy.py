"""The processes that keep a machine busy are there, and end with the command."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.busy import Busy

SCRIPT = Path(__file__).parents[1] / "support" / "busy.py"
FOREVER = "import time\nprint(flush=True)\nwhile True: time.sleep(3600)"


def test_they_compute_until_the_end_of_the_block() -> None:
    with Busy(3) as busy:
        assert [process.poll() for process in busy.processes] == [None] * 3
    assert all(process.returncode is not None for process in busy.processes)


def test_an_error_ends_them() -> None:
    busy = Busy(3)
    with pytest.raises(ZeroDivisionError), busy:
        1 / 0  # noqa: B018
    assert len(busy.processes) == 3
    assert all(process.returncode is not None for process in busy.processes)


@pytest.mark.parametrize("status", [0, 7])
def test_the_exit_status_is_the_commands(status: int) -> None:
    code = f"raise SystemExit({status})"
    command = [sys.executable, SCRIPT, "--processes", "2", sys.executable, "-c", code]
    assert subprocess.run(command, check=False).returncode == status


def test_a_command_is_needed() -> None:
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "expected a command, found none" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_signal_ends_all_of_them(name: str) -> None:
    sent = signal.Signals[name]
    command = [sys.executable, SCRIPT, "--processes", "3", sys.executable, "-c", FOREVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as script:
        assert script.stdout is not None
        script.stdout.readline()  # the command has begun
        started = Path(f"/proc/{script.pid}/task/{script.pid}/children").read_text().split()
        assert len(started) == 4
        handles = [os.pidfd_open(int(pid)) for pid in started]
        script.send_signal(sent)
        # After SIGKILL nobody is left to end the command: the busy processes end by themselves.
        ended = handles[:3] if sent == signal.SIGKILL else handles
        for handle in ended:
            _wait(handle)
        if sent == signal.SIGKILL:
            signal.pidfd_send_signal(handles[3], signal.SIGKILL)
        for handle in handles:
            os.close(handle)
    assert script.returncode == (-sent if sent == signal.SIGKILL else 128 + sent)


def _wait(handle: int) -> None:
    """Wait until the process of a handle has ended."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
