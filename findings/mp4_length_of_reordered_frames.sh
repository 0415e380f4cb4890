#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8.1's MP4 muxer and libx264): a clip of variable rate with B-frames, which
# libx264 writes by default, gets a length in its header that ends before its last frames. Six frames
# at 0, 0.04, 0.08, 0.5, 1.0 and 1.5 s make a file of "0.62 s". The muxer sums up when frames are
# decoded; with frames that are reordered the last of these times lies two frames back. The frames
# themselves are all there, at their right times; players that go by the header stop early, and a rate
# that is made of number and length is wrong (OpenCV 5: 9.7 frames a second in place of 4).
#
# It meets whoever writes overlays of phone clips, screen recordings or time-lapses frame by frame.
# The option bf=0 (no B-frames) is a way out.
#
# Seen 2026-11-28:
#   B-frames: length 0.62 s, last frame at 1.5 s
#   bf=0: length 1.54 s, last frame at 1.5 s
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet av==18.1.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys
from fractions import Fraction

import av
import numpy as np

TIMES = [0, 40, 80, 500, 1000, 1500]  # milliseconds


def length(name, options):
    with av.open("a.mp4", "w") as container:
        stream = container.add_stream("libx264", rate=25, options=options)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, time in enumerate(TIMES):
            image = np.full((64, 64, 3), 40 * number, np.uint8)
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open("a.mp4") as container:
        stream = container.streams.video[0]
        seconds = float(stream.duration * stream.time_base)
        last = [float(frame.pts * stream.time_base) for frame in container.decode(stream)][-1]
    print(f"{name}: length {seconds:.2f} s, last frame at {last:.1f} s")
    return seconds, last


short, last = length("B-frames", {})
whole, _ = length("bf=0", {"bf": "0"})
sys.exit(0 if last == 1.5 and short < 1 < last < whole else 1)
PYTHON
