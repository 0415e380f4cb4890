#!/usr/bin/env bash
# tifffile 2026.3.3: pages that are written one by one, in a loop of TiffWriter.write or with
# imwrite(append=True), are series of their own, though they are equal in size and type. imread then
# gives the first page alone: a clip of masks that was written frame by frame comes back as one mask,
# without a word. Pillow counts all of its pages. contiguous=True, or one call with the whole stack, is
# a way out; imread(file, key=slice(None)) reads such a file.
#
# It meets whoever writes masks as they come, and reads the file by tifffile.imread.
#
# Seen 2026-11-29, three pages of 20 x 30:
#   a loop: imread (20, 30), Pillow 3 pages
#   append=True: imread (20, 30), Pillow 3 pages
#   contiguous=True: imread (3, 20, 30), Pillow 3 pages
#   key=slice(None): imread (3, 20, 30)
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet tifffile==2026.3.3 numpy==2.3.5 pillow==12.3.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import tifffile
from PIL import Image

masks = [np.full((20, 30), number, np.uint8) for number in range(3)]


def loop(**options):
    with tifffile.TiffWriter("a.tif") as file:
        for mask in masks:
            file.write(mask, **options)


def append():
    for number, mask in enumerate(masks):
        tifffile.imwrite("a.tif", mask, append=number > 0)


def seen(name):
    shape, pages = tifffile.imread("a.tif").shape, Image.open("a.tif").n_frames
    print(f"{name}: imread {shape}, Pillow {pages} pages")
    return shape, pages


loop()
found = [seen("a loop")]
append()
found += [seen("append=True")]
whole = tifffile.imread("a.tif", key=slice(None)).shape
loop(contiguous=True)
found += [seen("contiguous=True")]
print(f"key=slice(None): imread {whole}")
right = found == [((20, 30), 3), ((20, 30), 3), ((3, 20, 30), 3)] and whole == (3, 20, 30)
sys.exit(0 if right else 1)
PYTHON
