#!/bin/sh
# Pillow reads FITS images of floats with the bytes of each number in the wrong order.
#
# Seen with Pillow 12.3.0 and astropy 8.0.2 on x86-64 (2026-11-28). FITS is big-endian; for BITPIX -32
# and -64 Pillow takes the numbers in the order of the machine. BITPIX 8 is right, and rows are turned
# round as FITS means them. No error, no warning.
#
# Output seen (the only row of 1, 2, 3 as Pillow gives it):
#   uint8: L [1, 2, 3]
#   float32: F [4.600602988224807e-41, 8.96831017167883e-44, 2.304855714121459e-41]
# What it means here: `io.read_image` and images of Pillow refuse FITS, and name astropy's line.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pillow==12.3.0 astropy==8.0.2 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PY' | tee seen.txt
import numpy as np
from astropy.io import fits
from PIL import Image

for dtype in ("uint8", "float32"):
    values = np.array([[1, 2, 3]], dtype)
    fits.PrimaryHDU(values).writeto("a.fits", overwrite=True)
    assert (fits.getdata("a.fits") == values).all()
    with Image.open("a.fits") as image:
        print(f"{dtype}: {image.mode} {np.asarray(image)[0].tolist()}")
PY
sed -n 's/^#   //p' "$script" > told.txt
diff told.txt seen.txt && echo "as described"
