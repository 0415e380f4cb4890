#!/usr/bin/env bash
# kornia 0.9.0: contrib.connected_components gives the pixels of a long object labels of their own. A
# label travels one pixel an iteration, and there are 100 of them unless one says otherwise: a line of
# 101 pixels is one object, a line of 150 is 50, one of 300 is 200. Nothing tells that it has not come
# to its end. num_iterations of at least the longest way inside an object is a way out.
#
# It meets whoever counts objects or removes small ones: the far end of a wire, a road, a snake falls
# into specks of one pixel.
#
# Seen 2026-11-29:
#   101 pixels: 1 object
#   150 pixels: 50 objects
#   300 pixels: 200 objects
#   300 pixels, 300 iterations: 1 object
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/python" -m pip install --quiet "$@"; }
pip torch==2.13.0
pip kornia==0.9.0 numpy==2.3.5
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import sys

import torch
from kornia.contrib import connected_components


def objects(length, **options):
    line = torch.zeros(1, 1, 8, 400)
    line[..., 4, 10 : 10 + length] = 1
    count = len(connected_components(line, **options).unique()) - 1
    told = "".join(f", {value} iterations" for value in options.values())
    print(f"{length} pixels{told}: {count} object{'s' * (count != 1)}")
    return count


seen = [objects(101), objects(150), objects(300), objects(300, num_iterations=300)]
sys.exit(0 if seen == [1, 50, 200, 1] else 1)
PYTHON
