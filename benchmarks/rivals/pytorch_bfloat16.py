"""PyTorch's autocast to bfloat16: upstream's code, huge pages."""

from __future__ import annotations

from typing import Any

from rivals import Task, pytorch_eager, pytorch_hugepages
from workloads import ENCODERS, Workload

PACKAGES = pytorch_eager.PACKAGES
WORKLOADS = ENCODERS
environment = pytorch_hugepages.environment


def prepare(workload: Workload, threads: int) -> Task:
    import torch

    def autocast(module: Any) -> Any:
        def run(*inputs: Any) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return module(*inputs)

        return run

    return pytorch_eager.prepare(workload, threads, wrap=autocast)
