#!/usr/bin/env bash
# tables 3.11.1 and h5py 3.16.0: each keeps bool arrays in HDF5 files as a type of its own (h5py an
# enumeration of bytes, PyTables a field of bits), and reads the other's as numbers without a word: a mask
# of h5py comes as int8, one of PyTables as uint8. The values are right, but such a mask is no mask:
# image[mask] takes the rows 0 and 1 again and again in place of the pixels, and ~mask has no zeros.
#
# It meets whoever writes masks with one of them and reads with the other (pandas reads by PyTables).
#
# Seen 2026-12-01, a mask of 5 x 5 pixels with 6 of them set, an image of 5 x 5:
#   written by h5py, read by PyTables: int8, 6 set; image[mask] (5, 5, 5), ~mask without zeros
#   written by PyTables, read by h5py: uint8, 6 set; image[mask] (5, 5, 5), ~mask without zeros
#   each by itself: bool, image[mask] (6,)
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet h5py==3.16.0 tables==3.11.1 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys
import warnings

import h5py
import numpy as np
import tables

warnings.simplefilter("error")  # nothing is said
image = np.arange(25).reshape(5, 5)
mask = image % 4 == 0
mask[0, 0] = False


def by_h5py(path):
    with h5py.File(path) as file:
        return file["mask"][:]


def by_pytables(path):
    with tables.open_file(path) as file:
        return file.root.mask.read()


with h5py.File("h5py.h5", "w") as file:
    file["mask"] = mask
with tables.open_file("pytables.h5", "w") as file:
    file.create_array("/", "mask", mask)
kept = int(mask.sum()) == 6
for writer, reader, path, read, dtype in (
    ("h5py", "PyTables", "h5py.h5", by_pytables, "int8"),
    ("PyTables", "h5py", "pytables.h5", by_h5py, "uint8"),
):
    found = read(path)
    picked, zeros = image[found].shape, int((~found == 0).sum())
    print(
        f"written by {writer}, read by {reader}: {found.dtype}, {int(found.sum())} set; "
        f"image[mask] {picked}, ~mask {'with' if zeros else 'without'} zeros"
    )
    kept = kept and found.dtype == dtype and np.array_equal(found, mask)
    kept = kept and picked == (5, 5, 5) and zeros == 0
own = [by_h5py("h5py.h5"), by_pytables("pytables.h5")]
print(f"each by itself: {own[0].dtype}, image[mask] {image[own[0]].shape}")
sys.exit(0 if kept and all(x.dtype == bool and image[x].shape == (6,) for x in own) else 1)
PYTHON
