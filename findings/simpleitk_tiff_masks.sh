#!/usr/bin/env bash
# SimpleITK 2.5.7: a TIFF mask of one bit a pixel is read as four channels, whose last one is 255
# everywhere: `array > 0` is true for every pixel in it, and the array is (H, W, 4) instead of (H, W).
# A TIFF mask with a palette is read as colours of 16 bits (128 becomes 32768), its labels are gone.
# The same masks as PNG are (H, W) with 0 and 255, and colours of 8 bits.
#
# Seen 2026-11-29, masks of 4 pixels:
#   1 bit, TIFF: (1, 4, 4) uint8, 10 values above 0
#   1 bit, PNG: (1, 4) uint8, 2 values above 0
#   palette, TIFF: (1, 4, 3) uint16, largest 32768
#   palette, PNG: (1, 4, 3) uint8, largest 128
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet simpleitk==2.5.7 numpy==2.3.5 pillow==12.3.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK
from PIL import Image

bits = Image.fromarray(np.array([[False, True, True, False]]))
palette = Image.fromarray(np.array([[0, 1, 2, 3]], np.uint8)).convert("P")
palette.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0, 128, 128, 0])


def read(image, suffix):
    image.save(f"mask.{suffix}")
    return SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(f"mask.{suffix}"))


forms = {"tif": "TIFF", "png": "PNG"}
seen = []
for suffix, form in forms.items():
    array = read(bits, suffix)
    seen.append(f"1 bit, {form}: {array.shape} {array.dtype}, {(array > 0).sum()} values above 0")
for suffix, form in forms.items():
    array = read(palette, suffix)
    seen.append(f"palette, {form}: {array.shape} {array.dtype}, largest {array.max()}")
print("\n".join(seen))
expected = [
    "1 bit, TIFF: (1, 4, 4) uint8, 10 values above 0",
    "1 bit, PNG: (1, 4) uint8, 2 values above 0",
    "palette, TIFF: (1, 4, 3) uint16, largest 32768",
    "palette, PNG: (1, 4, 3) uint8, largest 128",
]
sys.exit(0 if seen == expected else 1)
PYTHON
