#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg's swscale): frame.reformat(format="yuva444p10le") of an RGBA frame of odd width
# gives some frames a wrong opacity: eight pixels at the begin of a row are half opaque where all were
# clear. The same frame is right at the next attempt. A clip in ProRes 4444, whose encoder takes YUVA
# alone, then has specks that come and go.
#
# It meets whoever writes cut-outs as a clip for a video editor: container.add_stream("prores_ks") with
# pix_fmt "yuva444p10le" converts each frame so. Formats that take RGBA as it is ("qtrle", "png") have
# no specks.
#
# Seen 2026-11-28, 87 x 61 pixels, all clear:
#   wrong opacity in 4 of 257 frames
# (the count differs from run to run; up to 2000 frames are tried here)
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet av==18.1.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import av
import numpy as np

wrong = tried = 0
for seed in range(2000):
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 255, (61, 87, 4), np.uint8)
    pixels[..., 3] = 0
    frame = av.VideoFrame.from_ndarray(pixels, format="rgba")
    back = frame.reformat(format="yuva444p10le").reformat(format="rgba").to_ndarray()
    wrong += bool(back[..., 3].any())
    tried += 1
    if wrong >= 4:
        break
print(f"wrong opacity in {wrong} of {tried} frames")
sys.exit(0 if wrong else 1)
PYTHON
