#!/usr/bin/env bash
# OpenVINO 2026.4.1: the attribute antialias (and exclude_outside) of ONNX's Resize (opset 18 and newer)
# are passed over without a word: a model that makes an image or a mask smaller with antialias=1 gives
# the numbers of antialias=0. onnxruntime 1.32.0 and ONNX's own reference do what the attribute says.
# The model loads, shapes fit, and smooth images hardly show it.
#
# It meets whoever exports torch's interpolate(antialias=True), which SAM's image transforms use, and
# runs the file on OpenVINO. Resizing before the model is a way out.
#
# Seen 2026-11-29, stripes of 255 in each fourth of 8 columns, resized to 2 x 2, first row:
#   antialias=0, reference: 0.00 0.00
#   antialias=1, reference: 95.62 39.84
#   antialias=1, onnxruntime: 95.62 39.84
#   antialias=1, OpenVINO: 0.00 0.00
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 \
  numpy==2.2.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
import onnx
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

stripes = np.zeros((1, 1, 8, 8), np.float32)
stripes[..., ::4] = 255


def model(antialias):
    node = helper.make_node("Resize", ["x", "", "", "size"], ["y"], mode="linear", antialias=antialias)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 8, 8])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 2, 2])
    size = helper.make_tensor("size", TensorProto.INT64, [4], [1, 1, 2, 2])
    graph = helper.make_graph([node], "resize", [given], [made], [size])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


smooth = model(1)
onnx.save(smooth, "smooth.onnx")
options = {"INFERENCE_PRECISION_HINT": "f32"}
compiled = openvino.Core().compile_model("smooth.onnx", "CPU", options)
session = onnxruntime.InferenceSession("smooth.onnx", providers=["CPUExecutionProvider"])
results = {
    "antialias=0, reference": ReferenceEvaluator(model(0)).run(None, {"x": stripes})[0],
    "antialias=1, reference": ReferenceEvaluator(smooth).run(None, {"x": stripes})[0],
    "antialias=1, onnxruntime": session.run(None, {"x": stripes})[0],
    "antialias=1, OpenVINO": compiled(stripes)[0],
}
seen = []
for name, array in results.items():
    seen.append(" ".join(f"{value:.2f}" for value in array[0, 0, 0]))
    print(f"{name}: {seen[-1]}")
sys.exit(0 if seen == ["0.00 0.00", "95.62 39.84", "95.62 39.84", "0.00 0.00"] else 1)
PYTHON
