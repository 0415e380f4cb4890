#!/usr/bin/env bash
# datumaro 1.13.12: a COCO document with run lengths is read to the pixel, and exported as COCO again
# it has outlines: holes are filled, and each part loses its last row and column. A square of 40
# pixels with a hole of 20 (1,200 pixels) becomes 1,521. The option masks of the exporter is a way out
# ("merge"), polygons another: those come through unchanged.
#
# Seen 2026-11-28: read 1200 pixels, exported again 1521 pixels
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet datumaro==1.13.12 pycocotools==2.0.11
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import json
import sys
from pathlib import Path

import datumaro
import numpy as np
from PIL import Image
from pycocotools import mask as masks

mask = np.zeros((60, 80), np.uint8)
mask[10:50, 10:50] = 1
mask[20:40, 20:40] = 0
runs = masks.encode(np.asfortranarray(mask))
entry = {"id": 1, "image_id": 1, "category_id": 1, "iscrowd": 0, "area": 1200, "bbox": [10, 10, 40, 40]}
entry["segmentation"] = {"size": [60, 80], "counts": runs["counts"].decode()}
document = {
    "images": [{"id": 1, "file_name": "a.png", "height": 60, "width": 80}],
    "categories": [{"id": 1, "name": "thing"}],
    "annotations": [entry],
}
Path("in/annotations").mkdir(parents=True)
Path("in/images/train").mkdir(parents=True)
Path("in/annotations/instances_train.json").write_text(json.dumps(document))
Image.new("RGB", (80, 60)).save("in/images/train/a.png")
data = datumaro.Dataset.import_from("in", "coco_instances")
read = [int(np.sum(one.image)) for item in data for one in item.annotations if hasattr(one, "image")]
data.export("out", "coco_instances")
(written,) = Path("out/annotations").glob("*.json")
found = np.zeros((60, 80), np.uint8)
for one in json.loads(written.read_text())["annotations"]:
    lines = one["segmentation"]
    if isinstance(lines, list):
        found |= masks.decode(masks.merge(masks.frPyObjects(lines, 60, 80)))
print(f"read {read[0]} pixels, exported again {found.sum()} pixels")
sys.exit(0 if read[0] == 1200 and found.sum() == 1521 else 1)
PYTHON
