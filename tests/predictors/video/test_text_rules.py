"""Rules of following several texts at once, and in streams: transformers' own functions."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

import torch  # noqa: E402
from test_masklets import HOT_START, blobs  # noqa: E402
from transformers import Sam3VideoModel  # noqa: E402


def associated(detections, scores, texts, masklets, obj_ids, obj_texts):
    model = SimpleNamespace(
        assoc_iou_thresh=0.1,
        trk_assoc_iou_thresh=0.5,
        new_det_thresh=0.7,
        high_conf_thresh=0.8,
        high_iou_thresh=0.8,
    )
    new, unmatched, matched, confident, empty = Sam3VideoModel._associate_det_trk(
        model,
        torch.from_numpy(detections),
        torch.from_numpy(scores),
        torch.from_numpy(masklets),
        obj_ids,
        torch.tensor(texts, dtype=torch.long),
        torch.tensor(obj_texts, dtype=torch.long),
    )
    return {
        "new_detections": new,
        "unmatched": unmatched,
        "empty": empty,
        "matched": [matched[index] for index in sorted(matched)],
        "confident": confident,
    }


@pytest.mark.parametrize("counts", [(9, 6), (0, 5), (5, 0)])
def test_objects_of_another_text_have_nothing_in_common_with_a_finding(testing, counts):
    differs = 0
    for seed in range(8):
        random = np.random.default_rng(seed)
        detections = blobs(max(counts[0], 1), seed)[: counts[0]]
        masklets = blobs(max(counts[1], 1), seed + 50)[: counts[1]]
        if min(counts):
            masklets[3:6] = detections[3:6]
        scores = random.uniform(0.5, 1, counts[0]).astype(np.float32)
        texts, obj_texts = (random.integers(0, 3, count).tolist() for count in counts)
        obj_ids = np.sort(random.permutation(40)[: counts[1]]).tolist()
        right = associated(detections, scores, texts, masklets, obj_ids, obj_texts)
        arguments = (detections, scores, masklets, obj_ids, 2)
        assert testing.associate_det_trk(*arguments, texts, obj_texts) == right
        differs += testing.associate_det_trk(*arguments) != right
    assert bool(differs) == (min(counts) > 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stream_counts_and_removes_nothing(testing, reverse):
    """And what it has counted is there for a run through what came."""
    names = ("hotstart_delay", "hotstart_unmatch_thresh", "hotstart_dup_thresh")
    model = SimpleNamespace(
        **{name: HOT_START[name] for name in names},
        suppress_unmatched_only_within_hotstart=False,
        init_trk_keep_alive=2,
        max_trk_keep_alive=30,
        min_trk_keep_alive=-1,
        decrease_trk_keep_alive_for_empty_masklets=False,
    )
    metadata = {
        "obj_first_frame_idx": {},
        "unmatched_frame_inds": defaultdict(list),
        "trk_keep_alive": {},
        "overlap_pair_to_frame_inds": defaultdict(list),
        "removed_obj_ids": set(),
        "suppressed_obj_ids": defaultdict(set),
    }
    ours, random, found = testing.HotStart(HOT_START), np.random.default_rng(1), []
    for step in range(5):
        frame, streaming = (30 - step if reverse else step), step < 4
        new = [0, 1, 2, 3] if step == 0 else []
        pairs = [] if step == 0 else [random.permutation([0, 1]).tolist()]
        unmatched = [] if step == 0 else [2, 3]
        removed, metadata = Sam3VideoModel._process_hotstart(
            model, None, frame, reverse, dict(enumerate(pairs)), new, [], unmatched, metadata,
            streaming=streaming,
        )  # fmt: skip
        association = {"matched": pairs, "unmatched": unmatched, "empty": []}
        mine = ours.process(frame, reverse, association, new, streaming)
        assert mine == (removed, metadata["suppressed_obj_ids"][frame])
        found.append(mine)
    assert found[:4] == [(set(), set())] * 4
    assert found[4][0] == {1, 2, 3}
