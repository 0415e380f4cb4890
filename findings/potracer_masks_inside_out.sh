#!/usr/bin/env bash
# potracer 0.0.4: a mask that is given as an array is traced inside out. True, and values
# above 127, stand for white paper, so the outline of a bool mask is the frame of the image with the
# object as a hole; of a mask of 0 and 1 in integers, all of which is dark, it is the frame alone, and
# the object is nowhere in it. The inverted mask is a way out.
#
# It meets whoever makes smooth outlines (SVG) of masks.
#
# Seen 2026-11-29, a mask of 20 x 30 pixels in 40 x 40:
#   bool: 2 curves, 40 x 40, 30 x 20
#   integers 0 and 1: 1 curve, 40 x 40
#   inverted: 1 curve, 30 x 20
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet potracer==0.0.4 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
import potrace

mask = np.zeros((40, 40), bool)
mask[10:30, 5:35] = True


def curves(name, array):
    sizes = []
    for curve in potrace.Bitmap(array).trace(alphamax=0):
        corners = [(point.x, point.y) for part in curve.segments for point in (part.c, part.end_point)]
        width, height = np.ptp(corners, axis=0)
        sizes.append(f"{width:.0f} x {height:.0f}")
    print(f"{name}: {len(sizes)} curve{'s' * (len(sizes) != 1)}, " + ", ".join(sizes))
    return sizes


seen = [
    curves("bool", mask),
    curves("integers 0 and 1", mask.astype(np.uint8)),
    curves("inverted", ~mask),
]
sys.exit(0 if seen == [["40 x 40", "30 x 20"], ["40 x 40"], ["30 x 20"]] else 1)
PYTHON
