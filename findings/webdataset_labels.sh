#!/usr/bin/env bash
# webdataset 1.0.2: none of the decoders of images ("l", "l8", "rgb8", "pil", "pill", ...) gives the
# numbers of a label image. Labels with a palette (VOC's and DAVIS' masks) become the brightness of
# their colours, or the colours; labels of 16 bits become 255 wherever they are larger, with "pil" too.
#
# It meets whoever keeps masks as PNG in shards beside the images: one `decode("l8")` for both gives a
# mask whose classes are other ones. The bytes of the file, decoded by one's own function, are right.
#
# Seen 2026-12-01:
#   palette, labels 0 1 2 15: l8 0 38 75 147; pil 0 0 0, 128 0 0, 0 128 0, 192 128 128
#   16 bits, labels 0 1000 40000: l8 0 255 255; pil 0 0 0, 255 255 255, 255 255 255
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet webdataset==1.0.2 pillow==13.0.0 numpy==2.4.6
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
import webdataset
from PIL import Image

indices = Image.fromarray(np.tile(np.uint8([0, 1, 2, 15]), (3, 1)), "P")
palette = np.zeros((256, 3), np.uint8)
palette[[1, 2, 15]] = (128, 0, 0), (0, 128, 0), (192, 128, 128)
indices.putpalette(palette.ravel().tolist())
indices.save("palette.png")
Image.fromarray(np.tile(np.uint16([0, 1000, 40000]), (3, 1))).save("wide.png")
with webdataset.TarWriter("shard.tar") as shard:
    for name in ("palette", "wide"):
        with open(f"{name}.png", "rb") as file:
            shard.write({"__key__": name, "png": file.read()})


def decoded(how):
    samples = webdataset.WebDataset("shard.tar", shardshuffle=False).decode(how)
    return [np.asarray(sample["png"])[0].tolist() for sample in samples]


grey, colours = decoded("l8"), decoded("pil")
print("palette, labels 0 1 2 15:", "l8", grey[0], "pil", colours[0])
print("16 bits, labels 0 1000 40000:", "l8", grey[1], "pil", colours[1])
right = grey == [[0, 38, 75, 147], [0, 255, 255]] and colours[1] == [[0] * 3, [255] * 3, [255] * 3]
sys.exit(0 if right and colours[0][3] == [192, 128, 128] else 1)
PYTHON
