#!/usr/bin/env bash
# rioxarray 0.19.0: rio.reproject of a mask of 0 and 255 (uint8) fills what lies outside of the source with
# 255, the largest value of the type, where the raster names no value for "no data": the turned raster's
# corners are object. int32 labels get -2147483648 there, which is not 0 either. The raster says afterwards
# that 255 is no data, so that read with masked=True the whole object is gone. rasterio's own warp fills
# with 0. nodata=0 is a way out.
#
# It meets whoever brings masks of buildings or fields to the projection of a map.
#
# Seen 2026-11-30, a mask of 40 x 60 with an object of 200 pixels, from degrees to UTM zone 32:
#   rioxarray: 363 pixels of 255, of which 146 lie outside of the source; no data: 255
#   rioxarray, nodata=0: 217 pixels of 255, of which 0 lie outside of the source; no data: 0
#   rasterio: 217 pixels of 255, of which 0 lie outside of the source
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet rioxarray==0.19.0 rasterio==1.4.4 xarray==2026.9.0 numpy==2.3.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import numpy as np
import rioxarray  # noqa: F401  (the accessor .rio)
import xarray
from rasterio import warp

mask = np.zeros((40, 60), np.uint8)
mask[10:20, 10:30] = 255
coords = {"y": np.linspace(50, 46, 40), "x": np.linspace(5, 11, 60)}
raster = xarray.DataArray(mask, dims=("y", "x"), coords=coords).rio.write_crs("EPSG:4326")
inside = (raster.astype("int32") * 0 + 1).rio.reproject("EPSG:32632", nodata=0).values == 1


def seen(name, values, no_data=None):
    found = (int((values == 255).sum()), int(((values == 255) & ~inside).sum()))
    told = "" if no_data is None else f"; no data: {no_data}"
    print(f"{name}: {found[0]} pixels of 255, of which {found[1]} lie outside of the source{told}")
    return found


turned = raster.rio.reproject("EPSG:32632")
named = raster.rio.reproject("EPSG:32632", nodata=0)
other = np.zeros(turned.shape, np.uint8)
warp.reproject(
    mask,
    other,
    src_transform=raster.rio.transform(),
    src_crs="EPSG:4326",
    dst_transform=turned.rio.transform(),
    dst_crs="EPSG:32632",
)
right = [
    seen("rioxarray", turned.values, turned.rio.nodata) == (363, 146) and turned.rio.nodata == 255,
    seen("rioxarray, nodata=0", named.values, named.rio.nodata) == (217, 0),
    seen("rasterio", other) == (217, 0),
]
sys.exit(0 if all(right) else 1)
PYTHON
