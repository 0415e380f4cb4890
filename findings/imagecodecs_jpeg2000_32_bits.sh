#!/usr/bin/env bash
# imagecodecs 2026.3.6 (OpenJPEG), and tifffile 2026.3.3 through it: JPEG 2000 of uint32 labels, which is
# lossless, comes back with other labels. A map of nothing but 0 becomes a map of nothing but 1; a mask
# with the label 3 in 100 pixels has labels 0, 1, 3 and 4 afterwards, most of the background is 1, and
# a part of the object is 4. Labels from 2 ** 26 on become small ones. Nothing is said, with
# reversible=True as without. uint8 and uint16 are right. bitspersample=25 of jpeg2k_encode is a way out
# (labels up to 2 ** 25 - 1), other compressions are another.
#
# It meets whoever writes instance labels (uint32 of scikit-image or cellpose) with the codec of slide
# scanners: `mask > 0` is true nearly everywhere.
#
# Seen 2026-11-30, labels of 64 x 64 pixels:
#   all 0, uint16: {0: 4096}
#   all 0, uint32: {1: 4096}
#   a square of 3, uint32: {0: 182, 1: 3814, 3: 92, 4: 8}
#   a square of 3, uint32, in TIFF: {0: 182, 1: 3814, 3: 92, 4: 8}
#   a square of 3, uint32, 25 bits: {0: 3996, 3: 100}
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet imagecodecs==2026.3.6 tifffile==2026.3.3 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import imagecodecs
import numpy as np
import tifffile


def seen(name, labels):
    values, counts = np.unique(labels, return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    print(f"{name}: {found}")
    return found


def coded(labels, **options):
    return imagecodecs.jpeg2k_decode(imagecodecs.jpeg2k_encode(labels, **options))


none = np.zeros((64, 64), np.uint32)
square = none.copy()
square[10:20, 10:20] = 3
tifffile.imwrite("a.tif", square, compression="jpeg2000")
changed = {0: 182, 1: 3814, 3: 92, 4: 8}
right = [
    seen("all 0, uint16", coded(none.astype(np.uint16))) == {0: 4096},
    seen("all 0, uint32", coded(none, reversible=True)) == {1: 4096},
    seen("a square of 3, uint32", coded(square, reversible=True)) == changed,
    seen("a square of 3, uint32, in TIFF", tifffile.imread("a.tif")) == changed,
    seen("a square of 3, uint32, 25 bits", coded(square, bitspersample=25)) == {0: 3996, 3: 100},
]
sys.exit(0 if all(right) else 1)
PYTHON
