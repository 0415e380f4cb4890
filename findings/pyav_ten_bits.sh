#!/usr/bin/env bash
# PyAV 18.1.0: VideoFrame.to_ndarray(format="rgb24") of a 10-bit clip (yuv420p10le: HEVC of phones,
# HDR, many cameras) gives other colours than PyAV 16.1.0 did, than FFmpeg's own filter "scale" inside
# the same PyAV, and than FFmpeg's command: single pixels at edges of colour are off by tens of 255. PyAV
# 16 asked swscale for bilinear interpolation of the chroma; later versions convert by another call, and
# for 10 bits the result is neither bilinear nor bicubic. For 8 bits all agree.
#
# It meets whoever compares frames or embeddings across environments. A filter graph (scale, format)
# gives the same in both versions.
#
# Seen 2026-11-28:
#   av 16.1.0: 8 bits off by 0, 10 bits off by 0
#   av 18.1.0: 8 bits off by 0, 10 bits off by 57
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numpy==2.3.5
cd "$folder"
for version in 16.1.0 18.1.0; do
    venv/bin/python -m pip install --quiet --no-deps --target "av-$version" "av==$version"
done
# Both read the same files, which the newer one writes.
cat > off.py <<'PYTHON'
import sys

import av
import numpy as np


def write(path, pix_fmt):
    y, x = np.mgrid[:90, :130]
    image = np.stack([3 * x, 4 * y, 2 * x], axis=2).astype(np.uint8)
    image[4:14, 20:28] = (250, 240, 30)
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"qp": "0"})
        stream.height, stream.width, stream.pix_fmt = 90, 130, pix_fmt
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))


def off(path):
    with av.open(path) as container:
        frame = next(container.decode(video=0))
        graph = av.filter.Graph()
        graph.link_nodes(
            graph.add_buffer(
                width=130, height=90, format=frame.format, time_base=frame.time_base
            ),
            graph.add("scale", "flags=bilinear"),
            graph.add("format", "rgb24"),
            graph.add("buffersink"),
        ).configure()
        own = frame.to_ndarray(format="rgb24").astype(int)
        graph.push(frame)
        return int(np.abs(graph.pull().to_ndarray(format="rgb24") - own).max())


if sys.argv[1:] == ["write"]:
    write("8.mp4", "yuv420p")
    write("10.mp4", "yuv420p10le")
else:
    print(f"av {av.__version__}: 8 bits off by {off('8.mp4')}, 10 bits off by {off('10.mp4')}")
PYTHON
PYTHONPATH=av-18.1.0 venv/bin/python off.py write
PYTHONPATH=av-16.1.0 venv/bin/python off.py | tee seen
PYTHONPATH=av-18.1.0 venv/bin/python off.py | tee -a seen
grep -q "^av 16.1.0: 8 bits off by 0, 10 bits off by 0$" seen
grep -Eq "^av 18.1.0: 8 bits off by 0, 10 bits off by [1-9][0-9]$" seen
