"""Sessions of HQ-SAM 2 beside upstream's sessions over its decoder, call by call."""

import pytest
import sam_rlx
from support import tiny_sam2, tiny_sam_hq, video_scripts
from support.cases import quick
from support.video_scripts import ALL, CLICK, HW

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_video = pytest.importorskip("support.upstream_video")
hq_sam2 = pytest.importorskip("support.upstream_hq_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

TINY = tiny_sam2.TINY
KEEP = {"add_all_frames_to_correct_as_cond": True}
ALONE = [
    CLICK,
    ALL,
    ("points", 3, "disc", [[28, 28], [90, 60]], [1, 0]),
    ("track", {"start_frame": 1}),
    ("track", {"start_frame": 4, "reverse": True}),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Give the model and the weights of a seed."""
    folder = tmp_path_factory.mktemp("hq_sam2")
    made = {}

    def model(seed):
        if seed not in made:
            weights = tiny_sam_hq.sam2_weights(TINY, seed)
            # Objects are mostly there.
            weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += 1
            path = tiny_sam2.save_safetensors(folder / f"{seed}.safetensors", TINY, weights)
            made[seed] = sam_rlx.load_model(path), weights
        return made[seed]

    return model


def check(parity, models, decoder, steps, *, frames=5, seed=0):
    model, weights = models(seed)
    upstream.sam2.video_predictor.fill_holes_in_mask_scores = upstream_video.fill_holes
    predictor = hq_sam2.build(
        decoder, TINY, weights, kind=upstream_video.video_predictor, fill_hole_area=8, **KEEP
    )
    frames = upstream_video.clip(frames, HW, seed)
    upstream_video.check(parity, model, predictor, frames, steps)


@pytest.mark.parametrize("name", quick(video_scripts.SCRIPTS, 0, 5, -2))
def test_scripts(parity, models, name):
    if hq_sam2.PUBLIC is not None:
        pytest.skip("the public code's predictor is SAM 2's older one, whose objects are one batch")
    check(parity, models, hq_sam2.MaskDecoderHQ, video_scripts.SCRIPTS[name], frames=8)


@pytest.mark.parametrize("kind", ["facts", "public code"])
def test_one_object(parity, models, kind):
    decoder = hq_sam2.MaskDecoderHQ if kind == "facts" else hq_sam2.PUBLIC
    if decoder is None:
        pytest.skip("needs SysCV/sam-hq's sam-hq2 before sam2 on the path")
    check(parity, models, decoder, ALONE, seed=3)
