#!/usr/bin/env bash
# upolygon 0.2.3, which V7's darwin-py converts masks with: `rle_encode` gives COCO's counts, column by
# column. `rle_decode` is its inverse only with the size as (width, height): with the size of the mask,
# which is what COCO keeps beside the counts, it gives an array of the turned shape whose pixels are
# neither the mask nor its transpose. Square masks come back right, so a trial with one does not show it.
#
# It meets whoever decodes a COCO annotation by its own two fields, `counts` and `size`.
#
# Seen 2026-12-01, a mask of 6 rows and 9 columns:
#   counts are COCO's: True
#   decoded with (6, 9): shape (9, 6), the mask False, its transpose False
#   decoded with (9, 6): shape (6, 9), the mask True, its transpose False
#   a square one, with its own size: True
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet upolygon==0.2.3 pycocotools==2.0.11 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from pycocotools import mask as coco
from upolygon import rle_decode, rle_encode

mask = (np.random.default_rng(0).random((6, 9)) < 0.5).astype(np.uint8)
counts = rle_encode(mask)
code = {"size": [6, 9], "counts": [int(count) for count in counts]}
same = np.array_equal(coco.decode(coco.frPyObjects(code, 6, 9)), mask)
print("counts are COCO's:", same)
found = [same]
for size in (mask.shape, mask.shape[::-1]):
    decoded = np.array(rle_decode(counts, size))
    equal = np.array_equal(decoded, mask), np.array_equal(decoded, mask.T)
    print(f"decoded with {size}: shape {decoded.shape}, the mask {equal[0]}, its transpose {equal[1]}")
    found.append((decoded.shape, *equal))
square = np.triu(np.ones((5, 5), np.uint8))
found.append(np.array_equal(np.array(rle_decode(rle_encode(square), square.shape)), square))
print("a square one, with its own size:", found[-1])
expected = [True, ((9, 6), False, False), ((6, 9), True, False), True]
sys.exit(0 if found == expected else 1)
PYTHON
