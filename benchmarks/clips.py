"""Read clips of every kind that FFmpeg writes, and compare with what FFmpeg decodes.

Prints for each clip the number of frames and whether three frames, read in an order that needs
jumps, equal FFmpeg's bytes. The exit status is 1 if one differs. Needs ``ffmpeg`` and PyAV:

    python benchmarks/clips.py [--keep FOLDER] [NAME ...]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.printable import printable
from sam_rlx.frames import open_frames

RATE, SECONDS = 25, 3
X264 = "-c:v libx264 -preset veryfast"
NO_INDEX = "-f {form} pipe:1"  # a pipe cannot be rewound: the index is never written


@dataclass(frozen=True)
class Clip:
    """A file, the options that write it, and what is done to it then.

    `source`: another clip that is copied without decoding, with options before and after ``-i``.
    """

    file: str
    options: str
    size: str = "160x120"
    filters: str = ""
    source: str = ""
    before: str = ""
    change: Callable[[Path], None] | None = None


def _without_delays(path: Path) -> None:
    """Set the delays of a GIF file to 0."""
    data = bytearray(path.read_bytes())
    position = data.find(b"\x21\xf9\x04")
    while position >= 0:
        data[position + 4 : position + 6] = bytes(2)
        position = data.find(b"\x21\xf9\x04", position + 6)
    path.write_bytes(data)


def _cut_off(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 7 // 10])


def _turned(path: Path, degrees: int) -> None:
    """Write the display matrix of a rotation: options for it differ between FFmpeg's versions."""
    cos, sin = {90: (0, 1), 180: (-1, 0), 270: (0, -1)}[degrees]
    data = bytearray(path.read_bytes())
    matrix = np.array([cos, sin, 0, -sin, cos, 0, 0, 0, 0x4000], ">i4") * 0x10000
    position = data.index(b"tkhd") + 4 + 4 + 20 + 8 + 8  # version and flags, times, layer
    data[position : position + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(data)


CLIPS = {
    "mp4": Clip("a.mp4", f"{X264} -bf 3 -g 12"),
    "one key frame": Clip("b.mp4", f"{X264} -bf 3 -g 999 -sc_threshold 0"),
    "turned 90": Clip("c.mp4", X264, change=lambda path: _turned(path, 90)),
    "turned 180": Clip("d.mp4", X264, change=lambda path: _turned(path, 180)),
    "turned 270": Clip("e.mp4", X264, change=lambda path: _turned(path, 270)),
    "trimmed start": Clip("f.mp4", "-c copy", source="mp4", before="-ss 0.7"),
    "trimmed both": Clip("g.mp4", "-c copy -t 1.1", source="mp4", before="-ss 1.3"),
    "open GOP h264": Clip("h.mp4", f"{X264} -x264-params open-gop=1:keyint=12:bframes=3"),
    "open GOP hevc": Clip(
        "i.mp4", "-c:v libx265 -x265-params open-gop=1:keyint=12:bframes=3:log-level=error"
    ),
    "trimmed open GOP": Clip("ht.mkv", "-c copy", source="open GOP h264", before="-ss 1.2"),
    "intra refresh": Clip("j.mp4", f"{X264} -x264-params intra-refresh=1:keyint=12"),
    "variable rate": Clip(
        "k.mp4", f"{X264} -fps_mode vfr", filters="select='gt(mod(n,7),2)+not(mod(n,5))'"
    ),
    "fragmented": Clip("l.mp4", f"{X264} -movflags frag_keyframe+empty_moov -g 12"),
    "odd size": Clip("m.mp4", f"{X264} -pix_fmt yuv444p", size="161x91"),
    "10 bits hevc": Clip("n.mkv", "-c:v libx265 -pix_fmt yuv420p10le -x265-params log-level=error"),
    "10 bits prores": Clip("o.mov", "-c:v prores_ks -profile:v 3"),
    "alpha qtrle": Clip(
        "p.mov",
        "-c:v qtrle -pix_fmt argb",
        filters="format=rgba,geq=r='r(X,Y)':g='g(X,Y)':b='b(X,Y)':a='X'",
    ),
    "alpha vp9": Clip(
        "q.webm",
        "-c:v libvpx-vp9 -pix_fmt yuva420p -deadline realtime -cpu-used 8",
        filters="format=yuva420p",
    ),
    "vp8 hidden frames": Clip(
        "r.webm", "-c:v libvpx -auto-alt-ref 1 -lag-in-frames 16 -cpu-used 8"
    ),
    "av1": Clip("s.mkv", "-c:v libsvtav1 -preset 12 -g 25"),
    "gif": Clip("t.gif", "", filters="fps=10"),
    "gif without delays": Clip("u.gif", "", filters="fps=10", change=_without_delays),
    "raw h264": Clip("v.h264", f"{X264} -bf 3 -g 12"),
    "raw hevc": Clip("w.hevc", "-c:v libx265 -x265-params log-level=error:keyint=12"),
    "raw mjpeg": Clip("x.mjpeg", "-c:v mjpeg -q:v 3"),
    "y4m": Clip("x.y4m", "-pix_fmt yuv420p"),
    "mts open GOP": Clip("y.mts", f"{X264} -x264-params open-gop=1:keyint=12:bframes=3 -f mpegts"),
    "mts interlaced": Clip("yi.mts", f"{X264} -x264-params interlaced=1:keyint=12 -f mpegts"),
    "mts cut off": Clip("yc.mts", f"{X264} -g 12 -f mpegts", change=_cut_off),
    "mpg": Clip("z.mpg", "-c:v mpeg2video -bf 2 -g 12 -q:v 3"),
    "vob": Clip("z.vob", "-c:v mpeg2video -bf 2 -g 12 -q:v 3 -f vob"),
    "flv h264": Clip("aa.flv", f"{X264} -bf 2 -g 12"),
    "flv sorenson": Clip("ab.flv", "-c:v flv1 -g 12 -q:v 3"),
    "avi mpeg4": Clip("ac.avi", "-c:v mpeg4 -bf 2 -g 12 -q:v 3"),
    "avi h264": Clip("ad.avi", f"{X264} -bf 2 -g 12"),
    "avi without index": Clip("ae.avi", f"{X264} -bf 2 -g 12 {NO_INDEX.format(form='avi')}"),
    "avi cut off": Clip("ac2.avi", "-c:v mpeg4 -g 12 -q:v 3", change=_cut_off),
    "mkv without index": Clip("af.mkv", f"{X264} -g 12 {NO_INDEX.format(form='matroska')}"),
    "mkv cut off": Clip("ag.mkv", f"{X264} -g 12", change=_cut_off),
    "mkv ffv1": Clip("ah.mkv", "-c:v ffv1 -pix_fmt bgr0"),
    "wmv": Clip("ai.wmv", "-c:v wmv2 -g 12 -q:v 3"),
    "ogv": Clip("aj.ogv", "-c:v libtheora -q:v 7 -g 12"),
}


def write(name: str, folder: Path) -> Path:
    """Write a clip; `RuntimeError` with FFmpeg's words if it cannot."""
    clip = CLIPS[name]
    path = folder / clip.file
    words = ["ffmpeg", "-v", "error", "-y", "-nostdin"]
    if clip.source:
        words += [*clip.before.split(), "-i", str(write(clip.source, folder))]
    else:
        generated = f"testsrc2=size={clip.size}:rate={RATE}:duration={SECONDS}"
        words += ["-f", "lavfi", "-i", generated]
    words += ["-vf", clip.filters] if clip.filters else []
    words += clip.options.split()
    piped = "pipe:1" in words
    done = subprocess.run(words if piped else [*words, str(path)], capture_output=True, check=False)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(printable(text[-1] if text else "ffmpeg failed"))
    if piped:
        path.write_bytes(done.stdout)
    if clip.change is not None:
        clip.change(path)
    return path


class Planes(ClipFrames):
    """A clip whose frames stay as the decoder gives them: not RGB, not turned."""

    format = ""

    def convert(self, frame: Any) -> Any:
        self.format = frame.format.name
        return frame.to_ndarray()


def decoded(path: Path, options: str) -> bytes:
    """Return all frames that FFmpeg decodes, one after the other."""
    words = ["ffmpeg", "-v", "quiet", "-nostdin", *options.split()[:-2], "-i", str(path)]
    words += ["-fps_mode", "passthrough", "-f", "rawvideo", *options.split()[-2:], "-"]
    return subprocess.run(words, capture_output=True, check=False).stdout


def compare(path: Path) -> tuple[bool, str]:
    """Read a clip; tell whether it is right, and the row of the table."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        source = open_frames(path)
        count = source.count or 0
        order = [count - 1, 0, count // 2]
        frames = [source.read(index) for index in order]
    right = np.frombuffer(decoded(path, "-pix_fmt rgb24"), np.uint8)
    right = right.reshape(-1, *frames[0].shape)
    notes = "; ".join(str(w.message).partition(": ")[2] for w in caught)
    row = f"{count:6} {len(right):7}  "
    if count != len(right):
        return False, row + notes
    most = max(
        int(np.abs(frame.astype(int) - right[index]).max())
        for index, frame in zip(order, frames, strict=True)
    )
    if most == 0:
        return True, f"{row}equal  {notes}"
    # The colours come from two versions of FFmpeg's converter; what is decoded does not.
    planes = Planes(path)
    planes.read(0)
    data = decoded(path, f"-noautorotate -pix_fmt {planes.format}")
    size = len(data) // count
    same = all(planes.read(i).tobytes() == data[i * size : (i + 1) * size] for i in order)
    found = "decoded planes equal, other converter to RGB" if same else "differ"
    return same, f"{row}{found}: off by {most}  {notes}"


def main(arguments: list[str] | None = None) -> int:
    """Run the clips that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of clips; default: all")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the clips there")
    args = parser.parse_args(arguments)
    for name in set(args.names) - set(CLIPS):
        parser.error(f"expected one of {', '.join(CLIPS)}, found {name}")
    if shutil.which("ffmpeg") is None:
        parser.error("expected the program ffmpeg, found none")
    wrong = 0
    print(f"{'clip':20} {'frames':>6} {'FFmpeg':>7}  three frames")
    with tempfile.TemporaryDirectory() as folder:
        folder_of_clips = args.keep or Path(folder)
        folder_of_clips.mkdir(parents=True, exist_ok=True)
        for name in args.names or CLIPS:
            try:
                path = write(name, folder_of_clips)
            except RuntimeError as error:
                print(f"{name:20} not written: {error}")
                continue
            try:
                is_right, row = compare(path)
            except Exception as error:
                is_right, row = False, f"{type(error).__name__}: {error}"
            wrong += not is_right
            print(f"{name:20} {row}", flush=True)
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
