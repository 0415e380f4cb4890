"""OpenVINO, float32, on upstream's exported graph."""

from __future__ import annotations

from rivals import HUGE_PAGES, Task
from rivals.export import EXPORTED, inputs_for, onnx_path
from workloads import Workload

PACKAGES = ("openvino", "onnx", "torch", "torchvision", "segment_anything", "sam2")
WORKLOADS = EXPORTED
ONNX = True


def environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)} | HUGE_PAGES


def prepare(workload: Workload, threads: int) -> Task:
    import openvino as ov

    core = ov.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        # Where the CPU has bfloat16 instructions the default would use them.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = core.compile_model(core.read_model(onnx_path(workload)), "CPU", settings)
    request = compiled.create_infer_request()
    inputs = inputs_for(workload)
    return Task(
        lambda: request.infer(inputs, share_inputs=True),
        lambda _out: request.get_output_tensor(0).data,
    )
