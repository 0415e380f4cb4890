#!/usr/bin/env bash
# rt-utils 1.2.7 reads the masks of a DICOM RT structure set into an array of (Columns, Rows, slices).
# Of a series whose slices are wider than high it has the wrong shape, and what lies right of the
# column with the number of rows is cut off, with no warning. Writing takes (Rows, Columns, slices)
# and keeps everything in the file: a mask that is written and read has another shape, and is smaller.
#
# Seen, slices of 40 rows and 60 columns: written (40, 60, 3) with 700 pixels, read (60, 40, 3) with
# 350; the file's contour reaches column 49.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q rt-utils==1.2.7 pydicom==3.0.2 opencv-python-headless==4.13.0.92 numpy==2.4.6
cat > read.py <<'PY'
import os

import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
from rt_utils import RTStructBuilder

ROWS, COLUMNS, SLICES = 40, 60, 3
study, series, frame = generate_uid(), generate_uid(), generate_uid()
os.mkdir("series")
for number in range(SLICES):
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    one.file_meta.MediaStorageSOPClassUID = one.SOPClassUID = CTImageStorage
    one.file_meta.MediaStorageSOPInstanceUID = one.SOPInstanceUID = generate_uid()
    one.StudyInstanceUID, one.SeriesInstanceUID = study, series
    one.FrameOfReferenceUID, one.Modality = frame, "CT"
    one.PatientName = one.PatientID = one.StudyID = one.AccessionNumber = "1"
    one.StudyDate, one.StudyTime, one.PatientBirthDate = "20260101", "000000", "20000101"
    one.PatientSex, one.PatientAge, one.PatientWeight, one.PatientSize = "O", "026Y", 70, 1
    one.SeriesNumber, one.InstanceNumber = 1, number + 1
    one.Rows, one.Columns, one.PixelSpacing, one.SliceThickness = ROWS, COLUMNS, [1, 1], 1
    one.ImagePositionPatient = [0, 0, number]
    one.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    one.BitsAllocated = one.BitsStored = 16
    one.HighBit, one.PixelRepresentation, one.SamplesPerPixel = 15, 0, 1
    one.PhotometricInterpretation = "MONOCHROME2"
    one.PixelData = np.zeros((ROWS, COLUMNS), np.uint16).tobytes()
    one.save_as(f"series/{number}.dcm", enforce_file_format=True)

mask = np.zeros((ROWS, COLUMNS, SLICES), bool)
mask[5:40, 30:50, 1] = True
made = RTStructBuilder.create_new(dicom_series_path="series")
made.add_roi(mask=mask, name="organ")
made.save("structures.dcm")
read = RTStructBuilder.create_from(dicom_series_path="series", rt_struct_path="structures.dcm")
found = read.get_roi_mask_by_name("organ")
contour = pydicom.dcmread("structures.dcm").ROIContourSequence[0].ContourSequence[0].ContourData
print("written", mask.shape, int(mask.sum()), "to column", int(max(contour[::3])))
print("read", found.shape, int(found.sum()))
PY
found=$(env/bin/python read.py | grep -v "^Writing")
echo "$found"
[ "$found" = "written (40, 60, 3) 700 to column 49
read (60, 40, 3) 350" ]
echo "as seen"
