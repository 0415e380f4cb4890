#!/usr/bin/env bash
# tifffile 2026.3.3: imwrite(file, array, imagej=True) of a grey stack (T, H, W), without axes, notes
# its images as channels, not as frames or slices: "channels=5". tifffile, Fiji, napari and others
# that follow the note then show one image of five colours in place of five moments. Only with
# metadata={"axes": "TYX"} are they frames. The same call for ten images makes ten channels, more than
# ImageJ's composite view has colours for.
#
# It meets whoever writes a stack for Fiji as the first lines of many notebooks do, and a program that
# takes channels for channels: this file has no time axis.
#
# Seen 2026-11-28:
#   without axes: axes CYX, note 'images=5 channels=5'
#   axes TYX: axes TYX, note 'images=5 frames=5'
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet tifffile==2026.3.3 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import tifffile

stack = np.zeros((5, 40, 50), np.uint8)


def seen(name, **options):
    tifffile.imwrite("a.tif", stack, imagej=True, **options)
    with tifffile.TiffFile("a.tif") as file:
        axes, lines = file.series[0].axes, file.pages[0].description.split()
    note = " ".join(line for line in lines if line.split("=")[0] in ("images", "channels", "frames"))
    print(f"{name}: axes {axes}, note {note!r}")
    return axes, note


first = seen("without axes") == ("CYX", "images=5 channels=5")
second = seen("axes TYX", metadata={"axes": "TYX"}) == ("TYX", "images=5 frames=5")
sys.exit(0 if first and second else 1)
PYTHON
