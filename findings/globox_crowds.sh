#!/usr/bin/env bash
# globox 2.9.0: AnnotationSet.from_coco and save_coco keep boxes, and a crowd (iscrowd 1) comes back as
# an ordinary object with iscrowd 0, with no warning. A detection in the crowd, which COCO's rules
# leave uncounted however many there are, is then judged against one box around all of them.
#
# It meets whoever converts or evaluates COCO's own files: their crowds become objects
# that must be found, as boxes around whole groups.
#
# Seen 2026-12-01, a cat and a crowd of the whole image:
#   iscrowd [0, 1] -> [0, 0]
#   one detection of a person in the crowd, AP by pycocotools: -1.0 (nothing to find) before, 0.0 after
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet globox==2.9.0 pycocotools==2.0.10 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import contextlib
import io
import json
import sys
from pathlib import Path

from globox import AnnotationSet
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def entry(number, category, box, crowd):
    area = box[2] * box[3]
    return dict(id=number, image_id=1, category_id=category, bbox=box, area=area, iscrowd=crowd)


document = {
    "info": {},
    "images": [{"id": 1, "file_name": "a.jpg", "width": 100, "height": 50}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "person"}],
    "annotations": [entry(1, 1, [10, 10, 20, 20], 0), entry(2, 2, [0, 0, 100, 50], 1)],
}
Path("before.json").write_text(json.dumps(document))
boxes = AnnotationSet.from_coco(file_path="before.json")
boxes.save_coco("after.json", auto_ids=True)
crowds, precisions = [], []
for name in ("before.json", "after.json"):
    annotations = json.loads(Path(name).read_text())["annotations"]
    crowds.append([each["iscrowd"] for each in annotations])
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(name)
        truth.dataset.setdefault("info", {})
        image = truth.getImgIds()[0]
        person = truth.getCatIds(catNms=["person"])[0]
        found = {"image_id": image, "category_id": person, "bbox": [5, 5, 10, 20], "score": 0.9}
        judge = COCOeval(truth, truth.loadRes([found]), "bbox")
        judge.params.catIds = [person]
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    precisions.append(float(judge.stats[0]))
print(f"iscrowd {crowds[0]} -> {crowds[1]}; AP {precisions[0]} -> {precisions[1]}")
sys.exit(0 if crowds == [[0, 1], [0, 0]] and precisions == [-1.0, 0.0] else 1)
PYTHON
