#!/usr/bin/env bash
# encord 0.1.211: the rleString of a bitmask is written in the letters of COCO's compressed run lengths,
# and counts along rows, where COCO counts along columns. pycocotools decodes it without an error into
# another mask of the same area, so a comparison of areas does not show it. With height and width
# changed, and the result transposed, it is the mask.
#
# It meets whoever brings masks from Encord to COCO tools, or the other way.
#
# Seen 2026-11-29, a rectangle of 8 pixels in 5 x 7:
#   as COCO: 8 pixels, 27 of 35 agree
#   sides changed, transposed: 8 pixels, 35 of 35 agree
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet encord==0.1.211 pycocotools==2.0.11 numpy==2.2.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
from encord.objects.coordinates import BitmaskCoordinates
from pycocotools import mask as masks

mask = np.zeros((5, 7), bool)
mask[1:3, 2:6] = True
written = BitmaskCoordinates(mask).to_dict()


def seen(name, found):
    print(f"{name}: {found.sum()} pixels, {(found == mask).sum()} of {mask.size} agree")
    return int(found.sum()), int((found == mask).sum())


def decode(height, width):
    return masks.decode({"size": [height, width], "counts": written["rleString"]})


plain = seen("as COCO", decode(5, 7))
turned = seen("sides changed, transposed", decode(7, 5).T)
sys.exit(0 if plain == (8, 27) and turned == (8, 35) else 1)
PYTHON
