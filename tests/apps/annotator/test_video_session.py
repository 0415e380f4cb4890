"""Sessions of videos: masks are the predictor's, tracking can be stopped, objects come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.widget import VideoWidget

FIRST, SECOND = (40, 40), (120, 70)


@pytest.fixture(scope="module")
def model() -> sam_rlx.Model:
    return sam_rlx.load_model("sam2-nano")


@pytest.fixture(scope="module")
def clip() -> np.ndarray:
    """Two discs that move: uint8 (6, 96, 160, 3)."""
    y, x = np.mgrid[:96, :160]
    frames = np.full((6, 96, 160, 3), 90, np.uint8)
    for t, frame in enumerate(frames):
        frame[np.hypot(x - FIRST[0] - 4 * t, y - FIRST[1]) < 16] = (210, 60, 40)
        frame[np.hypot(x - SECOND[0], y - SECOND[1] + 3 * t) < 14] = (40, 90, 210)
    return frames


@pytest.fixture
def widget(model: sam_rlx.Model, clip: np.ndarray) -> Iterator[VideoWidget]:
    made = VideoWidget(model, clip)
    yield made
    made.close()


def test_masks_are_the_predictors(
    widget: VideoWidget, model: sam_rlx.Model, clip: np.ndarray
) -> None:
    widget.click(0, *FIRST)
    video = sam_rlx.VideoPredictor(model, clip)
    video.add_prompt(0, 1, point_coords=[FIRST], point_labels=[1])
    assert (widget.masks(0)["object 1"] == video.frame(0).masks[1]).all()
    widget.propagate()
    for frame in video.propagate():
        assert (widget.masks(frame.frame_index)["object 1"] == frame.masks[1]).all()


def test_an_object_in_the_middle_leaves_the_others(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    widget.propagate()
    before = [widget.masks(frame)["object 1"] for frame in range(6)]
    widget.commit()
    widget.click(3, SECOND[0], SECOND[1] - 9)
    assert set(widget.masks(3)) == {"object 1", "object 2"}
    for frame, mask in enumerate(before):
        assert (widget.masks(frame)["object 1"] == mask).all()
    widget.propagate(3)
    for frame, mask in enumerate(before):
        assert (widget.masks(frame)["object 1"] == mask).all()
    widget.delete(2)
    assert set(widget.masks(4)) == {"object 1"}


def test_the_object_at_hand_stays_when_an_earlier_one_is_deleted(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    widget.commit()
    widget.click(0, *SECOND)
    widget.delete(1)
    widget.click(0, SECOND[0] + 30, SECOND[1], 0)
    assert set(widget.masks(0)) == {"object 2"}


def test_undo_and_redo(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    first = widget.masks(0)["object 1"]
    widget.click(0, FIRST[0] + 30, FIRST[1], 0)
    second = widget.masks(0)["object 1"]
    widget.undo()
    assert (widget.masks(0)["object 1"] == first).all()
    widget.redo()
    assert (widget.masks(0)["object 1"] == second).all()
    widget.undo()
    widget.undo()
    assert widget.objects == []
    assert widget.masks(0) == {}
    widget.redo()
    assert (widget.masks(0)["object 1"] == first).all()
    widget.recolor(1, [1, 2, 3])
    assert widget.objects[0].color == (1, 2, 3)


def test_stop_ends_within_one_frame(model: sam_rlx.Model, clip: np.ndarray) -> None:
    done: list[int] = []
    ended = threading.Event()

    def send(head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        if head["type"] == "progress" and head["done"]:
            done.append(head["done"])
            session.on_stop()

    session = VideoSession(model, clip, send=send)
    session.call("click", frame=0, x=FIRST[0], y=FIRST[1])
    session.call("propagate", ended=lambda error: ended.set())
    assert ended.wait(120)
    assert max(done) == 1
    assert session.known_frames() == [0]
    session.close()


def test_a_view_gets_frames_masks_and_hovers(model: sam_rlx.Model, clip: np.ndarray) -> None:
    messages: list[dict[str, Any]] = []
    came = threading.Condition()

    def send(head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        with came:
            messages.append({**head, "buffers": buffers})
            came.notify_all()

    def wait(kind: str, seq: int) -> dict[str, Any]:
        def found() -> Any:
            for head in messages:
                if head["type"] == kind and (head.get("answer") or {}).get("seq") == seq:
                    return head
            return None

        with came:
            assert came.wait_for(found, 120)
            return found()  # type: ignore[no-any-return]

    session = VideoSession(model, clip, send=send)
    session.receive({"type": "ready", "view": "a", "seq": 1})
    assert wait("image", 1)["frames"] == 6
    session.receive({"type": "hover", "view": "a", "seq": 2, "frame": 2, "x": 48, "y": 40})
    assert wait("hover", 2)["frame"] == 2
    session.receive({"type": "click", "view": "a", "seq": 3, "frame": 2, "x": 48, "y": 40})
    assert wait("state", 3)["objects"][0]["points"] == [[48.0, 40.0, 1, 2]]
    session.receive({"type": "frame", "view": "a", "seq": 4, "frame": 2})
    assert len(wait("frame", 4)["buffers"]) == 2
    session.receive({"type": "click", "view": "a", "seq": 5, "frame": 6, "x": 48, "y": 40})
    assert "frame: expected 0 to 5" in wait("error", 5)["text"]
    with pytest.raises(InvalidArgumentError, match="propagate: expected an object"):
        VideoSession(model, clip).call("propagate")
    session.close()
