#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8.1 and libx264): a clip with pix_fmt "gray" is stored losslessly (qp=0) with all
# values 0 to 255, and without the mark that says so. The decoder calls it yuv420p, whose values 16 to
# 235 are black to white: everything below 16 comes back as 0, everything above 235 as 255, and what
# lies between has more contrast. Black and white masks survive; soft mattes, depth and grey images do
# not. color_range = 2 on the stream's codec context is a way out, FFV1 another.
#
# Seen 2026-11-29, the values 0 10 16 50 100 128 200 235 245 255:
#   libx264: 0 0 0 40 98 130 214 255 255 255
#   libx264, color_range 2: 0 10 16 50 100 128 200 235 245 255
#   ffv1: 0 10 16 50 100 128 200 235 245 255
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

VALUES = [0, 10, 16, 50, 100, 128, 200, 235, 245, 255]
image = np.tile(np.repeat(np.array(VALUES, np.uint8), 8), (64, 1))


def read_back(name, codec, options, color_range=None):
    with av.open("a.mkv", "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = image.shape[1], image.shape[0], "gray"
        if color_range is not None:
            stream.codec_context.color_range = color_range
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="gray")))
        container.mux(stream.encode(None))
    with av.open("a.mkv") as container:
        frame = next(container.decode(video=0)).to_ndarray(format="gray")
    values = frame[0, ::8].tolist()
    print(f"{name}: " + " ".join(str(value) for value in values))
    return values


stretched = read_back("libx264", "libx264", {"qp": "0"})
marked = read_back("libx264, color_range 2", "libx264", {"qp": "0"}, 2)
other = read_back("ffv1", "ffv1", {})
expected = [0, 0, 0, 40, 98, 130, 214, 255, 255, 255]
sys.exit(0 if stretched == expected and marked == other == VALUES else 1)
PYTHON
