#!/usr/bin/env bash
# sahi 0.11.36: get_coco_segmentation_from_bool_mask, through which its COCO annotations go, drops
# whatever is one pixel wide: OpenCV's contour of a line has two points, and what has fewer than three
# is left out. A wire of 20 pixels becomes an empty list; a bar on a square is cut off with no warning.
# Holes are lists like the parts, which COCO's judges fill.
#
# It meets whoever writes masks of thin things (wires, cracks, masts) by sahi: area and box of the
# annotation are those of what is left. Run lengths keep everything.
#
# Seen 2026-12-01, beside the pixels that pycocotools counts for the written polygons:
#   a line: 20 pixels -> [] (none)
#   a square with a bar: 115 pixels, 25 wide -> 82 pixels, box 10 wide
#   a square with a hole: 84 pixels -> 81, the hole is full
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet sahi==0.11.36 pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
from pycocotools import mask as codes
from sahi.annotation import ObjectAnnotation
from sahi.utils.cv import get_coco_segmentation_from_bool_mask as polygons_of

SIZE = (20, 30)
line, bar, ring = (np.zeros(SIZE, bool) for _ in range(3))
line[7, 4:24] = True
bar[3:13, 3:13] = True
bar[7, 13:28] = True
ring[3:13, 3:13] = True
ring[6:10, 6:10] = False


def pixels(polygons):
    return codes.decode(codes.merge(codes.frPyObjects(polygons, *SIZE))).astype(bool)


written = polygons_of(bar)
one = ObjectAnnotation(
    segmentation=written, category_id=1, category_name="mast", full_shape=list(SIZE)
)
box = one.to_coco_annotation().json["bbox"]
holed = pixels(polygons_of(ring))
print(f"a line: {line.sum()} pixels -> {polygons_of(line)}")
print(f"a square with a bar: {bar.sum()} pixels -> {pixels(written).sum()}, box {box[2]:g} wide")
print(f"a square with a hole: {ring.sum()} pixels -> {holed.sum()}, in the hole {holed[8, 8]}")
right = polygons_of(line) == [] and pixels(written).sum() == 82 and box[2] == 10
sys.exit(0 if right and holed.sum() == 81 and holed[8, 8] else 1)
PYTHON
