#!/usr/bin/env bash
# highdicom 0.28.2: a Segmentation does not keep the order of the slices that it is given. For axial
# images from the lowest position to the highest, with a mask for each, its frames go from the highest
# to the lowest: pixel_array, and what any reader of the file gets, is the volume upside down. Given
# from the highest to the lowest, the order stays. Nothing is said; the positions in the file are right.
#
# It meets whoever compares seg.pixel_array with the array that went in, or reads the file by pydicom
# and pairs frames with slices by number. get_pixels_by_source_instance gives the order of the images.
#
# Seen 2026-11-29, masks of 1, 2, 3, 4 and 5 pixels, no empty frames:
#   from the lowest slice: pixel_array has 5, 4, 3, 2, 1
#   from the highest slice: pixel_array has 1, 2, 3, 4, 5
#   from the lowest slice, by source instance: 1, 2, 3, 4, 5
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet highdicom==0.28.2 pydicom==3.0.2 numpy==2.3.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import highdicom
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sr.codedict import codes
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

COUNT, ROWS, COLUMNS = 5, 6, 7
shared = {
    "SOPClassUID": CTImageStorage,
    "StudyInstanceUID": generate_uid(),
    "SeriesInstanceUID": generate_uid(),
    "FrameOfReferenceUID": generate_uid(),
    "Modality": "CT",
    "StudyDate": "20260101",
    "StudyTime": "000000",
    "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
    "PixelSpacing": [1, 1],
    "SliceThickness": 1,
    "Rows": ROWS,
    "Columns": COLUMNS,
    "SamplesPerPixel": 1,
    "PhotometricInterpretation": "MONOCHROME2",
    "BitsAllocated": 16,
    "BitsStored": 16,
    "HighBit": 15,
    "PixelRepresentation": 0,
    "PixelData": bytes(2 * ROWS * COLUMNS),
}
empty = ["PatientID", "PatientName", "PatientBirthDate", "PatientSex", "AccessionNumber", "StudyID"]
empty += ["ReferringPhysicianName", "PositionReferenceIndicator", "Manufacturer"]


def image(number):
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    for name, value in (shared | dict.fromkeys(empty, "")).items():
        setattr(one, name, value)
    one.SOPInstanceUID, one.InstanceNumber = generate_uid(), number + 1
    one.ImagePositionPatient = [0, 0, number]
    return one


images = [image(number) for number in range(COUNT)]
masks = np.zeros((COUNT, ROWS, COLUMNS), np.uint8)
for number, mask in enumerate(masks):
    mask.flat[: number + 1] = 1
tissue = codes.SCT.Tissue
segment = highdicom.seg.SegmentDescription(1, "tissue", tissue, tissue, "MANUAL")


def write(slices):
    highdicom.seg.Segmentation(
        source_images=slices,
        pixel_array=masks,
        segmentation_type="BINARY",
        segment_descriptions=[segment],
        series_instance_uid=generate_uid(),
        series_number=1,
        sop_instance_uid=generate_uid(),
        instance_number=1,
        manufacturer="none",
        manufacturer_model_name="none",
        software_versions="1",
        device_serial_number="1",
        omit_empty_frames=False,
    ).save_as("mask.dcm")


def counts(name, array):
    found = array.sum(axis=(1, 2)).tolist()
    print(name + ", ".join(str(value) for value in found))
    return found


write(images[::-1])
highest = pydicom.dcmread("mask.dcm").pixel_array
write(images)
seen = [
    counts("from the lowest slice: pixel_array has ", pydicom.dcmread("mask.dcm").pixel_array),
    counts("from the highest slice: pixel_array has ", highest),
]
source = [one.SOPInstanceUID for one in images]
read = highdicom.seg.segread("mask.dcm")
array = read.get_pixels_by_source_instance(source, combine_segments=True)
seen += [counts("from the lowest slice, by source instance: ", array)]
sys.exit(0 if seen == [[5, 4, 3, 2, 1], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]] else 1)
PYTHON
