#!/usr/bin/env bash
# pylabel 0.1.55: ExportToYoloV5(segmentation=True) writes the first polygon of an object and drops the
# others with no warning. Class numbers in its label files are the ids of COCO's categories, while the
# dataset.yaml beside them counts names from 0: with the ids 0 and 7 of two classes nc is 2, and the
# files ask for class 7.
#
# It meets whoever turns COCO into YOLO's segments by pylabel: what lies behind a pole loses a part,
# and COCO's own ids (1 to 90, with gaps) are classes that the document does not have.
#
# Seen 2026-12-01, a dog of two polygons (id 7) and a cat (id 0):
#   a.txt: 7 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6
#   names: cat, dog; nc: 2
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pylabel==0.1.55 pandas==3.1.1 numpy==2.4.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import json
import sys
from pathlib import Path

import yaml
from PIL import Image
from pylabel import importer

Path("images").mkdir()
Image.new("RGB", (100, 50)).save("images/a.jpg")
Image.new("RGB", (200, 80)).save("images/b.jpg")
DOG = [[10, 10, 30, 10, 30, 30, 10, 30], [60, 10, 80, 10, 80, 30]]
CAT = [[20, 8, 60, 8, 60, 24, 20, 24]]


def entry(number, category, box, polygons):
    head = {"id": number, "image_id": number, "category_id": category, "iscrowd": 0}
    return {**head, "bbox": box, "area": 500, "segmentation": polygons}


document = {
    "images": [
        {"id": 1, "file_name": "a.jpg", "width": 100, "height": 50},
        {"id": 2, "file_name": "b.jpg", "width": 200, "height": 80},
    ],
    "categories": [{"id": 0, "name": "cat"}, {"id": 7, "name": "dog"}],
    "annotations": [entry(1, 7, [10, 10, 70, 20], DOG), entry(2, 0, [20, 8, 40, 16], CAT)],
}
Path("coco.json").write_text(json.dumps(document))
dataset = importer.ImportCoco("coco.json", path_to_images="images")
dataset.export.ExportToYoloV5(output_path="out/labels", segmentation=True, copy_images=False)
line = Path("out/labels/a.txt").read_text().strip()
described = yaml.safe_load(Path("out/dataset.yaml").read_text())
print(f"a.txt: {line}\nnames: {', '.join(described['names'])}; nc: {described['nc']}")
right = line == "7 0.1 0.2 0.3 0.2 0.3 0.6 0.1 0.6" and described["nc"] == 2
sys.exit(0 if right else 1)
PYTHON
