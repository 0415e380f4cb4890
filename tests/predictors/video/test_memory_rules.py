"""Rules of memory beside upstream's: their arithmetic, and what public trackers chose.

The recordings in tests/data are made by make_memory_rules.py there.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import load_file
from support import memory_rules, tiny_sam2

DATA = Path(__file__).resolve().parents[2] / "data"
RULES = ("samurai", "dam4sam")
SPAN = memory_rules.FRAMES - 1


# ---------------------------------------------------------------- motion


def boxes(seed, count=60):
    """Inclusive boxes that grow and turn; some are not seen, one is a point."""
    random = np.random.default_rng([seed, 5])
    centre = np.cumsum(random.normal(0, 4, (count, 2)) + np.array([3, 1]), 0) + 200
    sides = 40 + np.cumsum(random.normal(0, 2, (count, 2)), 0)
    found = np.concatenate([centre - sides / 2, centre + sides / 2], 1).round().astype(int)
    found[count // 2, 2:] = found[count // 2, :2]
    rows = found.tolist()
    for t in random.choice(np.arange(1, count), 9, replace=False):
        rows[t] = []
    return rows


def measured(box):
    x0, y0, x1, y1 = box
    height = (y1 - y0) or 1
    return np.array([(x0 + x1) / 2, (y0 + y1) / 2, (x1 - x0) / height, height], np.float64)


def noise(height, of_height, of_aspect):
    return np.square([of_height * height, of_height * height, of_aspect, of_height * height])


class NumpyFilter:
    """The filter as one of eight numbers: four, and their velocities."""

    def __init__(self, first):
        step = np.eye(8)
        step[:4, 4:] = np.eye(4)
        self.step, self.seen = step, np.eye(4, 8)
        self.mean = np.concatenate([first, np.zeros(4)])
        start = [noise(first[3], 2 / 20, 1e-2), noise(first[3], 10 / 160, 1e-5)]
        self.covariance = np.diag(np.concatenate(start))

    def spread(self):
        height = self.mean[3]
        both = [noise(height, 1 / 20, 1e-2), noise(height, 1 / 160, 1e-5)]
        return np.diag(np.concatenate(both))

    def doubt(self):
        return np.diag(noise(self.mean[3], 1 / 20, 1e-1))

    def predict(self):
        spread = self.spread()
        self.mean = self.step @ self.mean
        self.covariance = self.step @ self.covariance @ self.step.T + spread

    def update(self, box):
        total = self.seen @ self.covariance @ self.seen.T + self.doubt()
        gain = np.linalg.solve(total, self.seen @ self.covariance).T
        self.mean = self.mean + gain @ (box - self.seen @ self.mean)
        self.covariance = self.covariance - gain @ total @ gain.T


class OpenCvFilter(NumpyFilter):
    """The same by OpenCV."""

    def __init__(self, first):
        super().__init__(first)
        cv2 = pytest.importorskip("cv2")
        self.inner = cv2.KalmanFilter(8, 4, 0, cv2.CV_64F)
        self.inner.transitionMatrix, self.inner.measurementMatrix = self.step, self.seen
        self.inner.statePost, self.inner.errorCovPost = self.mean[:, None], self.covariance

    def _read(self, mean, covariance):
        self.mean, self.covariance = mean[:, 0].copy(), covariance.copy()

    def predict(self):
        self.inner.processNoiseCov = self.spread()
        self.inner.predict()
        self._read(self.inner.statePre, self.inner.errorCovPre)

    def update(self, box):
        self.inner.measurementNoiseCov = self.doubt()
        self.inner.correct(box[:, None])
        self._read(self.inner.statePost, self.inner.errorCovPost)


def overlap(shape, box):
    x, y, aspect, height = shape
    a = np.array([x - aspect * height / 2, y - height / 2, x + aspect * height / 2, y + height / 2])
    b = np.array(box, float)
    inner = np.maximum(np.minimum(a, b)[2:] - np.maximum(a, b)[:2], 0).prod()
    return inner / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inner)


@pytest.mark.parametrize("judge", [NumpyFilter, OpenCvFilter])
@pytest.mark.parametrize("seed", [0, 1])
def test_motion_is_that_of_a_kalman_filter(testing, judge, seed):
    rows = boxes(seed)
    judged = judge(measured(rows[0]))
    for box, row in zip(rows[1:], testing.box_motion(rows), strict=True):
        judged.predict()
        if box:
            assert row[20] == pytest.approx(overlap(judged.mean[:4], box), abs=1e-12)
            judged.update(measured(box))
        covariance = judged.covariance
        expected = [
            judged.mean,
            np.diag(covariance)[:4],
            np.diag(covariance[:4, 4:]),
            np.diag(covariance)[4:],
        ]
        assert np.allclose(row[:20], np.concatenate(expected), rtol=1e-9, atol=1e-12)


def test_an_empty_mask_touches_nothing(testing):
    rows = [[0, 0, 30, 20], [0, 0, 0, 0]]
    assert testing.box_motion(rows)[0][20] == 0


# ---------------------------------------------------------------- areas


@pytest.mark.parametrize("seed", range(3))
def test_medians_of_the_last_areas_that_are_seen(testing, seed):
    random = np.random.default_rng([seed, 6])
    areas = random.integers(1, 5000, 900) * (random.random(900) < 0.4)
    areas[250:570] = 0  # longer than the rule looks back
    areas[[260, 400]] = 77, 11
    for count, median in enumerate(testing.recent_medians(areas.tolist()), 1):
        recent = [area for area in areas[:count][-300:] if area > 0][-10:]
        assert median == (np.median(recent) if recent else None)


# ---------------------------------------------------------------- decisions


def recorded(rule):
    return json.loads((DATA / f"memory_rules_{rule}.json").read_text())


def follow(testing, rule, name, backwards=False):
    made = memory_rules.sequence(name.split()[0])
    frames = list(range(memory_rules.FRAMES))
    return testing.follow_by_rule(
        rule,
        "hiera_l" if "0.15" in name else "hiera_t",
        frames[::-1] if backwards else frames,
        made.masks,
        made.ious,
        [float(score) for score in made.scores],
        memory_rules.SIDE,
        *memory_rules.HW,
        memory_rules.FRAMES,
        "clicked" in name,
    )


@pytest.mark.parametrize(("rule", "name"), [(r, name) for r in RULES for name in recorded(r)])
def test_decisions_are_those_of_the_public_trackers(testing, rule, name):
    expected = recorded(rule)[name]
    assert len(expected) == SPAN
    found = follow(testing, rule, name)
    for t, (ours, (chosen, added, maps, pointers)) in enumerate(
        zip(found, expected, strict=True), 1
    ):
        assert (ours["chosen"], ours["added"]) == (chosen, added), t
        assert [[frame, row] for frame, _, row in ours["maps"]] == maps, t
        if pointers is None:
            continue
        assert [frame for frame, *_ in ours["pointers"]] == [frame for frame, _ in pointers], t
        distances = [distance / ours["distance_scale"] for *_, distance in ours["pointers"]]
        assert distances == pytest.approx([position for _, position in pointers], abs=1e-4), t


def test_recordings_tell_the_rules_apart():
    """The sequences reach each side of the rules' limits."""
    samurai, dam4sam = recorded("samurai"), recorded("dam4sam")
    masks = {name: [row[0] for row in rows] for name, rows in samurai.items()}
    best = {name: memory_rules.sequence(name).ious[1:].argmax(1) for name in memory_rules.NAMES}
    for name in ("distractor", "fast", "random"):
        assert 0 < (masks[f"{name} 0.25"] != best[name]).sum() < SPAN
    assert any(masks[f"{name} 0.25"] != masks[f"{name} 0.15"] for name in memory_rules.NAMES)
    gaps = []
    for rows in dam4sam.values():
        added = [t for t, row in enumerate(rows, 1) if row[1]]
        assert len(added) > 4
        gaps += np.diff(added).tolist()
        assert max(len([row for _, row in maps if row == 6]) for _, _, maps, _ in rows) == 4
    assert min(gaps) == 6


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["distractor 0.25", "fast 0.25", "random 0.25"])
def test_backwards_is_the_mirrored_way(testing, rule, name):
    """The last frame is a multiple of the stride: mirrored frames are too."""
    forwards, backwards = (follow(testing, rule, name, way) for way in (False, True))
    for ours, mirrored in zip(forwards, backwards, strict=True):
        for part in ("maps", "pointers"):
            turned = [(SPAN - frame, *rest) for frame, *rest in mirrored[part]]
            assert ours[part] == turned
        for part in ("chosen", "added", "distance_scale"):
            assert ours[part] == mirrored[part]


# ---------------------------------------------------------------- sessions


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Give a tiny model whose objects are there."""
    path = tmp_path_factory.mktemp("rules") / "tiny.safetensors"
    weights = tiny_sam2.weights(tiny_sam2.TINY, 3, "2.1")
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1)
    tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights)
    return sam_rlx.load_model(path)


def clip(count=30, hw=(72, 96)):
    """Two equal discs that meet, on a textured ground."""
    random = np.random.default_rng(3)
    y, x = np.mgrid[: hw[0], : hw[1]]
    ground = random.integers(0, 80, (*hw, 3))
    frames = []
    for t in range(count):
        frame = ground.copy()
        for at in (20 + t, 76 - t):
            frame[(x - at) ** 2 + (y - 36 - 8 * (at > 48)) ** 2 < 11**2] = (230, 90, 40)
        frames.append(frame.astype(np.uint8))
    return frames


def tracked(video, **given):
    return [frame.masks for frame in video.propagate(**given)]


def same(a, b):
    return len(a) == len(b) and all(
        x.keys() == y.keys() and all(np.array_equal(x[k], y[k]) for k in x)
        for x, y in zip(a, b, strict=True)
    )


def started(model, rule, frames=None, **given):
    video = sam_rlx.VideoPredictor(
        model, clip() if frames is None else frames, memory_rule=rule, **given
    )
    return video.add_prompt(0, "disc", box=[9, 25, 31, 47])


@pytest.mark.parametrize("rule", RULES)
def test_sessions_follow_the_rule_object_by_object(model, rule):
    alone = tracked(started(model, rule))
    video = started(model, rule)
    video.add_prompt(0, "other", point_coords=[[76, 44]], point_labels=[1])
    both = tracked(video)
    assert same(alone, [{"disc": masks["disc"]} for masks in both])
    again = tracked(video)  # what was added is judged anew
    assert same(both, again)
    assert same(alone, tracked(started(model, rule, history=0)))
    assert same(alone, tracked(started(model, rule, history=None)))


@pytest.mark.parametrize("rule", RULES)
def test_pushed_frames_give_the_same(model, rule):
    expected = tracked(started(model, rule))
    video = sam_rlx.VideoPredictor(model, memory_rule=rule)
    frames = clip()
    video.push(frames[0])
    video.add_prompt(0, "disc", box=[9, 25, 31, 47])
    found = [video.push(frame).masks for frame in frames[1:]]
    assert same(expected[1:], found)


@pytest.mark.parametrize("rule", RULES)
def test_a_saved_session_goes_on_with_the_rule(model, rule, tmp_path):
    expected = tracked(started(model, rule))
    video = started(model, rule)
    tracked(video, max_frames=17)
    video.save(tmp_path / "half.safetensors")
    video = sam_rlx.VideoPredictor.load(tmp_path / "half.safetensors", model, clip())
    assert same(expected[17:], tracked(video, start_frame=17))


@pytest.mark.parametrize("rule", RULES)
def test_a_correction_begins_the_rule_anew(model, rule):
    video = started(model, rule)
    first = tracked(video)
    video.add_prompt(12, "disc", point_coords=[[32, 36]], point_labels=[1])
    shown = video.frame(12).masks["disc"]
    after = tracked(video, start_frame=12)
    assert np.array_equal(after[0]["disc"], shown)
    assert same(after, tracked(video, start_frame=12))
    whole = tracked(video)  # the correction stays, and earlier frames see it too, as upstream's
    assert np.array_equal(whole[12]["disc"], shown)
    assert same(whole, tracked(video))
    assert not same(first, whole)
    assert len(tracked(video, start_frame=12, reverse=True)) == 13
    video.clear_prompts(12, "disc")
    video.clear_prompts(0, "disc")
    with pytest.raises(sam_rlx.StateError, match="expected prompts for object 'disc'"):
        tracked(video)


def test_rules_differ_from_upstreams(model):
    ways = {rule: tracked(started(model, rule)) for rule in (None, *RULES)}
    assert not same(ways[None], ways["samurai"])
    assert not same(ways[None], ways["dam4sam"])


def test_unknown_rules_are_refused(model):
    with pytest.raises(
        sam_rlx.InvalidArgumentError,
        match="memory_rule: expected None, samurai or dam4sam, found 'sam2long'",
    ):
        sam_rlx.VideoPredictor(model, clip(2), memory_rule="sam2long")


@pytest.mark.parametrize("rule", RULES)
def test_models_with_another_memory_are_refused(rule):
    model = sam_rlx.load_model("sam3-nano")
    with pytest.raises(
        sam_rlx.UnsupportedError,
        match=f"memory_rule: expected None, .* is not SAM 2's, found {rule}",
    ):
        sam_rlx.VideoPredictor(model, clip(2), memory_rule=rule)


# ---------------------------------------------------------------- a trained model


def passing(count=26, hw=(180, 240)):
    """A disc that a square of nearly its colour passes, and the mask of the disc by frame."""
    random = np.random.default_rng(9)
    y, x = np.mgrid[: hw[0], : hw[1]]
    ground = random.integers(20, 60, (*hw, 3))
    frames, masks = [], []
    for t in range(count):
        own = (x - 60 - 3 * t) ** 2 + (y - 80) ** 2 < 18**2
        frame = ground.copy()
        frame[(abs(x - 200 + 4 * t) < 16) & (abs(y - 118) < 16)] = (200, 120, 50)
        frame[own] = (230, 200, 40)
        frames.append(frame.astype(np.uint8))
        masks.append(own)
    return frames, masks


def on_another(count=20, hw=(180, 240)):
    """A disc on a larger one, which other masks show too, and the mask of the disc by frame."""
    random = np.random.default_rng(9)
    y, x = np.mgrid[: hw[0], : hw[1]]
    ground = random.integers(20, 60, (*hw, 3))
    frames, masks = [], []
    for t in range(count):
        distance = (x - 60 - 3 * t) ** 2 + (y - 80) ** 2
        frame = ground.copy()
        frame[distance < 34**2] = (60, 150, 220)
        frame[distance < 16**2] = (230, 200, 40)
        frames.append(frame.astype(np.uint8))
        masks.append(distance < 16**2)
    return frames, masks


def iou(a, b):
    return (a & b).sum() / (a | b).sum()


@pytest.mark.parametrize("rule", [pytest.param(None, marks=pytest.mark.slow), *RULES])
def test_a_trained_model_stays_with_its_object(rule):
    frames, masks = passing()
    video = sam_rlx.VideoPredictor(sam_rlx.load_model("sam2-nano"), frames, memory_rule=rule)
    video.add_prompt(0, "disc", box=[42, 62, 78, 98])
    for result, mask in zip(video.propagate(), masks, strict=True):
        assert iou(result.masks["disc"], mask) > 0.9, result.frame_index


def added(video, path):
    """Return the frames that a rule added, as a saved session knows them."""
    video.save(path)
    arrays = load_file(path)
    return arrays["0.cond.frames"][arrays["0.cond.is_added"] == 1].tolist()


def test_frames_that_a_rule_adds(tmp_path):
    """They condition later frames, are judged again, and outlive the history and the session."""
    model = sam_rlx.load_model("sam2-nano")
    frames, masks = on_another()

    def start(**given):
        video = sam_rlx.VideoPredictor(model, frames, memory_rule="dam4sam", **given)
        return video.add_prompt(0, "disc", box=[44, 64, 76, 96])

    video = start()
    found = tracked(video)
    assert all(iou(a["disc"], b) > 0.9 for a, b in zip(found, masks, strict=True))
    (frame,) = added(video, tmp_path / "all.safetensors")
    assert 1 < frame < len(frames) - 2
    assert same(found, tracked(video))
    assert added(video, tmp_path / "again.safetensors") == [frame]
    assert same(found, tracked(start(history=0)))

    half = start()
    tracked(half, max_frames=frame + 1)
    assert added(half, tmp_path / "half.safetensors") == [frame]
    half = sam_rlx.VideoPredictor.load(tmp_path / "half.safetensors", model, frames)
    assert same(found[frame + 1 :], tracked(half, start_frame=frame + 1))

    video.add_prompt(frame, "disc", box=[44 + 3 * frame, 64, 76 + 3 * frame, 96])
    tracked(video)
    assert frame not in added(video, tmp_path / "prompted.safetensors")
    for index in (frame, 0):
        video.clear_prompts(index, "disc")
    with pytest.raises(sam_rlx.StateError, match="expected prompts for object 'disc'"):
        tracked(video)
