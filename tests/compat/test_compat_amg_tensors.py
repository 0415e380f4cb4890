"""Helpers of ``utils.amg`` that get PyTorch's tensors give what upstream's give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sam_rlx.compat.segment_anything.utils import amg as ours

pytestmark = [pytest.mark.parity]
CROP, WHOLE = [13, 7, 113, 89], [0, 0, 150, 101]
GENERATOR = np.random.default_rng(5)
LOGITS = torch.from_numpy(GENERATOR.normal(0, 2, (5, 82, 100)).astype(np.float32))
MASKS = LOGITS > 0.7
BOXES = torch.tensor([[0, 0, 99, 81], [3, 5, 40, 60], [30, 41, 98, 80], [25, 26, 70, 71]])
POINTS = torch.tensor([[1.5, 2.0], [30.25, 41.0]])
CALLS: dict[str, Callable[[Any], Any]] = {
    "near an edge": lambda amg: amg.is_box_near_crop_edge(BOXES.float(), CROP, WHOLE),
    "near an edge, integers": lambda amg: amg.is_box_near_crop_edge(BOXES, CROP, WHOLE, 5.0),
    "sizes": lambda amg: amg.box_xyxy_to_xywh(BOXES[1]),
    "stability": lambda amg: amg.calculate_stability_score(LOGITS, 0.3, 0.9),
    "boxes of the image": lambda amg: amg.uncrop_boxes_xyxy(BOXES.float(), CROP),
    "boxes of the image, integers": lambda amg: amg.uncrop_boxes_xyxy(BOXES, CROP),
    "points": lambda amg: amg.uncrop_points(POINTS, CROP),
    "masks": lambda amg: amg.uncrop_masks(MASKS, CROP, 101, 150),
    "boxes": lambda amg: amg.batched_mask_to_box(MASKS),
    "boxes of more axes": lambda amg: amg.batched_mask_to_box(MASKS[:4].view(2, 2, 82, 100)),
    "batches": lambda amg: next(amg.batch_iterator(3, BOXES))[0],
}


@pytest.fixture(scope="module")
def theirs() -> Any:
    return pytest.importorskip("support.upstream").sam.amg


@pytest.mark.parametrize("name", CALLS)
def test_tensors_give_tensors(theirs: Any, name: str) -> None:
    found, expected = (CALLS[name](amg) for amg in (ours, theirs))
    assert isinstance(found, torch.Tensor)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


def test_arrays_give_arrays() -> None:
    for found in (
        ours.batched_mask_to_box(MASKS.numpy()),
        ours.uncrop_points(POINTS.numpy(), CROP),
        ours.calculate_stability_score(LOGITS.numpy(), 0.3, 0.9),
    ):
        assert isinstance(found, np.ndarray)


def both(theirs: Any) -> tuple[Any, Any]:
    """Mask data of each package with a tensor, a list and an array."""

    def made(amg: Any) -> Any:
        data = amg.MaskData(boxes=BOXES, rles=list("abcd"), points=BOXES.numpy()[:, :2])
        data["scores"] = torch.tensor([0.5, 0.25, 1.0, 0.75])
        return data

    return made(ours), made(theirs)


def same(found: Any, expected: Any) -> None:
    assert list(dict(found.items())) == list(dict(expected.items()))
    for name, value in expected.items():
        assert type(found[name]) is type(value)
        if isinstance(value, list):
            assert found[name] == value
        else:
            np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))


@pytest.mark.parametrize(
    "keep",
    [
        torch.tensor([True, False, True, True]),
        torch.tensor([False] * 4),
        torch.tensor([2, 0]),
        torch.tensor([3]),
        torch.zeros(0, dtype=torch.int64),
    ],
    ids=str,
)
def test_mask_data_is_filtered_by_tensors(theirs: Any, keep: torch.Tensor) -> None:
    found, expected = both(theirs)
    for data in (found, expected):
        data.filter(keep)
    same(found, expected)


def test_mask_data_of_tensors_is_joined(theirs: Any) -> None:
    for change in ("cat", "to_numpy"):
        found, expected = both(theirs)
        for data, other in zip((found, expected), both(theirs), strict=True):
            data.cat(other)
            if change == "to_numpy":
                data.to_numpy()
        same(found, expected)
    with pytest.raises(AssertionError, match="list, an array or a tensor"):
        found["scores"] = 3.0
