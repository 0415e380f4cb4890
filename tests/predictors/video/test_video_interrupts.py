"""Sessions are interrupted at many polls; nothing of the call that was stopped stays."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
import sam_rlx
from nightly import video_operations as operations
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor
from support.half_size import half_size
from support.interrupts import chosen_polls, interrupts, is_interrupted, polls

FRAMES = np.stack([operations.paint(t) for t in range(5)])
BOX = {"box": [14, 19, 46, 51]}
POINT = {"point_coords": [[95, 68]], "point_labels": [1]}


@pytest.fixture(scope="module", params=["sam2-nano", "sam3-nano"])
def model(request):
    return half_size(request.param)


def step(t, **options):
    return lambda s: list(s.propagate(start_frame=t, max_frames=1, **options))


SCRIPT = [
    lambda s: s.add_prompt(0, "a", **BOX),
    lambda s: s.add_prompt(1, "b", **POINT),
    step(0),
    step(1),
    step(2),
    lambda s: s.add_prompt(2, "a", point_coords=[[41, 36]], point_labels=[0]),
    step(3),
    lambda s: s.add_prompt(3, "c", mask=FRAMES[3, :, :, 0] > 200),
    step(2, reverse=True),
    lambda s: s.clear_prompts(1, "b"),
    lambda s: s.remove_object("b"),
    step(4),
]
TEXTS = [
    lambda s: s.add_text(["red circle", "blue square"]),
    step(0),
    step(1),
    step(2),
    lambda s: s.add_prompt(1, 0, point_coords=[[36, 36]], point_labels=[1]),
    step(1),
    lambda s: s.remove_object(1),
    step(3),
]
STREAM = [
    lambda s: s.push(FRAMES[0]),
    lambda s: s.add_prompt(0, "a", **BOX),
    lambda s: s.push(FRAMES[1]),
    lambda s: s.add_prompt(1, "b", **POINT),
    lambda s: s.push(FRAMES[2]),
    lambda s: s.push(FRAMES[3]),
]


def check(make, script, instead=None):
    """Run a script on two sessions; on one each step is first interrupted at its chosen polls.

    instead : mapping from steps to what is interrupted before them.
    """
    calm, disturbed = make(), make()
    total = 0
    for number, operation in enumerate(script):
        with polls() as seen:
            expected = operations.answer(operation, calm)
        before = disturbed.num_frames, disturbed.obj_ids, disturbed.orig_hw
        other = (instead or {}).get(operation)
        for stop_at in chosen_polls(seen.count) if other else []:
            assert is_interrupted(lambda call=other: call(disturbed), stop_at), (number, stop_at)
        # What a stopped call encoded stays, so a later one may have fewer polls.
        for stop_at in [*chosen_polls(seen.count), None]:
            with polls(stop_at):
                try:
                    found = operations.answer(operation, disturbed)
                    break
                except KeyboardInterrupt:
                    assert (disturbed.num_frames, disturbed.obj_ids, disturbed.orig_hw) == before
                    total += 1
        assert found == expected, number
    for t in range(calm.num_frames):
        show = lambda s, t=t: s.frame(t)  # noqa: E731
        assert operations.answer(show, disturbed) == operations.answer(show, calm)
    assert total > len(script)


def test_prompts_and_steps_at_many_polls(model):
    check(lambda: sam_rlx.VideoPredictor(model, FRAMES, num_threads=1), SCRIPT)


def test_texts_at_many_polls():
    model = half_size("sam3-nano")
    check(lambda: sam_rlx.VideoPredictor(model, FRAMES, num_threads=1), TEXTS)


def test_texts_on_a_stream_at_many_polls():
    model = half_size("sam3-nano")
    script = [lambda s: s.add_text("red circle"), *STREAM]
    check(lambda: sam_rlx.VideoPredictor(model, num_threads=1), script)


def test_frames_of_an_iterator_at_many_polls(model):
    def make():
        return sam_rlx.VideoPredictor(model, iter(FRAMES), num_threads=1)

    calm, disturbed = make().add_prompt(0, 1, **BOX), make().add_prompt(0, 1, **BOX)
    expected = [operations.digest(frame) for frame in calm.propagate()]
    for t, frame in enumerate(expected):
        for stop_at in (1, 2, 5, 14, 15, 40):
            if not is_interrupted(lambda t=t: step(t)(disturbed), stop_at):
                break
        assert operations.digest(disturbed.frame(t)) == frame


def test_another_frame_is_pushed_after_the_interrupt(model):
    """What was encoded of the frame that was interrupted is not used for the one that comes."""
    other = operations.paint(9)
    pushes = [STREAM[0], STREAM[2], STREAM[4], STREAM[5]]
    instead = dict.fromkeys(pushes, lambda s: s.push(other))
    check(lambda: sam_rlx.VideoPredictor(model, num_threads=1), STREAM, instead)


def test_a_push_that_fails_late_is_not_counted(model):
    calm, failed = (sam_rlx.VideoPredictor(model, num_threads=1) for _ in range(2))
    for session in (calm, failed):
        session.push(FRAMES[0])
        session.add_prompt(0, 1, **BOX)
    failed.clear_prompts(0, 1)
    with pytest.raises(sam_rlx.StateError, match="expected prompts for object 1"):
        failed.push(FRAMES[4])
    assert failed.num_frames == 1
    failed.add_prompt(0, 1, **BOX)
    assert operations.digest(failed.push(FRAMES[1])) == operations.digest(calm.push(FRAMES[1]))


def test_memory_that_is_lacking_leaves_the_session_as_it_was(model):
    """An error of another kind, in the middle of a call."""
    calm, failed = (sam_rlx.VideoPredictor(model, FRAMES, num_threads=1) for _ in range(2))
    for operation in SCRIPT[:3]:
        operations.answer(operation, calm), operations.answer(operation, failed)

    def raise_memory_error():
        raise MemoryError

    sam_rlx._core.set_poll_hook(raise_memory_error)
    try:
        with pytest.raises(MemoryError):
            step(1)(failed)
    finally:
        sam_rlx._core.set_poll_hook(None)
    assert operations.answer(step(1), failed) == operations.answer(step(1), calm)


def test_upstreams_predictor_at_many_polls(tmp_path):
    from PIL import Image

    for t, frame in enumerate(FRAMES):
        Image.fromarray(frame).save(tmp_path / f"{t:05}.jpg")
    predictor = SAM2VideoPredictor(half_size("sam2-nano"))
    calm, disturbed = (predictor.init_state(str(tmp_path)) for _ in range(2))
    script = [
        lambda s: predictor.add_new_points_or_box(s, 0, "a", box=BOX["box"]),
        lambda s: predictor.add_new_mask(s, 1, "b", FRAMES[1, :, :, 2] > 200),
        lambda s: list(predictor.propagate_in_video(s)),
        lambda s: predictor.remove_object(s, "a"),
        lambda s: predictor.add_new_points_or_box(s, 2, "c", [[95, 68]], [1]),
        lambda s: list(predictor.propagate_in_video(s)),
    ]
    total = 0
    for operation in script:
        with polls() as seen:
            expected = operation(calm)
        for stop_at in [*chosen_polls(seen.count), None]:
            with polls(stop_at):
                try:
                    found = operation(disturbed)
                    break
                except KeyboardInterrupt:
                    total += 1
        assert repr(found) == repr(expected)
        assert calm["obj_ids"] == disturbed["obj_ids"]
    assert total > len(script)
    assert all(
        np.array_equal(a[2], b[2])
        for a, b in zip(
            predictor.propagate_in_video(calm), predictor.propagate_in_video(disturbed), strict=True
        )
    )


@pytest.mark.parametrize("name", ["sam-nano", "sam2-nano", "sam3-nano"])
def test_an_image_stays_when_the_next_one_is_interrupted(name):
    predictor = sam_rlx.ImagePredictor(half_size(name), num_threads=1)
    predictor.set_image(FRAMES[0])
    expected = predictor.predict(**POINT).masks
    calls = [
        lambda: predictor.set_image(FRAMES[4][:50]),
        lambda: predictor.set_images([FRAMES[4][:50], FRAMES[2]]),
        lambda: predictor.predict(**BOX),
    ]
    for call in calls:
        for _ in interrupts(call, lambda: predictor.set_image(FRAMES[0])):
            assert predictor.orig_hw == operations.HW
            assert predictor.num_images == 0
            assert np.array_equal(predictor.predict(**POINT).masks, expected)


@pytest.mark.parametrize("clicks", [False, True])
def test_concepts_stay_when_a_call_is_interrupted(clicks):
    predictor = sam_rlx.ConceptPredictor(half_size("sam3-nano"), num_threads=1)
    core = sam_rlx._core.ConceptPredictor(predictor.model.core, 1, "float", clicks)
    predictor._core = core
    predictor.set_image(FRAMES[0])
    expected = predictor.predict(text="red circle")
    calls = [
        lambda: predictor.set_image(FRAMES[4][:50]),
        lambda: predictor.set_images([FRAMES[4][:50], FRAMES[2]]),
        lambda: predictor.predict(FRAMES[4][:50], text=["blue square", "disc"]),
        lambda: predictor.predict(text=["dog", "red disc"]),
    ]
    for call in calls:
        for _ in interrupts(call, lambda: predictor.set_image(FRAMES[0])):
            assert predictor.orig_hw == operations.HW
            found = predictor.predict(text="red circle")
            assert np.array_equal(found.masks, expected.masks)
            assert np.array_equal(found.scores, expected.scores)


def test_random_operations(capsys):
    assert operations.main(24, random.Random(38).randrange(1000)) == 0
    line = capsys.readouterr().out
    assert line.startswith("video_operations: 24 operations in 2 pairs of sessions, ")
    assert " 0 interrupts" not in line


def test_properties_can_be_read_while_a_call_runs(model):
    """They tell what was before the call, and no other thread is refused."""
    session = sam_rlx.VideoPredictor(model, num_threads=1)
    session.push(FRAMES[0])
    session.add_prompt(0, "a", **BOX)
    inside, read = threading.Event(), threading.Event()

    def wait():
        inside.set()
        assert read.wait(60)

    sam_rlx._core.set_poll_hook(wait)
    try:
        thread = threading.Thread(target=lambda: session.push(FRAMES[1]))
        thread.start()
        assert inside.wait(60)
        assert (session.num_frames, session.orig_hw, session.obj_ids) == (1, operations.HW, ["a"])
        for call in (lambda: session.frame(0), session.reset, lambda: session.remove_object("a")):
            with pytest.raises(sam_rlx.StateError, match="in use"):
                call()
    finally:
        read.set()
        thread.join()
        sam_rlx._core.set_poll_hook(None)
    assert session.num_frames == 2
