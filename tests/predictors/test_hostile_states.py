"""States of sessions as a hostile file may hold them are refused, and nothing has changed."""

from __future__ import annotations

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from support.half_size import half_size
from support.videos import POINT, frame_image

BIG = 1 << 40  # frames have smaller numbers


@pytest.fixture(scope="module", params=["sam2-nano", "sam3-nano"])
def model(request):
    return half_size(request.param)


@pytest.fixture(scope="module")
def state(model):
    session = sam_rlx.VideoPredictor(
        model, np.stack([frame_image(t) for t in range(3)]), num_threads=1
    )
    session.add_prompt(0, "a", **POINT)
    list(session.propagate())
    saved = session._core.save(str)
    assert saved.metadata == {"names": "['a']"}
    return {**saved.arrays, "num_pushed": ints(0)}  # as if its frames had been pushed


class OneImage:
    """A video that shows one image all the time, and says what it likes of its size."""

    def __init__(self, count=None, hw=None):
        self.count, self.hw = count, hw

    def read(self, index, side):
        image = frame_image(0)
        return image if self.hw is None else (image, self.hw)


def ints(*values):
    return np.array(values, np.int64)


CHANGES = {
    "no handles": ("handles", None),
    "a handle below 0": ("handles", ints(-1)),
    "a handle without a next one": ("handles", ints((1 << 63) - 1)),
    "two handles, one batch": ("handles", ints(0, 1)),
    "handles of another kind": ("handles", np.array([0.0])),
    "handles as floats": ("handles", np.zeros(1, np.float32)),
    "a batch without a next one": ("batches", ints((1 << 63) - 1)),
    "a batch below 0": ("batches", ints(-5)),
    "no size": ("orig_hw", ints(0, 0)),
    "a size of one side": ("orig_hw", ints(45, 0)),
    "a size below 0": ("orig_hw", ints(-45, 61)),
    "a huge side": ("orig_hw", ints(1 << 38, 1)),
    "a huge area": ("orig_hw", ints(1 << 20, 1 << 20)),
    "three sides": ("orig_hw", ints(45, 61, 3)),
    "a frame below 0": ("0.cond.frames", ints(-1)),
    "a late frame": ("0.cond.frames", ints(BIG)),
    "the smallest number": ("0.cond.frames", ints(-(1 << 63))),
    "a frame twice": ("0.non_cond.frames", ints(1, 1)),
    "a frame too few": ("0.non_cond.frames", ints(1)),
    "no count of frames": ("num_pushed", None),
    "a count of frames below 0": ("num_pushed", ints(-2)),
    "the count of a video": ("num_pushed", ints(-1)),
    "too many frames": ("num_pushed", ints(BIG + 1)),
    "no memory": ("0.cond.has_memory", ints(0)),
    "a flag of 2": ("0.non_cond.is_outdated", ints(2, 0)),
    "a score that is NaN": ("0.cond.iou_prediction", np.array([np.nan], np.float32)),
    "a score as an integer": ("0.cond.iou_prediction", ints(1)),
    "memory that is infinite": ("0.cond.maskmem_features", np.inf),
    "a mask of another size": ("0.cond.low_res_mask", np.zeros((1, 3, 3), np.float32)),
    "a pointer of another rank": ("0.cond.obj_ptr", np.zeros(64, np.float32)),
    "no pointer": ("0.cond.obj_ptr", None),
    "points of a late frame": ("0.points.frames", ints(BIG)),
    "too many points": ("0.points.counts", ints(2)),
    "too few points": ("0.points.counts", ints(0)),
    "a count that wraps": ("0.points.counts", ints((1 << 63) - 1)),
    "a label": ("0.points.labels", ints(4)),
    "coordinates that are NaN": ("0.points.coords", np.array([np.nan, 1.0])),
    "coordinates too few": ("0.points.coords", np.array([1.0])),
    "a mask on a late frame": ("0.mask_frames", ints(BIG)),
    "tracked on a frame below 0": ("0.frames_tracked", ints(-3, 1, 2)),
    "tracked in a direction of 7": ("0.frames_tracked.reverse", ints(7, 0, 0)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_state_that_is_not_valid_is_refused(model, state, change):
    name, value = CHANGES[change]
    wrong = dict(state)
    if value is None:
        del wrong[name]
    elif isinstance(value, float):
        wrong[name] = np.full_like(state[name], value)
    else:
        wrong[name] = value
    core = _core.VideoSession(model.core, 1, {})
    core.adopt(_core.NamedTensors(state), ["a"], ["a"])
    with pytest.raises(sam_rlx.CheckpointError, match=r"^session[.:]"):
        core.adopt(_core.NamedTensors(wrong), ["b"], ["b"])
    assert core.obj_ids == ["a"]
    kept = core.save(str).arrays
    assert kept.keys() == state.keys()
    assert all(np.array_equal(kept[key], state[key]) for key in state)


@pytest.mark.parametrize("frame", [-1, BIG, (1 << 63) - 1, -(1 << 63)])
def test_frames_that_cannot_be_are_refused(model, frame):
    core = _core.VideoSession(model.core, 1, {}, OneImage())
    with pytest.raises(sam_rlx.InvalidArgumentError, match="frame"):
        core.load(frame)
    core.add_points(0, 1, "1", np.array([[20.0, 18.0]]), np.array([1], np.int32))
    propagation = core.propagation(frame, None, False)
    if frame < 0:
        assert core.next(propagation) is None
    else:
        with pytest.raises(sam_rlx.InvalidArgumentError, match="frame"):
            core.next(propagation)
    assert core.result(frame, "latest").obj_ids == []


@pytest.mark.parametrize("count", [0, -1, BIG + 1, (1 << 63) - 1])
def test_videos_that_cannot_be_are_refused(model, count):
    with pytest.raises(sam_rlx.InvalidArgumentError, match="num_frames"):
        _core.VideoSession(model.core, 1, {}, OneImage(count))


@pytest.mark.parametrize(
    "hw", [(1 << 38, 1), (1 << 20, 1 << 20), (0, 5), (-1, 5), ((1 << 63) - 1,) * 2]
)
def test_sizes_that_no_image_has_are_refused(model, hw):
    core = _core.VideoSession(model.core, 1, {}, OneImage(hw=hw))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="sides of 1 to"):
        core.load(0)
    with pytest.raises(sam_rlx.InvalidArgumentError):
        _core.generate_crop_boxes(hw, 2, 0.3)
    image = sam_rlx.ImagePredictor(model, num_threads=1)
    image.set_image(frame_image(0))
    with pytest.raises(sam_rlx.InvalidArgumentError):
        image.set_image_embedding(image.image_embeddings, hw)


@pytest.mark.parametrize("frame", [-1, BIG, (1 << 63) - 1, -(1 << 63)])
@pytest.mark.parametrize("position", ["frame_idx", "cond"])
def test_the_memory_bank_refuses_such_frames(testing, frame, position):
    query = {"frame_idx": 3, "num_frames": 9, "reverse": False, "cond": [0], "non_cond": []}
    query[position] = [0, frame] if position == "cond" else frame
    with pytest.raises(sam_rlx.InvalidArgumentError, match="frame"):
        testing.select_memory({}, **query)
