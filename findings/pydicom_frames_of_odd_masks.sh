#!/usr/bin/env bash
# pydicom 3.0.2: a mask of several frames with one bit a pixel, as DICOM segmentations have it. Where
# the pixels of a frame are no multiple of 8, frames begin in the midst of a byte, and as many whole
# bytes are read for one frame as its pixels fill. Where the frame lies in one byte more than that,
# `pixel_array(index=)` and `iter_pixels` end with "cannot reshape array"; the first frame, and all
# frames together, are right.
#
# It meets whoever reads a segmentation frame by frame, since the whole has too many pixels, and
# whose slices have odd sides. Sides that are multiples of 8 never show it.
#
# Seen 2026-12-01, 5 frames of each size up to 8 x 11:
#   3 x 5: frames [True, 'ValueError', 'ValueError', 'ValueError', 'ValueError'], all at once True
#   sizes with a frame that is not read: 30 of 88, all of 3, 5, 6 or 7 pixels modulo 8; none is wrong
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pydicom==3.0.2 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import pixel_array
from pydicom.uid import ExplicitVRLittleEndian

FRAMES = 5


def written(masks):
    """Frames follow each other bit by bit, the least significant one first (PS3.5, 8.1.1)."""
    slides = Dataset()
    slides.file_meta = FileMetaDataset()
    slides.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    slides.NumberOfFrames, slides.Rows, slides.Columns = masks.shape
    slides.SamplesPerPixel, slides.PhotometricInterpretation = 1, "MONOCHROME2"
    slides.BitsAllocated = slides.BitsStored = 1
    slides.HighBit = slides.PixelRepresentation = 0
    data = np.packbits(masks.ravel(), bitorder="little").tobytes()
    slides.PixelData = data + b"\0" * (len(data) % 2)
    return slides


def read(slides, masks, index):
    try:
        return bool(np.array_equal(pixel_array(slides, index=index), masks[index]))
    except ValueError as error:
        assert "cannot reshape" in str(error)
        return "ValueError"


rng = np.random.default_rng(0)
refused, wrong = set(), set()
for rows in range(1, 9):
    for columns in range(1, 12):
        masks = rng.integers(0, 2, (FRAMES, rows, columns), np.uint8)
        slides = written(masks)
        assert np.array_equal(pixel_array(slides), masks)  # all at once
        found = [read(slides, masks, index) for index in range(FRAMES)]
        if (rows, columns) == (3, 5):
            print("3 x 5:", found)
        refused |= {(rows, columns)} if "ValueError" in found else set()
        wrong |= {(rows, columns)} if False in found else set()
rests = sorted({rows * columns % 8 for rows, columns in refused})
print(f"sizes with a frame that is not read: {len(refused)}, pixels modulo 8: {rests}; wrong: {len(wrong)}")
sys.exit(0 if refused and rests == [3, 5, 6, 7] and not wrong else 1)
PYTHON
