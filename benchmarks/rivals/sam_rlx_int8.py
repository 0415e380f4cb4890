"""Ours with int8 weights and inputs of linear layers."""

from __future__ import annotations

from functools import partial

from rivals import sam_rlx
from workloads import MEMORY_ATTENTION, NAMES

PACKAGES = sam_rlx.PACKAGES
# Prompts are decoded in float32 whatever the precision.
WORKLOADS = tuple(n for n in NAMES if n != MEMORY_ATTENTION and not n.startswith("decode"))
environment = sam_rlx.environment
prepare = partial(sam_rlx.prepare, precision="int8")
