#!/usr/bin/env bash
# fastparquet 2026.9.0 writes values of partitions into names of folders as they are; pyarrow 26.0.1
# (and pandas 3.1.1 through it), polars and DuckDB write them percent-encoded and decode what they
# read. So a value with "%25" comes back changed, without a word, and one with "/" makes two folders,
# of which the second is no partition: the value loses its end.
#
# Seen: fastparquet reads ['50%25 off', 'a b'], pyarrow reads ['50% off', 'a b']; the value "a/b" is
# in the folders text=a/b, and pyarrow reads it as "a".
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q fastparquet==2026.9.0 pyarrow==26.0.1 pandas==3.1.1
env/bin/python -W ignore - <<'PY'
from pathlib import Path

import fastparquet
import pandas as pd
import pyarrow.dataset as ds

frame = pd.DataFrame({"n": [1, 2], "text": ["50%25 off", "a b"]})
fastparquet.write("one", frame, file_scheme="hive", partition_on=["text"])
own = fastparquet.ParquetFile("one").to_pandas().sort_values("n")["text"].astype(str).tolist()
other = ds.dataset("one", partitioning="hive").to_table().sort_by("n")["text"].to_pylist()
print("fastparquet reads", own, "pyarrow reads", other)
assert own == ["50%25 off", "a b"]
assert other == ["50% off", "a b"]

frame = pd.DataFrame({"n": [1, 2], "text": ["a/b", "c"]})
fastparquet.write("two", frame, file_scheme="hive", partition_on=["text"])
names = sorted(path.as_posix() for path in Path("two").rglob("*.parquet"))
read = ds.dataset("two", partitioning="hive").to_table().sort_by("n")["text"].to_pylist()
print(names, read)
assert names == ["two/text=a/b/part.0.parquet", "two/text=c/part.0.parquet"]
assert read == ["a", "c"]
PY
echo "as seen"
