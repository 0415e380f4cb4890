"""Clips of the drop-in for transformers: the masks of transformers' own models, frame by frame."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sam_rlx import SamRlxError

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from sam_rlx.apps.parity import packages  # noqa: E402
from support import transformers_clips as clips  # noqa: E402
from support import upstream  # noqa: E402
from support.cases import quick  # noqa: E402

upstream.prepare()
SAM2 = "Sam2VideoModel"
# Of the range of a frame's logits.
BOUND, IOU = 1e-3, 0.999


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    """Both sides of a class, memories in float32, made when a test asks for them."""
    made = {}

    def of(name, bfloat16_memory=False):
        if name not in made:
            theirs = clips.theirs(name)
            folder = clips.save(theirs.model, tmp_path_factory.mktemp("clips") / name)
            made[name] = theirs, folder
        theirs, folder = made[name]
        return theirs, clips.ours(name, folder, bfloat16_memory=bfloat16_memory)

    return of


@pytest.fixture(scope="module")
def sam2(sides):
    """Our SAM 2, and frames."""
    return sides(SAM2)[1], clips.frames(SAM2, 6)


def run_theirs(script, side, video):
    """Run transformers, with memories in float32."""
    import torch

    with packages.running(torch):
        return list(script(side, video))


def difference(one, other):
    """Return the largest difference of two frames' masks, as a share of their range."""
    return np.abs(one - other).max() / np.ptp(one)


def check_frames(found, expected, bound=BOUND, least=IOU):
    assert [each.frame_idx for each in found] == [each.frame_idx for each in expected]
    assert [each.object_ids for each in found] == [each.object_ids for each in expected]
    for ours, theirs in zip(found, expected, strict=True):
        mask, exact = np.asarray(ours.pred_masks), np.asarray(theirs.pred_masks)
        assert (mask.shape, mask.dtype) == (exact.shape, exact.dtype)
        assert np.ptp(exact) > 1, f"frame {ours.frame_idx} of transformers shows nothing"
        assert difference(exact, mask) < bound, ours.frame_idx
        both, either = ((exact > 0) & (mask > 0)).sum(), ((exact > 0) | (mask > 0)).sum()
        assert both >= least * either, ours.frame_idx
        scores, others = (np.asarray(x.object_score_logits) for x in (ours, theirs))
        assert scores.shape == others.shape
        np.testing.assert_allclose(scores, others, atol=bound)


@pytest.mark.parametrize("name", quick(clips.CLASSES, 0))
def test_two_objects_a_click_between_and_reverse(sides, name):
    theirs, ours = sides(name)
    video = clips.frames(name)
    expected = run_theirs(clips.long_clip, theirs, video)
    assert len(expected) == 40
    check_frames(list(clips.long_clip(ours, video)), expected)


@pytest.mark.parametrize("name", quick(clips.CLASSES, 0))
def test_stream(sides, name):
    theirs, ours = sides(name)
    video = clips.frames(name)
    check_frames(list(clips.stream(ours, video)), run_theirs(clips.stream, theirs, video))


def test_memories_of_bfloat16_are_those_of_transformers(sides):
    theirs, ours = sides(SAM2, bfloat16_memory=True)
    video = clips.frames(SAM2)
    expected = list(clips.stream(theirs, video))
    check_frames(list(clips.stream(ours, video)), expected, bound=1e-2, least=0.99)
    # Nearer than float32 memories are.
    wide = clips.masks(clips.stream(sides(SAM2)[1], video))
    near = clips.masks(clips.stream(ours, video))
    errors = [
        sum(difference(a, b) for a, b in zip(clips.masks(expected), each, strict=True))
        for each in (near, wide)
    ]
    assert errors[0] < errors[1] / 2


# ---------------------------------------------------------------- rules that are upstream's


def test_upstream_divides_the_age_of_pointers_by_frames_so_a_short_clip_is_not_a_stream(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    clip = clips.masks(ours.model.propagate_in_video_iterator(session, start_frame_idx=0))
    stream = clips.masks(clips.stream(ours, video))
    assert np.array_equal(clip[0], stream[0])
    assert difference(clip[-1], stream[-1]) > 1e-4


def test_upstream_forgets_a_click_on_a_tracked_frame_when_a_run_begins_before_it(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    before = clips.masks(ours.model.propagate_in_video_iterator(session, start_frame_idx=0))
    clips.click(session, 1, 3, (90.0, 90.0))
    clicked = np.asarray(ours.model(session, frame_idx=3).pred_masks)
    assert list(session.output_dict_per_obj[0]["cond_frame_outputs"]) == [0]
    assert difference(clicked, before[3]) > 0.01
    behind = clips.masks(ours.model.propagate_in_video_iterator(session, start_frame_idx=4))
    assert difference(behind[0], before[4]) > 1e-4
    again = clips.masks(ours.model.propagate_in_video_iterator(session))
    assert all(np.array_equal(one, two) for one, two in zip(again, before, strict=True))


def test_upstream_does_not_show_a_click_the_mask_of_before(sam2):
    ours, video = sam2
    shown = []
    for first in ((40.0, 30.0), (90.0, 90.0)):
        session = ours.clip(video)
        for point in (first, (60.0, 60.0)):
            clips.click(session, 1, 0, point)
            found = ours.model(session, frame_idx=0)
        shown.append(np.asarray(found.pred_masks))
    assert np.array_equal(*shown)


def test_upstream_lets_a_click_on_one_object_change_the_memory_of_another(sam2):
    ours, video = sam2
    shown = []
    for clicks in (False, True):
        session = ours.clip(video)
        for name, point in ((1, (40.0, 30.0)), (2, (90.0, 80.0))):
            clips.points(session, name, 0, [point], [1])
        session.obj_with_new_inputs = [1, 2]
        list(ours.model.propagate_in_video_iterator(session, start_frame_idx=0))
        if clicks:
            clips.click(session, 1, 3, (60.0, 60.0))
        ours.model(session, frame_idx=3)
        shown.append(np.asarray(ours.model(session, frame_idx=4).pred_masks)[1])
    assert difference(*shown) > 1e-4


def test_upstream_loses_prompts_of_a_call_before_another_call(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    clips.click(session, 2, 0, (90.0, 80.0))
    with pytest.raises(ValueError, match="prompt that was run") as told:
        ours.model(session, frame_idx=0)
    assert isinstance(told.value, SamRlxError)


def test_upstream_makes_a_frame_without_prompts_conditioning_where_a_run_begins(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 3)
    found = list(ours.model.propagate_in_video_iterator(session, start_frame_idx=1))
    assert [each.frame_idx for each in found] == [1, 2, 3, 4, 5]
    assert list(session.output_dict_per_obj[0]["cond_frame_outputs"]) == [1, 2, 3]


def test_upstream_keeps_masks_with_their_holes_and_says_absent_by_one_number(sam2):
    """An object that is not there has -1024 everywhere, and what is kept is what is shown."""
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    for found in ours.model.propagate_in_video_iterator(session, start_frame_idx=0):
        kept = session.output_dict_per_obj[0]
        kind = "cond_frame_outputs" if found.frame_idx == 0 else "non_cond_frame_outputs"
        stored = kept[kind][found.frame_idx]
        assert np.array_equal(stored["pred_masks"], found.pred_masks)
        absent = float(np.asarray(found.object_score_logits)[0, 0]) <= 0
        assert absent == bool(np.all(np.asarray(found.pred_masks) == -1024))


# ---------------------------------------------------------------- sessions


def test_a_run_without_memories_cannot_go_on(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    ours.model(session, frame_idx=0, run_mem_encoder=False)
    with pytest.raises(KeyError, match="without the memory encoder"):
        ours.model(session, frame_idx=1)


def test_a_copy_goes_on_by_itself(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    ours.model(session, frame_idx=0)
    other = copy.deepcopy(session)
    expected = clips.masks(ours.model.propagate_in_video_iterator(session))
    assert len(other.output_dict_per_obj[0]["non_cond_frame_outputs"]) == 0
    found = clips.masks(ours.model.propagate_in_video_iterator(other))
    assert all(np.array_equal(one, two) for one, two in zip(found, expected, strict=True))


def test_outputs_are_fresh_memory(sam2):
    ours, video = sam2
    session = ours.clip(video)
    clips.click(session, 1, 0)
    found = ours.model(session, frame_idx=0)
    before = np.asarray(found.pred_masks).copy()
    found.pred_masks[:] = 0
    session.get_frame(0)[:] = 0
    assert np.array_equal(session.get_output(0, 0, "pred_masks"), before)
    assert np.array_equal(session.get_frame(0), video[0])


def test_a_program_s_own_outputs_are_refused(sam2):
    session = sam2[0].clip(sam2[1])
    with pytest.raises(SamRlxError, match="store_output"):
        session.store_output(0, 0, output_value={})
