"""Clips and sequences of results: times, sound and form of the source, read back by FFmpeg."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import io
from sam_rlx.frames import open_frames

av = pytest.importorskip("av", reason="PyAV writes and reads clips")
HW = (48, 64)
TIMES = [0, 40, 80, 200, 240, 300, 340, 400, 460, 500, 540, 600]  # milliseconds
SOUNDS = {"aac": ("mp4", "aac", 44100), "mp3": ("mkv", "libmp3lame", 44100)}


def _tone(rate: int, seconds: float) -> np.ndarray:
    wave = np.sin(2 * np.pi * 440 * np.arange(int(rate * seconds)) / rate)
    return (0.3 * wave).astype(np.float32)[None]


def _source(path: Path, codec: str, rate: int, offset: int = 0) -> Path:
    """A clip of uneven times with sound; all times begin `offset` milliseconds late."""
    if codec not in av.codecs_available:
        pytest.skip(f"PyAV has no encoder {codec}")
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("libx264", rate=25)
        video.height, video.width, video.pix_fmt = *HW, "yuv420p"
        video.options = {"bf": "0"}
        video.codec_context.time_base = Fraction(1, 1000)
        sound: Any = container.add_stream(codec, rate=rate)
        sound.layout = "mono"
        packets: list[Any] = []
        for index, time in enumerate(TIMES):
            pixels = np.full((*HW, 3), 20 * index, np.uint8)
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame.pts, frame.time_base = time + offset, Fraction(1, 1000)
            packets += video.encode(frame)
        packets += video.encode(None)
        resampler = av.AudioResampler(format=sound.codec_context.format, layout="mono", rate=rate)
        tone = av.AudioFrame.from_ndarray(_tone(rate, 0.8), format="fltp", layout="mono")
        tone.sample_rate, tone.pts = rate, 0
        tone.time_base = Fraction(1, rate)
        fifo = av.AudioFifo()
        for part in resampler.resample(tone):
            fifo.write(part)
        size = sound.codec_context.frame_size or 1024
        while (frame := fifo.read(size)) is not None:
            frame.pts += offset * rate // 1000
            packets += sound.encode(frame)
        packets += sound.encode(None)
        container.mux(packets)
    return path


def _read(path: Path) -> tuple[list[np.ndarray], list[float], list[bytes], list[float]]:
    """Frames with their times, and packets of sound with theirs, as PyAV gives them."""
    frames, times, sounds, begins = [], [], [], []
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            frames.append(frame.to_ndarray(format="rgb24"))
            times.append(float(frame.time))
    with av.open(str(path)) as container:
        for packet in container.demux():
            if packet.stream.type == "audio" and packet.pts is not None:
                sounds.append(bytes(packet))
                begins.append(float(packet.pts * packet.time_base))
    return frames, times, sounds, begins


@pytest.mark.parametrize("kind", SOUNDS)
@pytest.mark.parametrize("offset", [0, 500])
def test_times_and_sound_are_those_of_the_source(kind: str, offset: int, tmp_path: Path) -> None:
    suffix, codec, rate = SOUNDS[kind]
    source = _source(tmp_path / f"in.{suffix}", codec, rate, offset)
    out = tmp_path / "out.mp4"
    clip = open_frames(source)
    assert io.write_video(out, (clip.read(i) for i in range(12)), source=source) == 12
    _, before, sound, begins = _read(source)
    frames, times, copied, now = _read(out)
    assert len(frames) == 12
    np.testing.assert_allclose(times, np.array(before) - before[0], atol=1e-3)
    kept = [(data, at) for data, at in zip(sound, begins, strict=True) if at >= before[0]]
    length = 0.6 + 0.06
    expected = [(data, at - before[0]) for data, at in kept if at - before[0] < length]
    assert copied == [data for data, _ in expected]
    np.testing.assert_allclose(now, [at for _, at in expected], atol=2e-3)


def test_frames_are_taken_one_at_a_time_by_a_rate(tmp_path: Path) -> None:
    alive = []

    def frames() -> Iterator[np.ndarray]:
        for index in range(30):
            alive.append(index)
            yield np.arange(HW[0])[:, None] < index * np.ones(HW[1])

    path = tmp_path / "matte.mp4"
    assert io.write_video(path, frames(), 12.5) == 30
    found, times, sound, _ = _read(path)
    np.testing.assert_allclose(times, np.arange(30) / 12.5, atol=1e-3)
    assert not sound
    assert np.abs(found[20][:18].astype(int) - 255).max() <= 8
    assert found[20][22:].max() <= 8


def test_what_cannot_be_written(tmp_path: Path) -> None:
    frame = np.zeros((*HW, 3), np.uint8)
    path = tmp_path / "a.mp4"
    for frames, rate, words in (
        ([frame], None, "rate or source"),
        ([], 25, "frames: expected at least one"),
        ([frame, frame[:10]], 25, r"frames\[1\]: expected shape"),
        ([frame.astype(float)], 25, r"frames\[0\]: expected uint8"),
        ([frame], 0, "rate: expected a number"),
    ):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
            io.write_video(path, frames, rate)
        assert not path.exists()
    source = _source(tmp_path / "in.mp4", "aac", 44100)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected another file than the input"):
        io.write_video(source, [frame], source=source)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="at most 12, those of the source"):
        io.write_video(path, [frame] * 13, source=source)
    assert not path.exists()


def test_sequences_are_read_by_ffmpeg(tmp_path: Path) -> None:
    mattes = [np.arange(HW[1]) < 3 * index * np.ones((HW[0], 1)) for index in range(5)]
    written = io.write_sequence(tmp_path / "matte", iter(mattes))
    assert [path.name for path in written] == [f"00000{index}.png" for index in range(5)]
    with av.open(str(tmp_path / "matte/%06d.png"), format="image2") as container:
        found = [frame.to_ndarray(format="gray") for frame in container.decode(video=0)]
    np.testing.assert_array_equal(found, np.array(mattes) * 255)
    image = np.random.default_rng(0).integers(0, 256, (*HW, 3), np.uint8)
    frame = sam_rlx.VideoFrame(0, {1: mattes[3]}, {1: 2.0})
    cut = frame.cutout(image, crop=False)
    io.write_sequence(tmp_path / "cut", [cut], start=7)
    options = {"start_number": "7"}
    with av.open(str(tmp_path / "cut/%06d.png"), format="image2", options=options) as container:
        [found] = [frame.to_ndarray(format="rgba") for frame in container.decode(video=0)]
    np.testing.assert_array_equal(found, cut)
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"frames\[1\]: expected the shape"):
        io.write_sequence(tmp_path / "x", [mattes[0], mattes[0][:5]])


def test_a_source_without_sound(clip: Path, tmp_path: Path) -> None:
    frames = open_frames(clip)
    io.write_video(tmp_path / "a.mp4", (frames.read(i) for i in range(12)), source=clip)
    _, times, sound, _ = _read(tmp_path / "a.mp4")
    np.testing.assert_allclose(times, np.arange(12) / 10, atol=1e-3)
    assert not sound
