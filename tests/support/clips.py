"""Clips that PyAV writes: containers, codecs, and what is changed in their bytes then."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

RATE = 25
X264 = {"preset": "veryfast", "x264-params": "keyint=8:bframes=2:scenecut=0"}


class NoSeek(io.RawIOBase):
    """A file that cannot be rewound, as a pipe: a container gets no index."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


def moving(count: int, hw: tuple[int, int] = (48, 64)) -> list[np.ndarray]:
    """Return frames of which no two are alike, and none is like itself when it is turned."""
    y, x = np.mgrid[: hw[0], : hw[1]]
    frames = []
    for t in range(count):
        frame = np.stack([3 * x, 4 * y, 2 * x + 0 * y], axis=2).astype(np.uint8)
        frame[4:14, (3 * t) % (hw[1] - 8) :][:, :8] = (250, 240, 30)
        frames.append(frame)
    return frames


def write(
    path: Path,
    frames: list[np.ndarray],
    codec: str = "libx264",
    form: str | None = None,
    options: dict[str, str] | None = None,
    pix_fmt: str = "yuv420p",
    target: Any = None,
    container_options: dict[str, str] | None = None,
) -> Path:
    """Write a clip; skip the test where PyAV has no such encoder."""
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no encoder {codec}")

    def encode() -> None:
        with av.open(target or str(path), "w", format=form, options=container_options) as container:
            stream: Any = container.add_stream(codec, rate=RATE)
            stream.height, stream.width = frames[0].shape[:2]
            stream.pix_fmt = pix_fmt
            stream.options = options if options is not None else X264
            for frame in frames:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode(None))

    # SVT-AV1 gives the thread that calls it real-time priority, if it may, and does not take it
    # back: busy children of this process would then keep the processors for themselves.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(encode).result()
    if target is not None:
        path.write_bytes(bytes(target.data))
    return path


def decoded(path: Path, *, damaged: bool = False) -> list[np.ndarray]:
    """Return all frames as FFmpeg decodes them from the start: as stored, not turned.

    They become RGB as FFmpeg's command does it: what PyAV does with 10 bits varies.
    `damaged`: packets that cannot be decoded are left out.
    """
    found: list[np.ndarray] = []
    with av.open(str(path)) as container:
        stream: Any = container.streams.video[0]
        stream.thread_type = "NONE" if damaged else "SLICE"
        frames: list[Any] = []
        for packet in container.demux(stream):
            with suppress(*[av.FFmpegError] * damaged):
                frames += packet.decode()
        graph = av.filter.Graph()
        size = {"width": frames[0].width, "height": frames[0].height}
        graph.link_nodes(
            graph.add_buffer(**size, format=frames[0].format, time_base=frames[0].time_base),
            graph.add("scale", "flags=bicubic"),
            graph.add("format", "rgb24"),
            graph.add("buffersink"),
        ).configure()
        for frame in frames:
            graph.push(frame)
            pulled: Any = graph.pull()
            found.append(pulled.to_ndarray(format="rgb24"))
    return found


def decodable(path: Path) -> int:
    """Return how many frames FFmpeg decodes of a damaged file, one packet after the other."""
    count = 0
    with av.open(str(path)) as container:
        stream: Any = container.streams.video[0]
        stream.thread_type = "NONE"
        for packet in container.demux(stream):
            with suppress(av.FFmpegError):
                count += len(packet.decode())
    return count


def set_matrix(path: Path, a: int, b: int, c: int, d: int) -> None:
    """Write the display matrix of an MP4 file, which stands in the header of its track."""
    data = bytearray(path.read_bytes())
    matrix = np.array([a, b, 0, c, d, 0, 0, 0, 0x4000], np.int64) * 0x10000
    # Behind the name: version and flags (4), times, number and length (20), layers (16).
    start = data.index(b"tkhd") + 4 + 4 + 20 + 16
    data[start : start + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(data)


def trim(path: Path, skipped: int) -> None:
    """Hide the first frames of an MP4 file by its edit list, as lossless trimming does."""
    with av.open(str(path)) as container:
        stream: Any = container.streams.video[0]
        ticks = int(1 / (stream.time_base * RATE))
    data = bytearray(path.read_bytes())
    start = data.index(b"elst") + 4 + 4 + 4 + 4  # name, version, count, duration
    media_time = int.from_bytes(data[start : start + 4], "big") + skipped * ticks
    data[start : start + 4] = media_time.to_bytes(4, "big")
    path.write_bytes(data)
