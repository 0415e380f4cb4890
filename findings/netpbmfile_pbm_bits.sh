#!/bin/sh
# netpbmfile writes and reads PBM files with 1 for true, where 1 is black in the format.
#
# Seen with netpbmfile 2026.1.29, Pillow 12.3.0, OpenCV 5.0.0 (2026-11-28). A bool mask that
# netpbmfile writes is turned inside out for all other readers, and theirs for netpbmfile. Its own
# files come back as they were. A PBM file does not tell its writer.
#
# Output seen (pixels that are true or white, of a mask of 5 in 30):
#   netpbmfile wrote: netpbmfile 5, Pillow 25, OpenCV 25
#   Pillow wrote: netpbmfile 25, Pillow 5, OpenCV 5
# What it means here: `io.read_mask` takes a PBM file as the format says, white is the object; a mask
# of netpbmfile has to be read by netpbmfile. docs/images.md says so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps netpbmfile==2026.1.29 pillow==12.3.0 numpy==2.3.5 \
  opencv-python-headless==5.0.0.93
cd "$folder"
venv/bin/python - <<'PY' | tee seen.txt
import cv2
import netpbmfile
import numpy as np
from PIL import Image

mask = np.zeros((5, 6), bool)
mask[1, :5] = True
netpbmfile.imwrite("netpbmfile.pbm", mask)
Image.fromarray(mask).save("Pillow.pbm")
for name in ("netpbmfile", "Pillow"):
    file = f"{name}.pbm"
    own, image = int(netpbmfile.imread(file).sum()), int(np.asarray(Image.open(file)).sum())
    white = int((cv2.imread(file, cv2.IMREAD_UNCHANGED) > 0).sum())
    print(f"{name} wrote: netpbmfile {own}, Pillow {image}, OpenCV {white}")
PY
sed -n 's/^#   //p' "$script" > told.txt
diff told.txt seen.txt && echo "as described"
