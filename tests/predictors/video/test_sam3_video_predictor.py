"""Sessions of the video predictor on SAM 3's tracker beside upstream's, call by call."""

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3, video_scripts
from support.cases import quick
from support.video_scripts import ALL, BACK, CLICK, HW, MASK

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
oracle = pytest.importorskip("support.upstream_sam3_video", reason="needs sam3")
scripts = pytest.importorskip("support.sam3_scripts", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

check, run = scripts.check, scripts.run

WIDE = np.zeros(HW, np.bool_)
WIDE[20:50, 10:70] = True
# A network whose object is not there on dark frames.
LEAVING = {"seed": 9, "presence": 0.03}


def build(folder, **options):
    network = oracle.network(**options)
    path = tiny_sam3.save_safetensors(
        folder / "tiny.safetensors", tiny_sam3.TINY, upstream_sam3.meta_weights(network)
    )
    return sam_rlx.load_model(path), network


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return build(tmp_path_factory.mktemp("sam3_video"))


SCRIPTS = {
    **video_scripts.SCRIPTS,
    "two objects": [CLICK, ("box", 0, 2, [60, 30, 84, 62]), ALL],
    "a mask ends where a later one was given": [
        ("mask", 0, 1, WIDE),
        ("mask", 0, 2, MASK),
        ("points", 0, 3, [[20, 28]], [1]),
        ALL,
    ],
    "correction on a tracked frame": [
        CLICK,
        ALL,
        ("points", 4, "disc", [[30, 30]], [1]),
        ("points", 4, "disc", [[70, 60]], [0], False),
        ALL,
        ("points", 2, "disc", [[30, 30]], [1]),
        ("points", 6, "disc", [[36, 30]], [1]),
        ALL,
    ],
    "correction of one of two objects": [
        CLICK,
        ("mask", 0, 5, MASK),
        ALL,
        ("points", 4, "disc", [[30, 30]], [1]),
        ("track", {"start_frame": 2}),
        ("points", 6, 5, [[60, 40]], [0]),
        ALL,
    ],
    "backwards from the first frame": [CLICK, BACK],
    "prompts cleared": [
        CLICK,
        ("mask", 0, 5, MASK),
        ALL,
        ("points", 4, "disc", [[30, 28]], [1]),
        ALL,
        ("clear", 4, "disc"),
        ALL,
    ],
    "prompts of one object cleared, of another kept": [
        CLICK,
        ("mask", 0, 5, MASK),
        ALL,
        ("points", 4, "disc", [[30, 28]], [1]),
        ("points", 4, 5, [[66, 44]], [1]),
        ALL,
        ("clear", 4, "disc"),
        ALL,
    ],
    "an object removed with its corrections": [
        CLICK,
        ("mask", 0, 5, MASK),
        ("box", 0, 7, [10, 15, 32, 42]),
        ALL,
        ("points", 4, "disc", [[30, 28]], [1]),
        ALL,
        ("remove", "disc"),
        ("track", {"start_frame": 6}),
        ("remove", 7),
        ("track", {"start_frame": 6}),
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_session(parity, models, script):
    frames = 4 if script in video_scripts.FEW_FRAMES else 8
    check(parity, models, SCRIPTS[script], frames=frames)


@pytest.mark.parametrize("script", ["one click", "correction of one of two objects"])
def test_without_memory_selection(parity, models, script):
    check(
        parity,
        models,
        SCRIPTS[script],
        use_memory_selection=False,
        options={"memory_selection": False},
    )


def test_more_points_than_are_used(parity, models):
    rng = np.random.default_rng(5)
    points = rng.uniform((0, 0), HW[::-1], (21, 2)).tolist()
    labels = rng.integers(0, 2, 21).tolist()
    more = ("points", 0, 1, [[20, 28], [22, 30]], [1, 1], False)
    check(parity, models, [("points", 0, 1, points, labels), more, ("track", {"max_frames": 2})])


def test_more_frames_with_prompts_than_are_attended_to(parity, models):
    clicks = [("points", t, "disc", [[20 + 2.5 * t, 28]], [1]) for t in range(0, 12, 2)]
    check(parity, models, [*clicks, ALL], frames=14)


@pytest.mark.parametrize("selection", quick([True, False], 0))
def test_a_clip_longer_than_the_memory(parity, models, selection):
    steps = [CLICK, ("box", 0, 2, [60, 30, 84, 62]), ALL]
    options = {"memory_selection": selection}
    check(parity, models, steps, frames=20, use_memory_selection=selection, options=options)


@pytest.mark.parametrize("area", [3, 60])
def test_holes_and_islands(parity, models, area):
    options = {"fill_hole_area": area}
    ours = check(parity, models, [CLICK, ALL], options=options, **options)
    frames = upstream_video.clip(8, HW)
    left = run(models[0], frames, [CLICK, ALL], resize="integer")
    assert not all(
        np.array_equal(a.logits["disc"], b.logits["disc"]) for a, b in zip(ours, left, strict=True)
    )


def test_an_object_leaves_and_returns(parity, tmp_path):
    """Where the score is not above 0 the mask is empty, and memory knows that nothing is there."""
    models = build(tmp_path, **LEAVING)
    frames = upstream_video.clip(20, HW)
    frames[6:11] = 0
    found = check(parity, models, [CLICK, ALL], frames=frames)[1:]
    present = [result.scores["disc"] > 0 for result in found]
    changes = np.flatnonzero(np.diff(present))
    assert present[0]
    assert present[-1]
    assert len(changes) == 2, [result.scores["disc"] for result in found]
    for result, seen in zip(found, present, strict=True):
        assert result.masks["disc"].any() == seen


# ---------------------------------------------------------------- what upstream does not do


def test_an_object_added_after_tracking_is_a_batch_of_its_own(models):
    """Upstream refuses it; its video model opens a session for such objects."""
    model, frames = models[0], upstream_video.clip(8, HW)
    late, rest = ("box", 3, "late", [60, 30, 84, 62]), ("track", {"start_frame": 3})
    both = run(model, frames, [CLICK, ALL, late, rest])[-5:]
    alone = run(model, frames, [late, rest])[-5:]
    first = run(model, frames, [CLICK, ALL, rest])[-5:]
    for found, other, mine in zip(both, alone, first, strict=True):
        assert np.array_equal(found.logits["late"], other.logits["late"])
        assert np.array_equal(found.logits["disc"], mine.logits["disc"])


def test_objects_of_one_batch_with_prompts_on_different_frames(models):
    """Upstream fails: an object that was never there has no pointer. Here it stays as it is."""
    model, frames = models[0], upstream_video.clip(8, HW)
    late = ("box", 3, "late", [60, 30, 84, 62])
    both = run(model, frames, [CLICK, late, ALL])[2:]
    assert [frame.frame_index for frame in both] == list(range(8))
    assert all(list(frame.masks) == ["disc", "late"] for frame in both[3:])


def test_masks_that_do_not_overlap(models):
    model, frames = models[0], upstream_video.clip(4, HW)
    steps = [CLICK, ("points", 0, 2, [[24, 30]], [1]), ("mask", 0, 3, MASK), ALL]
    for frame in run(model, frames, steps, non_overlap_masks=True):
        masks = np.stack(list(frame.masks.values()))
        assert (masks.sum(axis=0) <= 1).all()


def same_frames(a, b):
    return len(a) == len(b) and all(
        x.frame_index == y.frame_index
        and x.scores == y.scores
        and all(np.array_equal(x.logits[k], y.logits[k]) for k in x.scores)
        for x, y in zip(a, b, strict=True)
    )


def test_threads_do_not_change_masks(models):
    frames, steps = upstream_video.clip(4, HW), [CLICK, ("mask", 0, 2, MASK), ALL]
    one, *others = (run(models[0], frames, steps, num_threads=n) for n in (1, 2, 3))
    assert all(same_frames(one, other) for other in others)


@pytest.mark.parametrize("start", [0, 30])
def test_what_is_dropped_is_not_missed(models, start):
    frames = upstream_video.clip(60, HW)
    frames[10:28] //= 8
    steps = [("points", start, 1, [[20, 28]], [1]), ALL, BACK]
    everything = run(models[0], frames, steps, history=None)
    assert same_frames(everything, run(models[0], frames, steps, history=0))


def test_pushed_frames_give_the_masks_of_a_video(models):
    model, frames = models[0], upstream_video.clip(24, HW)
    whole = run(model, frames, [CLICK, ALL])
    session = sam_rlx.VideoPredictor(model)
    session.push(frames[0])
    session.add_prompt(0, "disc", point_coords=[[20, 28]], point_labels=[1])
    pushed = [session.frame(0, return_logits=True)]
    pushed += [session.push(frame, return_logits=True) for frame in frames[1:]]
    assert same_frames(whole[1:], pushed)


def test_a_session_on_disk_goes_on(models, tmp_path):
    model, frames = models[0], upstream_video.clip(12, HW)
    session = sam_rlx.VideoPredictor(model, frames, resize="integer")
    upstream_video.play_ours(session, [CLICK, ("mask", 0, 2, MASK), ("track", {"max_frames": 6})])
    session.save(tmp_path / "session.safetensors")
    again = sam_rlx.VideoPredictor.load(tmp_path / "session.safetensors", model, frames)
    more = [("points", 3, 2, [[64, 44]], [1]), ("box", 5, "late", [10, 15, 32, 42]), ALL]
    assert same_frames(
        upstream_video.play_ours(again, more), upstream_video.play_ours(session, more)
    )


def test_what_sam3_does_not_know(models, tmp_path):
    with pytest.raises(sam_rlx.UnsupportedError, match="true with SAM 3"):
        sam_rlx.VideoPredictor(models[0], keep_corrections=False)
    weights = upstream_sam3.meta_weights(upstream_sam3.image_model())
    path = tiny_sam3.save_safetensors(tmp_path / "detector.safetensors", tiny_sam3.TINY, weights)
    with pytest.raises(sam_rlx.UnsupportedError, match="checkpoint with the tracker"):
        sam_rlx.VideoPredictor(sam_rlx.load_model(path))
