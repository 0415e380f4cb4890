"""Ours with int8 weights and inputs of linear layers."""

from __future__ import annotations

from functools import partial

from rivals import sam_rlx
from workloads import MEMORY_ATTENTION, SAM_HQ_CLICK

PACKAGES = sam_rlx.PACKAGES
# Prompts are decoded in float32 whatever the precision.
WORKLOADS = tuple(
    name
    for name in sam_rlx.WORKLOADS
    if name not in (MEMORY_ATTENTION, SAM_HQ_CLICK) and not name.startswith("decode")
)
environment = sam_rlx.environment
prepare = partial(sam_rlx.prepare, precision="int8")
