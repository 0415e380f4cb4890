#!/usr/bin/env bash
# PyAV 18.1.0 (FFmpeg 8.1): the decoder that is chosen for VP9 drops the opacity of a WebM clip, and
# calls the frames yuv420p: a cut-out that the same PyAV wrote as yuva420p comes back opaque all over.
# The file has the opacity in its side data, and says so (alpha_mode 1). The decoder "libvpx-vp9", of
# the same build, gives it back.
#
# It meets whoever moves mattes and cut-outs as WebM, as browsers play them.
#
# Seen 2026-11-29, a clip whose middle is opaque, and nothing else:
#   as opened: vp9, yuv420p, opacity 255
#   libvpx-vp9: libvpx-vp9, yuva420p, opacity 0 255
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

image = np.full((64, 64, 4), 200, np.uint8)
image[..., 3] = 0
image[16:48, 16:48, 3] = 255
with av.open("a.webm", "w") as container:
    stream = container.add_stream("libvpx-vp9", rate=25, options={"lossless": "1"})
    stream.width, stream.height, stream.pix_fmt = 64, 64, "yuva420p"
    container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgba")))
    container.mux(stream.encode(None))


def seen(name, decoder=None):
    with av.open("a.webm") as container:
        stream = container.streams.video[0]
        codec = stream.codec_context if decoder is None else av.CodecContext.create(decoder, "r")
        frame = next(frame for packet in container.demux(stream) for frame in codec.decode(packet))
        opacity = np.unique(frame.to_ndarray(format="rgba")[..., 3])
        values = " ".join(str(value) for value in opacity)
        line = f"{codec.name}, {frame.format.name}, opacity {values}"
    print(f"{name}: {line}")
    return line


opened, other = seen("as opened"), seen("libvpx-vp9", "libvpx-vp9")
right = "libvpx-vp9, yuva420p, opacity 0 255"
sys.exit(0 if opened == "vp9, yuv420p, opacity 255" and other == right else 1)
PYTHON
