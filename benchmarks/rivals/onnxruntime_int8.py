"""ONNX Runtime with its dynamic int8 quantization of all matrix products with weights.

``python -m rivals.onnxruntime_int8 WORKLOAD`` writes the graph.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rivals import Task, onnxruntime
from rivals.export import onnx_path, run_apart
from workloads import ENCODERS, Workload

PACKAGES = onnxruntime.PACKAGES
WORKLOADS = ENCODERS
ONNX = True
environment = onnxruntime.environment


def prepare(workload: Workload, threads: int) -> Task:
    path = graph_path(workload)
    if not path.exists():
        run_apart("rivals.onnxruntime_int8", workload)
    return onnxruntime.prepare(workload, threads, path)


def graph_path(workload: Workload) -> Path:
    path = onnx_path(workload)
    return path.with_name(f"{path.stem}_int8.onnx")


def quantize(workload: Workload) -> None:
    """Write the graph."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = graph_path(workload)
    partial = path.with_suffix(".part")
    # Convolutions stay: ONNX Runtime has no fast ones with dynamic ranges.
    quantize_dynamic(
        onnx.load(onnx_path(workload)),
        partial,
        op_types_to_quantize=["MatMul", "Gemm"],
        weight_type=QuantType.QInt8,
    )
    partial.rename(path)


if __name__ == "__main__":
    quantize(Workload.from_json(json.loads(sys.argv[1])))
