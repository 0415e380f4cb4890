#!/usr/bin/env bash
# safetensors 0.8.0 (NumPy 2.3.5): safetensors.numpy.save_file writes other numbers than it is given,
# without a word, where an array is not C-contiguous: the bytes of its buffer in the order of memory,
# under the shape of the view. The writer for PyTorch refuses such tensors ("You are trying to save a
# non contiguous tensor").
#
# It meets whoever turns weights before saving them: linear layers of TensorFlow or Keras
# (`kernel.T`), convolutions of MLX (`weight.transpose(0, 3, 1, 2)`), matrices that `numpy.load` gives
# in Fortran's order because they were saved so. numpy.ascontiguousarray(array) is the way out.
#
# Seen 2026-11-28:
#   transposed: saved [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]], read [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
#   Fortran's order: saved [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], read [[0.0, 3.0, 1.0], [4.0, 2.0, 5.0]]
#   made contiguous: the same
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet safetensors==0.8.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from safetensors.numpy import load_file, save_file

matrix = np.arange(6, dtype=np.float32).reshape(2, 3)
np.save("fortran.npy", np.asfortranarray(matrix))


def differs(name, array):
    save_file({"weight": array}, "x.safetensors")
    read = load_file("x.safetensors")["weight"]
    same = read.shape == array.shape and np.array_equal(read, array)
    print(f"{name}: " + ("the same" if same else f"saved {array.tolist()}, read {read.tolist()}"))
    return not same


seen = [
    differs("transposed", matrix.T),
    differs("Fortran's order", np.load("fortran.npy")),
    not differs("made contiguous", np.ascontiguousarray(matrix.T)),
]
sys.exit(0 if all(seen) else 1)
PYTHON
