"""Sessions of the video predictor: memory, files, the command line."""

from __future__ import annotations

import gc
import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx._internal.media.frames import ClipFrames
from sam_rlx.apps import cli
from support import cases, saved_files
from support.videos import POINT, frame_image, results, same

# ---------------------------------------------------------------- memory and files


def resident() -> int:
    """Return the memory of this process in KB, without files: the system drops their pages."""
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssAnon:")[1].split()[0])


# Frames of a stretch, and the kilobytes that they may take. A leak grows in each stretch; what
# the allocator and other threads keep, in some alone.
STRETCH, MOST = (900, 4000) if cases.full else (120, 700)
STRETCHES = 5


def grows(frames: Iterator[Any], taken: Callable[[], int] = resident) -> bool:
    """Tell whether each of some stretches of frames takes memory, after those that fill it."""
    for _ in itertools.islice(frames, 120):
        pass
    for _ in range(STRETCHES):
        before = taken()
        for _ in itertools.islice(frames, STRETCH):
            pass
        if taken() - before < MOST:
            return False
    return True


@pytest.mark.parametrize(("kept", "leak"), [(MOST // STRETCH + 1, True), (0, False)])
def test_a_leak_is_what_grows_in_each_stretch(kept: int, leak: bool) -> None:
    """Of kilobytes a frame; the first stretch takes more in any case."""
    more = itertools.chain(itertools.repeat(kept, 130), [5 * MOST], itertools.repeat(kept))
    total = itertools.accumulate(more)
    seen = [0]
    frames = (seen.append(next(total)) for _ in itertools.count())
    assert grows(frames, lambda: seen[-1]) == leak


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_many_pushed_frames_take_no_more_memory(sam2_model: sam_rlx.Model) -> None:
    session = sam_rlx.VideoPredictor(sam2_model)
    session.push(frame_image(0))
    session.add_prompt(0, 1, **POINT)
    assert not grows(session.push(frame_image(t % 30)) for t in itertools.count(1))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_many_frames_of_a_video_take_no_more_memory(sam2_model: sam_rlx.Model) -> None:
    frames = (frame_image(t % 30) for t in range(120 + STRETCHES * STRETCH))
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)
    assert not grows(iter(session.propagate()))


def test_a_session_is_saved_and_goes_on(
    sam2_model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames, fill_hole_area=3)
    session.add_prompt(0, ("a", 1), **POINT).add_prompt(2, "b", box=[10, 10, 27, 27])
    results(session, max_frames=6)
    session.add_prompt(4, "b", **POINT)
    session.save(tmp_path / "session.safetensors")
    again = sam_rlx.VideoPredictor.load(tmp_path / "session.safetensors", sam2_model, frames)
    assert again.obj_ids == [("a", 1), "b"]
    assert same(results(again), results(session))
    again.add_prompt(0, "c", **POINT)
    assert again.obj_ids == [("a", 1), "b", "c"]


def test_a_stream_is_saved_and_goes_on(
    sam2_model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model)
    session.push(frames[0])
    session.add_prompt(0, 1, **POINT)
    session.push(frames[1])
    session.save(tmp_path / "stream.safetensors")
    again = sam_rlx.VideoPredictor.load(tmp_path / "stream.safetensors", sam2_model)
    assert again.num_frames == 2
    pairs = [(s.push(frames[2], return_logits=True)) for s in (session, again)]
    assert same(pairs[:1], pairs[1:])


def test_files_that_are_no_session(
    sam2_model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)
    path = tmp_path / "session.safetensors"
    session.save(path)
    load = sam_rlx.VideoPredictor.load
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.safetensors", sam2_model, frames)
    with pytest.raises(sam_rlx.CheckpointError, match="with its frames"):
        load(path, sam2_model)
    fields = saved_files.read(path)
    for name, change in {
        "format": "other",
        "0.cond.obj_ptr": fields["0.cond.obj_ptr"][:, :-1],
        "0.cond.low_res_mask": np.full_like(fields["0.cond.low_res_mask"], np.nan),
        "0.points.counts": np.asarray([1 << 40]),
        "0.cond.frames": None,
        "img_size": "64",
    }.items():
        other = {k: v for k, v in {**fields, name: change}.items() if v is not None}
        saved_files.write(tmp_path / "bad.safetensors", other)
        with pytest.raises(sam_rlx.CheckpointError):
            load(tmp_path / "bad.safetensors", sam2_model, frames)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(sam_rlx.CheckpointError):
        load(path, sam2_model, frames)
    session.add_prompt(0, frozenset({1}), **POINT)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="plain values"):
        session.save(tmp_path / "set.safetensors")
    assert not (tmp_path / "set.safetensors").exists()


# ---------------------------------------------------------------- the command line


def test_track(
    sam2_checkpoint: Path, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = [
        "track",
        clip,
        "--model",
        sam2_checkpoint,
        "--point",
        "20,18",
        "--frame",
        "2",
        "--object",
    ]
    words += ["cat", "--threads", "1", "--max-frames", "4", "--output", out]
    assert cli.main([str(word) for word in words]) == 0
    text = capsys.readouterr()
    assert "tracked 4 frames" in text.out
    assert text.err == ""
    assert ClipFrames(out / "overlay.mp4").count == 4
    assert len(list((out / "masks").glob("cat_*.png"))) == 4
    document = json.loads((out / "masks.json").read_text())
    assert [image["frame_index"] for image in document["images"]] == [2, 3, 4, 5]
    assert {a["object"] for a in document["annotations"]} == {"cat"}
    assert not list(out.rglob("*.tmp"))


def test_track_writes_json_on_stdout(
    sam2_checkpoint: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["track", clip, "--model", sam2_checkpoint, "--json", "-", "--object", "a", "--box"]
    words += ["10,10,27,27", "--frame", "1", "--object", "b", "--point", "20,18", "--frame", "3"]
    words += ["--point", "21,19,0", "--max-frames", "2"]
    assert cli.main([str(word) for word in words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [a["object"] for a in document["annotations"]] == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--output", "out"], 2),
        (["--point", "1,2"], 2),
        (["--point", "1,2", "--output", "out.avi"], 2),
        (["--box", "1,2,3,4", "--box", "1,2,3,4", "--output", "out"], 2),
        (["--point", "1,2", "--frame", "99", "--output", "out"], 2),
    ],
)
def test_track_refuses(
    sam2_checkpoint: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["track", str(clip), "--model", str(sam2_checkpoint), *words]) == code
    assert "expected" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_keeps_what_is_finished(
    sam2_checkpoint: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    propagate = sam_rlx.VideoPredictor.propagate

    def interrupted(self: Any, **options: Any) -> Iterator[sam_rlx.VideoFrame]:
        for frame in propagate(self, **options):
            if frame.frame_index == 3:
                raise KeyboardInterrupt
            yield frame

    monkeypatch.setattr(sam_rlx.VideoPredictor, "propagate", interrupted)
    words = [
        "track",
        clip,
        "--model",
        sam2_checkpoint,
        "--point",
        "20,18",
        "--output",
        tmp_path / "o",
    ]
    assert cli.main([str(word) for word in words]) == 130
    assert ClipFrames(tmp_path / "o" / "overlay.mp4").count == 3
    assert len(json.loads((tmp_path / "o" / "masks.json").read_text())["images"]) == 3
    assert not list(tmp_path.rglob(".*"))


def test_a_codec_that_ffmpeg_does_not_know_is_named(clip: Path, tmp_path: Path) -> None:
    contents = clip.read_bytes()
    name = next(each for each in (b"avc1", b"mp4v", b"av01", b"hvc1") if each in contents)
    path = tmp_path / "unknown.mp4"
    path.write_bytes(contents.replace(name, b"zz9z"))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected a codec that PyAV's FFmpeg"):
        sam_rlx.frames.open_frames(path).read(0)
