#!/usr/bin/env bash
# labelme2coco 0.2.6: shapes that labelme joins to one instance by their group_id become an annotation
# each, of the same class. An object in two parts is two objects, and a COCO document of 1 instance
# counts 2. Nothing is said.
#
# It meets whoever marks what lies behind a pole by two polygons with one group_id, which is what it
# is for, and trains or scores instances.
#
# Seen 2026-12-01, a car of two polygons with group_id 1, and another without a group:
#   annotations: 3, polygons of each: 1 1 1
#   areas: 36 36 100
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet labelme2coco==0.2.6 sahi==0.12.8 numpy==2.4.6
cd "$folder"
mkdir json
venv/bin/python - 2>log <<'PYTHON'
import json
import sys
from pathlib import Path

import labelme2coco


def shape(points, group):
    head = {"label": "car", "shape_type": "polygon", "flags": {}}
    return {**head, "points": points, "group_id": group}


def square(x, y, side):
    return [[x, y], [x + side, y], [x + side, y + side], [x, y + side]]


shapes = [shape(square(3, 3, 6), 1), shape(square(13, 3, 6), 1), shape(square(20, 15, 10), None)]
head = {"version": "5.5.0", "flags": {}, "imagePath": "a.png", "imageData": None}
document = {**head, "shapes": shapes, "imageHeight": 30, "imageWidth": 40}
Path("json/a.json").write_text(json.dumps(document))
found = labelme2coco.get_coco_from_labelme_folder("json").json["annotations"]
polygons = [len(each["segmentation"]) for each in found]
areas = [each["area"] for each in found]
print(f"annotations: {len(found)}, polygons of each: {' '.join(map(str, polygons))}")
print(f"areas: {' '.join(map(str, areas))}")
sys.exit(0 if (polygons, areas) == ([1, 1, 1], [36, 36, 100]) else 1)
PYTHON
