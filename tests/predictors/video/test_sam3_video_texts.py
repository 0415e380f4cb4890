"""Everything that a text names through a video, beside upstream's video model of SAM 3."""

import warnings

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError, StateError, UnsupportedError
from support.cases import quick

pytest.importorskip("support.upstream", reason="needs the reference packages")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
text_clips = pytest.importorskip("support.text_clips", reason="needs sam3")
oracle = pytest.importorskip("support.upstream_sam3_masklets", reason="needs sam3")
pytestmark = pytest.mark.parity

HW = (72, 96)
TEXT = "person"
ALL = ("track", {"start_frame_idx": 0})


def clip(count=20, dark=(6, 8)):
    frames = upstream_video.clip(count, HW)
    frames[slice(*dark)] = 0
    return frames


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return a function that gives our model of a seed, and upstream's."""
    made = {}

    def get(seed):
        if seed not in made:
            detector = oracle.detector(seed)
            path = tmp_path_factory.mktemp("masklets") / "tiny.safetensors"
            made[seed] = sam_rlx.load_model(concepts.save(path, detector)), detector
        return made[seed]

    return get


def check(models, seed, steps, **options):
    return text_clips.check(
        *models(seed), clip(), steps, {**oracle.OPTIONS, **options}, wide_borders=True
    )


def identities(frames):
    return [list(frame.masks) for frame in frames]


FREE = {"hotstart_delay": 0, "hotstart_unmatch_thresh": 0, "hotstart_dup_thresh": 0}
# Seeds by what happens: all have objects that enter; the frames in the dark hide some.
CLIPS = {
    "one object": (7, {}),
    "many objects": (3, {}),
    "objects leave and return": (26, {}),
    "errors of the detector are taken out": (14, {}),
    "objects start anew": (53, {}),
    "objects are hidden behind others": (22, FREE),
    "detections that are seen once are kept": (61, FREE),
}


@pytest.mark.parametrize("name", quick(CLIPS, 3, 4, 5))
def test_a_text(models, name):
    seed, options = CLIPS[name]
    found = check(models, seed, [("text", 0, TEXT), ALL], **options)
    assert any(identities(found))


SCRIPTS = {
    "forwards and backwards": [
        ("text", 9, TEXT),
        ("track", {"start_frame_idx": 9}),
        ("track", {"start_frame_idx": 9, "reverse": True}),
    ],
    "an object is refined": [
        ("text", 0, TEXT),
        ALL,
        ("points", 4, 0, [[0.4, 0.5], [0.8, 0.8]], [1, 0]),
        ALL,
    ],
    "an object is refined twice": [
        ("text", 0, TEXT),
        ALL,
        ("points", 2, 0, [[0.3, 0.4]], [1]),
        ("points", 9, 0, [[0.6, 0.5]], [1]),
        ALL,
    ],
    "an object is removed": [("text", 0, TEXT), ALL, ("remove", 0), ALL],
    "an example alone": [
        ("box", 2, None, (0.05, 0.2, 0.4, 0.7)),
        ("track", {"start_frame_idx": 2}),
    ],
    "a text with an example, backwards": [
        ("box", 13, TEXT, (0.05, 0.2, 0.4, 0.7)),
        ("track", {"start_frame_idx": 13, "reverse": True}),
    ],
}


@pytest.mark.parametrize("seed", quick([7, 44], 1))
@pytest.mark.parametrize("script", quick(SCRIPTS, 0, 2, 3, 4, 5))
def test_session(models, script, seed):
    check(models, seed, SCRIPTS[script], **FREE)


# Values that the released model does not have.
OPTIONS = {
    "no finding suppresses another": (3, {"det_nms_thresh": 0.0}),
    "objects in the middle only": (3, {"suppress_det_close_to_boundary": True}),
    "boxes correct objects": (
        53,
        {"reconstruction_bbox_iou_thresh": 0.9, "recondition_every_nth_frame": -1},
    ),
    "only sure boxes correct objects": (
        53,
        {"reconstruction_bbox_iou_thresh": 0.9, "reconstruction_bbox_det_score": 0.9},
    ),
    "objects that are not found are hidden": (
        26,
        {
            **FREE,
            "init_trk_keep_alive": 1,
            "max_trk_keep_alive": 2,
            "min_trk_keep_alive": -2,
            "suppress_unmatched_only_within_hotstart": False,
        },
    ),
    "objects may hide each other": (
        22,
        {**FREE, "suppress_overlapping_based_on_recent_occlusion_threshold": 0.0},
    ),
    "objects are shown once they are confirmed": (26, {"masklet_confirmation_enable": True}),
    "few objects": (3, {"max_num_objects": 2}),
    "no limit": (3, {"max_num_objects": -1}),
}


@pytest.mark.parametrize("name", quick(OPTIONS, 2, 6))
def test_options_are_upstreams(models, name):
    seed, options = OPTIONS[name]
    check(models, seed, [("text", 0, TEXT), ALL], **options)


# ---------------------------------------------------------------- what upstream does not do


def session(models, frames=None, seed=26, **options):
    options = {
        "resize": "integer",
        "text_options": {**text_clips.ANY, **oracle.OPTIONS},
        **options,
    }
    return sam_rlx.VideoPredictor(models(seed)[0], frames, **options)


def same(a, b):
    return len(a) == len(b) and all(
        x.frame_index == y.frame_index
        and x.scores == y.scores
        and list(x.masks) == list(y.masks)
        and all(np.array_equal(x.masks[k], y.masks[k]) for k in x.masks)
        for x, y in zip(a, b, strict=True)
    )


def of_text(frames, text):
    """Results of one text, its objects numbered from 0."""
    objects = sorted({k for f in frames for k, named in f.texts.items() if named == text})
    number = {obj: i for i, obj in enumerate(objects)}
    return [
        (f.frame_index, {number[k]: m.tobytes() for k, m in f.masks.items() if k in number})
        for f in frames
    ]


def test_texts_do_not_influence_each_other(models):
    both = session(models, clip()).add_text([TEXT, "cat"])
    found = list(both.propagate())
    for text in (TEXT, "cat"):
        alone = list(session(models, clip()).add_text(text).propagate())
        assert of_text(found, text) == of_text(alone, text)
        assert any(masks for _, masks in of_text(found, text))
    names = [name for frame in found for name in frame.masks]
    assert all(set(frame.texts.values()) <= {TEXT, "cat"} for frame in found)
    assert len(both.obj_ids) == len(set(both.obj_ids)) > 2
    assert set(both.obj_ids) & set(names)


def test_clicked_objects_are_as_they_would_be_alone(models):
    frames = clip()
    both, alone = session(models, frames), session(models, frames)
    for one in (both, alone):
        one.add_prompt(0, 5, point_coords=[[20, 28]], point_labels=[1])
    both.add_text(TEXT)
    with_text, without = list(both.propagate()), list(alone.propagate())
    for x, y in zip(with_text, without, strict=True):
        assert np.array_equal(x.masks[5], y.masks[5])
        assert x.scores[5] == y.scores[5]
        assert 5 not in x.texts
    assert min(set(both.obj_ids) - {5}) > 5


def test_a_frame_is_searched_once(models):
    """What was tracked before is taken from the results, in parts and in both directions."""
    whole = list(session(models, clip()).add_text(TEXT, frame_index=5).propagate())
    parts = session(models, clip()).add_text(TEXT, frame_index=5)
    first = list(parts.propagate(max_frames=4))
    again = list(parts.propagate())
    assert same(again, whole)
    assert [f.frame_index for f in first] == [5, 6, 7, 8]
    back = list(parts.propagate(reverse=True))
    assert [f.frame_index for f in back] == [5, 4, 3, 2, 1, 0]
    assert same([parts.frame(f.frame_index) for f in back], back)


def test_threads_do_not_change_objects(models):
    runs = []
    for n in (1, 2, 3):
        one = session(models, clip(), num_threads=n).add_text(TEXT)
        runs.append([one.frame(0), *one.propagate()])
    assert same(runs[0], runs[1])
    assert same(runs[0], runs[2])


def test_frames_need_not_be_kept(models):
    frames = clip(40)
    one = session(models, iter(frames), history=0).add_text(TEXT)
    other = session(models, frames, history=None).add_text(TEXT)
    assert same(list(one.propagate()), list(other.propagate()))


def test_pushed_frames(models):
    """Each frame is searched once, when it comes; what is found is shown from there on."""
    frames = clip(18)  # upstream counts differently in clips of less than 16
    stream = session(models).add_text(TEXT)
    pushed = [stream.push(frame) for frame in frames]
    shown = session(models, frames, seed=26).add_text(TEXT)
    expected = [shown.frame(0)]
    for index in range(1, len(frames)):
        list(shown.propagate(start_frame=index, max_frames=1))
        expected.append(shown.frame(index))
    assert same(pushed, expected)
    assert sum(len(frame.masks) for frame in pushed) > 8
    assert stream._core.texts[0].frames == [len(frames) - 1]


def test_clicks_in_a_stream(models):
    frames = clip()
    stream = session(models, seed=44).add_text(TEXT)
    first = stream.push(frames[0])
    (obj,) = first.masks
    before = first.masks[obj]
    stream.add_prompt(0, obj, point_coords=[[70, 50]], point_labels=[0])
    after = stream.frame(0)
    assert after.scores[obj] == 1
    assert not np.array_equal(after.masks[obj], before)
    stream.push(frames[1])
    with pytest.raises(StateError, match="a frame that was tracked"):
        stream.add_prompt(0, obj, point_coords=[[70, 50]], point_labels=[0])
    with pytest.raises(StateError, match="frames of a video"):
        list(stream.propagate(reverse=True))


def test_the_limit_for_new_objects_holds_on_the_first_frame(models):
    frames = clip(2, (2, 2))
    scores = list(session(models, frames, seed=44).add_text(TEXT).frame(0).scores.values())
    assert scores
    for limit in (min(scores) - 0.01, max(scores) + 0.01):
        options = {**oracle.OPTIONS, "new_det_thresh": limit}
        found = session(models, frames, seed=44, text_options=options).add_text(TEXT)
        assert list(found.frame(0).scores.values()) == [s for s in scores if s >= limit]


def test_reset(models):
    one = session(models, clip())
    first = list(one.add_text(TEXT).propagate())
    one.reset()
    assert one.obj_ids == []
    assert same(list(one.add_text(TEXT).propagate()), first)


def test_what_is_refused(models, tmp_path):
    one = session(models, clip(), seed=44)
    with pytest.raises(InvalidArgumentError, match="expected text or boxes"):
        one.add_text()
    with pytest.raises(InvalidArgumentError, match="text: expected a str"):
        one.add_text([])
    with pytest.raises(InvalidArgumentError, match="boxes: expected"):
        one.add_text(TEXT, boxes=[[110, 10, 200, 20]])
    assert one.obj_ids == []
    with pytest.raises(StateError, match="or a text"):
        one.propagate()
    one.add_text(TEXT)
    with pytest.raises(UnsupportedError, match="return_logits"):
        one.propagate(return_logits=True)
    with pytest.raises(UnsupportedError, match="without texts"):
        one.save(tmp_path / "session.safetensors")
    (obj,) = one.obj_ids
    with pytest.raises(UnsupportedError, match="mask"):
        one.add_prompt(0, obj, mask=np.ones(HW, np.bool_))
    with pytest.raises(StateError, match="expected a frame that was tracked"):
        one.add_prompt(9, obj, point_coords=[[3, 3]], point_labels=[1])
    with pytest.raises(InvalidArgumentError, match="option"):
        session(models, clip(), text_options={"hot": 1}).add_text(TEXT)
    with pytest.raises(InvalidArgumentError, match="with pushed frames only"):
        session(models, clip(), text_options={"forget_unseen_after": 1})
    with pytest.raises(InvalidArgumentError, match="forget_unseen_after: expected"):
        session(models, text_options={"forget_unseen_after": -1})
    with pytest.raises(InvalidArgumentError, match="last frame"):
        session(models).add_text(TEXT, boxes=[[1, 1, 9, 9]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.remove_object(obj)
    assert one.obj_ids == []
