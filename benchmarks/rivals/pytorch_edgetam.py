"""PyTorch with EdgeTAM's package, which imports as SAM 2's does: from a folder of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rivals import Task, UnableError, pytorch_eager
from workloads import EDGETAM, Workload

PACKAGES = ("torch", "torchvision", "timm")
WORKLOADS = (EDGETAM,)
# Where light_models.py installs it.
FOLDER = Path(sys.prefix) / "edgetam"
_HERE = Path(__file__).resolve().parents[1]


def environment(threads: int) -> dict[str, str]:
    known = filter(None, [os.environ.get("PYTHONPATH")])
    path = os.pathsep.join([str(FOLDER), str(_HERE), *known])
    return {**pytorch_eager.environment(threads), "PYTHONPATH": path, "TQDM_DISABLE": "1"}


def prepare(workload: Workload, threads: int) -> Task:
    if not FOLDER.is_dir():
        raise UnableError(f"needs edgetam-dimos in {FOLDER}")
    import torch

    from rivals import light_models

    torch.set_num_threads(threads)
    return light_models.edgetam(workload)
