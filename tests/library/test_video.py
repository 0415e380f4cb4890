"""The video predictor from Python: sources of frames, errors, files, the command line."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Sequence
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import ClipFrames, open_frames
from support.videos import HW, POINT, results, same

# ---------------------------------------------------------------- results


def test_the_example_of_the_documentation(sam2_model: sam_rlx.Model, frames: np.ndarray) -> None:
    video = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, obj_id=1, box=[10, 10, 27, 27])
    masks = [frame.masks[1] for frame in video.propagate()]
    assert len(masks) == len(frames)
    assert all(mask.shape == HW and mask.dtype == np.bool_ for mask in masks)
    assert video.orig_hw == HW
    assert video.num_frames == len(frames)


def test_results_are_frozen_and_logits_come_on_request(
    sam2_model: sam_rlx.Model, frames: np.ndarray
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(2, "a", **POINT)
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
def test_objects_have_any_name(sam2_model: sam_rlx.Model, frames: np.ndarray, obj_id: Any) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames)
    session.add_prompt(0, obj_id, **POINT).add_prompt(0, "other", **POINT)
    assert session.obj_ids == [obj_id, "other"]
    assert list(next(session.propagate()).masks) == [obj_id, "other"]


def test_prompts_while_tracking_count_from_the_next_frame_on(
    sam2_model: sam_rlx.Model, frames: np.ndarray
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)
    seen = []
    for frame in session.propagate():
        seen.append(list(frame.masks))
        if frame.frame_index == 3:
            session.add_prompt(3, 2, box=[10, 10, 27, 27])
    assert seen == [[1]] * 4 + [[1, 2]] * 8


def test_start_end_and_direction(sam2_model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(4, 1, **POINT)
    order = lambda **options: [f.frame_index for f in session.propagate(**options)]  # noqa: E731
    assert order() == list(range(4, 12))
    assert order(start_frame=6, max_frames=3) == [6, 7, 8]
    assert order(reverse=True) == [4, 3, 2, 1, 0]
    assert order(reverse=True, start_frame=0) == [0]
    assert order(start_frame=11, max_frames=5) == [11]


def test_reset_forgets_objects_and_keeps_frames(
    sam2_model: sam_rlx.Model, frames: np.ndarray
) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)
    first = results(session)
    session.reset()
    assert session.obj_ids == []
    session.add_prompt(0, 1, **POINT)
    assert same(results(session), first)


# ---------------------------------------------------------------- sources


def test_all_sources_give_the_same(
    sam2_model: sam_rlx.Model, frames: np.ndarray, tmp_path: Path
) -> None:
    for t, frame in enumerate(frames):  # 10.png comes after 9.png
        Image.fromarray(frame).save(tmp_path / f"{t}.png")
    (tmp_path / "notes.txt").write_text("no image")
    sources = [frames, list(frames), [Image.fromarray(f) for f in frames], tmp_path, str(tmp_path)]
    found = [
        results(sam_rlx.VideoPredictor(sam2_model, s).add_prompt(3, 1, **POINT)) for s in sources
    ]
    assert all(same(found[0], other) for other in found[1:])


def test_an_iterator_is_read_forwards_only(sam2_model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, iter(frames))
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


def test_a_clip_is_tracked(sam2_model: sam_rlx.Model, clip: Path) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, clip).add_prompt(5, 1, **POINT)
    assert session.num_frames == 12
    assert len(results(session)) == 7
    assert len(results(session, reverse=True)) == 6


# ---------------------------------------------------------------- errors leave the session alone


@pytest.fixture
def tracked(sam2_model: sam_rlx.Model, frames: np.ndarray) -> sam_rlx.VideoPredictor:
    session = sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT)
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
        ({"mask": [[True], [True, False]]}, "mask: expected an array"),
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


def test_calls_in_the_wrong_order(sam2_model: sam_rlx.Model, frames: np.ndarray) -> None:
    session = sam_rlx.VideoPredictor(sam2_model, frames)
    with pytest.raises(sam_rlx.StateError, match="an object with prompts"):
        session.propagate()
    with pytest.raises(sam_rlx.StateError, match="push"):
        session.push(frames[0])
    session.add_prompt(0, "a", **POINT).clear_prompts(0, "a")
    with pytest.raises(sam_rlx.StateError, match="prompts for object 'a'"):
        session.propagate()
    stream = sam_rlx.VideoPredictor(sam2_model)
    with pytest.raises(sam_rlx.StateError, match="a frame from push"):
        stream.add_prompt(0, 1, **POINT)
    with pytest.raises(sam_rlx.StateError, match="session of push"):
        stream.propagate()
    stream.push(frames[0])
    stream.push(frames[1])
    stream.push(frames[2])
    with pytest.raises(sam_rlx.StateError, match="expected 2, the last frame"):
        stream.add_prompt(0, 1, **POINT)


@pytest.mark.parametrize("broken", [np.zeros((9, 9), "U1"), None], ids=["letters", "none"])
def test_a_broken_frame_in_the_middle(
    sam2_model: sam_rlx.Model, frames: np.ndarray, broken: Any
) -> None:
    damaged: list[Any] = list(frames)
    damaged[5] = broken
    session = sam_rlx.VideoPredictor(sam2_model, damaged).add_prompt(0, 1, **POINT)
    good = list(itertools.islice(tracking := session.propagate(), 5))
    assert [frame.frame_index for frame in good] == [0, 1, 2, 3, 4]
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"frames?\W5"):
        next(tracking)
    damaged[5] = frames[5]
    rest = results(session, start_frame=5)
    whole = results(sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT))
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


def test_files_that_are_no_video(sam2_model: sam_rlx.Model, clip: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sam_rlx.VideoPredictor(sam2_model, tmp_path / "none.mp4")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="images"):
        sam_rlx.VideoPredictor(sam2_model, tmp_path)
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected a video file"):
        sam_rlx.VideoPredictor(sam2_model, text)
    for whole, share in ((clip, 0.3), (clip, 0.7), (with_index_first(clip, tmp_path), 0.7)):
        cut = tmp_path / "cut.mp4"
        cut.write_bytes(whole.read_bytes()[: int(share * whole.stat().st_size)])
        with pytest.raises(sam_rlx.InvalidArgumentError, match="expected"):
            read_all(cut)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected a video file"):
        sam_rlx.VideoPredictor(sam2_model, b"bytes")
    for wrong in (7, np.zeros((4, 4, 3), np.uint8), []):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="frames: expected"):
            sam_rlx.VideoPredictor(sam2_model, wrong)


def test_a_model_of_another_family(tiny_checkpoint: Path) -> None:
    with pytest.raises(sam_rlx.UnsupportedError, match="a model of SAM 2 or SAM 3, found sam"):
        sam_rlx.VideoPredictor(sam_rlx.load_model(tiny_checkpoint))


def test_interruption_leaves_the_session_as_it_was(
    sam2_model: sam_rlx.Model, frames: np.ndarray
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

    session = sam_rlx.VideoPredictor(sam2_model, Interrupting()).add_prompt(0, 1, **POINT)
    with pytest.raises(KeyboardInterrupt):
        results(session)
    whole = results(sam_rlx.VideoPredictor(sam2_model, frames).add_prompt(0, 1, **POINT))
    assert same(results(session), whole)
