"""Clips that change on their way, are damaged, or ask players for more than their frames."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import random
import struct
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.media import clip_frames
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.container_crop import crop_of
from sam_rlx._internal.media.recent import Recent
from sam_rlx.compat.common import video_frames
from sam_rlx.errors import MediaWarning
from support.videos import POINT

clips = pytest.importorskip("support.clips", reason="needs av")
av = pytest.importorskip("av")
SMALL, LARGE = (48, 64), (72, 96)


@pytest.fixture(scope="module")
def two_sizes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Motion JPEG, by Pillow: 4 frames, then 4 of another size."""
    path = tmp_path_factory.mktemp("clips") / "sizes.mjpeg"
    with path.open("wb") as file:
        for image in (*clips.moving(4, SMALL), *clips.moving(4, LARGE)):
            Image.fromarray(image).save(file, "JPEG", quality=95)
    return path


SIZES = r"frame \d has 72 x 96 pixels; .* resized to 48 x 64"


def test_frames_of_another_size_get_that_of_the_first(two_sizes: Path) -> None:
    source = ClipFrames(two_sizes)
    with pytest.warns(MediaWarning, match=SIZES) as said:
        frames = [source.read(index) for index in (7, 0, 5, 6)]
    assert len(said) == 1
    assert {frame.shape for frame in frames} == {(*SMALL, 3)}
    right = np.asarray(Image.fromarray(clips.moving(4, LARGE)[3]).resize(SMALL[::-1]))
    assert np.abs(frames[0].astype(int) - right).mean() < 6
    cv2 = pytest.importorskip("cv2")
    capture = cv2.VideoCapture(str(two_sizes))
    by_opencv = [capture.read()[1][:, :, ::-1] for _ in range(8)]
    assert {frame.shape for frame in by_opencv} == {(*SMALL, 3)}
    assert np.abs(frames[0].astype(int) - by_opencv[7]).mean() < 2


@pytest.mark.filterwarnings("ignore::sam_rlx.MediaWarning")
def test_a_change_of_size_on_every_surface(
    two_sizes: Path,
    sam2_checkpoint: Path,
    sam2_model: sam_rlx.Model,
    run_cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, two_sizes).add_prompt(6, 1, **POINT)
    assert session.orig_hw == SMALL
    assert [frame.masks[1].shape for frame in session.propagate()] == [SMALL] * 2
    clip = video_frames.Clip(two_sizes, 16)
    assert (clip.height, clip.width, len(clip), clip[6].shape) == (*SMALL, 8, (16, 16, 3))
    whole = video_frames.open_resource(two_sizes, 16)
    assert (whole.height, whole.width, whole[6].shape) == (*SMALL, (*SMALL, 3))
    words = ["track", two_sizes, "--model", sam2_checkpoint, "--point", "20,18"]
    code, _, _ = run_cli(*words, "--output", tmp_path / "o.mp4", "--frame", "3")
    assert code == 0
    assert ClipFrames(tmp_path / "o.mp4").count == 5


def zeroed(path: Path, number: int, keep: int = 0) -> Path:
    """Fill a packet with zeros, but for its first bytes."""
    with av.open(str(path)) as container:
        packet = [bytes(packet) for packet in container.demux(video=0) if packet.size][number]
    data = bytearray(path.read_bytes())
    start = bytes(data).index(packet)
    data[start + keep : start + len(packet)] = bytes(len(packet) - keep)
    path.write_bytes(data)
    return path


LOSSES: dict[str, tuple[str, str, dict[str, str]]] = {
    "h264 mp4": ("mp4", "libx264", {"x264-params": "keyint=6:bframes=0:scenecut=0"}),
    "hevc mkv": ("mkv", "libx265", {"x265-params": "keyint=6:bframes=0:log-level=none"}),
    "vp9 mkv": ("mkv", "libvpx-vp9", {"g": "6", "deadline": "realtime", "cpu-used": "8"}),
    "mjpeg mov": ("mov", "mjpeg", {}),
}


@pytest.fixture(params=[1, 3, 16])
def decoder_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode with so many threads, whatever the machine has."""
    opened = ClipFrames._open

    def open_with_threads(self: ClipFrames) -> Any:
        container = opened(self)
        self._stream(container).codec_context.thread_count = request.param
        return container

    monkeypatch.setattr(ClipFrames, "_open", open_with_threads)


@pytest.mark.usefixtures("decoder_threads")
@pytest.mark.parametrize("kind", LOSSES)
def test_a_lost_packet_is_left_out_with_a_warning(kind: str, tmp_path: Path) -> None:
    suffix, codec, options = LOSSES[kind]
    path = tmp_path / f"lost.{suffix}"
    pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    clips.write(path, clips.moving(14), codec, None, options, pix_fmt)
    right = clips.decoded(zeroed(path, 8), damaged=True)
    assert 10 <= len(right) <= 13  # HEVC leaves out frames up to the next key frame
    with pytest.warns(MediaWarning, match=r"1 packets cannot be decoded and are left out"):
        source = ClipFrames(path)
    assert source.count == len(right)
    for index in random.Random(1).sample(range(len(right)), len(right)):
        np.testing.assert_array_equal(source.read(index), right[index])


def test_damage_that_only_the_decoder_sees_keeps_the_numbers(tmp_path: Path) -> None:
    path = tmp_path / "lost.mkv"
    options = {"g": "6", "deadline": "realtime", "cpu-used": "8"}
    clips.write(path, clips.moving(14), "libvpx-vp9", None, options)
    whole = clips.decoded(path)
    zeroed(path, 8, keep=1)  # still begins as a packet of VP9
    source = ClipFrames(path)
    assert source.count == 14
    with pytest.warns(MediaWarning, match=r"frame 8 cannot be decoded and repeat frame 7"):
        found = [source.read(index) for index in range(14)]
    np.testing.assert_array_equal(found[8], whole[7])
    for index in (0, 7, 12, 13):
        np.testing.assert_array_equal(found[index], whole[index])
    again = [source.read(index) for index in (8, 13, 9, 8)]
    for index, frame in zip((8, 13, 9, 8), again, strict=True):
        np.testing.assert_array_equal(frame, found[index])


@pytest.mark.parametrize("suffix", ["mov", "avi", "mkv"])
def test_a_jump_keeps_the_palette(suffix: str, tmp_path: Path) -> None:
    """QuickTime gives the colours of its 8-bit frames with the first packet alone."""
    path = tmp_path / f"grey.{suffix}"
    clips.write(path, clips.moving(50), "rawvideo", None, {}, "gray")
    right = clips.decoded(path)
    order = [44, 3, 49, 0, 40, 41]
    source = ClipFrames(path)
    for index in order:
        np.testing.assert_array_equal(source.read(index), right[index])


def test_a_first_frame_that_is_lost_later_is_an_error(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "a.mp4", clips.moving(3))
    source = ClipFrames(path)
    path.write_bytes(b"")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="an empty file"):
        source.read(0)


# ---------------------------------------------------------------- what players show


def with_aperture(path: Path, width: int, height: int) -> Path:
    """Write a clean aperture into the description of an MP4 file whose index is at its end."""
    data = path.read_bytes()
    box = struct.pack(">I4s8i", 40, b"clap", width, 1, height, 1, 0, 1, 0, 1)
    at = data.index(b"avcC") - 4
    grown = bytearray(data[:at] + box + data[at:])
    names = (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1")
    for name in names:
        start = grown.index(name, grown.index(b"moov")) - 4
        grown[start : start + 4] = (int.from_bytes(grown[start : start + 4], "big") + 40).to_bytes(
            4, "big"
        )
    path.write_bytes(grown)
    return path


def test_a_crop_of_the_container_is_told(tmp_path: Path) -> None:
    path = clips.write(tmp_path / "clap.mp4", clips.moving(3))
    with_aperture(path, 44, 40)
    words = "10 pixels at the left, 10 at the right, 4 at the top and 4 at the bottom"
    for source in (path, path.read_bytes()):
        with pytest.warns(MediaWarning, match=words):
            assert ClipFrames(source).read(2).shape == (48, 64, 3)


def element(name: str, *parts: bytes) -> bytes:
    """Return an element of Matroska."""
    body = b"".join(parts)
    return bytes.fromhex(name) + (1 << 56 | len(body)).to_bytes(8, "big") + body


@pytest.mark.parametrize("late", [False, True])
def test_a_crop_of_matroska_is_found_before_and_behind_the_frames(late: bool) -> None:
    video = element("e0", element("b0", b"\x40"), element("ba", b"\x30"), element("54cc", b"\6"))
    tracks = element("1654ae6b", element("ae", element("d7", b"\1"), video))
    parts = [tracks, element("1f43b675", bytes(40))]
    segment = element("18538067", element("114d9b74", bytes(9)), *(parts[::-1] if late else parts))
    data = element("1a45dfa3", element("4282", b"matroska")) + segment
    assert crop_of(io.BytesIO(data), "matroska", (48, 64)) == (6, 0, 0, 0)
    assert crop_of(io.BytesIO(data[:-60]), "matroska", (48, 64)) in (None, (6, 0, 0, 0))
    assert crop_of(io.BytesIO(data), "avi", (48, 64)) is None


def test_damaged_headers_crop_nothing() -> None:
    rng = np.random.default_rng(3)
    for family in ("mov", "matroska"):
        for start in (
            b"\0\0\0\x30moov\0\0\0\x28trak",
            b"\x1a\x45\xdf\xa3\x84",
            b"\x18\x53\x80\x67\xff",
        ):
            data = start + rng.integers(0, 256, 200, np.uint8).tobytes()
            assert crop_of(io.BytesIO(data), family, (48, 64)) is None


# ---------------------------------------------------------------- what frames cost


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the frames that decoders give."""
    frames = [0]
    decoded = clip_frames.decoded

    def spy(*args: Any) -> Any:
        for frame in decoded(*args):
            frames[0] += 1
            yield frame

    monkeypatch.setattr(clip_frames, "decoded", spy)
    return frames


@pytest.mark.parametrize("codec", ["libsvtav1", "libaom-av1", "libx264"])
def test_opening_decodes_nothing_but_the_start(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"preset": "12" if codec == "libsvtav1" else "veryfast", "cpu-used": "8"}
    path = clips.write(tmp_path / "a.mp4", clips.moving(9, (64, 64)), codec, None, options)
    right = clips.decoded(path)

    def whole(*_: object) -> None:
        raise AssertionError("decoded whole")

    monkeypatch.setattr(clip_frames, "index_by_decoding", whole)
    source = ClipFrames(path)
    assert source.count == 9
    for index in (5, 8, 0, 7):
        np.testing.assert_array_equal(source.read(index), right[index])


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="no scheduling policies")
def test_encoders_do_not_change_the_priority_of_the_tests(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0)
    clips.write(tmp_path / "a.mp4", clips.moving(2, (64, 64)), "libsvtav1", None, {"preset": "12"})
    assert os.sched_getscheduler(0) == before


@pytest.mark.parametrize("suffix", ["mp4", "avi"])
def test_steps_back_decode_a_group_of_frames_once(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"one_key.{suffix}"
    clips.write(path, clips.moving(60), "mpeg4", None, {"g": "600", "sc_threshold": "1000000000"})
    right = clips.decoded(path)
    source = ClipFrames(path)
    frames = counted(monkeypatch)
    for index in range(59, -1, -1):
        np.testing.assert_array_equal(source.read(index), right[index])
    assert frames[0] <= 2 * 60
    size = 48 * 64 * 3 // 2
    monkeypatch.setattr(clip_frames, "KEPT_BYTES", 24 * size)
    source, frames[0] = ClipFrames(path), 0
    for index in range(59, -1, -1):
        np.testing.assert_array_equal(source.read(index), right[index])
    assert frames[0] <= 300  # each from the start: 1,830


def test_forwards_only_the_last_frame_is_kept(tmp_path: Path) -> None:
    source = ClipFrames(clips.write(tmp_path / "a.mp4", clips.moving(20)))
    for index in (12, *range(20)):
        source.read(index)
        if index == 12:
            source.close()
    assert len(source._recent._frames) == 1
    for copied in (copy.copy(source), pickle.loads(pickle.dumps(source))):
        assert copied.read(19).shape == (48, 64, 3)


def test_the_limit_of_kept_frames_is_in_bytes() -> None:
    recent: Recent[str] = Recent()
    recent.add(1, "a", 10)
    recent.add(2, "b", 10)
    assert (recent.get(1), recent.get(2)) == (None, "b")
    recent.limit = 25
    recent.add(3, "c", 10)
    recent.add(3, "c", 10)
    recent.add(4, "d", 10)
    assert [recent.get(n) for n in (2, 3, 4)] == [None, "c", "d"]
    recent.add(5, "large", 99)
    assert [recent.get(n) for n in (4, 5)] == [None, "large"]
    recent.clear()
    assert recent.get(5) is None


# ---------------------------------------------------------------- colours and depths


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv420p10le"])
def test_both_ways_to_the_pixels_follow_the_matrix_of_the_colours(
    pix_fmt: str, tmp_path: Path
) -> None:
    """As FFmpeg's command: whole frames, and squares of SAM 2, with every version of PyAV."""
    path = tmp_path / "hd.mp4"
    image = np.zeros((64, 64, 3), np.uint8)
    image[:32, :32], image[:32, 32:], image[32:, :32] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width = stream.height = 64
        stream.pix_fmt, stream.options = pix_fmt, {"qp": "0"}
        stream.codec_context.colorspace = 1
        graph = av.filter.Graph()
        graph.link_nodes(
            graph.add_buffer(width=64, height=64, format="rgb24", time_base=Fraction(1, 25)),
            graph.add("scale", "out_color_matrix=bt709:flags=bicubic"),
            graph.add("format", pix_fmt),
            graph.add("buffersink"),
        ).configure()
        frame = av.VideoFrame.from_ndarray(image, format="rgb24")
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        graph.push(frame)
        container.mux(stream.encode(graph.pull()))
        container.mux(stream.encode(None))
    source = ClipFrames(path)
    for pixels in (source.read(0), source.read_square(0, 64)[0]):
        middle = pixels[16::32, 16::32].astype(int)
        assert np.abs(middle - image[16::32, 16::32]).max() <= 4


@pytest.mark.parametrize("pix_fmt", ["gray16le", "gbrp16le", "gray12le"])
def test_deep_frames_are_read_as_deep_images(pix_fmt: str, tmp_path: Path) -> None:
    ramp = np.linspace(0, 4000, 48 * 64).reshape(48, 64).astype(np.uint16)
    given = ramp if pix_fmt.startswith("gray") else np.repeat(ramp[..., None], 3, axis=2)
    path = tmp_path / "deep.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pix_fmt
        form = "gray16le" if pix_fmt.startswith("gray") else "rgb48le"
        container.mux(stream.encode(av.VideoFrame.from_ndarray(given, format=form)))
        container.mux(stream.encode(None))
    for read in (lambda s: s.read(0), lambda s: s.read_square(0, 48)[0]):
        with pytest.warns(MediaWarning, match=r"less than a tenth .* value_range"):
            read(ClipFrames(path))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stretched = ClipFrames(path, (0, 4000)).read(0)
    right = np.rint(ramp / 4000 * 255)
    assert np.abs(stretched[:, :, 0] - right).max() <= 1
    square, hw = ClipFrames(path, (0, 4000)).read_square(0, 48)
    assert hw == (48, 64)
    assert int(square.max()) > 240


def test_a_range_of_values_is_refused_for_video_of_8_bits(tmp_path: Path) -> None:
    source = ClipFrames(clips.write(tmp_path / "a.mp4", clips.moving(2)), (0, 100))
    for read in (source.read, lambda index: source.read_square(index, 8)):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=r"value_range: .* found yuv420p"):
            read(0)


# ---------------------------------------------------------------- what is written


def stamps(path: Path) -> tuple[list[float], float, Fraction]:
    """Return the times of the frames of a clip, how long the last one is shown, and its pixels."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        packets = sorted((p.pts, p.duration) for p in container.demux(stream) if p.size)
        base = stream.time_base
        ratio = Fraction(stream.sample_aspect_ratio or 1)
    first = packets[0][0]
    return [float((p - first) * base) for p, _ in packets], float(packets[-1][1] * base), ratio


def timed(path: Path, times: list[float], ratio: Fraction = Fraction(1), **options: Any) -> Path:
    """Write a clip by PyAV whose frames are shown at these times."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=options.get("rate", 25))
        stream.height, stream.width, stream.pix_fmt = 48, 64, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        stream.codec_context.sample_aspect_ratio = ratio
        for time, image in zip(times, clips.moving(len(times)), strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = round(time * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


CLOCKS = {
    "a phone": [0, 0.04, 0.08, 0.58, 1.08, 1.58],
    "a screen": [0, 5.2, 5.3, 61],
    "an hour between frames": [0, 3600, 7200],
    "beginning later": [10, 10.04, 10.5],
}


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize("clock", CLOCKS)
def test_an_overlay_has_the_clock_of_its_clip(
    clock: str,
    suffix: str,
    sam2_checkpoint: Path,
    run_cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    times = CLOCKS[clock]
    path = timed(tmp_path / f"a.{suffix}", times)
    words = ["track", path, "--model", sam2_checkpoint, "--point", "20,18"]
    code, _, err = run_cli(*words, "--output", tmp_path / "o.mp4")
    assert code == 0, err
    found, last, ratio = stamps(tmp_path / "o.mp4")
    assert found == pytest.approx([time - times[0] for time in times], abs=2e-3)
    assert last == pytest.approx(times[-1] - times[-2], abs=2e-3)
    assert ratio == 1


def test_an_overlay_of_an_animation_has_its_times(
    sam2_checkpoint: Path, run_cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    images = [Image.fromarray(image) for image in clips.moving(4)]
    options = {"save_all": True, "append_images": images[1:], "duration": [70, 300, 40, 40]}
    for name in ("a.webp", "a.png"):
        images[0].save(tmp_path / name, **options)
        words = ["track", tmp_path / name, "--model", sam2_checkpoint, "--point", "20,18"]
        assert run_cli(*words, "--output", tmp_path / "o.mp4")[0] == 0
        assert stamps(tmp_path / "o.mp4")[0] == pytest.approx([0, 0.07, 0.37, 0.41])


@pytest.mark.parametrize("turned", [False, True])
def test_an_overlay_has_the_pixels_of_its_clip(turned: bool, tmp_path: Path) -> None:
    path = timed(tmp_path / "a.mp4", [0, 0.04], Fraction(16, 11))
    if turned:
        clips.set_matrix(path, 0, 1, -1, 0)
    source = ClipFrames(path)
    with ClipWriter(tmp_path / "o.mp4", source.rate, [], source.pixel_aspect) as writer:
        for index in range(2):
            writer.add(source.read(index), source.time(index))
    assert stamps(tmp_path / "o.mp4")[2] == (Fraction(11, 16) if turned else Fraction(16, 11))


def test_rates_stay_what_they_are(tmp_path: Path) -> None:
    for rate in (Fraction(30000, 1001), Fraction(24000, 1001), Fraction(25), Fraction(1, 1200)):
        with ClipWriter(tmp_path / "o.mp4", float(rate)) as writer:
            for image in clips.moving(4):
                writer.add(image)
        assert ClipFrames(tmp_path / "o.mp4").rate == pytest.approx(float(rate), rel=2e-4)


def test_a_frame_for_ever_is_cut_with_a_warning(tmp_path: Path) -> None:
    first, second, third = clips.moving(3)
    with ClipWriter(tmp_path / "o.mp4", 25) as writer:
        writer.add(first, Fraction(0))
        with pytest.warns(MediaWarning, match=r"more than 17895 s is shown for 17895 s"):
            writer.add(second, Fraction(10**6))
        writer.add(third, Fraction(10**6 + 1))
    assert stamps(tmp_path / "o.mp4")[0] == pytest.approx([0, 17895.7, 17896.7], abs=0.1)


def test_an_object_that_is_away_has_no_annotation(
    sam2_checkpoint: Path,
    run_cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    propagate = sam_rlx.VideoPredictor.propagate

    def away(self: Any, **options: Any) -> Any:
        for frame in propagate(self, **options):
            if frame.frame_index in (1, 2):
                frame.masks["1"][:] = False
            yield frame

    monkeypatch.setattr(sam_rlx.VideoPredictor, "propagate", away)
    path = timed(tmp_path / "a.mp4", [0, 0.04, 0.08, 0.12])
    code, out, _ = run_cli(
        "track", path, "--model", sam2_checkpoint, "--point", "20,18", "--json", "-"
    )
    assert code == 0
    document = json.loads(out)
    assert [image["frame_index"] for image in document["images"]] == [0, 1, 2, 3]
    assert [one["image_id"] for one in document["annotations"]] == [1, 4]
    assert [one["id"] for one in document["annotations"]] == [1, 2]
    assert all(one["area"] for one in document["annotations"])
