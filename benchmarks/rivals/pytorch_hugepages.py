"""PyTorch, told to use huge pages: the faster of its two settings."""

from __future__ import annotations

from rivals import HUGE_PAGES, pytorch_eager

PACKAGES = pytorch_eager.PACKAGES
WORKLOADS = pytorch_eager.WORKLOADS
prepare = pytorch_eager.prepare


def environment(threads: int) -> dict[str, str]:
    return pytorch_eager.environment(threads) | HUGE_PAGES
