#!/usr/bin/env bash
# miseval 1.3.0: the metric "HD" (`calc_SimpleHausdorffDistance`) does not take the pixels of an object as
# points, but the rows of the whole array as vectors: an object that is moved down any number of rows
# has a distance of 0, and the class that was asked for does not matter. "AHD" (average Hausdorff
# distance) is the greatest of the distances, not a mean. Nothing is raised.
#
# It meets whoever judges masks by borders with it: a mask beside the object looks perfect by one
# number, and one stray pixel decides the one that is called an average.
#
# Seen 2026-12-01, a rectangle of 8 x 12 pixels in 40 x 50, and the truth by SciPy:
#   moved down by 20 rows: HD 0.0, AHD 20.0; greatest distance 20.0
#   one stray pixel 25 columns away: AHD 25.0; greatest 25.0, mean 0.13
#   classes 1 and 7, which neither has, of one moved by 8 columns: HD 3.46 for both
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet miseval==1.3.0 hausdorff==0.2.6 numpy==2.4.6 scipy==1.17.1
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from miseval import calc_SimpleHausdorffDistance, evaluate
from scipy.spatial.distance import cdist


def distances(first, second):
    """Distance of each pixel of either object to the nearest one of the other."""
    table = cdist(np.argwhere(first), np.argwhere(second))
    return np.concatenate([table.min(1), table.min(0)])


def rectangle(row, column):
    mask = np.zeros((40, 50), np.uint8)
    mask[row : row + 8, column : column + 12] = 1
    return mask


truth, below = rectangle(4, 5), rectangle(24, 5)
simple, average = (float(evaluate(truth, below, metric=name)) for name in ("HD", "AHD"))
greatest = distances(truth, below).max()
print(f"moved down by 20 rows: HD {simple}, AHD {average}; greatest distance {greatest}")
stray = truth.copy()
stray[6, 16 + 25] = 1
second = float(evaluate(truth, stray, metric="AHD"))
true = distances(truth, stray)
print(f"one stray pixel 25 columns away: AHD {second}; greatest {true.max()}, mean {true.mean():.2f}")
aside = rectangle(4, 13)
classes = [float(calc_SimpleHausdorffDistance(truth, aside, c=number)) for number in (1, 7)]
print("classes 1 and 7:", classes)
kept = simple == 0 and average == greatest == 20 and second == true.max() == 25
sys.exit(0 if kept and classes[0] == classes[1] > 0 else 1)
PYTHON
