"""Sessions of the video predictor beside upstream's, call by call."""

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2, video_scripts
from support.cases import quick
from support.video_scripts import ALL, BACK, CLICK, HW, MASK

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_video = pytest.importorskip("support.upstream_video")
pytestmark = pytest.mark.parity

SEED = 0


def weights_of(version="2.1", seed=SEED, presence=1.0):
    """Random weights of a model whose objects are mostly there."""
    weights = tiny_sam2.weights(tiny_sam2.TINY, seed, version)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(presence)
    return weights


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("video")
    result = {}
    for version in ("2.1", "2.0"):
        weights = weights_of(version)
        path = folder / f"{version}.safetensors"
        tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)
        result[version] = (sam_rlx.load_model(path), weights)
    return result


def check(parity, models, steps, *, frames=8, version="2.1", options=None, **switches):
    """Hold every mask of a script to upstream."""
    model, weights = models[version]
    frames = upstream_video.clip(frames, HW) if isinstance(frames, int) else frames
    switches.setdefault("add_all_frames_to_correct_as_cond", True)
    predictor = upstream_video.build(weights, version, **switches)
    return upstream_video.check(parity, model, predictor, frames, steps, **(options or {}))


SCRIPTS = {
    **video_scripts.SCRIPTS,
    "two objects, one with a prompt only in the future": [
        CLICK,
        ("mask", 2, 5, MASK),
        ALL,
        ("track", {"start_frame": 5, "reverse": True}),
    ],
    "object added after tracking": [
        CLICK,
        ("track", {"max_frames": 4}),
        ("box", 3, "late", [60, 30, 84, 62]),
        ("track", {"start_frame": 3}),
    ],
    "correction on a tracked frame": [
        CLICK,
        ALL,
        ("points", 4, "disc", [[30, 30]], [1]),
        ("points", 4, "disc", [[70, 60]], [0], False),
        ALL,
    ],
    "prompts cleared": [
        CLICK,
        ("points", 4, "disc", [[30, 28]], [1]),
        ALL,
        ("clear", 4, "disc"),
        ALL,
    ],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_session(parity, models, script):
    frames = 4 if script in video_scripts.FEW_FRAMES else 8
    check(parity, models, SCRIPTS[script], frames=frames)


@pytest.mark.parametrize(
    "script", quick(["one click", "forwards, then backwards", "correction by a mask"], 2)
)
def test_version_2_0(parity, models, script):
    check(parity, models, SCRIPTS[script], version="2.0")


def test_a_clip_longer_than_the_memory(parity, models):
    check(parity, models, [CLICK, ALL], frames=20)


def test_an_object_leaves_and_returns(parity, models, tmp_path):
    """Where the score is not above 0 the mask is empty, and memory knows that nothing is there."""
    weights = weights_of(seed=3, presence=-0.3)
    path = tiny_sam2.save_safetensors(tmp_path / "leaves.safetensors", tiny_sam2.TINY, weights)
    models = {"2.1": (sam_rlx.load_model(path), weights)}
    frames = upstream_video.clip(20, HW)
    frames[6:11] //= 6
    found = check(parity, models, [CLICK, ALL], frames=frames)[1:]
    present = [result.scores["disc"] > 0 for result in found]
    changes = np.flatnonzero(np.diff(present))
    assert present[0]
    assert present[-1]
    assert len(changes) == 2, [result.scores["disc"] for result in found]
    for result, seen in zip(found, present, strict=True):
        assert result.masks["disc"].any() == seen


def test_upstreams_default_loses_corrections(parity, models):
    upstreams = {
        "add_all_frames_to_correct_as_cond": False,
        "options": {"keep_corrections": False},
    }
    steps = SCRIPTS["correction on a tracked frame"]
    lost = check(parity, models, steps, **upstreams)
    kept = check(parity, models, steps)
    assert np.array_equal(lost[4 + 1].logits["disc"], lost[-4].logits["disc"])
    assert not np.array_equal(kept[4 + 1].logits["disc"], kept[-4].logits["disc"])


def test_masks_that_do_not_overlap(models):
    """Upstream's rule on our logits: where two are nearly equal, rounding chooses the winner."""
    model, weights = models["2.1"]
    steps = [CLICK, ("points", 0, 2, [[24, 30]], [1]), ("mask", 0, 3, MASK), ALL]
    frames = upstream_video.clip(8, HW)
    rule = upstream_video.build(weights)._apply_non_overlapping_constraints
    free = upstream_video.play_ours(sam_rlx.VideoPredictor(model, frames), steps)
    bound = upstream_video.play_ours(
        sam_rlx.VideoPredictor(model, frames, non_overlap_masks=True), steps
    )
    fewer = 0
    for before, after in zip(free, bound, strict=True):
        logits = upstream.torch.from_numpy(np.stack(list(before.logits.values())))[:, None]
        expected = rule(logits)[:, 0].numpy()
        assert np.array_equal(np.stack(list(after.logits.values())), expected)
        masks = np.stack(list(after.masks.values()))
        assert np.array_equal(masks, expected > 0)
        assert (masks.sum(axis=0) <= 1).all()
        fewer += int(masks.sum()) < sum(int(mask.sum()) for mask in before.masks.values())
    assert fewer


@pytest.mark.parametrize("area", [0, 3, 60])
def test_holes(parity, models, area):
    options = {"fill_hole_area": area}
    ours = check(parity, models, [CLICK, ALL], options=options, **options)
    frames = upstream_video.clip(8, HW)
    other = sam_rlx.VideoPredictor(models["2.1"][0], frames, fill_hole_area=8, resize="float")
    same = [
        np.array_equal(a.logits["disc"], b.logits["disc"])
        for a, b in zip(ours, upstream_video.play_ours(other, [CLICK, ALL]), strict=True)
    ]
    assert not all(same)


def test_corrections_in_a_video_of_one_frame(models):
    """Upstream divides by 0 here: its masks are empty."""
    steps = [CLICK, ALL, ("points", 0, "disc", [[24, 30]], [1], False), ALL]
    frames = upstream_video.clip(1, HW)
    results = upstream_video.play_ours(sam_rlx.VideoPredictor(models["2.1"][0], frames), steps)
    assert len(results) == 4
    assert all(np.isfinite(r.logits["disc"]).all() for r in results)
    assert (results[-1].logits["disc"] > -1024).all()


def same_frames(a, b):
    return len(a) == len(b) and all(
        x.frame_index == y.frame_index
        and x.scores == y.scores
        and all(np.array_equal(x.logits[k], y.logits[k]) for k in x.scores)
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("start", [0, 30])
def test_what_is_dropped_is_not_missed(models, start):
    """Both directions from a prompt read the same memory whether old outputs are kept or not."""
    model, frames = models["2.1"][0], upstream_video.clip(60, HW)
    steps = [("points", start, 1, [[20, 28]], [1]), ALL, BACK]
    everything = upstream_video.play_ours(
        sam_rlx.VideoPredictor(model, frames, history=None), steps
    )
    least = upstream_video.play_ours(sam_rlx.VideoPredictor(model, frames, history=0), steps)
    assert same_frames(everything, least)


def test_threads_do_not_change_masks(models):
    model, frames = models["2.1"][0], upstream_video.clip(4, HW)
    runs = [
        upstream_video.play_ours(sam_rlx.VideoPredictor(model, frames, num_threads=n), [CLICK, ALL])
        for n in (1, 3)
    ]
    assert same_frames(*runs)


def test_pushed_frames_give_the_masks_of_a_video(models):
    model, frames = models["2.1"][0], upstream_video.clip(24, HW)
    whole = upstream_video.play_ours(sam_rlx.VideoPredictor(model, frames), [CLICK, ALL])
    session = sam_rlx.VideoPredictor(model)
    assert session.push(frames[0]).masks == {}
    session.add_prompt(0, "disc", point_coords=[[20, 28]], point_labels=[1])
    pushed = [session.frame(0, return_logits=True)]
    pushed += [session.push(frame, return_logits=True) for frame in frames[1:]]
    assert same_frames(whole[1:], pushed)
    streamed = upstream_video.play_ours(sam_rlx.VideoPredictor(model, iter(frames)), [CLICK, ALL])
    assert same_frames(whole, streamed)
