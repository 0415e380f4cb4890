"""OpenVINO with its bfloat16 hint, on upstream's exported graph."""

from __future__ import annotations

from functools import partial

from rivals import openvino
from workloads import GRAPHS

PACKAGES = openvino.PACKAGES
WORKLOADS = GRAPHS
ONNX = True
environment = openvino.environment
prepare = partial(openvino.prepare, precision="bf16")
