"""Prompts of SAM 2's video predictor beside upstream: what it takes, what it refuses, and when."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam2.build_sam import build_sam2_video_predictor

torch = pytest.importorskip("torch", reason="needs PyTorch and sam2")
from support import judged_video, tiny_sam2, upstream_video  # noqa: E402

pytestmark = pytest.mark.parity
HW, COUNT = (72, 96), 5
CLICK = {"points": [[22, 30]], "labels": [1]}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> judged_video.Judged:
    folder = tmp_path_factory.mktemp("frames")
    for t, frame in enumerate(upstream_video.clip(COUNT, HW)):
        Image.fromarray(frame).save(folder / f"{t}.jpg", quality=95)
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0)
    weights["sam_mask_decoder.pred_obj_score_head.layers.2.bias"] += np.float32(1.0)
    path: Path = tiny_sam2.save_safetensors(folder / "tiny.safetensors", tiny_sam2.TINY, weights)
    ours = build_sam2_video_predictor(None, path)
    return judged_video.Judged(upstream_video.build(weights), ours, str(folder))


@pytest.fixture
def judged(sessions: judged_video.Judged) -> judged_video.Judged:
    """Sessions without objects."""
    sessions.call(lambda predictor, state: predictor.reset_state(state))
    return sessions


@pytest.fixture
def pair(judged: judged_video.Judged) -> list[tuple[Any, Any]]:
    """Upstream's predictor and ours, each with a session on the same folder."""
    return judged.both


ROOM, ONE = np.zeros((0, 2), np.float32), np.array([[22.0, 30.0]])
TAKEN: dict[str, dict[str, Any]] = {
    "a point": {"points": ONE, "labels": [1]},
    "a batch of one": {"points": ONE[None], "labels": [[1]]},
    "a batch of points alone": {"points": ONE[None], "labels": [1]},
    "no points": {"points": ROOM, "labels": []},
    "a batch without points": {"points": ROOM[None], "labels": np.zeros((1, 0))},
    "no points beside a box": {"points": ROOM, "labels": [], "box": [8, 9, 50, 60]},
    "empty lists beside a box": {"points": [], "labels": [], "box": [8, 9, 50, 60]},
    "a point beside a box": {"points": ONE, "labels": [0], "box": np.array([[8, 9, 50, 60]])},
    "corners as a box": {"box": [[8, 9], [50, 60]]},
    "corners as points": {"points": [[8, 9], [50, 60]], "labels": [2, 3]},
    "padding": {"points": [[8, 9], [50, 60]], "labels": [1, -1]},
    "labels that mean nothing": {"points": [[8, 9], [50, 60], [30, 30]], "labels": [1, 4, -7]},
    "fractions of labels": {"points": [[8, 9], [50, 60]], "labels": [1.9, -0.5]},
    "a tensor's fractions": {
        "points": torch.tensor([[8.0, 9.0], [50.0, 60.0]]),
        "labels": torch.tensor([1.0, 0.5]),
    },
    "truth values": {"points": torch.tensor([[8, 9], [50, 60]]), "labels": [True, False]},
    "points outside": {"points": [[-30, 500], [22, 30]], "labels": [1, 1]},
    "a box inside out": {"box": [50, 60, 8, 9]},
    "fractions of sides": {"points": [[0.2, 0.4]], "labels": [1], "normalize_coords": False},
}
# "a point beside no label": upstream takes it for padding; ours refuses what has fewer labels.
REFUSED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "points alone": {"points": ONE},
    "labels alone": {"labels": [1]},
    "empty lists": {"points": [], "labels": []},
    "empty lists as fractions": {"points": [], "labels": [], "normalize_coords": False},
    "one pair of numbers": {"points": [22, 30], "labels": [1]},
    "three coordinates": {"points": [[1, 2, 3]], "labels": [1]},
    "two batches": {"points": [[[1, 2]], [[3, 4]]], "labels": [[1], [1]]},
    "more labels": {"points": [[1, 2], [3, 4]], "labels": [1, 1, 1]},
    "fewer labels": {"points": [[1, 2], [3, 4], [5, 6]], "labels": [1, 1]},
    "three corners": {"box": [1, 2, 3]},
    "two boxes": {"box": [[1, 2, 3, 4], [5, 6, 7, 8]]},
    "a box after points": {"box": [1, 2, 3, 4], "clear_old_points": False},
    "words": {"points": [["a", "b"]], "labels": [1]},
    "rows of other lengths": {"points": [[1, 2], [3]], "labels": [1, 1]},
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_upstream_takes(judged: judged_video.Judged, name: str) -> None:
    judged.call(lambda p, state: p.add_new_points_or_box(state, 0, "a", **TAKEN[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_what_upstream_refuses(pair: list[tuple[Any, Any]], name: str) -> None:
    (right, its_state), (ours, our_state) = pair
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        right.add_new_points_or_box(its_state, 0, "a", **REFUSED[name])
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"expected .*found") as caught:
        ours.add_new_points_or_box(our_state, 0, "a", **REFUSED[name])
    assert isinstance(caught.value, (ValueError, theirs.type))
    assert our_state["obj_ids"] == []


def test_fewer_labels_are_refused_though_upstream_takes_none(pair: list[tuple[Any, Any]]) -> None:
    (right, its_state), (ours, our_state) = pair
    right.add_new_points_or_box(its_state, 0, "a", points=ONE, labels=[])
    with pytest.raises(sam_rlx.InvalidArgumentError, match="labels"):
        ours.add_new_points_or_box(our_state, 0, "a", points=ONE, labels=[])


@pytest.mark.parametrize(
    "mask",
    [
        np.pad(np.full((30, 40), 7.0), ((10, 32), (6, 50))),
        torch.tensor(np.pad(np.full((30, 40), 0.4), ((10, 32), (6, 50)))),
        torch.tensor(np.pad(np.ones((60, 70)), ((10, 58), (6, 52)))),
    ],
    ids=["an array of floats", "a tensor below one half", "the model's size"],
)
def test_masks(judged: judged_video.Judged, mask: Any) -> None:
    judged.call(lambda p, state: p.add_new_mask(state, 0, "a", mask))


def propagate(predictor: Any, state: Any, meanwhile: Any, start: int | None = None) -> list[Any]:
    """Propagate, and do something after the second frame."""
    results = []
    for result in predictor.propagate_in_video(state, start):
        results.append((result[0], list(result[1]), result[2]))
        if len(results) == 2:
            meanwhile(predictor, state)
    return results


def correct(predictor: Any, state: Any) -> None:
    predictor.add_new_points_or_box(state, 3, "a", points=[[60, 40]], labels=[0])
    predictor.add_new_points_or_box(state, 1, "a", points=[[20, 40]], labels=[1])


def add_object(predictor: Any, state: Any) -> None:
    predictor.add_new_points_or_box(state, 2, "b", box=[50, 30, 90, 66])
    predictor.add_new_mask(state, 3, "c", np.pad(np.ones((20, 30), bool), ((10, 42), (6, 60))))


# Upstream cannot track an object on a CPU where all its memory lies ahead.
@pytest.mark.parametrize(("meanwhile", "again"), [(correct, 0), (add_object, 3)])
def test_what_is_given_meanwhile_waits(
    judged: judged_video.Judged, meanwhile: Any, again: int
) -> None:
    judged.call(lambda p, state: p.add_new_points_or_box(state, 0, "a", **CLICK))
    for start in (None, again):
        found = judged.call(lambda p, state, start=start: propagate(p, state, meanwhile, start))
        assert len(found) == COUNT - (start or 0)


def test_an_object_removed_meanwhile_is_left_out(pair: list[tuple[Any, Any]]) -> None:
    """Upstream fails there with a KeyError."""
    predictor, state = pair[1]
    for obj_id, x in (("a", 22), ("b", 70)):
        predictor.add_new_points_or_box(state, 0, obj_id, points=[[x, 30]], labels=[1])
    results = propagate(predictor, state, lambda p, s: p.remove_object(s, "b"))
    assert [ids for _, ids, _ in results] == [["a", "b"]] * 2 + [["a"]] * (COUNT - 2)
    assert all(logits.shape == (len(ids), 1, *HW) for _, ids, logits in results)


@pytest.mark.parametrize("frame", [-1, COUNT])
def test_frames_that_there_are_not(pair: list[tuple[Any, Any]], frame: int) -> None:
    predictor, state = pair[1]
    with pytest.raises(sam_rlx.InvalidArgumentError, match="frame_idx: expected 0 to 4"):
        predictor.add_new_points_or_box(state, frame, "a", **CLICK)
    predictor.add_new_points_or_box(state, 0, "a", **CLICK)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="start_frame_idx: expected 0 or more"):
        list(predictor.propagate_in_video(state, -1))
