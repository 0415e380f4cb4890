"""Clips with texts of the drop-in for transformers: what its Sam3VideoModel finds on each frame."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sam_rlx import SamRlxError

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Sam3VideoModel")]

from sam_rlx.apps.parity import packages  # noqa: E402
from sam_rlx.compat.transformers.text_clips import SETTINGS, Sam3VideoModel  # noqa: E402
from support import transformers_text_clips as clips  # noqa: E402
from support import upstream  # noqa: E402
from support.cases import quick  # noqa: E402

upstream.prepare()
# Of the range of a mask's logits; a score; of the pixels of a mask.
BOUND, SCORE, IOU = 1e-3, 1e-4, 0.999


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Transformers' side and the folder that it writes."""
    theirs = clips.theirs()
    return theirs, clips.save(theirs, tmp_path_factory.mktemp("text_clips") / "folder")


@pytest.fixture(scope="module")
def sides(folder):
    """Both sides with the same settings, memories in float32."""

    theirs, path = folder

    def of(**settings):
        made = theirs, clips.ours(path)
        for name in SETTINGS:
            usual = clips.LOOSE.get(name, getattr(theirs.model.config, name))
            for side in made:
                setattr(side.model, name, settings.get(name, usual))
        assert settings.keys() <= set(SETTINGS)
        return made

    return of


def run(script, side, *args, **options):
    import torch

    with packages.running(torch):
        return list(script(side, clips.frames(), *args, **options))


def are_one(mine, right):
    """Tell whether masks are one; of small ones a pixel may differ."""
    return (mine ^ right).sum() <= max(1, (1 - IOU) * (mine | right).sum())


def check_masks(mine, right, which):
    mine, right = np.asarray(mine), np.asarray(right)
    assert (mine.shape, mine.dtype) == (right.shape, right.dtype), which
    assert np.abs(mine - right).max() < BOUND * max(np.ptp(right), 1), which
    assert are_one(mine > 0, right > 0), which


def check(found, expected):
    assert [each.frame_idx for each, _ in found] == [each.frame_idx for each, _ in expected]
    for (mine, shown), (right, truth) in zip(found, expected, strict=True):
        frame = right.frame_idx
        for name in ("object_ids", "removed_obj_ids", "suppressed_obj_ids"):
            assert mine[name] == right[name], (frame, name)
            assert type(mine[name]) is type(right[name]), name
        assert list(mine.obj_id_to_mask) == list(right.obj_id_to_mask), frame
        for obj_id, mask in right.obj_id_to_mask.items():
            check_masks(mine.obj_id_to_mask[obj_id], mask, (frame, obj_id))
        for name in ("obj_id_to_score", "obj_id_to_tracker_score"):
            assert mine[name].keys() == right[name].keys(), (frame, name)
            for obj_id, score in right[name].items():
                assert mine[name][obj_id] == pytest.approx(score, abs=SCORE), (frame, name, obj_id)
        check_results(shown, truth, frame)


def check_results(shown, truth, frame):
    assert list(shown) == list(truth)
    assert shown["prompt_to_obj_ids"] == truth["prompt_to_obj_ids"], frame
    for name in ("object_ids", "scores", "boxes", "masks"):
        mine, right = shown[name], truth[name]
        assert type(mine) is type(right), name
        assert (mine.dtype, mine.shape) == (right.dtype, right.shape), (frame, name)
    assert shown["object_ids"].tolist() == truth["object_ids"].tolist(), frame
    np.testing.assert_allclose(shown["scores"], truth["scores"], atol=SCORE)
    for mine, right in zip(shown["masks"], truth["masks"], strict=True):
        assert are_one(np.asarray(mine), np.asarray(right)), frame
    np.testing.assert_allclose(shown["boxes"], truth["boxes"], atol=1)


SCENES = {
    "a clip": (clips.whole, {}, {}),
    "in reverse": (clips.whole, {"start_frame_idx": 12, "reverse": True}, {}),
    "a stream": (clips.stream, {}, {}),
    # By hand alone: upstream cannot show an object that a call corrects and removes at once.
    "changes between": (clips.changed, {}, {"hotstart_delay": 0}),
    "corrected by findings": (clips.whole, {}, {"recondition_on_trk_masks": False}),
    "few objects": (clips.whole, {"start_frame_idx": 1}, {"max_num_objects": 3}),
    "hidden ones": (
        clips.whole,
        {"max_frame_num_to_track": 8},
        {
            "hotstart_delay": 0,
            "suppress_unmatched_only_within_hotstart": False,
            "init_trk_keep_alive": 2,
        },
    ),
}


@pytest.mark.parametrize("name", quick(SCENES, 0, 2, 3))
def test_each_frame_is_transformers(sides, name):
    script, options, settings = SCENES[name]
    theirs, ours = sides(**settings)
    expected = run(script, theirs, **options)
    check(list(script(ours, clips.frames(), **options)), expected)


# ---------------------------------------------------------------- forms

TAKEN = (
    "add(session, 'ear').prompts",
    "add(session, ['ear', 'ear', 'dial']).prompts",
    "add(session, ('ear', 'dial')).prompts",
    "add(session, '').prompt_input_ids[0].tolist()",
    "[add(session, 'ear').prompt_attention_masks[0].sum(), session.prompt_input_ids[0].dtype]",
    "[session.add_prompt('ear'), session.add_prompt('dial'), session.add_prompt('ear')]",
    "session.remove_object(7)",
    "list(processor(images=frames[0], return_tensors='pt'))",
    "list(processor(original_sizes=[[75, 100]]))",
    "processor(original_sizes=[[75, 100]], return_tensors='pt')['original_sizes'].dtype",
    "list(add(session, 'ear').obj_ids)",
    "shown(None, [75, 100])",
    "shown(None, [[75, 100]])",
    "shown(None, torch.tensor([[75, 100]]))",
    "shown(frames, [[3, 4]])",
    "list(model.propagate_in_video_iterator(add(session, 'ear'), reverse=True))",
    "[session.num_frames, int(session.video_height), processor.init_video_session().num_frames]",
)
BAD = (
    "model(session, frame_idx=0)",
    "model(add(session, 'ear'))",
    "model(add(session, 'ear'), frame_idx=99)",
    "model(add(session, 'a ' * 40), frame_idx=0)",
    "list(model.propagate_in_video_iterator(session))",
    "list(model.propagate_in_video_iterator(add(processor.init_video_session(), 'ear')))",
    "add(session, 5)",
    "add(session, [5])",
    "add(session, None)",
    "processor()",
    "processor(images=frames[0], nonsense=1)",
    "processor.init_video_session([frames[0], frames[0][:9]])",
    "session.remove_object(7, strict=True)",
    "session.obj_idx_to_id(0)",
    "shown(None, None)",
    "model(add(session, 'ear'), frame_idx=0, frame=torch.zeros(3, 9, 9))",
)


def outcome(side, form):
    import torch

    session = side.processor.init_video_session(clips.frames(2))

    def shown(video, sizes):
        session = side.session(video, ["ear"])
        frame = side.processor(images=clips.frames(1)[0], return_tensors="pt").pixel_values[0]
        output = side.model(session, frame=frame) if video is None else side.model(session, 0)
        found = side.results(session, output, sizes)
        return found["object_ids"].shape[1:], found["masks"].shape[1:]

    names = {"session": session, "processor": side.processor, "model": side.model, "torch": torch}
    names |= {"add": side.processor.add_text_prompt, "frames": clips.frames(2), "shown": shown}
    return eval(form, names)


@pytest.mark.parametrize("form", TAKEN)
def test_forms_that_are_taken(sides, form):
    theirs, ours = sides()
    assert outcome(ours, form) == outcome(theirs, form)


@pytest.mark.parametrize("form", BAD)
def test_forms_that_are_refused(sides, form):
    theirs, ours = sides()
    with pytest.raises(Exception) as expected:  # noqa: PT011
        outcome(theirs, form)
    with pytest.raises(expected.type) as found:
        outcome(ours, form)
    assert isinstance(found.value, SamRlxError)


# ---------------------------------------------------------------- sessions and models


def test_a_copy_goes_on_by_itself(sides):
    _, ours = sides()
    session = ours.session(clips.frames(4), clips.TEXTS)
    for frame in (0, 1):
        ours.model(session, frame_idx=frame)
    other, known = copy.deepcopy(session), session.obj_ids
    expected = [ours.model(session, frame_idx=frame) for frame in (2, 3)]
    assert other.obj_ids == known != session.obj_ids
    assert len(other.output_dict_per_obj) == len(known)
    for frame, right in zip((2, 3), expected, strict=True):
        found = ours.model(other, frame_idx=frame)
        assert found.obj_id_to_score == right.obj_id_to_score
        for obj_id, mask in right.obj_id_to_mask.items():
            assert np.array_equal(found.obj_id_to_mask[obj_id], mask)


def test_a_call_that_fails_changes_nothing(sides):
    _, ours = sides()
    session = ours.session(clips.frames(2), ["ear"])
    ours.model(session, frame_idx=0)
    before = session._state()
    session.add_prompt("dial")  # without its ids
    with pytest.raises(KeyError, match="add_text_prompt"):
        ours.model(session, frame_idx=1)
    assert session._state() == before
    assert session.obj_ids == sorted(session.obj_id_to_prompt_id)


def test_a_session_keeps_the_settings_of_its_first_frame(sides):
    _, ours = sides()
    session = ours.session(clips.frames(2), ["ear"])
    ours.model(session, frame_idx=0)
    ours.model.new_det_thresh = 0.9
    with pytest.raises(SamRlxError, match="at its first frame"):
        ours.model(session, frame_idx=1)


def test_cleanup_drops_what_overlaps_and_fills_holes(folder):
    areas = []
    for cleanup in (False, True):
        side = clips.ours(folder[1], cleanup=cleanup)
        for name, value in clips.LOOSE.items():
            setattr(side.model, name, value)
        session = side.session(clips.frames(1), ["ear"])
        found = side.model(session, frame_idx=0).obj_id_to_mask
        areas.append([int(np.asarray(mask > 0).sum()) for mask in found.values()])
    assert len(areas[1]) < len(areas[0])
    assert areas[1] != areas[0][: len(areas[1])]


def test_a_pickle_keeps_settings(folder):
    model = Sam3VideoModel.from_pretrained(folder[1], cleanup=True)
    model.hotstart_delay = 2
    other = pickle.loads(pickle.dumps(model))
    assert other.hotstart_delay == 2
    assert other._rules_of_texts() == model._rules_of_texts()
