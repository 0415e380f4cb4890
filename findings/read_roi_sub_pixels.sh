#!/usr/bin/env bash
# read-roi 1.6.0 takes the float coordinates of an ImageJ ROI only if sub-pixel resolution is the
# file's sole option. Any other option beside it (labels of an overlay, which roifile 2026.2.10 sets
# by default) and the outline comes back in whole pixels, with no warning. roifile reads the floats.
#
# Seen, an outline from (1.5, 2.25): options 168 -> x 2, y 2; options 128 -> x 1.5, y 2.25.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q read-roi==1.6.0 roifile==2026.2.10 numpy==2.4.6
cat > read.py <<'PY'
import roifile
from read_roi import read_roi_file

outline = [[1.5, 2.25], [8.0, 2.0], [8.0, 9.0], [1.0, 9.0]]
for options in (None, roifile.ROI_OPTIONS.SUB_PIXEL_RESOLUTION):
    roi = roifile.ImagejRoi.frompoints(outline)
    if options is not None:
        roi.options = options
    roi.tofile("outline.roi")
    assert roifile.ImagejRoi.fromfile("outline.roi").coordinates().tolist() == outline
    found = read_roi_file("outline.roi")["outline"]
    print(int(roi.options), found["x"][0], found["y"][0])
PY
found=$(env/bin/python read.py)
echo "$found"
[ "$found" = "168 2 2
128 1.5 2.25" ]
echo "as seen"
