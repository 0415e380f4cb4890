#!/usr/bin/env bash
# cityscapesscripts 2.3.0: an instance image numbers objects as 1000 * class + count and does not look
# whether the count reaches 1000. The 1001st car (class 26) of an image has the number 27000, which is the
# first truck: json2instanceImg writes it, and instances2dict reads a truck of it. Where the image has a
# truck, both are one object. Nothing is said. The label image of the same polygons has cars alone.
#
# It meets whoever brings images with many small objects (crowds, fields, cells) into the form of
# Cityscapes, which other data sets and tools have taken over. Splitting the image is a way out.
#
# Seen 2026-11-30, 1,001 cars of 4 pixels and one truck of 9:
#   label image: car 4004, truck 9 pixels
#   instance image: 1000 cars with 4000 pixels, 1 truck with 13 pixels
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet cityscapesscripts==2.3.0 pillow==12.3.0 \
  numpy==2.3.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import json
import sys
from pathlib import Path

import numpy as np
from cityscapesscripts.evaluation.instances2dict import instances2dict
from cityscapesscripts.helpers.annotation import Annotation
from cityscapesscripts.preparation.json2instanceImg import createInstanceImage
from cityscapesscripts.preparation.json2labelImg import createLabelImage

CAR, TRUCK = 26, 27


def square(label, x, y, side):
    far_x, far_y = x + side - 1, y + side - 1
    return {"label": label, "polygon": [[x, y], [far_x, y], [far_x, far_y], [x, far_y]]}


objects = [square("car", 3 * (count % 40), 3 * (count // 40), 2) for count in range(1001)]
objects.append(square("truck", 60, 90, 3))
document = {"imgWidth": 120, "imgHeight": 100, "objects": objects}
Path("a.json").write_text(json.dumps(document))
annotation = Annotation()
annotation.fromJsonFile("a.json")
labels = np.asarray(createLabelImage(annotation, "ids"))
pixels = [int((labels == label).sum()) for label in (CAR, TRUCK)]
print(f"label image: car {pixels[0]}, truck {pixels[1]} pixels")
createInstanceImage(annotation, "ids").save("a.png")
found = instances2dict(["a.png"], verbose=False)
(classes,) = found.values()
cars, trucks = classes["car"], classes["truck"]
sizes = [sum(int(one["pixelCount"]) for one in some) for some in (cars, trucks)]
print(f"instance image: {len(cars)} cars with {sizes[0]} pixels, "
      f"{len(trucks)} truck with {sizes[1]} pixels")
right = pixels == [4004, 9] and (len(cars), len(trucks)) == (1000, 1) and sizes == [4000, 13]
sys.exit(0 if right else 1)
PYTHON
