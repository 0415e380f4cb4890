"""Loads the extension, and with it libgomp, whose waiting threads are told to sleep soon.

By itself libgomp lets a thread that waits for others spin for milliseconds. Where other programs
need the cores, such threads hold up those that they wait for: two processes with 16 threads each on
16 cores took 30 times as long as one. libgomp reads the number of turns from the environment when
it is loaded, and never again; what the user says there counts.
"""

import importlib
import os

SPIN = "GOMP_SPINCOUNT"
TURNS = "10000"  # on x86 a tenth of a millisecond to half of one


def load_extension() -> None:
    """Import `sam_rlx._core`; the environment is left as it was."""
    if SPIN in os.environ or "OMP_WAIT_POLICY" in os.environ:
        importlib.import_module("sam_rlx._core")
        return
    os.environ[SPIN] = TURNS
    try:
        importlib.import_module("sam_rlx._core")
    finally:
        del os.environ[SPIN]


load_extension()
