"""Loads the extension, and with it libgomp, by rules that suit several processes on one machine.

By itself libgomp lets a thread that waits for others spin for milliseconds. Where other programs
need the cores, such threads hold up those that they wait for: two processes with 16 threads each on
16 cores took 30 times as long as one. libgomp reads the number of turns from the environment when
it is loaded, and never again; what the user says there counts.

Job scripts of clusters set variables that bind threads to cores. The thread that loads a runtime is
bound first, to one core, which its child processes inherit: 16 workers share core 0. So the
extension's runtime is loaded without these variables. Where another runtime has bound the calling
thread already, its mask is put together again from all that it binds threads to.
"""

import ctypes
import importlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SPIN = "GOMP_SPINCOUNT"
TURNS = "10000"  # on x86 a tenth of a millisecond to half of one
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
_RUNTIME = re.compile(r"lib(gomp|i?omp5?)\b[^/]*\.so[^/]*")


def load_extension() -> None:
    """Import `sam_rlx._core`; the environment is left as it was."""
    binding = {name: os.environ[name] for name in BINDING if name in os.environ}
    if binding:
        _release()
    before: dict[str, str | None] = {**binding}
    for name in binding:
        del os.environ[name]
    if not (SPIN in os.environ or "OMP_WAIT_POLICY" in os.environ):
        os.environ[SPIN] = TURNS
        before[SPIN] = None
    try:
        core = importlib.import_module("sam_rlx._core")
        if binding:
            core.keep_affinity()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _release() -> None:
    """Give the calling thread the cores that an OpenMP runtime, loaded before, has taken from it.

    A warning where that cannot be done.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    found = os.sched_getaffinity(0)
    for runtime in _loaded_runtimes():
        try:
            cpus = _bound_cpus(runtime)
            if found < cpus:
                os.sched_setaffinity(0, cpus)
        except (OSError, AttributeError) as error:  # refused; or the runtime is too old to tell
            warnings.warn(
                f"sam_rlx: expected the cores that {runtime._name} has bound to its threads, found "
                f"{error}; import sam_rlx before what loads it",
                stacklevel=2,
            )


def _loaded_runtimes() -> list[Any]:
    """Return the OpenMP runtimes of this process."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # no Linux
        return []
    paths = dict.fromkeys(line.split(maxsplit=5)[-1] for line in lines)
    return [ctypes.CDLL(path) for path in paths if _RUNTIME.fullmatch(Path(path).name)]


def _bound_cpus(runtime: Any) -> set[int]:
    """Return the CPUs to which a runtime binds threads; none where it binds none."""
    cpus: set[int] = set()
    for part in range(runtime.omp_get_num_places()):
        ids = (ctypes.c_int * runtime.omp_get_place_num_procs(part))()
        runtime.omp_get_place_proc_ids(part, ids)
        cpus.update(ids)
    return cpus


@contextmanager
def all_cores() -> Iterator[None]:
    """Let processes that are started meanwhile use all cores, also where this thread is bound."""
    allowed = importlib.import_module("sam_rlx._core").allowed_cpus()
    if not hasattr(os, "sched_getaffinity"):  # no Linux
        yield
        return
    before = os.sched_getaffinity(0) if allowed else set()
    if set(allowed) == before:
        yield
        return
    os.sched_setaffinity(0, allowed)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


load_extension()
