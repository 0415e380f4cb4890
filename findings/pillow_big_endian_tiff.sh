#!/bin/sh
# Pillow swaps the bytes of compressed big-endian TIFF files of int16, int32 and float32.
#
# Seen with Pillow 12.3.0 and tifffile 2026.3.3 on x86-64 (2026-11-28). libtiff decodes strips and
# brings the numbers in the order of the machine; Pillow then applies the raw modes "I;16BS",
# "I;32BS" and "F;32BF", which swap the bytes once more. No error, no warning. uint16 ("I;16N") and
# uncompressed files are right. OpenCV and tifffile read all of these files right.
#
# Output seen:
#   int16 none: [1, 2, 3]
#   int16 zlib: [256, 512, 768]
#   int32 none: [1, 2, 3]
#   int32 zlib: [16777216, 33554432, 50331648]
#   float32 none: [1.0, 2.0, 3.0]
#   float32 zlib: [4.600602988224807e-41, 8.96831017167883e-44, 2.304855714121459e-41]
#   uint16 none: [1, 2, 3]
#   uint16 zlib: [1, 2, 3]
# What it means here: `io.read_mask` would miss labels, `io.read_image(stretch=True)` show noise; the
# library takes the numbers back in order where Pillow tells these raw modes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pillow==12.3.0 tifffile==2026.3.3 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PY' | tee seen.txt
import numpy as np
import tifffile
from PIL import Image

for dtype in ("int16", "int32", "float32", "uint16"):
    for compression in (None, "zlib"):
        values = np.array([[1, 2, 3]] * 16, dtype)
        tifffile.imwrite("a.tif", values, byteorder=">", compression=compression)
        assert (tifffile.imread("a.tif") == values).all()
        with Image.open("a.tif") as image:
            row = np.asarray(image)[0].tolist()
        print(f"{dtype} {compression or 'none'}: {row}")
PY
sed -n 's/^#   //p' "$script" > told.txt
diff told.txt seen.txt && echo "as described"
