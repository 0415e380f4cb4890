#!/usr/bin/env bash
# mahotas 1.4.19: labeled_sum adds up the values of each object in the type of the image. For uint8 the sum
# is what is left of it modulo 256: three pixels of 100 have a sum of 44, an object of 300 pixels in a
# mask of 0 and 1 has an area of 44. Nothing is said. array.sum() and scipy.ndimage.sum_labels give the
# number; labeled_sum(image.astype(float), labels) is a way out.
#
# It meets whoever takes the brightness of each object from an 8-bit image: mean values are too small, and
# the larger the object, the less they have to do with it.
#
# Seen 2026-11-30, objects of 1, 3 and 300 pixels of 100, and of 1 in the mask:
#   mahotas, image: 100 44 48
#   scipy, image: 100 300 30000
#   mahotas, mask: 1 3 44
#   scipy, mask: 1 3 300
#   mahotas, image as float: 100 300 30000
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet mahotas==1.4.19 scipy==1.17.1 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import mahotas
import numpy as np
from scipy import ndimage

labels = np.zeros((40, 40), np.int32)
labels[0, 0] = 1
labels[2, :3] = 2
labels[10:20, 5:35] = 3
mask = (labels > 0).astype(np.uint8)
image = mask * np.uint8(100)


def by_mahotas(values):
    return mahotas.labeled_sum(values, labels)[1:]


def by_scipy(values):
    return ndimage.sum_labels(values, labels, [1, 2, 3])


def seen(name, sums):
    found = [int(value) for value in sums]
    print(f"{name}: {' '.join(map(str, found))}")
    return found


found = [
    seen("mahotas, image", by_mahotas(image)),
    seen("scipy, image", by_scipy(image)),
    seen("mahotas, mask", by_mahotas(mask)),
    seen("scipy, mask", by_scipy(mask)),
    seen("mahotas, image as float", by_mahotas(image.astype(float))),
]
true = [100, 300, 30000]
sys.exit(0 if found == [[100, 44, 48], true, [1, 3, 44], [1, 3, 300], true] else 1)
PYTHON
