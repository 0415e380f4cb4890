#!/usr/bin/env bash
# decord 0.6.0: a clip that its file says to turn by 90 or 270 degrees, as phones write them when they
# are held upright, comes with frames of four channels. They are not RGBA: a row holds its RGB numbers
# one behind the other, and the last quarter of its bytes is zero. `get_batch` raises on the same
# file. Turned by 180 degrees, or with `width` and `height` given, frames are right.
#
# It meets whoever reads clips of phones for a segmentation model: programs that ask for the model's
# own size see nothing of it, and those that want the frames as they are get a torn picture.
#
# Seen 2026-12-01, four frames of 64 x 48 pixels (H.264), blue in one corner, of which the file alone
# tells how to turn them:
#   0: (48, 64, 3), batch (2, 48, 64, 3)
#   90: (64, 48, 4), batch DECORDError; the last quarter of each row is zero, the rest is the turned frame
#   180: (48, 64, 3), batch (2, 48, 64, 3)
#   270: (64, 48, 4), batch DECORDError; the last quarter of each row is zero, the rest is the turned frame
#   with width 30 and height 40: (40, 30, 3) for all
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet decord==0.6.0 av==18.1.0 numpy==2.4.6
cd "$folder"
venv/bin/python - <<'PYTHON'
import struct
import sys
from pathlib import Path

import av
import decord
import numpy as np

WIDTH, HEIGHT, ONE = 64, 48, 1 << 16
picture = np.full((HEIGHT, WIDTH, 3), (200, 100, 50), np.uint8)
picture[: HEIGHT // 2, : WIDTH // 2] = (30, 160, 220)
with av.open("0.mp4", "w") as file:
    stream = file.add_stream("libx264", rate=25, options={"crf": "4"})
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    for _ in range(4):
        file.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
    file.mux(stream.encode(None))
content = Path("0.mp4").read_bytes()
matrix = content.index(b"tkhd") + 44  # behind the times, the length and the layer of a track
MATRICES = {
    90: (0, ONE, 0, -ONE, 0, 0, HEIGHT * ONE, 0, 1 << 30),
    180: (-ONE, 0, 0, 0, -ONE, 0, WIDTH * ONE, HEIGHT * ONE, 1 << 30),
    270: (0, -ONE, 0, ONE, 0, 0, 0, WIDTH * ONE, 1 << 30),
}
for degrees, numbers in MATRICES.items():
    turned = content[:matrix] + struct.pack(">9i", *numbers) + content[matrix + 36 :]
    Path(f"{degrees}.mp4").write_bytes(turned)

kept = True
for degrees in (0, *MATRICES):
    reader = decord.VideoReader(f"{degrees}.mp4")
    frame = reader[0].asnumpy()
    try:
        batch = str(reader.get_batch([0, 1]).shape)
    except decord.DECORDError as error:
        batch = type(error).__name__
    text = f"{degrees}: {frame.shape}, batch {batch}"
    expected = np.rot90(picture, -degrees // 90).astype(int)
    pixels = frame
    if degrees in (90, 270):
        rows = frame.reshape(len(frame), -1)
        pixels = rows[:, : 3 * HEIGHT].reshape(WIDTH, HEIGHT, 3)
        zero = not rows[:, 3 * HEIGHT :].any()
        text += f"; the last quarter of each row is {'zero' if zero else 'not zero'}"
        kept = kept and zero and frame.shape == (WIDTH, HEIGHT, 4) and batch == "DECORDError"
    right = np.abs(pixels - expected).mean() < 4
    print(text + (", the rest is the turned frame" if right and degrees in (90, 270) else ""))
    sized = decord.VideoReader(f"{degrees}.mp4", width=30, height=40)
    kept = kept and right and sized[0].shape == (40, 30, 3)
    kept = kept and sized.get_batch([0, 1]).shape == (2, 40, 30, 3)
sys.exit(0 if kept else 1)
PYTHON
