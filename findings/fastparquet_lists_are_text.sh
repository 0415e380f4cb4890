#!/usr/bin/env bash
# A column of lists that pandas 3.1.1 writes with engine="fastparquet" (2026.9.0) is JSON text in the
# file, marked as Parquet's JSON type. With engine="pyarrow" (26.0.1) the same pandas reads it as str,
# not as lists, and polars 2.1.0 as bytes. With engine="fastparquet" it comes back as lists.
#
# Seen: fastparquet [1.5, 2.5], pyarrow '[1.5,2.5]', polars b'[1.5,2.5]'.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q fastparquet==2026.9.0 pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0
env/bin/python -W ignore - <<'PY'
import pandas as pd
import polars as pl

pd.DataFrame({"box": [[1.5, 2.5]]}).to_parquet("t.parquet", engine="fastparquet")
own = pd.read_parquet("t.parquet", engine="fastparquet")["box"][0]
other = pd.read_parquet("t.parquet", engine="pyarrow")["box"][0]
third = pl.read_parquet("t.parquet")["box"].to_list()[0]
print("fastparquet", repr(own), "pyarrow", repr(other), "polars", repr(third))
assert list(own) == [1.5, 2.5]
assert other == "[1.5,2.5]"
assert third == b"[1.5,2.5]"
PY
echo "as seen"
