"""Ours with bfloat16 weights of linear layers."""

from __future__ import annotations

from functools import partial

from rivals import sam_rlx, sam_rlx_int8

PACKAGES = sam_rlx.PACKAGES
WORKLOADS = sam_rlx_int8.WORKLOADS
environment = sam_rlx.environment
prepare = partial(sam_rlx.prepare, precision="bfloat16")
