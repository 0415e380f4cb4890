#!/usr/bin/env bash
# imagecodecs 2026.3.6: the encoders for JPEG 2000, HTJ2K and TIFF take a big-endian array for a little-
# endian one: 1, 2, 3 (">u2") are written as 256, 512, 768. Nothing is said; those for PNG and JPEG XL
# refuse such arrays. tifffile 2026.3.3 with compression="jpeg2000" gives its array on as it is, and so
# does imagecodecs.imwrite. array.astype(array.dtype.newbyteorder("=")) is a way out.
#
# It meets whoever compresses what a reader gives as the file has it: FITS by astropy, TIFF of ImageJ by
# tifffile.memmap, raw big-endian volumes. The numbers print right before they are written.
#
# Seen 2026-11-30, the values 1 2 3 as uint16, big-endian (and little-endian):
#   tifffile, jpeg2000: 256 512 768 (1 2 3)
#   imwrite, .jp2: 256 512 768 (1 2 3)
#   jpeg2k: 256 512 768 (1 2 3)
#   htj2k: 256 512 768 (1 2 3)
#   tiff: 256 512 768 (1 2 3)
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


def by_tifffile(array):
    tifffile.imwrite("a.tif", array, compression="jpeg2000")
    return tifffile.imread("a.tif")


def by_imwrite(array):
    imagecodecs.imwrite("a.jp2", array)
    return imagecodecs.imread("a.jp2")


def by_codec(name):
    encode, decode = (getattr(imagecodecs, f"{name}_{way}") for way in ("encode", "decode"))
    return lambda array: decode(encode(array))


ways = {"tifffile, jpeg2000": by_tifffile, "imwrite, .jp2": by_imwrite}
ways |= {name: by_codec(name) for name in ("jpeg2k", "htj2k", "tiff")}
little = np.repeat(np.array([[1, 2, 3]], "<u2"), 16, axis=1).repeat(48, axis=0)
changed = True
for name, way in ways.items():
    swapped, same = (np.unique(way(little.astype(order + "u2"))).tolist() for order in "><")
    print(f"{name}: {' '.join(map(str, swapped))} ({' '.join(map(str, same))})")
    changed = changed and (swapped, same) == ([256, 512, 768], [1, 2, 3])
sys.exit(0 if changed else 1)
PYTHON
