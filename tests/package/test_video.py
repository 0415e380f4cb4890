"""The video predictor from Python: sources of frames, errors, files, the command line."""

from __future__ import annotations

import gc
import itertools
import json
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import cli
from sam_rlx.clip_writer import ClipWriter
from sam_rlx.frames import ClipFrames, open_frames
from support import tiny_sam2

HW = (45, 61)
POINT: dict[str, Any] = {"point_coords": [[20, 18]], "point_labels": [1]}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1)
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> sam_rlx.Model:
    return sam_rlx.load_model(checkpoint)


def picture(t: int, hw: tuple[int, int] = HW) -> np.ndarray:
    """Frame t of a made-up video."""
    y, x = np.mgrid[: hw[0], : hw[1]]
    frame = np.stack([3 * x % 256, 5 * y % 256, (x + y + 4 * t) % 256], axis=-1)
    frame[(x - 18 - t) ** 2 + (y - 18) ** 2 < 60] = (240, 30, 20)
    return frame.astype(np.uint8)


@pytest.fixture(scope="session")
def frames() -> np.ndarray:
    return np.stack([picture(t) for t in range(12)])


@pytest.fixture(scope="session")
def clip(frames: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clip") / "clip.mp4"
    with ClipWriter(path, 10) as writer:
        for frame in frames:
            writer.add(frame)
    return path


def results(session: sam_rlx.VideoPredictor, **options: Any) -> list[sam_rlx.VideoFrame]:
    return list(session.propagate(return_logits=True, **options))


def same(a: list[sam_rlx.VideoFrame], b: list[sam_rlx.VideoFrame]) -> bool:
    return len(a) == len(b) and all(
        x.frame_index == y.frame_index
        and x.scores == y.scores
        and x.logits is not None
        and y.logits is not None
        and all(np.array_equal(x.logits[k], y.logits[k]) for k in x.scores)
        for x, y in zip(a, b, strict=True)
    )


# ---------------------------------------------------------------- results


def test_the_example_of_the_documentation(model: sam_rlx.Model, frames: np.ndarray) -> None:
    video = sam_rlx.VideoPredictor(model, frames).add_prompt(0, obj_id=1, box=[10, 10, 27, 27])
    masks = [frame.masks[1] for frame in video.propagate()]
    assert len(masks) == len(frames)
    assert all(mask.shape == HW and mask.dtype == np.bool_ for mask in masks)
    assert video.orig_hw == HW
    assert video.num_frames == len(frames)


def test_results_are_frozen_and_logits_come_on_request(
    model: sam_rlx.Model, frames: np.ndarray
) -> None:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(2, "a", **POINT)
    frame = session.frame(2)
    assert frame.logits is None
    with pytest.raises(FrozenInstanceError):
        frame.frame_index = 3  # type: ignore[misc]
    logits = session.frame(2, return_logits=True).logits
    assert logits is not None
    assert logits["a"].dtype == np.float32
    assert np.array_equal(logits["a"] > 0, frame.masks["a"])
    assert session.frame(3).masks == {}


@pytest.mark.parametrize("obj_id", [0, -3, "cat", ("a", 1), None, 2.5, frozenset({1})], ids=repr)
def test_objects_have_any_name(model: sam_rlx.Model, frames: np.ndarray, obj_id: Any) -> None:
    session = sam_rlx.VideoPredictor(model, frames)
    session.add_prompt(0, obj_id, **POINT).add_prompt(0, "other", **POINT)
    assert session.obj_ids == [obj_id, "other"]
    assert list(next(session.propagate()).masks) == [obj_id, "other"]


def test_prompts_while_tracking_count_from_the_next_frame_on(
    model: sam_rlx.Model, frames: np.ndarray
) -> None:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT)
    seen = []
    for frame in session.propagate():
        seen.append(list(frame.masks))
        if frame.frame_index == 3:
            session.add_prompt(3, 2, box=[10, 10, 27, 27])
    assert seen == [[1]] * 4 + [[1, 2]] * 8


def test_start_end_and_direction(model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(4, 1, **POINT)
    order = lambda **options: [f.frame_index for f in session.propagate(**options)]  # noqa: E731
    assert order() == list(range(4, 12))
    assert order(start_frame=6, max_frames=3) == [6, 7, 8]
    assert order(reverse=True) == [4, 3, 2, 1, 0]
    assert order(reverse=True, start_frame=0) == [0]
    assert order(start_frame=11, max_frames=5) == [11]


def test_reset_forgets_objects_and_keeps_frames(model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT)
    first = results(session)
    session.reset()
    assert session.obj_ids == []
    session.add_prompt(0, 1, **POINT)
    assert same(results(session), first)


# ---------------------------------------------------------------- sources


def test_all_sources_give_the_same(
    model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    for t, frame in enumerate(frames):  # 10.png comes after 9.png
        Image.fromarray(frame).save(tmp_path / f"{t}.png")
    (tmp_path / "notes.txt").write_text("no picture")
    sources = [frames, list(frames), [Image.fromarray(f) for f in frames], tmp_path, str(tmp_path)]
    found = [results(sam_rlx.VideoPredictor(model, s).add_prompt(3, 1, **POINT)) for s in sources]
    assert all(same(found[0], other) for other in found[1:])


def test_an_iterator_is_read_forwards_only(model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(model, iter(frames))
    assert session.num_frames is None
    session.add_prompt(2, 1, **POINT)
    assert [f.frame_index for f in session.propagate()] == list(range(2, 12))
    with pytest.raises(sam_rlx.StateError, match="iterator"):
        session.add_prompt(4, 1, **POINT)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="less than 12, found 12"):
        session.add_prompt(12, 1, **POINT)


def test_clips_are_read_frame_by_frame_in_any_order(frames: np.ndarray, clip: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(clip)) as container:
        right = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    source = ClipFrames(clip)
    assert source.count == len(right) == len(frames)
    assert source.rate == 10
    for index in [0, 1, 2, 7, 3, 11, 11, 0, 5, 4, 10]:
        assert np.array_equal(source.read(index), right[index]), index
    in_memory = ClipFrames(clip.read_bytes())
    assert np.array_equal(in_memory.read(6), right[6])


def test_a_long_clip_with_few_key_frames(tmp_path: Path) -> None:
    path = tmp_path / "long.mp4"
    with ClipWriter(path, 30) as writer:
        for t in range(120):
            writer.add(np.full((48, 64, 3), 2 * t, np.uint8))
    source = ClipFrames(path)
    assert source.count == 120
    for index in [100, 5, 60, 61, 119, 0, 118]:
        assert abs(float(source.read(index).mean()) - 2 * index) < 4, index


def test_a_clip_is_tracked(model: sam_rlx.Model, clip: Path) -> None:
    session = sam_rlx.VideoPredictor(model, clip).add_prompt(5, 1, **POINT)
    assert session.num_frames == 12
    assert len(results(session)) == 7
    assert len(results(session, reverse=True)) == 6


# ---------------------------------------------------------------- errors leave the session alone


@pytest.fixture
def tracked(model: sam_rlx.Model, frames: np.ndarray) -> sam_rlx.VideoPredictor:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT)
    for _ in session.propagate(max_frames=4):
        pass
    return session


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "expected point_coords, box"),
        ({"point_coords": [[1, 2]]}, "point_labels"),
        ({**POINT, "point_labels": [2]}, "point_labels"),
        ({"point_coords": [[np.nan, 2]], "point_labels": [1]}, "finite"),
        ({"box": [5, 5, 2, 9]}, "x0 <= x1"),
        ({"box": [1, 1, 9, 9], "clear_old_points": False}, "clear_old_points"),
        ({"mask": np.ones(HW), **POINT}, "alone"),
        ({"mask": np.ones(HW, np.bool_).T}, "mask: expected bool"),
        ({"mask": np.full(HW, 0.5)}, "mask: expected bool"),
        ({"frame_index": 12, **POINT}, "0 to 11, found 12"),
        ({"frame_index": -1, **POINT}, "frame_index"),
        ({"frame_index": 1.0, **POINT}, "frame_index"),
        ({"obj_id": [1], **POINT}, "hashable"),
    ],
)
def test_a_wrong_prompt(tracked: sam_rlx.VideoPredictor, arguments: Any, text: str) -> None:
    expected = [tracked.frame(t, return_logits=True) for t in range(4)]
    with pytest.raises(sam_rlx.InvalidArgumentError, match=text):
        tracked.add_prompt(**{"frame_index": 2, "obj_id": "new", **arguments})
    assert tracked.obj_ids == [1]
    assert same([tracked.frame(t, return_logits=True) for t in range(4)], expected)


def test_unknown_objects(tracked: sam_rlx.VideoPredictor) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"one of \[1\], found 5"):
        tracked.remove_object(5)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="found 5"):
        tracked.clear_prompts(0, 5)


def test_calls_in_the_wrong_order(model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(model, frames)
    with pytest.raises(sam_rlx.StateError, match="an object with prompts"):
        session.propagate()
    with pytest.raises(sam_rlx.StateError, match="push"):
        session.push(frames[0])
    session.add_prompt(0, "a", **POINT).clear_prompts(0, "a")
    with pytest.raises(sam_rlx.StateError, match="prompts for object 'a'"):
        session.propagate()
    stream = sam_rlx.VideoPredictor(model)
    with pytest.raises(sam_rlx.StateError, match="a frame from push"):
        stream.add_prompt(0, 1, **POINT)
    with pytest.raises(sam_rlx.StateError, match="session of push"):
        stream.propagate()
    stream.push(frames[0])
    stream.push(frames[1])
    stream.push(frames[2])
    with pytest.raises(sam_rlx.StateError, match="expected 2, the last frame"):
        stream.add_prompt(0, 1, **POINT)


@pytest.mark.parametrize("broken", [np.zeros((9, 9), "U1"), picture(5, (45, 62)), None], ids=str)
def test_a_broken_frame_in_the_middle(
    model: sam_rlx.Model, frames: np.ndarray, broken: Any
) -> None:
    damaged: list[Any] = list(frames)
    damaged[5] = broken
    session = sam_rlx.VideoPredictor(model, damaged).add_prompt(0, 1, **POINT)
    good = list(itertools.islice(tracking := session.propagate(), 5))
    assert [frame.frame_index for frame in good] == [0, 1, 2, 3, 4]
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"frames?\W5"):
        next(tracking)
    damaged[5] = frames[5]
    rest = results(session, start_frame=5)
    whole = results(sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT))
    assert same(rest, whole[5:])


def read_all(path: Path) -> None:
    source = open_frames(path)
    for index in range(source.count or 0):
        source.read(index)


def with_index_first(clip: Path, folder: Path) -> Path:
    """Copy a clip so that its table of frames stands before them."""
    av = pytest.importorskip("av")
    path = folder / "first.mp4"
    options = {"movflags": "faststart"}
    with av.open(str(clip)) as old, av.open(str(path), "w", options=options) as new:
        stream = new.add_stream_from_template(old.streams.video[0])
        for packet in old.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                new.mux(packet)
    return path


def test_files_that_are_no_video(model: sam_rlx.Model, clip: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sam_rlx.VideoPredictor(model, tmp_path / "none.mp4")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="pictures"):
        sam_rlx.VideoPredictor(model, tmp_path)
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected a video file"):
        sam_rlx.VideoPredictor(model, text)
    for whole, share in ((clip, 0.3), (clip, 0.7), (with_index_first(clip, tmp_path), 0.7)):
        cut = tmp_path / "cut.mp4"
        cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
        with pytest.raises(sam_rlx.InvalidArgumentError, match="expected"):
            read_all(cut)
    for wrong in (7, b"bytes", np.zeros((4, 4, 3), np.uint8), []):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="frames: expected"):
            sam_rlx.VideoPredictor(model, wrong)


def test_a_model_of_another_family(tiny_checkpoint: Path) -> None:
    with pytest.raises(sam_rlx.UnsupportedError, match="family sam2, found sam"):
        sam_rlx.VideoPredictor(sam_rlx.load_model(tiny_checkpoint))


def test_interruption_leaves_the_session_as_it_was(
    model: sam_rlx.Model, frames: np.ndarray
) -> None:
    class Interrupting(Sequence[np.ndarray]):
        armed = True

        def __len__(self) -> int:
            return len(frames)

        def __getitem__(self, index: Any) -> Any:
            if index == 3 and self.armed:
                self.armed = False
                os.kill(os.getpid(), signal.SIGINT)
            return frames[index]

    session = sam_rlx.VideoPredictor(model, Interrupting()).add_prompt(0, 1, **POINT)
    with pytest.raises(KeyboardInterrupt):
        results(session)
    whole = results(sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT))
    assert same(results(session), whole)


# ---------------------------------------------------------------- memory and files


def resident() -> int:
    """Return the memory of this process in KB."""
    gc.collect()
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_thousand_pushed_frames_take_no_more_memory(model: sam_rlx.Model) -> None:
    session = sam_rlx.VideoPredictor(model)
    session.push(picture(0))
    session.add_prompt(0, 1, **POINT)
    for t in range(1, 100):
        session.push(picture(t % 30))
    before = resident()
    for t in range(100, 1000):
        session.push(picture(t % 30))
    assert resident() - before < 4000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_a_thousand_frames_of_a_video_take_no_more_memory(model: sam_rlx.Model) -> None:
    def endless() -> Iterator[np.ndarray]:
        for t in range(1000):
            yield picture(t % 30)

    session = sam_rlx.VideoPredictor(model, endless()).add_prompt(0, 1, **POINT)
    before = 0
    for frame in session.propagate():
        if frame.frame_index == 150:
            before = resident()
    assert resident() - before < 4000


def test_a_session_is_saved_and_goes_on(
    model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(model, frames, fill_hole_area=3)
    session.add_prompt(0, ("a", 1), **POINT).add_prompt(2, "b", box=[10, 10, 27, 27])
    results(session, max_frames=6)
    session.add_prompt(4, "b", **POINT)
    session.save(tmp_path / "session.npz")
    again = sam_rlx.VideoPredictor.load(tmp_path / "session.npz", model, frames)
    assert again.obj_ids == [("a", 1), "b"]
    assert same(results(again), results(session))
    again.add_prompt(0, "c", **POINT)
    assert again.obj_ids == [("a", 1), "b", "c"]


def test_a_stream_is_saved_and_goes_on(
    model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(model)
    session.push(frames[0])
    session.add_prompt(0, 1, **POINT)
    session.push(frames[1])
    session.save(tmp_path / "stream.npz")
    again = sam_rlx.VideoPredictor.load(tmp_path / "stream.npz", model)
    assert again.num_frames == 2
    pairs = [(s.push(frames[2], return_logits=True)) for s in (session, again)]
    assert same(pairs[:1], pairs[1:])


def test_files_that_are_no_session(
    model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    session = sam_rlx.VideoPredictor(model, frames).add_prompt(0, 1, **POINT)
    path = tmp_path / "session.npz"
    session.save(path)
    load = sam_rlx.VideoPredictor.load
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.npz", model, frames)
    with pytest.raises(sam_rlx.CheckpointError, match="with its frames"):
        load(path, model)
    with np.load(path) as archive:
        fields = dict(archive)
    for name, change in {
        "format": np.asarray("other"),
        "state.0.cond.obj_ptr": fields["state.0.cond.obj_ptr"][:, :-1],
        "state.0.cond.low_res_mask": np.full_like(fields["state.0.cond.low_res_mask"], np.nan),
        "state.0.points.counts": np.asarray([1 << 40]),
        "state.0.cond.frames": None,
        "img_size": np.asarray(64),
    }.items():
        other = {k: v for k, v in {**fields, name: change}.items() if v is not None}
        np.savez(tmp_path / "bad.npz", **other)
        with pytest.raises(sam_rlx.CheckpointError):
            load(tmp_path / "bad.npz", model, frames)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(sam_rlx.CheckpointError):
        load(path, model, frames)
    session.add_prompt(0, frozenset({1}), **POINT)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="plain values"):
        session.save(tmp_path / "set.npz")
    assert not (tmp_path / "set.npz").exists()


# ---------------------------------------------------------------- the command line


def test_track(
    checkpoint: Path, clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["track", clip, "--model", checkpoint, "--point", "20,18", "--frame", "2", "--object"]
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
    checkpoint: Path, clip: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["track", clip, "--model", checkpoint, "--json", "-", "--object", "a", "--box"]
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
        (["--point", "1,2", "--frame", "99", "--output", "out"], 1),
    ],
)
def test_track_refuses(
    checkpoint: Path,
    clip: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["track", str(clip), "--model", str(checkpoint), *words]) == code
    assert "expected" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_ctrl_c_keeps_what_is_finished(
    checkpoint: Path, clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    propagate = sam_rlx.VideoPredictor.propagate

    def interrupted(self: Any, **options: Any) -> Iterator[sam_rlx.VideoFrame]:
        for frame in propagate(self, **options):
            if frame.frame_index == 3:
                raise KeyboardInterrupt
            yield frame

    monkeypatch.setattr(sam_rlx.VideoPredictor, "propagate", interrupted)
    words = ["track", clip, "--model", checkpoint, "--point", "20,18", "--output", tmp_path / "o"]
    assert cli.main([str(word) for word in words]) == 130
    assert ClipFrames(tmp_path / "o" / "overlay.mp4").count == 3
    assert len(json.loads((tmp_path / "o" / "masks.json").read_text())["images"]) == 3
    assert not list(tmp_path.rglob(".*"))
