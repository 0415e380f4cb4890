"""Sessions of videos: masks are the predictor's, tracking can be stopped, objects come and go."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx.apps.annotator.clip_export import read_clip
from sam_rlx.apps.annotator.tracking import Way
from sam_rlx.apps.annotator.video_session import VideoSession
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.widget import VideoWidget
from support.half_size import half_size
from support.odd_json import ODD, changed

FIRST, SECOND = (40, 40), (120, 70)


@pytest.fixture(scope="module")
def model() -> sam_rlx.Model:
    return half_size("sam2-nano")


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


def test_a_second_click_is_told_to_the_predictor_beside_the_first(
    widget: VideoWidget, model: sam_rlx.Model, clip: np.ndarray
) -> None:
    video = sam_rlx.VideoPredictor(model, clip)
    points = [FIRST, (52, 46)]
    for count, label in ((1, 1), (2, 0)):
        widget.click(0, *points[count - 1], label)
        labels = [1, 0][:count]
        video.add_prompt(0, 1, point_coords=points[:count], point_labels=labels)
        assert (widget.masks(0)["object 1"] == video.frame(0).masks[1]).all()


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


def test_where_one_is_corrected_the_others_keep_their_masks(widget: VideoWidget) -> None:
    """The tracker may give those without a prompt nothing on the frame that tracking begins on."""
    widget.click(0, *FIRST)
    widget.commit()
    widget.click(0, *SECOND)
    widget.propagate()
    session = widget._session
    masks = dict.fromkeys((1, 2), np.zeros((96, 160), np.bool_))
    for at in (3, 4):
        frame: Any = SimpleNamespace(frame_index=at, masks=masks, scores={1: -2.0, 2: -2.0})
        session._keep(frame, 0, "tracking", Way(3, 5, 3, whole=False), {1: None, 2: None})
    assert all(mask.any() for mask in widget.masks(3).values())
    assert not any(mask.any() for mask in widget.masks(4).values())


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


@pytest.mark.parametrize("part", ["_send_checks", "_keep"])
def test_an_error_in_tracking_or_at_its_end_is_told(
    widget: VideoWidget, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Whoever waits for the end gets it, and the work goes on."""
    told: list[Any] = []

    def fail(*_: object) -> None:
        raise MemoryError("checks")

    widget.click(0, 40, 48)
    session = widget._session
    with monkeypatch.context() as patched:
        patched.setattr(session, part, fail)
        patched.setattr(session, "_send_to_host", lambda head, *_: told.append(head))
        with pytest.raises(MemoryError, match="checks"):
            widget.track()
    assert [head["text"] for head in told if head["type"] == "error"] == ["MemoryError: checks"]
    assert [head for head in told if head["type"] == "progress"][-1]["running"] is False
    widget.track()
    assert len(widget.objects[0].masks) == widget.num_frames


def test_a_second_tracking_ends_the_first(widget: VideoWidget) -> None:
    """Whoever waits for the first one is told, also where it took no step."""
    widget.click(0, 40, 48)
    session = widget._session
    told: list[str] = []
    done = threading.Event()

    def both() -> None:
        session.do_track(ended=lambda error: told.append(f"first {error}"))
        session.do_track(ended=lambda error: (told.append(f"second {error}"), done.set()))

    session._worker.submit(both).result(timeout=60)
    assert done.wait(60)
    assert told == ["first None", "second None"]
    assert not session._running
    assert len(widget.objects[0].masks) == widget.num_frames


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


def test_undo_takes_back_a_tracking_and_keeps_each_mask(
    widget: VideoWidget, model: sam_rlx.Model, clip: np.ndarray
) -> None:
    widget.click(0, *FIRST)
    first = widget.masks(0)["object 1"]
    widget.propagate()
    tracked = [widget.masks(frame)["object 1"] for frame in range(6)]
    widget.click(3, FIRST[0] + 12, FIRST[1])
    widget.undo()
    assert all((widget.masks(k)["object 1"] == mask).all() for k, mask in enumerate(tracked))
    widget.delete(1)
    assert not any(widget.masks(frame) for frame in range(6))
    widget.undo()
    assert all((widget.masks(k)["object 1"] == mask).all() for k, mask in enumerate(tracked))
    widget.undo()
    assert [frame for frame in range(6) if widget.masks(frame)] == [0]
    assert (widget.masks(0)["object 1"] == first).all()
    widget.propagate()
    assert all((widget.masks(k)["object 1"] == mask).all() for k, mask in enumerate(tracked))


def test_undo_while_tracking_ends_it(model: sam_rlx.Model, clip: np.ndarray) -> None:
    session = VideoSession(model, np.concatenate([clip] * 10))
    ended = threading.Event()
    errors: list[Any] = []

    def end(error: Any) -> None:
        errors.append(error)
        ended.set()

    session.call("click", frame=0, x=FIRST[0], y=FIRST[1])
    session.call("propagate", ended=end)
    while len(session.known_frames()) < 3:
        assert not ended.is_set()
    session.call("undo")
    assert ended.wait(60)
    assert errors == [None]
    assert session.known_frames() == [0]
    session.call("click", frame=2, x=FIRST[0] + 8, y=FIRST[1])
    assert session.known_frames() == [0, 2]
    session.close()


def test_a_clip_is_saved_and_loaded(
    widget: VideoWidget, model: sam_rlx.Model, clip: np.ndarray, tmp_path: Path
) -> None:
    widget.click(0, *FIRST)
    widget.commit()
    widget.click(0, *SECOND)
    widget.rename(1, "ball")
    widget.propagate()
    wanted = [widget.masks(frame) for frame in range(6)]
    document = json.loads(widget.save(tmp_path / "clip.json").read_text())
    assert document["videos"][0]["length"] == 6
    assert len(document["images"]) == 6
    assert {one["track_id"] for one in document["annotations"]} == {1, 2}
    other = VideoWidget(model, clip, project=False)
    other.load(tmp_path / "clip.json")
    for frame, masks in enumerate(wanted):
        found = other.masks(frame)
        assert sorted(found) == sorted(masks)
        assert all((found[name] == mask).all() for name, mask in masks.items())
    other.propagate(3)  # tracking goes on from the masks
    other.undo()
    other.undo()
    assert other.objects == []
    for form in ("labels", "png", "npz"):
        assert widget.save(tmp_path / f"{form}.zip", form).stat().st_size
    with np.load(tmp_path / "npz.zip") as arrays:
        assert arrays["masks"].shape == (6, 2, 96, 160)
        assert (arrays["masks"][4, 0] == wanted[4]["ball"]).all()
    other.close()
    turned = VideoWidget(model, clip[::-1], project=False)
    with pytest.raises(InvalidArgumentError, match="another content"):
        turned.load(tmp_path / "clip.json")
    turned.close()


def test_clips_with_odd_values_are_refused(widget: VideoWidget, tmp_path: Path) -> None:
    widget.start(1, np.ones((96, 160), np.bool_), "whole")
    document = json.loads(widget.save(tmp_path / "a.json").read_text())
    clip = widget._session.annotated()
    for other in changed(document, ODD[::3]):
        with contextlib.suppress(InvalidArgumentError):
            read_clip("a.json", json.dumps(other).encode(), clip)


def test_work_goes_on_while_a_clip_is_tracked(model: sam_rlx.Model, clip: np.ndarray) -> None:
    """Hovers, strokes and another object in the middle: the other tracks stay bit for bit."""
    frames = np.concatenate([clip, clip[::-1]])
    alone = VideoSession(model, frames)
    alone.call("click", frame=0, x=FIRST[0], y=FIRST[1])
    _tracked(alone)
    wanted = alone.tracks[0].masks
    alone.close()
    came: list[str] = []

    def send(head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        came.append(head["type"])

    session = VideoSession(model, frames, send=send)
    session.call("click", frame=0, x=FIRST[0], y=FIRST[1])
    session.call("commit")
    ended = threading.Event()
    session.call("track", ended=lambda error: ended.set())
    session.receive({"type": "hover", "view": "a", "seq": 1, "frame": 3, "x": 48, "y": 40})
    session.call("lasso", path=[(5, 5), (30, 5), (30, 30)], frame=4)
    session.call("rename", object=2, name="corner")
    assert ended.wait(120)
    session.call("select", object=None)
    assert "hover" in came
    assert "error" not in came
    found = session.tracks[0].masks
    assert sorted(found) == sorted(wanted) == list(range(len(frames)))
    assert all(found[at].packed == mask.packed for at, mask in wanted.items())
    assert session.tracks[1].masks[4].how == "hand"
    session.close()


def _tracked(session: VideoSession, **given: Any) -> None:
    ended = threading.Event()
    errors: list[Any] = []

    def end(error: Any) -> None:
        errors.append(error)
        ended.set()

    session.call("track", ended=end, **given)
    assert ended.wait(120)
    assert errors == [None]


def test_tracking_leaves_what_a_person_made(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    widget.commit()
    widget.click(0, *SECOND)
    widget.track()
    first = [widget.masks(frame)["object 1"] for frame in range(6)]
    widget.lock(2)
    widget.right(1, 2, 1)
    widget.stroke(4, [(10, 10)], 5, number=1)
    painted = widget.masks(4)["object 1"]
    locked = [widget.masks(frame)["object 2"] for frame in range(6)]
    hows = {at: mask.how for at, mask in widget.objects[0].masks.items()}
    assert hows == {0: "click", 1: "checked", 2: "checked", 3: "tracked", 4: "hand", 5: "tracked"}
    widget.track()
    assert (widget.masks(4)["object 1"] == painted).all()
    for frame in (1, 2):
        assert (widget.masks(frame)["object 1"] == first[frame]).all()
    for frame in range(6):
        assert (widget.masks(frame)["object 2"] == locked[frame]).all()
    fifth = widget.masks(5)["object 1"]
    widget.track(3)
    assert (widget.masks(5)["object 1"] == fifth).all(), "beyond a mask made by hand"
    for _ in range(30):
        widget.undo()
    assert widget.objects == []
    for _ in range(30):
        widget.redo()
    assert (widget.masks(5)["object 1"] == fifth).all()


def test_gone_split_and_removed(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    widget.track()
    widget.gone(3)
    assert [frame for frame in range(6) if widget.masks(frame)] == [0, 1, 2]
    widget.track()
    assert [frame for frame in range(6) if widget.masks(frame)] == [0, 1, 2]
    widget.click(5, FIRST[0] + 20, FIRST[1])
    assert [frame for frame in range(6) if widget.masks(frame)] == [0, 1, 2, 5]
    widget.undo()
    widget.undo()  # gone: the tracking that changed nothing is none
    assert len([frame for frame in range(6) if widget.masks(frame)]) == 6
    widget.split_track(2)
    assert [sorted(one.masks) for one in widget.objects] == [[0, 1], [2, 3, 4, 5]]
    widget.merge([1, 2])
    assert [sorted(one.masks) for one in widget.objects] == [[0, 1, 2, 3, 4, 5]]
    widget.remove_masks(1, 3, 1)
    assert sorted(widget.objects[0].masks) == [0, 4, 5]
    widget.undo()
    widget.undo()
    widget.undo()
    assert [sorted(one.masks) for one in widget.objects] == [[0, 1, 2, 3, 4, 5]]


def test_points_of_a_clip_are_moved_and_removed(
    widget: VideoWidget, model: sam_rlx.Model, clip: np.ndarray
) -> None:
    widget.click(2, *SECOND)
    number = widget.objects[0].prompts[0].number
    widget.move_point(number, FIRST[0] + 8, FIRST[1])
    video = sam_rlx.VideoPredictor(model, clip)
    video.add_prompt(2, 1, point_coords=[(FIRST[0] + 8, FIRST[1])], point_labels=[1])
    assert (widget.masks(2)["object 1"] == video.frame(2).masks[1]).all()
    widget.remove_point(number)
    assert widget.objects == []
    widget.undo()
    widget.undo()
    widget.undo()
    assert widget.objects == []


def test_what_tracking_gets_wrong_is_listed(widget: VideoWidget) -> None:
    widget.click(0, *FIRST)
    widget.track()
    assert all(len(row) == 3 for row in widget.check())
