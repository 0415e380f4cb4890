"""Tracks: what prompts came after, and what words find on later frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator.described import described
from sam_rlx.apps.annotator.tracks import stale_runs
from sam_rlx.apps.annotator.values import Mask, Object, PackedMask
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.widget import VideoWidget
from support.edits import state
from support.half_size import half_size

COUNT, HW = 8, (96, 160)
CIRCLE = (220, 50, 40)


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """A red disc that moves; a second one from frame 3 on: uint8 (8, 96, 160, 3)."""
    y, x = np.mgrid[: HW[0], : HW[1]]
    frames = np.full((COUNT, *HW, 3), 60, np.uint8)
    for t, frame in enumerate(frames):
        frame[np.hypot(x - 40 - 3 * t, y - 40) < 16] = CIRCLE
        if t >= 3:
            frame[np.hypot(x - 120, y - 60 + t) < 15] = CIRCLE
    return frames


@pytest.fixture
def widget(clip: np.ndarray) -> Iterator[VideoWidget]:
    made = VideoWidget(half_size("sam2-nano"), clip, project=False)
    yield made
    made.close()


def test_tracked_masks_are_stale_behind_a_prompt(widget: VideoWidget) -> None:
    widget.click(0, 40, 40)
    widget.track(0)
    (one,) = widget.objects
    assert described(one)["stale"] == []
    widget.stroke(5, [(70, 40)], 3, number=1)
    (one,) = widget.objects
    assert described(one)["stale"] == [[1, 5], [6, COUNT]]
    widget.undo()
    assert described(widget.objects[0])["stale"] == []
    widget.redo()
    widget.track(5)
    assert described(widget.objects[0])["stale"] == []
    before = state(widget._session.project.history)
    widget.click(3, 50, 40)
    assert described(widget.objects[0])["stale"] == [[1, 3], [4, 5]]  # up to what was painted
    widget.right(2, number=1)
    assert described(widget.objects[0])["stale"] == [[4, 5]]
    widget.undo()
    widget.undo()
    assert state(widget._session.project.history) == before
    widget.gone(7, number=1)
    widget.lock(1)
    assert described(widget.objects[0])["stale"] == []


def test_removed_and_moved_prompts_count_too(widget: VideoWidget) -> None:
    widget.click(0, 40, 40)
    widget.click(0, 44, 40)
    widget.track(0)
    widget.select(1)
    widget.move_point(2, 36, 40)
    assert described(widget.objects[0])["stale"] == [[1, COUNT]]
    widget.track(0)
    assert described(widget.objects[0])["stale"] == []
    widget.remove_point(2)
    assert described(widget.objects[0])["stale"] == [[1, COUNT]]


def test_stale_runs_by_hand() -> None:
    packed = PackedMask(HW, (0, 0, 0, 0), b"")
    masks = {at: Mask(packed, 1.0, "tracked") for at in range(10)}
    masks[4] = Mask(packed, 1.0, "hand")
    masks[8] = Mask(packed, 1.0, "tracked", since=2)
    one = Object(1, "a", (0, 0, 0), masks=masks)
    assert stale_runs(one) == []
    for asked, runs in (
        (((0, 1),), [[0, 4]]),
        (((6, 1),), [[5, 8], [9, 10]]),
        (((6, 3),), [[5, 10]]),
        (((4, 1),), [[0, 4], [5, 8], [9, 10]]),
        (((0, 1), (6, 3)), [[0, 4], [5, 10]]),
    ):
        assert stale_runs(Object(1, "a", (0, 0, 0), masks=masks, asked=asked)) == runs


def circles(ground: int) -> np.ndarray:
    """A red disc, and a second one from frame 3 on: uint8 (8, 240, 320, 3)."""
    y, x = np.mgrid[:240, :320]
    frames = np.full((COUNT, 240, 320, 3), ground, np.uint8)
    for t, frame in enumerate(frames):
        frame[np.hypot(x - 96 - 3 * t, y - 96) < 34] = (220, 60, 50)
        if t >= 3:
            frame[np.hypot(x - 240, y - 144 + t) < 34] = (220, 60, 50)
    return frames


@pytest.fixture
def words() -> Iterator[VideoWidget]:
    made = VideoWidget(sam_rlx.load_model("sam3-nano"), circles(45), project=False)
    yield made
    made.close()


def test_words_make_tracks_of_what_comes_later(words: VideoWidget) -> None:
    first = state(words._session.project.history)
    words.track_text("red circle")
    judge = sam_rlx.VideoPredictor(sam_rlx.load_model("sam3-nano"), circles(45))
    judge.add_text("red circle")
    wanted: dict[Any, dict[int, bytes]] = {}
    for frame in judge.propagate():
        for name, mask in frame.masks.items():
            if mask.any():
                wanted.setdefault(name, {})[frame.frame_index] = mask.tobytes()
    assert len(wanted) >= 2
    found = [{at: m.to_mask().tobytes() for at, m in o.masks.items()} for o in words.objects]
    assert found == list(wanted.values())
    assert min(words.objects[1].masks) > 0
    assert [one.name for one in words.objects] == ["red circle 1", "red circle 2"]
    assert {one.class_number for one in words.objects} == {2}
    last = state(words._session.project.history)
    words.undo()
    assert state(words._session.project.history) == first
    words.redo()
    assert state(words._session.project.history) == last
    begin = min(words.objects[1].masks)
    assert begin == 3
    words.select(2)
    words.click(begin, 300, 20, 0)  # a prompt corrects a track of words as any other
    assert words.objects[1].masks[begin].how == "click"


def test_stop_keeps_what_words_found() -> None:
    words = VideoWidget(sam_rlx.load_model("sam3-nano"), circles(200), project=False)
    session = words._session
    seen: list[int] = []

    def send(head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        if head["type"] == "progress" and head["done"]:
            seen.append(head["done"])
            session.on_stop()

    session._send_to_host = send
    words.track_text("red circle")
    assert max(seen) == 1
    assert [list(one.masks) for one in words.objects] == [[0]]
    words.undo()
    assert words.objects == []
    assert len(words.classes) == 1
    words.close()


def test_words_need_sam3_and_words(widget: VideoWidget, words: VideoWidget) -> None:
    with pytest.raises(UnsupportedError, match="expected a model of SAM 3"):
        widget.track_text("red circle")
    with pytest.raises(InvalidArgumentError, match="expected words"):
        words.track_text(" ")
    with pytest.raises(InvalidArgumentError, match="frame: expected 0 to 7"):
        words.track_text("red circle", 8)
    words.track_text("blue square")
    assert words.objects == []
