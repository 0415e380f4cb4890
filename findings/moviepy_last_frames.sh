#!/usr/bin/env bash
# moviepy 2.2.1: a clip has fewer frames than its file, where the length in hundredths of a second, which
# moviepy reads from what FFmpeg prints, is shorter than the clip: 80 frames at 15 a second last 5.333 s,
# are taken for 5.33 s, and iter_frames gives 79 of them. Nothing is said. The metadata's own number of
# frames and rate, which PyAV gives, are a way out.
#
# It meets whoever pairs the frames of moviepy with masks or boxes that were made by another reader, and
# whoever cuts or overlays a clip again and again.
#
# Seen 2026-11-30, clips of 80 different frames:
#   15 frames a second: 79 frames, the last one is number 78
#   25 frames a second: 80 frames, the last one is number 79
#   240 frames a second: 79 frames, the last one is number 78
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet moviepy==2.2.1 av==18.1.0 numpy==2.3.5
cd "$folder"
venv/bin/python -W ignore - <<'PYTHON'
import sys

import av
import numpy as np
from moviepy import VideoFileClip

COUNT = 80


def seen(rate):
    with av.open("a.mp4", "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"qp": "0"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number in range(COUNT):
            # The number as seven black or white bars, which no conversion of colours changes.
            bits = [255 * (number >> bit & 1) for bit in range(7)]
            picture = np.zeros((48, 64, 3), np.uint8)
            picture[:, :56] = np.repeat(bits, 8).astype(np.uint8)[:, None]
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    with av.open("a.mp4") as container:
        assert sum(1 for _ in container.decode(video=0)) == COUNT
    clip = VideoFileClip("a.mp4")
    frames = list(clip.iter_frames())
    clip.close()
    last = sum(int(frames[-1][24, 8 * bit + 4, 0] > 127) << bit for bit in range(7))
    print(f"{rate} frames a second: {len(frames)} frames, the last one is number {last}")
    return len(frames), last


sys.exit(0 if [seen(15), seen(25), seen(240)] == [(79, 78), (80, 79), (79, 78)] else 1)
PYTHON
