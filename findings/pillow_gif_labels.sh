#!/usr/bin/env bash
# Pillow 12.3.0: a palette image that is saved as GIF gets other indices if it has less than 512 x 512
# pixels: those that occur are numbered anew, from 0 on. Labels 0, 7 and 21 are read as 0, 1 and 2, their
# colours stay. A larger image keeps its labels, so that the two halves of a data set disagree. The option
# optimize, which is documented as off unless it is asked for, is on where it is not named:
# optimize=False is a way out, PNG another, which keeps indices.
#
# It meets whoever keeps masks with a palette (as VOC and DAVIS do) as GIF: each file has labels 0, 1, 2,
# whichever classes are in it.
#
# Seen 2026-11-30, a palette image with the indices 0, 7 and 21:
#   GIF, 100 x 100: 0 1 2
#   GIF, 600 x 600: 0 7 21
#   GIF, 100 x 100, optimize=False: 0 7 21
#   PNG, 100 x 100: 0 7 21
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pillow==12.3.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from PIL import Image


def seen(file_format, side, **options):
    labels = np.zeros((side, side), np.uint8)
    labels[: side // 2, : side // 2], labels[side // 2 :, side // 2 :] = 7, 21
    image = Image.fromarray(labels)
    image.putpalette([value for index in range(256) for value in (index, 255 - index, 128)])
    image.save("mask", file_format, **options)
    read = Image.open("mask")
    assert read.mode == "P"
    assert (np.asarray(read.convert("RGB")) == np.asarray(image.convert("RGB"))).all()
    found = np.unique(np.asarray(read)).tolist()
    told = "".join(f", {name}={value}" for name, value in options.items())
    print(f"{file_format}, {side} x {side}{told}: {' '.join(map(str, found))}")
    return found


kept = [0, 7, 21]
found = [seen("GIF", 100), seen("GIF", 600), seen("GIF", 100, optimize=False), seen("PNG", 100)]
sys.exit(0 if found == [[0, 1, 2], kept, kept, kept] else 1)
PYTHON
