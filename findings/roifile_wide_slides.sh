#!/usr/bin/env bash
# roifile 2026.2.10: the box in the header of an ImageJ ROI holds 16 bits a side. A polygon at column
# 70000 is written with no error; its coordinates, which are floats of 32 bits, come back right, and
# its box (left, right) begins at 4464, which is 70000 - 65536. At column 40000 all of it is right,
# though the format's own numbers end at 32767.
#
# It meets whoever cuts cells out of a whole slide by the boxes of its ROIs: beyond 65535 pixels the
# crop comes from another part of the slide, of the right size.
#
# Seen 2026-12-01, a square of 100 pixels at column 70000, row 10:
#   coordinates 70000 to 70100, box 4464 to 4565
#   at column 40000: coordinates 40000 to 40100, box 40000 to 40101
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet roifile==2026.2.10 numpy==2.4.6
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
from roifile import ImagejRoi


def written(column):
    corners = np.array([[0, 0], [100, 0], [100, 100], [0, 100]]) + [column, 10]
    roi = ImagejRoi.frombytes(ImagejRoi.frompoints(corners).tobytes())
    columns = roi.coordinates()[:, 0]
    return int(columns.min()), int(columns.max()), roi.left, roi.right


near, far = written(40000), written(70000)
for low, high, left, right in (far, near):
    print(f"coordinates {low} to {high}, box {left} to {right}")
seen = far == (70000, 70100, 4464, 4565) and near == (40000, 40100, 40000, 40101)
sys.exit(0 if seen else 1)
PYTHON
