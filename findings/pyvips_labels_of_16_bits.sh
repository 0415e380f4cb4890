#!/usr/bin/env bash
# pyvips 3.2.0 (libvips 8.18.7): an image that Image.new_from_array makes of a grey uint16 array is
# written to PNG with 8 bits, all values above 255 as 255: labels 255, 256, 300 and 65535 are one object.
# A uint16 array of colours is divided by 256 instead. Nothing is said, and the same image as TIFF keeps
# its 16 bits. The array's interpretation is "b-w", which stands for 8 bits;
# copy(interpretation="grey16") is a way out.
#
# Seen 2026-11-29, uint16 labels 0 1 255 256 300 65535:
#   PNG: 0 1 255 255 255 255
#   TIFF: 0 1 255 256 300 65535
#   PNG, grey16: 0 1 255 256 300 65535
#   PNG, colour 1000: 3
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pyvips==3.2.0 pyvips-binary==8.18.7 numpy==2.3.5 \
  pillow==12.3.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import pyvips
from PIL import Image

LABELS = [0, 1, 255, 256, 300, 65535]
image = pyvips.Image.new_from_array(np.array([LABELS], np.uint16))
colours = pyvips.Image.new_from_array(np.full((1, 1, 3), 1000, np.uint16))


def read_back(name, image, file):
    image.write_to_file(file)
    values = np.asarray(Image.open(file)).ravel().tolist()
    return name, values


rows = [
    read_back("PNG", image, "a.png"),
    read_back("TIFF", image, "a.tif"),
    read_back("PNG, grey16", image.copy(interpretation="grey16"), "b.png"),
]
colour = read_back("PNG, colour 1000", colours, "c.png")[1]
for name, values in rows:
    print(f"{name}: " + " ".join(str(value) for value in values))
print(f"PNG, colour 1000: {colour[0]}")
expected = [[0, 1, 255, 255, 255, 255], LABELS, LABELS]
sys.exit(0 if [values for _, values in rows] == expected and colour == [3, 3, 3] else 1)
PYTHON
