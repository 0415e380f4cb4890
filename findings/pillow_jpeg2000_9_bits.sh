#!/bin/sh
# Pillow opens grey JPEG 2000 of 9 bits as 8 bits; with 10 bits and more it keeps all.
#
# Seen with Pillow 12.3.0 and imagecodecs 2026.3.6 (2026-11-28). The file stores the bits minus one,
# and Pillow compares that with 8: 9 bits become mode "L", the lowest bit is gone, and the largest value becomes 0. No warning.
# Files of 10 to 16 bits become mode "I;16", with values moved up to 16 bits.
#
# Output seen (bits: mode, values of 0, 1, 2, 3 and the largest):
#   8: L [0, 1, 2, 3, 255]
#   9: L [0, 1, 1, 2, 0]
#   10: I;16 [0, 64, 128, 192, 65472]
#   16: I;16 [0, 1, 2, 3, 65535]
# What it means here: `io.read_mask` refuses labels in such files, and `io.read_image` with `stretch`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pillow==12.3.0 imagecodecs==2026.3.6 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PY' | tee seen.txt
import imagecodecs
import numpy as np
from PIL import Image

for bits in (8, 9, 10, 16):
    most = (1 << bits) - 1
    values = np.zeros((64, 64), np.uint16 if bits > 8 else np.uint8)
    values[0, :5] = 0, 1, 2, 3, most
    data = imagecodecs.jpeg2k_encode(values, level=0, bitspersample=bits, reversible=True)
    assert (imagecodecs.jpeg2k_decode(data) == values).all()
    open("a.jp2", "wb").write(data)
    with Image.open("a.jp2") as image:
        print(f"{bits}: {image.mode} {np.asarray(image)[0, :5].tolist()}")
PY
sed -n 's/^#   //p' "$script" > told.txt
diff told.txt seen.txt && echo "as described"
