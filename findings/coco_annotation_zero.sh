#!/usr/bin/env bash
# pycocotools 2.0.11: an annotation whose id is 0 can never be found. COCOeval writes the id of the
# matched annotation beside each detection, where 0 stands for "no match": the perfect detection of
# this object counts as a false one. Two objects found to the pixel give an AP of 0.25 where the
# document counts from 0, and 1 where it counts from 1. faster-coco-eval 1.8.0 gives the same numbers
# with a warning; hotcoco 1.3.0 gives 1 for both.
#
# It meets whoever numbers annotations by enumerate(). One object of a thousand is hardly seen in the
# figure; a document of one object has an AP of 0.
#
# Seen 2026-11-29:
#   ids from 1: pycocotools 1.000, faster-coco-eval 1.000, hotcoco 1.000
#   ids from 0: pycocotools 0.252, faster-coco-eval 0.252, hotcoco 1.000
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pycocotools==2.0.11 faster-coco-eval==1.8.0 \
  hotcoco==1.3.0 numpy==2.2.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import contextlib
import io
import json
import sys
from pathlib import Path

import faster_coco_eval
import hotcoco
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

boxes = [[0, 0, 10, 10], [20, 0, 10, 10]]
found = [{"image_id": 1, "category_id": 1, "bbox": box, "score": 0.9} for box in boxes]
Path("found.json").write_text(json.dumps(found))
judges = {
    "pycocotools": (COCO, COCOeval, "loadRes"),
    "faster-coco-eval": (faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster, "loadRes"),
    "hotcoco": (hotcoco.COCO, hotcoco.COCOeval, "load_res"),
}


def precisions(first):
    entry = {"image_id": 1, "category_id": 1, "iscrowd": 0, "area": 100}
    truth = {
        "images": [{"id": 1, "height": 50, "width": 50}],
        "categories": [{"id": 1, "name": "thing"}],
        "annotations": [entry | {"id": first + k, "bbox": box} for k, box in enumerate(boxes)],
    }
    Path("truth.json").write_text(json.dumps(truth))
    seen = {}
    for name, (read, judge, load) in judges.items():
        with contextlib.redirect_stdout(io.StringIO()):
            document = read("truth.json")
            run = judge(document, getattr(document, load)("found.json"), "bbox")
            run.evaluate()
            run.accumulate()
            run.summarize()
        seen[name] = f"{float(run.stats[0]):.3f}"
    print(f"ids from {first}: " + ", ".join(f"{name} {value}" for name, value in seen.items()))
    return list(seen.values())


right = precisions(1) == ["1.000", "1.000", "1.000"]
sys.exit(0 if precisions(0) == ["0.252", "0.252", "1.000"] and right else 1)
PYTHON
