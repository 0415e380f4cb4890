"""OpenVINO on a graph that NNCF quantized after training, with its scheme for transformers.

``python -m rivals.openvino_int8 WORKLOAD`` writes the graph.
"""

from __future__ import annotations

from rivals import Task, openvino
from rivals.export import OtherGraph, inputs_for, onnx_path, ordered_workload
from workloads import GRAPHS, Workload

PACKAGES = ("nncf", *openvino.PACKAGES)
WORKLOADS = GRAPHS
ONNX = True
GRAPH = OtherGraph("rivals.openvino_int8", "nncf.xml")
environment = openvino.environment


def prepare(workload: Workload, threads: int) -> Task:
    # What stays in floats may be bfloat16 where the processor has it, as in our int8.
    precision = "bf16" if openvino.has_bfloat16() else "f32"
    return openvino.prepare(workload, threads, precision, GRAPH.path(workload))


def quantize(workload: Workload) -> None:
    """Write the graph. The measured image alone calibrates it: speed does not depend on more."""
    import nncf
    import openvino as ov

    model = ov.Core().read_model(onnx_path(workload))
    found = nncf.quantize(
        model,
        nncf.Dataset([inputs_for(workload)]),
        model_type=nncf.ModelType.TRANSFORMER,
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=1,
    )
    path = GRAPH.file(workload)
    partial = path.with_name(f"{path.stem}_part.xml")
    ov.save_model(found, partial, compress_to_fp16=False)
    # The graph comes last: where it is, its weights are.
    for suffix in (".bin", ".xml"):
        partial.with_suffix(suffix).rename(path.with_suffix(suffix))


if __name__ == "__main__":
    quantize(ordered_workload())
