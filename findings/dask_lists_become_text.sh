#!/usr/bin/env bash
# dask 2026.8.0 with pandas 3.1.1 and pyarrow 26.0.1: from_pandas turns a column of lists into
# letters, and to_parquet writes these: ["cup", "dog"] comes back as the text "['cup', 'dog']". Its
# setting dataframe.convert-string is on by default, and takes every column of objects for texts.
# Nothing is said. With the setting off, and a schema, the lists stay lists.
#
# It meets whoever writes tables of boxes, points or texts through dask.
#
# Seen 2026-11-28:
#   by default: "['cup', 'dog']"
#   convert-string off: ['cup', 'dog']
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "dask[dataframe]==2026.8.0" pandas==3.1.1 pyarrow==26.0.1
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

frame = pd.DataFrame({"text": [["cup", "dog"], ["cat"]]})


def first(**options):
    dd.from_pandas(frame, npartitions=1).to_parquet("table", overwrite=True, **options)
    return pq.read_table("table")["text"][0].as_py()


found = first()
print(f"by default: {found!r}")
with dask.config.set({"dataframe.convert-string": False}):
    plain = first(schema={"text": pa.list_(pa.string())})
print(f"convert-string off: {plain!r}")
sys.exit(0 if found == "['cup', 'dog']" and plain == ["cup", "dog"] else 1)
PYTHON
