"""OpenVINO, float32, on upstream's exported graph."""

from __future__ import annotations

from pathlib import Path

from rivals import HUGE_PAGES, Task, UnableError
from rivals.export import EXPORTED, inputs_for, onnx_path
from workloads import Workload

PACKAGES = ("openvino", "onnx", "torch", "torchvision", "segment_anything", "sam2")
WORKLOADS = EXPORTED
ONNX = True


def environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)} | HUGE_PAGES


def has_bfloat16() -> bool:
    """Whether OpenVINO computes in bfloat16 here; elsewhere the hint gives float32."""
    import openvino as ov

    return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def prepare(
    workload: Workload, threads: int, precision: str = "f32", path: Path | None = None
) -> Task:
    """Load the exported graph, or another one with its inputs."""
    import openvino as ov

    if precision == "bf16" and not has_bfloat16():
        raise UnableError("needs a processor on which OpenVINO computes in bfloat16")
    core = ov.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # Where the processor has bfloat16 instructions the default would use them.
        "INFERENCE_PRECISION_HINT": precision,
    }
    compiled = core.compile_model(core.read_model(path or onnx_path(workload)), "CPU", settings)
    request = compiled.create_infer_request()
    inputs = inputs_for(workload)
    return Task(
        lambda: request.infer(inputs, share_inputs=True),
        lambda _out: request.get_output_tensor(0).data,
    )
