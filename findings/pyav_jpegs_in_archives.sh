#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8.1): a ZIP or TAR archive with JPEG files in it, and a PDF document of scanned
# pages, open as video: their images are the frames of Motion JPEG, whatever the suffix. Nothing is
# said, and frames of another size are frames too.
#
# It meets whoever takes "it opens" for "it is a clip", such as a loader of a folder of mixed files.
# The way out: a stream of JPEG images begins with the bytes FF D8.
#
# Seen 2026-11-28:
#   zip mjpeg 4 frames
#   tar mjpeg 4 frames
#   pdf mjpeg 4 frames
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet av==18.1.0 numpy==2.3.5 pillow==12.0.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import io
import sys
import tarfile
import zipfile

import av
from PIL import Image

images = [Image.new("RGB", (64, 48), (60 * number, 90, 40)) for number in range(4)]
images[0].save("pages.pdf", save_all=True, append_images=images[1:])
with zipfile.ZipFile("images.zip", "w") as packed, tarfile.open("images.tar", "w") as archive:
    for number, image in enumerate(images):
        file = io.BytesIO()
        image.save(file, "JPEG")
        packed.writestr(f"{number}.jpg", file.getvalue())
        member = tarfile.TarInfo(f"{number}.jpg")
        member.size = len(file.getvalue())
        archive.addfile(member, io.BytesIO(file.getvalue()))

found = []
for name in ("images.zip", "images.tar", "pages.pdf"):
    with av.open(name) as container:
        found.append((container.format.name, len(list(container.decode(video=0)))))
        print(name[-3:], *found[-1], "frames")
sys.exit(0 if found == [("mjpeg", 4)] * 3 else 1)
PYTHON
