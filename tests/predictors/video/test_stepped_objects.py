"""Objects that are run frame by frame: what a caller gives, what fails, and what it leaves."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sam_rlx import InvalidArgumentError, StateError, UnsupportedError, _core
from support.half_size import half_size

POINT, LABEL = np.array([[40.0, 30.0]], np.float32), np.array([1], np.int32)
CLICK = (True, POINT, LABEL, None)
TRACKED = (False, None, None, None)


@pytest.fixture(scope="module")
def model():
    """The packaged SAM 2."""
    return half_size("sam2-nano")


@pytest.fixture(scope="module")
def frames(model):
    """Frames (T, 3, S, S), normalized."""
    random = np.random.default_rng(2)
    scene = random.normal(size=(3, model.img_size, model.img_size)).astype(np.float32)
    return [np.roll(scene, 5 * index, 2) for index in range(3)]


@pytest.fixture
def objects(model, frames):
    """One object, and its first two frames."""
    made = _core.SteppedObjects(model.core, 1, False)
    made.add_object()
    for index in range(2):
        made.set_frame(index, frames[index])
    return made


def run(objects, frame, *inputs, reverse=False, remember=True):
    return objects.run(frame, 3, reverse, remember, list(inputs))


def test_a_click_conditions_and_the_next_frame_is_tracked(objects):
    masks, scores = run(objects, 0, CLICK)
    assert masks.shape[0] == scores.shape[0] == 1
    assert (objects.frames(0, True), objects.frames(0, False)) == ([0], [])
    run(objects, 1, TRACKED, reverse=True)
    assert (objects.frames(0, True), objects.frames(0, False)) == ([0], [1])
    assert objects.tracked(0) == {1: True}


def test_a_frame_whose_prompts_were_run_needs_no_network(objects, frames):
    first, _ = run(objects, 0, CLICK)
    objects.forget_frames()
    assert not objects.has_frame(0)
    assert not objects.needs_frame(0, [False])
    assert objects.needs_frame(0, [True])
    assert np.array_equal(run(objects, 0, TRACKED)[0], first)


def test_frames_are_forgotten_but_the_last_two(objects, frames):
    objects.set_frame(2, frames[2])
    assert [objects.has_frame(index) for index in range(3)] == [False, True, True]


@pytest.mark.parametrize("shape", [(3, 5, 5), (1, 3, 4), (3,)])
def test_frames_of_another_shape_are_refused(objects, shape):
    with pytest.raises(InvalidArgumentError, match="frame"):
        objects.set_frame(0, np.zeros(shape, np.float32))


@pytest.mark.parametrize("index", [-1, 1 << 41])
def test_frames_have_numbers_from_0(objects, frames, index):
    with pytest.raises(InvalidArgumentError, match="frame_idx"):
        objects.set_frame(index, frames[0])


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ((True, np.zeros((1, 3), np.float32), LABEL, None), "points"),
        ((True, POINT, np.ones(2, np.int32), None), "points"),
        ((True, POINT, None, None), "points"),
        ((True, None, None, np.zeros((4, 4), np.float32)), "mask"),
    ],
)
def test_prompts_of_another_shape_are_refused(objects, prompt, words):
    with pytest.raises(InvalidArgumentError, match=words):
        run(objects, 0, prompt)
    assert objects.frames(0, True) == []


def test_each_object_has_an_input(objects):
    with pytest.raises(InvalidArgumentError, match="one for each of 1 objects"):
        run(objects, 0, CLICK, CLICK)


def test_a_frame_has_to_be_at_hand(objects):
    with pytest.raises(StateError, match="frame 2 given before"):
        run(objects, 2, CLICK)


def test_a_call_that_fails_changes_nothing(objects):
    objects.add_object()
    with pytest.raises(StateError, match="object 1"):
        run(objects, 0, CLICK, TRACKED)
    assert [objects.frames(number, True) for number in range(2)] == [[], []]


def test_a_memory_that_was_not_encoded_is_told(objects):
    run(objects, 0, CLICK, remember=False)
    assert objects.output(0, 0, True)["maskmem_features"] is None
    with pytest.raises(StateError, match="without the memory encoder"):
        run(objects, 1, TRACKED)


def test_a_mask_without_an_object_says_so(objects, model):
    empty = np.zeros((model.img_size, model.img_size), np.float32)
    _, scores = run(objects, 0, (True, None, None, empty))
    assert scores[0] == -10


def test_a_copy_goes_on_by_itself(objects, frames):
    run(objects, 0, CLICK)
    other = copy.deepcopy(objects)
    other.set_frame(1, frames[1])
    assert np.array_equal(run(objects, 1, TRACKED)[0], run(other, 1, TRACKED)[0])
    other.reset()
    assert (objects.num_objects, other.num_objects) == (1, 0)
    with pytest.raises(UnsupportedError, match="deepcopy"):
        pickle.dumps(objects)


def test_objects_have_numbers(objects):
    for call in (objects.tracked, lambda number: objects.frames(number, True)):
        with pytest.raises(IndexError):
            call(1)
    assert objects.output(0, 7, False) is None
