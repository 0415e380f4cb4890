#!/usr/bin/env bash
# OpenEXR 3.5.3 (its own Python package): OpenEXR.File writes the memory of an array in its order, not the
# array, where that is a view: a crop, a transposed image, channels that were moved to the end. The file has
# the right size and other pixels; nothing is said. numpy.ascontiguousarray is a way out.
#
# It meets whoever writes mattes, depth or object ids for compositing: image[y0:y1, x0:x1] of a mask, or
# tensor.permute(1, 2, 0).numpy() of a network's result, look right everywhere else.
#
# Seen 2026-11-30, ids 0 to 23 in 4 rows of 6 as uint32, and the colours of a (3, 4, 6) array:
#   as it is: the same
#   copy of the crop: the same
#   crop [1:3, 2:5]: wrong, the second row is 11 12 13 instead of 14 15 16
#   transposed: wrong
#   channels first, moved to the end: wrong
#   the same, by ascontiguousarray: the same
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet OpenEXR==3.5.3 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import OpenEXR

ids = np.arange(24, dtype=np.uint32).reshape(4, 6)
planes = np.arange(72, dtype=np.float32).reshape(3, 4, 6)


def kept(name, array, told=""):
    channel = "RGB" if array.ndim == 3 else "Z"
    OpenEXR.File({"type": OpenEXR.scanlineimage}, {channel: array}).write("a.exr")
    with OpenEXR.File("a.exr") as file:
        read = file.channels()[channel].pixels
    assert (read.shape, read.dtype) == (array.shape, array.dtype)
    same = bool((read == array).all())
    if told and not same:
        told = f", the second row is {' '.join(map(str, read[1]))} instead of {told}"
    print(f"{name}: {'the same' if same else 'wrong' + told}")
    return same


moved = planes.transpose(1, 2, 0)
seen = [
    kept("as it is", ids),
    kept("copy of the crop", ids[1:3, 2:5].copy()),
    kept("crop [1:3, 2:5]", ids[1:3, 2:5], "14 15 16"),
    kept("transposed", ids.T),
    kept("channels first, moved to the end", moved),
    kept("the same, by ascontiguousarray", np.ascontiguousarray(moved)),
]
sys.exit(0 if seen == [True, True, False, False, False, True] else 1)
PYTHON
