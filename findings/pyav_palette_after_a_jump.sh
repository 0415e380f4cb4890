#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8.1): a QuickTime file of raw 8-bit grey is decoded with a palette, which the
# reader of the container gives with the first packet alone. After a jump (seek) the decoder has none:
# all frames are black, and nothing is said. Decoded from the start the same frames are right.
#
# It meets whoever reads 8-bit clips of cameras and microscopes in any order, such as a slider.
#
# Seen 2026-11-28:
#   from the start: [100, 101, 102, 103]
#   after a jump to the first frame: [0, 0, 0, 0]
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

with av.open("grey.mov", "w") as container:
    stream = container.add_stream("rawvideo", rate=25)
    stream.width = stream.height = 32
    stream.pix_fmt = "gray"
    for value in range(100, 104):
        image = np.full((32, 32), value, np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="gray")))
    container.mux(stream.encode(None))


def values(jump):
    with av.open("grey.mov") as container:
        if jump:
            container.seek(0)
        frames = container.decode(video=0)
        return [int(frame.to_ndarray(format="rgb24")[0, 0, 0]) for frame in frames]


start, jumped = values(False), values(True)
print("from the start:", start)
print("after a jump to the first frame:", jumped)
sys.exit(0 if start == [100, 101, 102, 103] and jumped == [0] * 4 else 1)
PYTHON
