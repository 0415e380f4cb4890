"""A frame of a video is one call into the core, and a frame that fails is the only one lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import sam_rlx
from nightly import video_operations as operations
from PIL import Image
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor
from sam_rlx.compat.sam3.model.sam3_tracking_predictor import Sam3TrackerPredictor
from sam_rlx.compat.sam3.model.sam3_video_inference import (
    Sam3VideoInferenceWithInstanceInteractivity,
)
from support.half_size import half_size

COUNT = 6
FRAMES = np.stack([operations.paint(t) for t in range(COUNT)])
BOX = [14, 19, 46, 51]


def is_of_core(function: Any) -> bool:
    owner = type(getattr(getattr(function, "__func__", function), "__self__", None))
    return owner.__name__ == "PyCapsule" or "pybind" in owner.__name__


def core_calls(work: Callable[[], Any]) -> list[str]:
    """Run `work`, and return the functions of the core that Python calls."""
    calls: list[str] = []

    def note(_frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and is_of_core(function):
            calls.append(function.__name__)

    def note_call(_code: Any, _offset: int, function: Any, _first: Any) -> None:
        if is_of_core(function):
            calls.append(function.__name__)

    if sys.version_info < (3, 12):
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
        return calls
    # A profile function is not told there of a method that is bound to an object.
    monitoring = sys.monitoring
    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "core_calls")
    monitoring.register_callback(tool, monitoring.events.CALL, note_call)
    monitoring.set_events(tool, monitoring.events.CALL)
    try:
        work()
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(tool)
    return calls


def native(name: str, text: str | None) -> Iterator[Any]:
    session = sam_rlx.VideoPredictor(half_size(name), list(FRAMES), num_threads=1)
    if text is None:
        return session.add_prompt(0, "a", box=BOX).propagate()
    return session.add_text(text).propagate()


def compat(name: str, text: str | None, folder: str) -> Iterator[Any]:
    model = half_size(name)
    if text is not None:
        texts = Sam3VideoInferenceWithInstanceInteractivity(model, hotstart_delay=2)
        state = texts.init_state(folder)
        texts.add_prompt(state, 0, text_str=text)
        return texts.propagate_in_video(state)
    if name == "sam2-nano":
        clicks = SAM2VideoPredictor(model)
        state = clicks.init_state(folder)
        clicks.add_new_points_or_box(state, 0, 1, box=BOX)
        return clicks.propagate_in_video(state)
    tracker = Sam3TrackerPredictor(model)
    state = tracker.init_state(video_path=folder)
    tracker.add_new_points_or_box(state, 0, 1, box=[0.1, 0.2, 0.4, 0.5])
    return tracker.propagate_in_video(state, None, None, False, propagate_preflight=True)


CASES = [("sam2-nano", None), ("sam3-nano", None), ("sam3-nano", "red circle")]


@pytest.mark.parametrize(("name", "text"), CASES)
@pytest.mark.parametrize("kind", ["native", "compat"])
def test_a_frame_is_one_call(tmp_path: Any, kind: str, name: str, text: str | None) -> None:
    for t, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(tmp_path / f"{t:05}.jpg")
    steps = native(name, text) if kind == "native" else compat(name, text, str(tmp_path))
    next(steps)
    for _ in range(COUNT - 2):
        assert core_calls(lambda: next(steps)) == ["next"]
    assert len(list(steps)) == 1


class BrokenOnce(list[Any]):
    """Frames of which one cannot be read at first."""

    def __init__(self, broken: int) -> None:
        super().__init__(FRAMES)
        self.broken: int | None = broken

    def __getitem__(self, index: Any) -> Any:
        if index == self.broken:
            self.broken = None
            raise OSError("the disk sleeps")
        return super().__getitem__(index)


@pytest.mark.parametrize("name", ["sam2-nano", "sam3-nano"])
def test_a_frame_that_cannot_be_read_is_the_only_one_lost(name: str) -> None:
    model = half_size(name)
    calm, failed = (
        sam_rlx.VideoPredictor(model, frames, num_threads=1).add_prompt(0, "a", box=BOX)
        for frames in (list(FRAMES), BrokenOnce(3))
    )
    expected = [operations.digest(frame) for frame in calm.propagate()]
    found: list[Any] = []
    with pytest.raises(OSError, match="sleeps"):
        found.extend(operations.digest(frame) for frame in failed.propagate())
    assert found == expected[:3]
    assert [operations.digest(failed.frame(t)) for t in range(3)] == expected[:3]
    assert failed.frame(3).masks == {}
    rest = failed.propagate(start_frame=3)
    assert [operations.digest(frame) for frame in rest] == expected[3:]


def test_frames_that_a_text_holds_back_are_not_lost() -> None:
    model = half_size("sam3-nano")
    calm, failed = (
        sam_rlx.VideoPredictor(model, frames, num_threads=1).add_text("red circle")
        for frames in (list(FRAMES), BrokenOnce(4))
    )
    expected = [operations.digest(frame) for frame in calm.propagate()]
    with pytest.raises(OSError, match="sleeps"):
        next(failed.propagate())
    assert failed._core.texts[0].frames == [0, 1, 2, 3]
    assert [operations.digest(frame) for frame in failed.propagate()] == expected
