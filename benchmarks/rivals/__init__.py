"""One adapter for each engine.

An adapter module has

- `PACKAGES`: what must be installed,
- `EXTRA`, if single workloads need more: packages by name of the workload,
- `WORKLOADS`: names of the workloads that it can run,
- `environment(threads)`: variables of its process,
- `prepare(workload, threads)`: loads everything and returns a `Task`.

Its top level imports nothing heavy: `run.py` reads it too. The engine itself is only imported in
a process of its own, see `worker.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from numpy.typing import NDArray

# Engine -> adapter module. The two PyTorch rows differ in their environment alone.
ENGINES = {
    "sam_rlx": "rivals.sam_rlx",
    "pytorch": "rivals.pytorch_eager",
    "pytorch-hugepages": "rivals.pytorch_hugepages",
    "torch-compile": "rivals.torch_compile",
    "onnxruntime": "rivals.onnxruntime",
    "openvino": "rivals.openvino",
    "transformers": "rivals.transformers",
    "sam_rlx-int8": "rivals.sam_rlx_int8",
    "sam_rlx-bfloat16": "rivals.sam_rlx_bfloat16",
    "onnxruntime-int8": "rivals.onnxruntime_int8",
    "openvino-int8": "rivals.openvino_int8",
    "openvino-bfloat16": "rivals.openvino_bfloat16",
    "pytorch-bfloat16": "rivals.pytorch_bfloat16",
    "pytorch-edgetam": "rivals.pytorch_edgetam",
}

# Large temporaries are mapped anew in each call of most engines. With 4 KB pages the faults cost
# PyTorch half of its time on the encoder, so the rivals get huge pages; the row "pytorch" shows
# what users get by default.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


class UnableError(RuntimeError):
    """What an engine needs to run here, beside packages: raised by `prepare`, no failure."""


class Task(NamedTuple):
    """A prepared workload of one engine.

    `call` runs once and returns the result that `sample` looks at. If it measures itself, because
    a part does not count, `timed` is true and it returns (seconds, result).
    """

    call: Callable[[], Any]
    sample: Callable[[Any], NDArray[Any]]
    timed: bool = False


def adapter(engine: str) -> ModuleType:
    return importlib.import_module(ENGINES[engine])


def missing_packages(engine: str, workload: str | None = None) -> list[str]:
    """Packages that an engine needs, or also its workload, and this environment lacks."""
    module = adapter(engine)
    missing = [p for p in module.PACKAGES if importlib.util.find_spec(p) is None]
    if missing or workload is None:
        return missing
    extra = getattr(module, "EXTRA", {}).get(workload, ())
    return [p for p in extra if importlib.util.find_spec(p) is None]
