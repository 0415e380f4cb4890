"""ONNX Runtime with its dynamic int8 quantisation of all matrix products with weights."""

from __future__ import annotations

from pathlib import Path

from rivals import Task, onnxruntime
from rivals.export import onnx_path
from workloads import ENCODERS, Workload

PACKAGES = onnxruntime.PACKAGES
WORKLOADS = ENCODERS
ONNX = True
environment = onnxruntime.environment


def prepare(workload: Workload, threads: int) -> Task:
    return onnxruntime.prepare(workload, threads, quantised(onnx_path(workload)))


def quantised(path: Path) -> Path:
    """Quantise an exported graph once; the file is kept beside it."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    found = path.with_name(f"{path.stem}_int8.onnx")
    if found.exists():
        return found
    partial = path.with_name(f"{path.stem}_int8.part")
    # Convolutions stay: ONNX Runtime has no fast ones with dynamic ranges.
    quantize_dynamic(
        onnx.load(path),
        partial,
        op_types_to_quantize=["MatMul", "Gemm"],
        weight_type=QuantType.QInt8,
    )
    partial.rename(found)
    return found
