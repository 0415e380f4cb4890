#!/usr/bin/env bash
# imageio 2.38.1 with imageio-ffmpeg 0.8.1 (plugin "FFMPEG"): a clip whose frames stand for different
# times gives other frames than it has, since FFmpeg repeats each until the next one is due, at a rate
# that no reader asked for. Six frames at 0, 0.04, 0.08, 0.5, 1.0 and 1.5 s are read as 77, at a rate
# that the metadata gives as 3.9, and count_frames_and_secs says 6. The plugin "pyav" of the same
# imageio gives six.
#
# It meets whoever reads phone clips, screen recordings or time-lapses by imageio and goes by the number
# of the frame, as masks and prompts do.
#
# Seen 2026-11-29:
#   plugin FFMPEG: 77 frames, counted 6, rate 3.9
#   plugin pyav: 6 frames
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet imageio==2.38.1 imageio-ffmpeg==0.8.1 av==18.1.0 \
  numpy==2.3.5 pillow==12.3.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys
from fractions import Fraction

import av
import imageio.v3 as iio
import imageio_ffmpeg
import numpy as np

with av.open("a.mp4", "w") as container:
    stream = container.add_stream("libx264", rate=25, options={"bf": "0"})
    stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
    stream.codec_context.time_base = Fraction(1, 1000)
    for number, time in enumerate([0, 40, 80, 500, 1000, 1500]):
        frame = av.VideoFrame.from_ndarray(np.full((64, 96, 3), 40 * number, np.uint8), format="rgb24")
        frame.pts, frame.time_base = time, Fraction(1, 1000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))

read = sum(1 for _ in iio.imiter("a.mp4", plugin="FFMPEG"))
counted, _ = imageio_ffmpeg.count_frames_and_secs("a.mp4")
rate = iio.immeta("a.mp4", plugin="FFMPEG")["fps"]
own = sum(1 for _ in iio.imiter("a.mp4", plugin="pyav"))
print(f"plugin FFMPEG: {read} frames, counted {counted}, rate {rate}\nplugin pyav: {own} frames")
sys.exit(0 if (read, counted, rate, own) == (77, 6, 3.9, 6) else 1)
PYTHON
