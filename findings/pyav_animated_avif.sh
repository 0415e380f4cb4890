#!/usr/bin/env bash
# An animated AVIF has two video streams: a still of one frame, and the animation. PyAV 18.1.0's
# decode(video=0), as its documentation shows it, gives the still alone, with no warning; of an
# animated GIF or PNG with the same frames it gives all. streams.best("video") finds the animation.
#
# Seen, four frames written by Pillow: AVIF 1 frame of streams with 1 and 4; best: 4. GIF and PNG: 4.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"${PYTHON:-python3}" -m venv env
env/bin/pip install -q av==18.1.0 pillow==12.0.0 numpy==2.4.6
cat > read.py <<'PY'
import av
from PIL import Image

frames = [Image.new("RGB", (48, 32), (60 * k, 255 - 60 * k, 0)) for k in range(4)]
for kind in ("avif", "gif", "png"):
    frames[0].save(f"a.{kind}", save_all=True, append_images=frames[1:], duration=100)
    with av.open(f"a.{kind}") as clip:
        count = sum(1 for _ in clip.decode(video=0))
        streams = len(clip.streams.video)
    with av.open(f"a.{kind}") as clip:
        best = sum(1 for _ in clip.decode(clip.streams.best("video")))
    print(kind, streams, count, best)
PY
found=$(env/bin/python read.py)
echo "$found"
[ "$found" = "avif 2 1 4
gif 1 4 4
png 1 4 4" ]
echo "as seen"
