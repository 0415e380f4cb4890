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
