"""Clips as people have them: turned, trimmed, of all containers, without index, damaged."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.media.clip_frames import ClipFrames
from sam_rlx._internal.media.orientation import orientation
from sam_rlx.compat.sam2.video_frames import SquareClip
from sam_rlx.compat.sam3.model import video_frames as sam3_frames
from sam_rlx.frames import open_frames
from support.videos import POINT

clips = pytest.importorskip("support.clips", reason="needs av")
COUNT = 30
OPEN_GOP = {"preset": "veryfast", "x264-params": "open-gop=1:keyint=8:bframes=3:scenecut=0"}
REFRESH = {"preset": "veryfast", "x264-params": "intra-refresh=1:keyint=8"}
MPEG = {"g": "8", "bf": "2", "qscale": "2", "sc_threshold": "1000000000"}
# Suffix, codec, format, options, pixel format.
KINDS = {
    "mp4": ("mp4", "libx264", None, None, "yuv420p"),
    "open GOP": ("mp4", "libx264", None, OPEN_GOP, "yuv420p"),
    "intra refresh": ("mp4", "libx264", None, REFRESH, "yuv420p"),
    "one key frame": ("mkv", "libx264", None, {"x264-params": "keyint=999"}, "yuv420p"),
    "hevc": ("mp4", "libx265", None, {"x265-params": "keyint=8:log-level=none"}, "yuv420p"),
    "mts": ("mts", "libx264", "mpegts", OPEN_GOP, "yuv420p"),
    "mpg": ("mpg", "mpeg2video", None, MPEG, "yuv420p"),
    "flv": ("flv", "libx264", None, None, "yuv420p"),
    "flv sorenson": ("flv", "flv", None, {"g": "8"}, "yuv420p"),
    "avi mpeg4": ("avi", "mpeg4", None, MPEG, "yuv420p"),
    "avi h264": ("avi", "libx264", None, None, "yuv420p"),
    "raw h264": ("h264", "libx264", "h264", None, "yuv420p"),
    "webm": ("webm", "libvpx", None, {"auto-alt-ref": "1", "lag-in-frames": "16"}, "yuv420p"),
    "10 bits": ("mkv", "libx264", None, {"x264-params": "keyint=8"}, "yuv420p10le"),
    "alpha": ("mov", "qtrle", None, {}, "argb"),
    "gif": ("gif", "gif", None, {}, "rgb8"),
    "mjpeg": ("mjpeg", "mjpeg", "mjpeg", {}, "yuvj420p"),
}


def written(kind: str, folder: Path) -> Path:
    suffix, codec, form, options, pix_fmt = KINDS[kind]
    hw = (48, 64) if codec != "flv" else (96, 128)
    path = folder / f"clip.{suffix}"
    return clips.write(path, clips.moving(COUNT, hw), codec, form, options, pix_fmt)


def in_any_order(path: Path) -> None:
    """Compare all frames, read in an order that needs jumps, with those decoded from the start."""
    right = clips.decoded(path)
    source = open_frames(path)
    assert source.count == len(right)
    order = list(range(len(right)))
    random.Random(0).shuffle(order)
    for index in order:
        np.testing.assert_array_equal(source.read(index), right[index], err_msg=str(index))


@pytest.mark.filterwarnings("ignore:deprecated pixel format")
@pytest.mark.parametrize("kind", KINDS)
def test_any_frame_of_any_kind_can_be_read(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    in_any_order(path)
    assert open_frames(path).count == COUNT


@pytest.mark.parametrize("form", ["matroska", "avi"])
def test_files_whose_index_was_never_written(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"clip.{form}"
    in_any_order(clips.write(path, clips.moving(COUNT), form=form, target=clips.NoSeek()))


@pytest.mark.parametrize("skipped", [1, 3, 11])
def test_an_edit_list_hides_frames(skipped: int, tmp_path: Path) -> None:
    path = written("mp4", tmp_path)
    whole = clips.decoded(path)
    clips.trim(path, skipped)
    in_any_order(path)
    source = open_frames(path)
    assert source.count == COUNT - skipped
    for index, right in enumerate(whole[skipped:]):
        np.testing.assert_array_equal(source.read(index), right)
    assert len(SquareClip(path, 16)) == COUNT - skipped


# The matrix of each, and what it does to the pixels.
TURNS: dict[str, tuple[tuple[int, int, int, int], Callable[[np.ndarray], np.ndarray]]] = {
    "90": ((0, 1, -1, 0), lambda x: np.rot90(x, -1)),
    "180": ((-1, 0, 0, -1), lambda x: np.rot90(x, 2)),
    "270": ((0, -1, 1, 0), lambda x: np.rot90(x, 1)),
    "mirrored": ((-1, 0, 0, 1), lambda x: x[:, ::-1]),
    "upside down": ((1, 0, 0, -1), lambda x: x[::-1]),
    "transposed": ((0, 1, 1, 0), lambda x: x.transpose(1, 0, 2)),
    "anti-transposed": ((0, -1, -1, 0), lambda x: x[::-1, ::-1].transpose(1, 0, 2)),
    "nothing": ((1, 0, 0, 1), lambda x: x),
    "an odd angle": ((1, 1, -1, 1), lambda x: x),
}


@pytest.mark.parametrize("turn", TURNS)
def test_frames_stand_upright(turn: str, tmp_path: Path) -> None:
    path = clips.write(tmp_path / "turned.mp4", clips.moving(4))
    matrix, turned = TURNS[turn]
    clips.set_matrix(path, *matrix)
    right = turned(clips.decoded(path)[2])
    np.testing.assert_array_equal(ClipFrames(path).read(2), right)

    # The loaders of upstream's modules give or resize what is upright.
    image = pytest.importorskip("PIL.Image")
    small = np.asarray(image.fromarray(np.ascontiguousarray(right)).resize((24, 24), 2))
    clip = SquareClip(path, 24)
    assert (clip.height, clip.width) == right.shape[:2]
    assert np.abs(clip[2].astype(int) - small).mean() < 12
    assert np.abs(clip[2].astype(int) - small[::-1, ::-1]).mean() > 30
    whole = sam3_frames.open_frames(path, 24)  # which the session resizes
    assert (whole.height, whole.width) == right.shape[:2]
    np.testing.assert_array_equal(whole[2], right)


class _ByType(dict[str, bytes]):
    """Side data as PyAV 19 has it: a mapping, which iterates over its keys."""


@pytest.mark.parametrize("turn", TURNS)
def test_the_matrix_is_found_by_its_name(turn: str) -> None:
    (a, b, c, d), turned = TURNS[turn]
    one = 1 << 16
    matrix = np.array([a * one, b * one, 0, c * one, d * one, 0, 0, 0, 1 << 30], np.int32)
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    for data in ({"DISPLAYMATRIX": matrix.tobytes(), "EXIF": b"x"}, {"EXIF": b"x"}):
        right = turned(pixels) if "DISPLAYMATRIX" in data else pixels
        frame = SimpleNamespace(side_data=_ByType(data))
        np.testing.assert_array_equal(orientation(frame).apply(pixels), right)


@pytest.mark.parity
@pytest.mark.parametrize("turn", ["90", "180", "270"])
def test_frames_stand_as_opencv_has_them(turn: str, tmp_path: Path) -> None:
    cv2 = pytest.importorskip("cv2")
    path = clips.write(tmp_path / "turned.mp4", clips.moving(4))
    clips.set_matrix(path, *TURNS[turn][0])
    is_read, right = cv2.VideoCapture(str(path)).read()
    if not is_read:
        pytest.skip("this OpenCV decodes no H.264")
    found = ClipFrames(path).read(0)
    assert found.shape == right.shape
    assert np.abs(found.astype(int) - right[:, :, ::-1]).mean() < 4


def test_the_predictor_and_the_command_line_see_upright_frames(
    sam2_checkpoint: Path,
    sam2_model: sam_rlx.Model,
    run_cli: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
) -> None:
    path = clips.write(tmp_path / "turned.mp4", clips.moving(4))
    clips.set_matrix(path, *TURNS["90"][0])
    session = sam_rlx.VideoPredictor(sam2_model, path).add_prompt(0, 1, **POINT)
    assert session.orig_hw == (64, 48)
    words = ["track", path, "--model", sam2_checkpoint, "--point", "20,18", "--json", "-"]
    code, out, _ = run_cli(*words, "--max-frames", "1", "--output", tmp_path / "overlay.mp4")
    assert code == 0
    image = json.loads(out)["images"][0]
    assert (image["height"], image["width"]) == (64, 48)
    assert ClipFrames(tmp_path / "overlay.mp4").read(0).shape == (64, 48, 3)


@pytest.mark.parametrize("options", [{}, {"duration": 0}, {"duration": [0, 90, 0, 90]}])
def test_gif_as_pillow_writes_it(tmp_path: Path, options: dict[str, Any]) -> None:
    """Without control blocks FFmpeg sees one frame."""
    images = [Image.new("RGB", (40, 30), (60 * i, 90, 200 - 50 * i)) for i in range(4)]
    path = tmp_path / "t.gif"
    images[0].save(path, save_all=True, append_images=images[1:], **options)
    for source in (path, path.read_bytes()):
        found = open_frames(source)
        assert found.count == 4
        for index in (0, 3, 1):
            np.testing.assert_array_equal(found.read(index), np.asarray(images[index]))


def test_gif_without_delays(tmp_path: Path) -> None:
    path = written("gif", tmp_path)
    data = bytearray(path.read_bytes())
    position = data.find(b"\x21\xf9\x04")
    while position >= 0:
        data[position + 4 : position + 6] = bytes(2)
        position = data.find(b"\x21\xf9\x04", position + 6)
    path.write_bytes(data)
    in_any_order(path)
    assert open_frames(path).count == COUNT


def test_contents_and_open_files(tmp_path: Path) -> None:
    path = written("mp4", tmp_path)
    right = clips.decoded(path)
    data = path.read_bytes()
    with path.open("rb") as file:
        for source in (data, io.BytesIO(data), file, str(path)):
            frames = open_frames(source)
            assert frames.count == COUNT
            np.testing.assert_array_equal(frames.read(7), right[7])
    with pytest.raises(sam_rlx.InvalidArgumentError, match="open as binary, found str"):
        open_frames(io.StringIO("text"))


def test_a_name_that_looks_like_an_address(tmp_path: Path) -> None:
    path = written("mp4", tmp_path).rename(tmp_path / "http:clip.mp4")
    assert ClipFrames(path).count == COUNT


def test_a_file_that_is_cut_off_says_so(tmp_path: Path) -> None:
    path = written("avi mpeg4", tmp_path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 9 // 10])
    with pytest.warns(
        sam_rlx.MediaWarning, match=r"clip\.avi: 1 of \d+ packets are damaged or cut off"
    ):
        source = ClipFrames(path)
    assert 5 < (source.count or 0) < COUNT


def test_fragments_that_are_cut_off_are_read(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    container = {"movflags": "frag_keyframe+empty_moov"}
    clips.write(path, clips.moving(COUNT), container_options=container)
    right = clips.decoded(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 8 // 10])
    right_count = clips.decodable(path)
    assert 8 < right_count < COUNT
    with pytest.warns(sam_rlx.MediaWarning, match=r"1 of \d+ packets are damaged or cut off"):
        source = ClipFrames(path)
    assert source.count == right_count
    for index in (12, 0, 7):
        np.testing.assert_array_equal(source.read(index), right[index])


def test_packets_that_cannot_be_decoded_are_counted(tmp_path: Path) -> None:
    options = {"preset": "veryfast", "x264-params": "keyint=1"}
    path = clips.write(tmp_path / "clip.mp4", clips.moving(9), options=options)
    data = bytearray(path.read_bytes())
    start = data.index(b"mdat") + 4
    data[start : start + 4] = b"\xff" * 4  # the length of what comes first
    path.write_bytes(data)
    with pytest.warns(sam_rlx.MediaWarning, match="1 packets cannot be decoded"):
        source = ClipFrames(path)
    assert source.count == 8
    assert source.read(7).shape == (48, 64, 3)


def test_memory_errors_stay_memory_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ClipFrames(written("mp4", tmp_path))

    def convert(self: ClipFrames, frame: object) -> None:
        raise MemoryError

    monkeypatch.setattr(ClipFrames, "convert", convert)
    with pytest.raises(MemoryError):
        source.read(2)
    monkeypatch.undo()
    assert source.read(2).shape == (48, 64, 3)


def test_a_jump_that_misses_is_repeated_from_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written("mp4", tmp_path)
    right = clips.decoded(path)
    source = ClipFrames(path)
    tried: list[int] = []
    seek = ClipFrames._seek

    def too_far(self: ClipFrames, key: int) -> None:
        tried.append(key)
        seek(self, max(self._index.keys))

    monkeypatch.setattr(ClipFrames, "_seek", too_far)
    np.testing.assert_array_equal(source.read(17), right[17])
    assert tried == [16, 8]  # then from the start


def test_the_nightly_program_finds_clips_equal_to_the_command_of_ffmpeg(tmp_path: Path) -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("needs the program ffmpeg")
    program = Path(__file__).parents[2] / "benchmarks" / "clips.py"
    words = [sys.executable, str(program), "mp4", "turned 90", "trimmed both", "mpg"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("equal") == 4


def test_nothing_is_said_of_a_whole_clip(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ClipFrames(written("mts", tmp_path)).count == COUNT
