#!/usr/bin/env bash
# rasterio 1.4.4 (GDAL's polygonizer): features.shapes takes a float64 raster, and joins regions whose
# numbers differ by less than single precision can tell: 16777216, 16777217 and 16777218 become one
# polygon with the value of the last. int32 keeps them apart; int64 and uint32 are refused with a list
# of types in which float64 stands, which is the obvious way out for numbers of this size.
#
# It meets whoever turns a raster of object numbers (parcels, buildings, instances that are numbered
# over many tiles) into polygons.
#
# Seen 2026-11-29, the row 16777216 16777217 16777218 1:
#   int32: 4 polygons, [1, 16777216, 16777217, 16777218]
#   float64: 2 polygons, [1, 16777218]
#   int64: ValueError
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet rasterio==1.4.4 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from rasterio import features

numbers = np.array([[16777216, 16777217, 16777218, 1]])


def seen(dtype):
    try:
        found = sorted(int(value) for _, value in features.shapes(numbers.astype(dtype)))
    except ValueError:
        print(f"{dtype}: ValueError")
        return None
    print(f"{dtype}: {len(found)} polygons, {found}")
    return found


expected = [[1, 16777216, 16777217, 16777218], [1, 16777218], None]
sys.exit(0 if [seen("int32"), seen("float64"), seen("int64")] == expected else 1)
PYTHON
