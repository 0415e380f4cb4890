#!/usr/bin/env bash
# scikit-image 0.26.0: segmentation.join_segmentations of two label images of uint8 gives labels of uint8,
# also where there are more than 256 pairs of labels: the numbers start again from 0, and regions that
# have nothing in common are one. Nothing is said. The same images as int32 give every
# pair a label of its own.
#
# It meets whoever crosses two segmentations (cells and tissue, superpixels and classes) that were read
# from 8-bit files: each of them has few labels, the pairs are many.
#
# Seen 2026-11-30, 20 rows crossed with 20 columns:
#   uint8: 256 labels, 288 of 400 regions share theirs with another one
#   int32: 400 labels, 0 of 400 regions share theirs with another one
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet scikit-image==0.26.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys
from collections import Counter

import numpy as np
from skimage.segmentation import join_segmentations

rows, columns = np.mgrid[:20, :20]  # each pixel is a pair of its own


def seen(dtype):
    joined = join_segmentations(rows.astype(dtype), columns.astype(dtype))
    counts = Counter(joined.ravel().tolist())
    shared = sum(count for count in counts.values() if count > 1)
    print(f"{dtype}: {len(counts)} labels, {shared} of {joined.size} regions share theirs with another one")
    return len(counts), shared


sys.exit(0 if [seen("uint8"), seen("int32")] == [(256, 288), (400, 0)] else 1)
PYTHON
