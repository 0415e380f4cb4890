"""PyTorch with torch.compile. Needs a C++ compiler; compiled code is kept in the build folder."""

from __future__ import annotations

from rivals import HUGE_PAGES, Task, pytorch_eager
from workloads import BUILD, ENCODERS, MEMORY_ATTENTION, Workload

PACKAGES = pytorch_eager.PACKAGES
WORKLOADS = (*ENCODERS, "decode-1", "decode-64", MEMORY_ATTENTION)


def environment(threads: int) -> dict[str, str]:
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(BUILD / "inductor")}
    return pytorch_eager.environment(threads) | HUGE_PAGES | cache


def prepare(workload: Workload, threads: int) -> Task:
    import torch

    return pytorch_eager.prepare(workload, threads, wrap=torch.compile)
