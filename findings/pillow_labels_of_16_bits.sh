#!/usr/bin/env bash
# Pillow 12.3.0 saves images of 16 bits (modes "I;16" and "I") as AVIF, WebP and GIF with 8 bits, and with
# all values above 255 as 255: labels 255, 256 and 1000 are one object, and a scan of 12 bits is white.
# Nothing is said, also with lossless=True. JPEG, BMP and TGA refuse such images; PNG, TIFF and
# JPEG 2000 keep them. pillow-heif 1.8.1 takes them for HEIF, with quality=-1 for "lossless", and keeps ten
# of the sixteen bits: labels 1 to 63 are background.
#
# It meets whoever moves label maps or scans from PNG to a smaller format.
#
# Seen 2026-11-30, the values 0 1 15 255 256 1000 65535 of mode I;16:
#   PNG: 0 1 15 255 256 1000 65535
#   WEBP: 0 1 15 255 255 255 255
#   AVIF: 0 1 15 255 255 255 255
#   HEIF: 0 0 0 192 256 960 65472
#   JPEG: OSError
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pillow==12.3.0 pillow-heif==1.8.1 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()
values = [0, 1, 15, 255, 256, 1000, 65535]
image = Image.fromarray(np.array(values, np.uint16).repeat(16)[None].repeat(16, axis=0))
assert image.mode == "I;16"


def seen(file_format, **options):
    try:
        image.save("a", file_format, **options)
    except OSError:
        print(f"{file_format}: OSError")
        return None
    read = np.asarray(Image.open("a"))
    read = read[..., 0] if read.ndim == 3 else read
    found = read[8, 8::16].tolist()  # the middle of each field
    print(f"{file_format}: {' '.join(map(str, found))}")
    return found


found = [
    seen("PNG"),
    seen("WEBP", lossless=True),
    seen("AVIF", quality=100),
    seen("HEIF", quality=-1),
    seen("JPEG"),
]
white = [0, 1, 15, 255, 255, 255, 255]
sys.exit(0 if found == [values, white, white, [0, 0, 0, 192, 256, 960, 65472], None] else 1)
PYTHON
