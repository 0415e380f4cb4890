"""ONNX Runtime, float32, on upstream's exported graph."""

from __future__ import annotations

from pathlib import Path

from rivals import HUGE_PAGES, Task
from rivals.export import EXPORTED, inputs_for, onnx_path
from workloads import Workload

# The export needs PyTorch; the measured process does not.
PACKAGES = ("onnxruntime", "onnx", "torch", "torchvision", "segment_anything", "sam2")
WORKLOADS = EXPORTED
ONNX = True


def environment(threads: int) -> dict[str, str]:
    return {"OMP_NUM_THREADS": str(threads)} | HUGE_PAGES


def prepare(workload: Workload, threads: int, path: Path | None = None) -> Task:
    """Load the exported graph, or another one with its inputs."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Threads may spin while a run lasts, and not when other engines have their turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    graph = str(path or onnx_path(workload))
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    inputs = inputs_for(workload)
    return Task(lambda: session.run(None, inputs), lambda out: out[0])
