#!/usr/bin/env bash
# geopandas 1.2.0 with pyogrio 0.13.0 (GDAL 3.12.4): a table that is written as FlatGeobuf has its rows in
# another order, along a Hilbert curve, since GDAL sorts them for the spatial index that it writes unless
# one says otherwise. GeoPackage, GeoJSON and Parquet keep the order. Nothing is said, and the index that
# read_file gives counts from 0 again. SPATIAL_INDEX="NO" keeps the order too.
#
# It meets whoever pairs the polygons of a file with masks, scores or embeddings by the number of the row:
# each polygon has the score of another one. A column with the number is a way out.
#
# Seen 2026-11-30, five squares with the numbers 0 1 2 3 4:
#   .gpkg: 0 1 2 3 4
#   .parquet: 0 1 2 3 4
#   .fgb: 3 1 4 2 0
#   .fgb, no index: 0 1 2 3 4
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet geopandas==1.2.0 pyogrio==0.13.0 pyarrow==26.0.1 \
  shapely==2.2.0 numpy==2.3.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import geopandas
import shapely

corners = [(0, 0), (90, 90), (0, 90), (90, 0), (50, 50)]
squares = [shapely.box(x, y, x + 5, y + 5) for x, y in corners]
table = geopandas.GeoDataFrame({"number": range(5)}, geometry=squares)


def order(name, read):
    numbers = read["number"].tolist()
    # Each number still has its own polygon: the rows are moved as a whole.
    assert all(read.geometry[row].equals(squares[number]) for row, number in enumerate(numbers))
    print(f"{name}: {' '.join(map(str, numbers))}")
    return numbers


table.to_file("a.gpkg")
table.to_parquet("a.parquet")
table.to_file("a.fgb")
table.to_file("b.fgb", SPATIAL_INDEX="NO")
seen = [
    order(".gpkg", geopandas.read_file("a.gpkg")),
    order(".parquet", geopandas.read_parquet("a.parquet")),
    order(".fgb", geopandas.read_file("a.fgb")),
    order(".fgb, no index", geopandas.read_file("b.fgb")),
]
kept = list(range(5))
sys.exit(0 if seen == [kept, kept, [3, 1, 4, 2, 0], kept] else 1)
PYTHON
