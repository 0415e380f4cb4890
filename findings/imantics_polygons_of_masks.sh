#!/usr/bin/env bash
# imantics 0.1.12: what it writes for COCO is not the mask that it was given. Corners are the middles of
# the outermost pixels, so that readers of COCO lose a row and a column of each object, and boxes are one
# pixel too narrow and too low: a line of pixels has a height of 0. A hole is a polygon like any other,
# which readers fill. A line and a pixel have polygons of 4 and 2 numbers, which pycocotools 2.0.11 refuses
# (the first with a TypeError, since it takes it for a box). The area is that of the mask all the same, and
# imantics itself reads the polygons back without a difference.
#
# It meets whoever turns masks into COCO's annotations with it, as many tutorials do: training and scores
# see other objects than the masks had, and areas that do not fit the outlines.
#
# Seen 2026-12-01, an image of 30 x 20 pixels:
#   all of it: box (0, 0, 29, 19), area 600; decoded 551 pixels
#   8 x 6 pixels without 3 x 2 in the middle: box (4, 3, 7, 5), area 42, polygons of 8 and 4 corners;
#     decoded 35 pixels, all 6 of the hole among them
#   a line of six pixels: box (3, 4, 5, 0), area 6, polygons [[3, 4, 8, 4]], TypeError
#   one pixel: box (3, 4, 0, 0), area 1, polygons [[3, 4]], Exception
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet imantics==0.1.12 opencv-python-headless==5.0.0.93 \
    pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from imantics import Annotation, Category, Image, Mask
from pycocotools import mask as coco_mask

WIDTH, HEIGHT = 30, 20


def written(mask):
    image = Image(width=WIDTH, height=HEIGHT)
    record = Annotation(image, Category("object"), mask=Mask(mask)).coco()
    return record.get("annotations", [record])[0]


def decoded(polygons):
    codes = coco_mask.frPyObjects(polygons, HEIGHT, WIDTH)
    return coco_mask.decode(coco_mask.merge(codes)).astype(bool)


everything = np.ones((HEIGHT, WIDTH), bool)
ring = np.zeros((HEIGHT, WIDTH), bool)
ring[3:9, 4:12] = True
ring[5:7, 6:9] = False
line = np.zeros((HEIGHT, WIDTH), bool)
line[4, 3:9] = True
point = np.zeros((HEIGHT, WIDTH), bool)
point[4, 3] = True

whole, holed, thin, single = (written(mask) for mask in (everything, ring, line, point))
pixels = int(decoded(whole["segmentation"]).sum())
print(f"all of it: box {tuple(whole['bbox'])}, area {whole['area']}; decoded {pixels} pixels")
corners = [len(polygon) // 2 for polygon in holed["segmentation"]]
found = decoded(holed["segmentation"])
inside = int(found[5:7, 6:9].sum())
print(
    f"a ring: box {tuple(holed['bbox'])}, area {holed['area']}, polygons of {corners} corners; "
    f"decoded {int(found.sum())} pixels, {inside} of the hole's 6 among them"
)
refused = []
for name, record in (("a line of six pixels", thin), ("one pixel", single)):
    polygons = record["segmentation"]
    try:
        decoded(polygons)
        answer = "read"
    except Exception as error:
        answer = type(error).__name__
        refused.append(answer)
    box, area = tuple(record["bbox"]), record["area"]
    print(f"{name}: box {box}, area {area}, polygons {polygons}, {answer}")
back = Mask(ring).polygons().mask(WIDTH, HEIGHT).array.astype(bool)
kept = (*whole["bbox"], whole["area"], pixels) == (0, 0, 29, 19, 600, 551)
kept = kept and (*holed["bbox"], holed["area"], inside) == (4, 3, 7, 5, 42, 6)
kept = kept and int(found.sum()) == 35 and sorted(corners) == [4, 8]
kept = kept and thin["segmentation"] == [[3, 4, 8, 4]] and thin["bbox"][3] == 0
kept = kept and single["segmentation"] == [[3, 4]] and len(refused) == 2 and np.array_equal(back, ring)
sys.exit(0 if kept else 1)
PYTHON
