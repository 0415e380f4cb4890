"""Which tracked frames SAM 3 remembers: against upstream's own functions."""

from types import SimpleNamespace

import numpy as np
import pytest

upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

Tracker = upstream_sam3.sam3.Sam3TrackerPredictor


def test_the_score_of_a_frame(testing):
    random = np.random.default_rng(0)
    for count in (1, 2, 5):
        logits = random.normal(0, 3, count).astype(np.float32)
        ious = random.random(count).astype(np.float32)
        right = Tracker.cal_mem_score(None, torch.tensor(logits)[:, None], torch.tensor(ious))
        assert testing.cal_mem_score(logits, ious) == pytest.approx(float(right), abs=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_frames_that_are_chosen(testing, reverse):
    tracker = SimpleNamespace(max_obj_ptrs_in_encoder=16, mf_threshold=0.01)
    lengths = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        count = int(random.integers(1, 50))
        frame = int(random.integers(0, count))
        tracked = np.flatnonzero(random.random(count) < random.choice([0.3, 0.9])).tolist()
        scores = random.choice([-1.0, 0.005, 0.3, 0.9], len(tracked)).tolist()
        outputs = {
            t: {} if score < 0 else {"eff_iou_score": score}
            for t, score in zip(tracked, scores, strict=True)
        }
        right = Tracker.frame_filter(
            tracker, {"non_cond_frame_outputs": outputs}, reverse, frame, count, 1
        )
        assert testing.frame_filter(frame, count, reverse, tracked, scores) == right
        lengths.add(len(right))
    assert {0, 1, 15, 16} & lengths
    assert max(lengths) >= 15
