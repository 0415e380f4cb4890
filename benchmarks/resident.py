"""Resident memory of this process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def _status(field: str) -> int | None:
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return None


def own() -> int | None:
    """Resident memory in bytes without pages of mapped files; None where no system tells it.

    The system drops pages of a mapped checkpoint when it needs room, and reads them again.
    """
    return _status("RssAnon")


def peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    # The other source inherits the parent's peak on Linux.
    unit = 1 if sys.platform == "darwin" else 1024
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Let `peak` count from now on, where the system can do that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return
