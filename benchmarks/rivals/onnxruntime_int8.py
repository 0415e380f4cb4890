"""ONNX Runtime with its dynamic int8 quantization of all matrix products with weights.

``python -m rivals.onnxruntime_int8 WORKLOAD`` writes the graph.
"""

from __future__ import annotations

from rivals import Task, onnxruntime
from rivals.export import OtherGraph, onnx_path, ordered_workload
from workloads import GRAPHS, Workload

PACKAGES = onnxruntime.PACKAGES
WORKLOADS = GRAPHS
ONNX = True
GRAPH = OtherGraph("rivals.onnxruntime_int8", "int8.onnx")
environment = onnxruntime.environment


def prepare(workload: Workload, threads: int) -> Task:
    return onnxruntime.prepare(workload, threads, GRAPH.path(workload))


def quantize(workload: Workload) -> None:
    """Write the graph."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = GRAPH.file(workload)
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
    quantize(ordered_workload())
