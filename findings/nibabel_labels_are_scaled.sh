#!/usr/bin/env bash
# nibabel 5.4.2: labels that are saved with a header of fewer bits are stretched over the range of that
# type, and come back as fractions. int32 labels 0, 1, 2, 300 with the header of a uint8 mask are in
# the file as 0, 1, 2, 255 with a slope of 1.18, and read as 0, 1.176, 2.353, 300: there is no label 1
# or 2 any more. Float labels 0 to 3, with the type set to uint8 since they fit, read as 1.00000002 and
# 3.00000006: `labels == 1` is empty. Nothing is said.
#
# It meets whoever writes a label map with the affine and the header of another mask. Labels in an
# integer type, with set_data_dtype of a type that holds them, come back as they were.
#
# Seen 2026-11-29:
#   int32 labels, header of a uint8 mask: read [0.0, 1.176, 2.353, 300.0]
#   float labels, type set to uint8: 1 of 4 labels equal
#   uint8 labels, type set to uint8: 4 of 4 labels equal
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet nibabel==5.4.2 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import nibabel
import numpy as np


def read(labels, header=None, dtype=None):
    image = nibabel.Nifti1Image(labels.reshape(1, 4, 1), np.eye(4), header)
    if dtype is not None:
        image.set_data_dtype(dtype)
    nibabel.save(image, "labels.nii")
    return nibabel.load("labels.nii").get_fdata().ravel()


mask = nibabel.Nifti1Image(np.ones((1, 4, 1), np.uint8), np.eye(4))
wide = [round(float(value), 3) for value in read(np.array([0, 1, 2, 300], np.int32), mask.header)]
print(f"int32 labels, header of a uint8 mask: read {wide}")


def equal(name, dtype):
    labels = np.arange(4).astype(dtype)
    count = int((read(labels, dtype=np.uint8) == labels).sum())
    print(f"{name} labels, type set to uint8: {count} of 4 labels equal")
    return count


counts = [equal("float", np.float64), equal("uint8", np.uint8)]
sys.exit(0 if wide == [0.0, 1.176, 2.353, 300.0] and counts == [1, 4] else 1)
PYTHON
