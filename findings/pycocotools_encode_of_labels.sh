#!/usr/bin/env bash
# pycocotools 2.0.11: mask.encode takes each change of value for an edge, not each change between 0 and
# the rest. Of a map with two labels that touch, or of a mask with a soft edge, the second value is
# background again, and what follows it in the column, and in the next ones, is turned inside out.
# Nothing is said, and masks of 0 and 1 never show it.
# faster-coco-eval 1.8.0 has the same; hotcoco 1.3.0 takes all that is not 0 for the object.
#
# It meets whoever encodes "the object" of a label map, or a mask of 0 to 255 that was resized with a
# smooth filter. (mask > 0).astype("uint8") is a way out.
#
# Seen 2026-11-29, the column 0 0 1 1 2 2 0 0:
#   pycocotools: 0 0 1 1 0 0 1 1
#   faster-coco-eval: 0 0 1 1 0 0 1 1
#   hotcoco: 0 0 1 1 1 1 0 0
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pycocotools==2.0.11 faster-coco-eval==1.8.0 \
  hotcoco==1.3.0 numpy==2.2.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import faster_coco_eval.core.mask as faster
import hotcoco
import numpy as np
from pycocotools import mask as masks

labels = np.asfortranarray(np.array([[0, 0, 1, 1, 2, 2, 0, 0]], np.uint8).T)
seen = []
for name, module in (("pycocotools", masks), ("faster-coco-eval", faster), ("hotcoco", hotcoco.mask)):
    column = " ".join(str(value) for value in module.decode(module.encode(labels)).ravel())
    print(f"{name}: {column}")
    seen.append(column)
sys.exit(0 if seen == ["0 0 1 1 0 0 1 1"] * 2 + ["0 0 1 1 1 1 0 0"] else 1)
PYTHON
