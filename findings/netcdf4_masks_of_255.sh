#!/usr/bin/env bash
# netCDF4 1.7.5.1.post1: a mask of 0 and 255 that was written without any fill value is read with its
# foreground missing. The library hides numbers that equal the format's default fill value, which for
# unsigned bytes is 255, for 16 bits 65535 (the usual "ignore" label) and for 32 bits 4294967295: the
# answer is a masked array, whose sum is 0 and in which no pixel is 255. A mask of 0 and 1 is whole.
# xarray 2026.9.0 reads the same file as it was written.
#
# It meets whoever keeps masks or label images as NetCDF: areas, counts and comparisons are silently
# those of the background, in one of the two usual readers.
#
# Seen 2026-12-01, masks of 3 x 4 pixels with two of the value:
#   uint8 255: netCDF4 MaskedArray, sum 0, hidden 2; xarray sum 510
#   uint8 1: netCDF4 MaskedArray, sum 2, hidden 0; xarray sum 2
#   uint16 65535: netCDF4 MaskedArray, sum 0, hidden 2; xarray sum 131070
#   uint16 255: netCDF4 MaskedArray, sum 510, hidden 0; xarray sum 510
#   uint32 4294967295: netCDF4 MaskedArray, sum 0, hidden 2; xarray sum 8589934590
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet netCDF4==1.7.5.1.post1 xarray==2026.9.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import netCDF4
import numpy as np
import xarray

HIDDEN = {("uint8", 255), ("uint16", 65535), ("uint32", 4294967295)}
kept = True
for dtype, value in (
    ("uint8", 255),
    ("uint8", 1),
    ("uint16", 65535),
    ("uint16", 255),
    ("uint32", 4294967295),
):
    mask = np.zeros((3, 4), dtype)
    mask[1, 1:3] = value
    with netCDF4.Dataset("mask.nc", "w") as file:
        file.createDimension("y", 3)
        file.createDimension("x", 4)
        file.createVariable("mask", mask.dtype, ("y", "x"))[:] = mask
    with netCDF4.Dataset("mask.nc") as file:
        found = file["mask"][:]
    with xarray.open_dataset("mask.nc", engine="netcdf4") as file:
        other = int(file["mask"].values.sum(dtype=np.uint64))
    total = int(np.ma.filled(found.sum(dtype=np.uint64), 0))
    hidden = int(np.ma.getmaskarray(found).sum())
    print(
        f"{dtype} {value}: netCDF4 {type(found).__name__}, sum {total}, hidden {hidden}; xarray sum {other}"
    )
    lost = (dtype, value) in HIDDEN
    kept = kept and other == 2 * value
    kept = kept and (total, hidden) == ((0, 2) if lost else (2 * value, 0))
sys.exit(0 if kept else 1)
PYTHON
