"""Sessions of EdgeTAM beside upstream's network, call by call.

The rules of sessions are those of SAM 2's newer predictor, whose objects are alone, as in
transformers' `EdgeTamVideoModel`. EdgeTAM's own predictor is the older one, whose objects are one
batch; its network takes a batch of one.
"""

import pytest
import sam_rlx
from safetensors.numpy import save_file
from support import tiny_edgetam, video_scripts
from support.cases import quick
from support.parity import last_bits
from support.video_scripts import ALL, CLICK, HW, MASK

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_video = pytest.importorskip("support.upstream_video")
edgetam = pytest.importorskip(
    "support.upstream_edgetam", reason="needs edgetam-dimos before sam2 on the path"
)
pytestmark = pytest.mark.parity

TINY = tiny_edgetam.TINY


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Give the model and the weights of a seed."""
    folder = tmp_path_factory.mktemp("edgetam")
    made = {}

    def model(seed):
        if seed not in made:
            weights = tiny_edgetam.weights(TINY, seed, presence=1)  # objects are mostly there
            save_file(weights, folder / f"{seed}.safetensors")
            path = folder / f"{seed}.safetensors"
            made[seed] = sam_rlx.load_model(path, image_size=TINY.image_size), weights
        return made[seed]

    return model


def check(parity, models, steps, *, frames=8, seed=0, legacy=False, nudges=0, **switches):
    """Hold every mask of a script to upstream.

    Errors grow from frame to frame: of a long clip, how wrong upstream's float32 is tells the worst
    of several runs, whose weights differ in their last bit.
    """
    model, weights = models(seed)
    frames = upstream_video.clip(frames, HW, seed)
    session = upstream_video.play_upstream(steps)
    with edgetam.sessions(legacy=legacy) as kind:
        predictor = edgetam.build(TINY, weights, kind, fill_hole_area=8, **switches)
        single = upstream_video.run(predictor, frames, session)
        exact = edgetam.run64(predictor, TINY, frames, session)
        more = []
        for nudge in range(nudges):
            moved = {name: last_bits(value, nudge) for name, value in weights.items()}
            upstream.load_state_dict(predictor, moved)
            more.append(upstream_video.run(predictor, frames, session))
    ours = sam_rlx.VideoPredictor(model, frames, history=None, resize="float")
    return upstream_video.hold(parity, upstream_video.play_ours(ours, steps), exact, single, more)


KEEP = {"add_all_frames_to_correct_as_cond": True}
SCRIPTS = {
    **video_scripts.SCRIPTS,
    "object added after tracking": [
        CLICK,
        ("track", {"max_frames": 4}),
        ("box", 3, "late", [60, 30, 84, 62]),
        ("track", {"start_frame": 3}),
    ],
    "correction on a tracked frame": [
        CLICK,
        ALL,
        ("points", 4, "disc", [[30, 28]], [1]),
        ("track", {"start_frame": 2}),
    ],
}


@pytest.mark.parametrize("name", quick(SCRIPTS, 0, 5, -2))
def test_scripts(parity, models, name):
    check(parity, models, SCRIPTS[name], **KEEP)


LONG = [
    CLICK,
    ("mask", 0, 2, MASK),
    ("track", {"max_frames": 20}),
    ("points", 12, "disc", [[50, 28]], [1]),
    ("points", 12, 2, [[66, 40], [8, 8]], [1, 0]),
    ("track", {"start_frame": 8}),
    ("track", {"start_frame": 25, "reverse": True}),
]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_thirty_frames(parity, models, seed):
    """Two objects, corrections of both, and backwards."""
    check(parity, models, LONG, frames=30, seed=seed, nudges=4, **KEEP)


ALONE = [
    CLICK,
    ALL,
    ("points", 3, "disc", [[28, 28], [90, 60]], [1, 0]),
    ("track", {"start_frame": 1}),
    ("track", {"start_frame": 4, "reverse": True}),
]


def test_edgetams_own_predictor(parity, models):
    check(parity, models, ALONE, frames=5, seed=3, legacy=True, **KEEP)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [4, 5])
def test_thirty_frames_of_edgetams_own_predictor(parity, models, seed):
    check(parity, models, ALONE, frames=30, seed=seed, legacy=True, nudges=4, **KEEP)
