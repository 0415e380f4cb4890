"""What tells the seconds of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def chosen(cpu: bool) -> Callable[[], float]:
    """Return a function of `time` that gives seconds.

    With `cpu` CPU seconds of one core, to which this process and its children are bound (Linux):
    others on the machine change them little.
    """
    if not cpu:
        return time.perf_counter
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return time.process_time
