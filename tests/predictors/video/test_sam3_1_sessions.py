"""Sessions of SAM 3.1, whose objects share buckets, beside a reference in float64."""

import numpy as np
import pytest
import sam_rlx
from support import cases
from support.cases import quick
from support.video_scripts import ALL, BACK, CLICK, HW, MASK

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
sessions = pytest.importorskip("support.multiplex_sessions", reason="needs sam3")
upstream_video = pytest.importorskip("support.upstream_video")
pytestmark = pytest.mark.parity


def build(folder, seed=0, **options):
    model, values = sessions.weights(seed, **options)
    path = sessions.save(folder / "tiny.safetensors", values)
    return sam_rlx.load_model(path), sessions.Network(model, values)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return build(tmp_path_factory.mktemp("sam3_1"))


def discs(count):
    """Boxes of many objects on the first frame."""
    rng = np.random.default_rng(count)
    corners = rng.uniform((0, 0), (HW[1] - 26, HW[0] - 22), (count, 2)).round(1)
    sides = rng.uniform(12, 24, (count, 2)).round(1)
    return [
        ("box", 0, i, [x, y, x + w, y + h])
        for i, ((x, y), (w, h)) in enumerate(zip(corners, sides, strict=True))
    ]


SCRIPTS = {
    "one click": [CLICK, ALL],
    "mask": [("mask", 0, 1, MASK), ALL],
    "empty mask": [("mask", 0, 1, np.zeros(HW, np.bool_)), ALL],
    "box, then clicks": [
        ("box", 0, 7, [10, 15, 32, 42]),
        ("points", 0, 7, [[22, 30]], [1], False),
        ALL,
    ],
    "two masks that overlap": [
        ("mask", 0, 5, MASK),
        ("mask", 0, 6, np.roll(MASK, 9, 1)),
        ALL,
    ],
    "objects of several frames": [CLICK, ("box", 3, 2, [60, 30, 84, 62]), ALL],
    "an object that comes later": [CLICK, ALL, ("mask", 4, 9, MASK), ALL],
    "backwards": [("points", 5, "disc", [[32, 28]], [1]), BACK],
    "a corrected object": [
        CLICK,
        ("mask", 0, 5, MASK),
        ALL,
        ("points", 4, "disc", [[30, 30]], [1]),
        ("points", 4, "disc", [[70, 60]], [0], False),
        ALL,
    ],
    "a removed object": [
        *discs(4),
        ("track", {"start_frame": 0, "max_frames": 4}),
        ("remove", 1),
        ("track", {"start_frame": 4}),
    ],
}


@pytest.mark.parametrize("script", quick(list(SCRIPTS), *range(len(SCRIPTS))))
def test_session(parity, models, script):
    frames = upstream_video.clip(8, HW)
    sessions.check(parity, *models, frames, SCRIPTS[script])


@pytest.mark.parametrize("count", [1, 5, 20])
def test_many_objects(parity, models, count):
    """With a removed object and a correction; 20 objects are two buckets."""
    steps = [*discs(count), ("track", {"start_frame": 0, "max_frames": 5})]
    if count > 1:
        steps += [("remove", count - 2)]
    steps += [("points", 4, 0, [[30, 30]], [1]), ("track", {"start_frame": 4})]
    frames = upstream_video.clip(30 if cases.full else 10, HW)
    sessions.check(parity, *models, frames, steps)


# ---------------------------------------------------------------- texts, files


TEXT_OPTIONS = {"score_threshold_detection": 0.02, "new_det_thresh": 0.02, "hotstart_delay": 0}


@pytest.fixture(scope="module")
def finding(tmp_path_factory):
    """A model that finds something of a text on the clip."""
    return build(tmp_path_factory.mktemp("texts"), seed=5)[0]


def begun(model, frames, kind, threads=1):
    """A session before its first propagation: with objects of two buckets, or a text."""
    options = {"text_options": TEXT_OPTIONS} if kind == "text" else {}
    session = sam_rlx.VideoPredictor(model, frames, num_threads=threads, **options)
    if kind == "text":
        return session.add_text("yellow school bus")
    for _, frame, name, box in discs(18):
        session.add_prompt(frame, name, box=box)
    return session


def shown(session, **options):
    """Frames, with the bits of their masks, and scores."""
    return [
        (frame.frame_index, {k: m.tobytes() for k, m in frame.masks.items()}, frame.scores)
        for frame in session.propagate(**options)
    ]


@pytest.mark.parametrize(("kind", "count"), [("text", 2), ("boxes", 18)])
def test_threads_change_no_bit(finding, kind, count):
    frames = upstream_video.clip(6, HW)
    found = shown(begun(finding, frames, kind))
    assert len(found[-1][1]) == count
    assert shown(begun(finding, frames, kind, 2)) == found


def test_a_session_goes_on_from_a_file(finding, tmp_path):
    frames = upstream_video.clip(6, HW)
    session = begun(finding, frames, "boxes")
    first = shown(session, max_frames=3)
    session.save(tmp_path / "session.safetensors")
    again = sam_rlx.VideoPredictor.load(tmp_path / "session.safetensors", finding, frames)
    assert first + shown(again, start_frame=3) == shown(begun(finding, frames, "boxes"))
