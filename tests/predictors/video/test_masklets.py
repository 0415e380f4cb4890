"""Rules of following what a text names: against plain NumPy and upstream's own functions."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

THREADS = (1, 2, 3)
HOT_START = {
    "hotstart_delay": 5,
    "hotstart_unmatch_thresh": 3,
    "hotstart_dup_thresh": 2,
    "suppress_unmatched_only_within_hotstart": False,
    "init_trk_keep_alive": 2,
}


def blobs(count, seed, hw=(29, 41)):
    """Logits (K, H, W) of discs, some of them nearly equal, one of them empty."""
    random = np.random.default_rng([seed, count])
    y, x = np.mgrid[: hw[0], : hw[1]]
    edge = np.minimum(4, np.array(hw) / 2)
    centres = random.uniform(edge, hw - edge, (count, 2))
    near = random.random(count) < 0.5
    centres[near] = centres[0] + random.normal(0, 1.2, (int(near.sum()), 2))
    radii = random.uniform(2, 9, count)
    masks = np.stack(
        [r - np.hypot(y - cy, x - cx) for (cy, cx), r in zip(centres, radii, strict=True)]
    )
    masks += random.normal(0, 0.3, masks.shape)
    if count > 2:
        masks[2] = -1 - abs(masks[2])
    return masks.astype(np.float32)


def numpy_iou(a, b):
    a, b = (m.reshape(len(m), a[0].size if len(a) else b[0].size) > 0 for m in (a, b))
    shared = (a[:, None] & b[None]).sum(-1).astype(np.float32)
    either = (a[:, None] | b[None]).sum(-1).astype(np.float32)
    return shared / np.maximum(either, 1)


@pytest.mark.parametrize("counts", [(1, 1), (5, 3), (0, 4), (4, 0)])
@pytest.mark.parametrize("hw", [(29, 41), (8, 8), (1, 3)])
def test_iou(testing, counts, hw):
    a, b = (blobs(max(n, 1), 7 + i, hw)[:n] for i, n in enumerate(counts))
    expected = numpy_iou(a, b)
    for threads in THREADS:
        assert np.array_equal(testing.mask_iou(a, b, threads), expected)


def test_masks_of_different_sizes_have_no_iou(testing):
    with pytest.raises(ValueError, match="mask_iou: expected masks of one size"):
        testing.mask_iou(blobs(2, 0, (8, 8)), blobs(2, 0, (16, 16)))


def numpy_nms(probs, masks, prob, iou):
    ious, kept = numpy_iou(masks, masks), []
    for i in sorted(np.flatnonzero(probs > prob), key=lambda i: -probs[i]):
        if all(ious[j, i] <= np.float32(iou) for j in kept):
            kept.append(i)
    return sorted(kept)


@pytest.mark.parametrize("seed", range(6))
def test_nms(testing, seed):
    masks = blobs(12, seed)
    probs = np.random.default_rng(seed).random(12).astype(np.float32)
    expected = numpy_nms(probs, masks, 0.3, 0.1)
    assert 0 < len(expected) < (probs > 0.3).sum()
    for threads in THREADS:
        assert testing.nms_masks(probs, masks, 0.3, 0.1, threads) == expected


def test_nms_takes_the_first_of_equal_ones(testing):
    masks = np.repeat(blobs(1, 0), 3, axis=0)
    assert testing.nms_masks([0.7, 0.9, 0.9], masks, 0.5, 0.1) == [1]
    assert testing.nms_masks([0.5, 0.4, 0.3], masks, 0.5, 0.1) == []


def test_the_object_limit(testing):
    scores = [0.7, 0.9, 0.8, 0.95, 0.75]
    assert testing.limit_new_detections([0, 2, 3, 4], scores, 4) == [0, 2, 3, 4]
    assert testing.limit_new_detections([0, 2, 3, 4], scores, 2) == [3, 2]
    assert testing.limit_new_detections([0, 2, 3, 4], scores, 0) == []


def test_objects_keep_what_the_best_score_leaves(testing):
    masks = np.random.default_rng(0).random((4, 19, 7)) < 0.6
    scores = np.array([0.4, 0.9, 0.0, 0.9], np.float32)
    expected = masks.copy()
    for k in range(4):
        for other in range(4):
            wins = scores[other] > scores[k] or (scores[other] == scores[k] and other < k)
            expected[k] &= ~(masks[other] & wins)
    expected[2] = False
    for threads in THREADS:
        assert np.array_equal(testing.keep_best_masklets(masks, scores, threads), expected)


# ---------------------------------------------------------------- upstream's own functions


@pytest.fixture
def sam3():
    pytest.importorskip("support.upstream_sam3", reason="needs sam3")
    from support import upstream_sam3

    return upstream_sam3.sam3


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="needs the reference packages")


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(4))
def test_nms_is_upstreams(testing, sam3, torch, seed):
    masks = blobs(12, seed)
    probs = np.random.default_rng(seed).random(12).astype(np.float32)
    keep = sam3.nms.nms_masks(torch.from_numpy(probs), torch.from_numpy(masks), 0.3, 0.1)
    assert testing.nms_masks(probs, masks, 0.3, 0.1) == np.flatnonzero(keep).tolist()


def association_of_upstream(sam3, torch, detections, scores, masklets, obj_ids):
    video = SimpleNamespace(
        assoc_iou_thresh=0.1,
        trk_assoc_iou_thresh=0.5,
        new_det_thresh=0.7,
        o2o_matching_masklets_enable=False,
    )
    new, unmatched, matched, confident, empty = sam3.Sam3VideoBase._associate_det_trk(
        video, torch.from_numpy(detections), scores, torch.from_numpy(masklets), obj_ids
    )
    return {
        "new_detections": new.tolist(),
        "unmatched": unmatched.tolist(),
        "empty": empty.tolist(),
        "matched": [matched[d].tolist() for d in sorted(matched)],
        "confident": {int(k): int(v) for k, v in confident.items()},
    }


@pytest.mark.parity
@pytest.mark.parametrize("hw", [(29, 41), (15, 20), (58, 82)])
@pytest.mark.parametrize("counts", [(9, 6), (0, 5), (5, 0), (1, 1)])
def test_association_is_upstreams(testing, sam3, torch, counts, hw):
    seen = set()
    for seed in range(8):
        random = np.random.default_rng(seed)
        detections = blobs(max(counts[0], 1), seed)[: counts[0]]
        scores = random.uniform(0.5, 1, counts[0]).astype(np.float32)
        masklets = blobs(max(counts[1], 1), seed, hw)[: counts[1]]
        if hw == (29, 41) and min(counts) > 1:
            masklets[3:5] = detections[3:5]
        obj_ids = np.sort(random.permutation(40)[: counts[1]])
        right = association_of_upstream(sam3, torch, detections, scores, masklets, obj_ids)
        for threads in THREADS:
            found = testing.associate_det_trk(detections, scores, masklets, obj_ids, threads)
            assert found == right
        seen.update(name for name, value in right.items() if value)
    if min(counts) > 1 and hw == (29, 41):
        assert seen == {"new_detections", "unmatched", "empty", "matched", "confident"}


RELEASED = {
    "max_trk_keep_alive": 30,
    "min_trk_keep_alive": -1,
    "decrease_trk_keep_alive_for_empty_masklets": False,
}
NARROW = {
    "max_trk_keep_alive": 3,
    "min_trk_keep_alive": 0,
    "decrease_trk_keep_alive_for_empty_masklets": True,
}


def hot_start_of_upstream(sam3, options):
    """Upstream's rule as a function of a frame, with its own metadata."""
    video = SimpleNamespace(rank=0, **options)
    metadata = {
        "obj_first_frame_idx": {},
        "unmatched_frame_inds": defaultdict(list),
        "trk_keep_alive": defaultdict(int),
        "overlap_pair_to_frame_inds": defaultdict(list),
        "removed_obj_ids": set(),
        "suppressed_obj_ids": defaultdict(set),
    }

    def process(frame_idx, reverse, association, new_obj_ids):
        removed, _ = sam3.Sam3VideoBase._process_hotstart(
            video,
            frame_idx=frame_idx,
            num_frames=100,
            reverse=reverse,
            det_to_matched_trk_obj_ids=dict(enumerate(association["matched"])),
            new_det_obj_ids=new_obj_ids,
            empty_trk_obj_ids=association["empty"],
            unmatched_trk_obj_ids=association["unmatched"],
            rank0_metadata=metadata,
            tracker_metadata=None,
        )
        return removed, metadata["suppressed_obj_ids"][frame_idx]

    return process, metadata["trk_keep_alive"]


@pytest.mark.parity
@pytest.mark.parametrize("limits", [RELEASED, NARROW], ids=["released", "narrow"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_hot_start_is_upstreams(testing, sam3, reverse, seed, limits):
    random = np.random.default_rng(seed)
    options = {**HOT_START, **limits}
    ours, (right, keep_alive) = testing.HotStart(options), hot_start_of_upstream(sam3, options)
    alive, born, removed, suppressed = [], 0, set(), set()
    for step in range(24):
        frame = 30 - step if reverse else step
        kinds = random.choice(["matched", "unmatched", "empty"], len(alive), p=[0.5, 0.4, 0.1])
        association = {k: [o for o, x in zip(alive, kinds, strict=True) if x == k] for k in kinds}
        association = {"unmatched": [], "empty": [], "matched": [], **association}
        pairs = random.permutation(association["matched"]).tolist()
        association["matched"] = [sorted(pairs[i : i + 2]) for i in range(0, len(pairs), 2)]
        new = list(range(born, born + int(random.integers(0, 3))))
        born += len(new)
        found = ours.process(frame, reverse, association, new)
        expected = right(frame, reverse, association, new)
        assert found == expected
        alive = [o for o in alive + new if o not in found[0]]
        counts = [ours.keep_alive(o) for o in alive]
        assert counts == [keep_alive[o] for o in alive]
        assert all(count <= limits["max_trk_keep_alive"] for count in counts)
        removed |= found[0]
        suppressed |= found[1]
    assert removed
    assert suppressed


@pytest.mark.parity
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_suppression_of_what_was_occluded_is_upstreams(testing, sam3, torch, reverse, seed):
    random = np.random.default_rng(seed)
    masks, obj_ids = blobs(8, seed), np.arange(10, 18)
    masks[5:] = masks[1]
    before = {int(o): int(random.integers(-1, 9)) for o in obj_ids[:6]}
    removed = {16}
    video = SimpleNamespace(
        suppress_overlapping_based_on_recent_occlusion_threshold=0.7,
        rank=0,
    )
    rule = sam3.Sam3VideoBase._get_objects_to_suppress_based_on_most_recently_occluded
    video._get_objects_to_suppress_based_on_most_recently_occluded = rule.__get__(video)
    previous = {
        "obj_ids_all_gpu": obj_ids,
        "obj_id_to_last_occluded": {o: torch.tensor([t]) for o, t in before.items()},
    }
    after = {}
    expected = sam3.Sam3VideoBase._suppress_overlapping_based_on_recent_occlusion(
        video, 9, torch.from_numpy(masks.copy()), previous, after, removed, reverse
    ).numpy()
    right = {int(o): int(t) for o, t in after["obj_id_to_last_occluded"].items()}
    assert not np.array_equal(expected, masks)
    for threads in THREADS:
        found, occluded = testing.suppress_recently_occluded(
            masks, obj_ids, removed, before, 9, reverse, threads
        )
        assert np.array_equal(found, expected)
        assert occluded == right


@pytest.mark.parity
@pytest.mark.parametrize("count", [1, 2, 7])
def test_suppression_of_what_shrinks_is_upstreams(testing, sam3, torch, count):
    tracker = sam3.Sam3TrackerPredictor.__new__(sam3.Sam3TrackerPredictor)
    changed = 0
    for seed in range(6):
        masks = blobs(count, seed)
        rule = tracker._suppress_object_pw_area_shrinkage
        expected = rule(torch.from_numpy(masks)[:, None])[:, 0].numpy()
        for threads in THREADS:
            assert np.array_equal(testing.suppress_shrunk_masks(masks, threads), expected)
        changed += not np.array_equal(expected, masks)
    assert changed or count == 1


@pytest.mark.parity
def test_objects_that_do_not_overlap_are_upstreams(testing, sam3, torch):
    tracker = sam3.Sam3TrackerPredictor.__new__(sam3.Sam3TrackerPredictor)
    masks = blobs(6, 0)
    scores = np.array([0.4, 0.9, 0.3, 0.0, 0.9, 0.7], np.float32)
    rule = tracker._apply_object_wise_non_overlapping_constraints
    right = rule(torch.from_numpy(masks)[:, None], torch.from_numpy(scores)[:, None])
    found = testing.keep_best_masklets(masks > 0, scores)
    assert np.array_equal(found, right[:, 0].numpy() > 0)


@pytest.mark.parity
@pytest.mark.parametrize("area", [0, 3, 16, 10_000])
def test_small_components_are_upstreams(testing, torch, area):
    pytest.importorskip("support.upstream_sam3_video", reason="needs sam3")
    from support import upstream_sam3, upstream_sam3_video

    for seed in range(4):
        noise = np.random.default_rng(seed).normal(0.3 - 0.2 * seed, 1, (33, 27))
        logits = noise.astype(np.float32)
        fill = upstream_sam3.sam3.tracker_utils.fill_holes_in_mask_scores
        with upstream_sam3_video.stand_ins():
            expected = fill(torch.from_numpy(logits)[None, None], area)[0, 0].numpy()
        assert np.array_equal(testing.remove_small_components(logits, area), expected)


# ---------------------------------------------------------------- transformers' own functions


@pytest.fixture
def several_texts(torch):
    """The class whose rules are those of several texts, and of streams."""
    return pytest.importorskip("transformers", exc_type=ImportError).Sam3VideoModel


def association_of_transformers(
    model, torch, detections, scores, texts, masklets, obj_ids, obj_texts
):
    config = SimpleNamespace(
        assoc_iou_thresh=0.1,
        trk_assoc_iou_thresh=0.5,
        new_det_thresh=0.7,
        high_conf_thresh=0.8,
        high_iou_thresh=0.8,
    )
    new, unmatched, matched, confident, empty = model._associate_det_trk(
        config,
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


@pytest.mark.parity
@pytest.mark.parametrize("counts", [(9, 6), (0, 5), (5, 0)])
def test_objects_of_another_text_have_nothing_in_common_with_a_finding(
    testing, several_texts, torch, counts
):
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
        right = association_of_transformers(
            several_texts, torch, detections, scores, texts, masklets, obj_ids, obj_texts
        )
        arguments = (detections, scores, masklets, obj_ids, 2)
        assert testing.associate_det_trk(*arguments, texts, obj_texts) == right
        differs += testing.associate_det_trk(*arguments) != right
    assert bool(differs) == (min(counts) > 0)


@pytest.mark.parity
@pytest.mark.parametrize("reverse", [False, True])
def test_a_stream_counts_and_removes_nothing(testing, several_texts, reverse):
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
        removed, metadata = several_texts._process_hotstart(
            model, None, frame, reverse, dict(enumerate(pairs)), new, [], unmatched, metadata,
            streaming=streaming,
        )  # fmt: skip
        association = {"matched": pairs, "unmatched": unmatched, "empty": []}
        mine = ours.process(frame, reverse, association, new, streaming)
        assert mine == (removed, metadata["suppressed_obj_ids"][frame])
        found.append(mine)
    assert found[:4] == [(set(), set())] * 4
    assert found[4][0] == {1, 2, 3}
