"""What the drop-in for transformers gives: dictionaries with attributes, and outputs as tuples."""

from __future__ import annotations

import copy
import importlib.util
import pickle

import numpy as np
import pytest
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.transformers.batch import BatchFeature, ModelOutput
from sam_rlx.errors import SamRlxError


class Output(ModelOutput):
    """Three values."""

    fields = ("iou_scores", "pred_masks", "object_score_logits")


def batch(kind=None):
    return BatchFeature(
        {"pixels": np.ones((2, 3), np.float32), "sizes": [[1, 2], [3, 4]], "words": ["a"]}, kind
    )


def test_values_are_attributes_and_items():
    found = batch("np")
    assert list(found) == ["pixels", "sizes", "words"]
    assert found.sizes is found["sizes"]
    assert found.sizes.dtype == np.int64
    assert {**found}["words"] == ["a"]
    assert "pixels" in found
    assert found.get("none") is None
    found.update({"more": 1})
    assert found.pop("more") == 1
    assert not hasattr(found, "more")
    for call in (lambda: found[0], lambda: found["more"], lambda: found.more):
        with pytest.raises((KeyError, AttributeError)):
            call()
    for again in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert np.array_equal(again.pixels, found.pixels)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([[1, 2]], np.int64),
        ([[0.5]], np.float32),  # as PyTorch makes Python's numbers
        ([np.array([0.5])], np.float64),
        ([np.float64(0.5)], np.float64),
        ([True], np.bool_),
        (3, np.int64),
        ([], np.float64),
    ],
)
def test_types_of_tensors(value, dtype):
    found = BatchFeature({"x": value}, "pt")["x"]
    assert np.asarray(found).dtype == dtype or value == []
    assert np.asarray(found).shape == np.shape(value)


def test_only_floats_are_cast():
    found = BatchFeature({"f": np.ones(3), "i": np.ones(3, np.int64), "l": ["a"]})
    found.data["f"] = found["f"].view(TensorArray)
    found.data["i"] = found["i"].view(TensorArray)
    assert found.to("cpu", np.float16) is found
    assert (found.f.dtype, found.i.dtype, found.l) == (np.float16, np.int64, ["a"])
    assert found.to(dtype=np.float32).to("cpu").to(np.float64).f.dtype == np.float64
    for device in ("cuda", "mps", 0, "cuda:1"):
        with pytest.raises(NotImplementedError) as caught:
            found.to(device)
        assert isinstance(caught.value, SamRlxError)
    with pytest.raises(ValueError, match="expected a device"):
        found.to(1.5)


@pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")
def test_tensors_where_the_program_has_them():
    import torch

    found = batch("pt")
    assert isinstance(found.pixels, torch.Tensor)
    assert found.to("cpu", torch.bfloat16).pixels.dtype == torch.bfloat16
    assert found.sizes.dtype == torch.int64
    assert found.to(torch.device("cpu")).sizes.tolist() == [[1, 2], [3, 4]]
    assert isinstance(BatchFeature({"x": [torch.ones(2)]}, "pt").x, torch.Tensor)
    assert isinstance(BatchFeature({"x": torch.ones(2)}, "np").x, np.ndarray)


@pytest.mark.parametrize("kind", ["tf", "jax", 3])
def test_other_kinds_are_refused(kind):
    with pytest.raises(ValueError, match="return_tensors") as caught:
        batch(kind)
    assert isinstance(caught.value, SamRlxError)


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match="x: expected values of one shape"):
        BatchFeature({"x": [[1], [2, 3]]}, "pt")
    assert BatchFeature({"x": [[1], [2, 3]]}).x == [[1], [2, 3]]
    skipped = BatchFeature({"x": [[1], [2, 3]]}, "pt", skip_tensor_conversion=["x"])
    assert skipped.x == [[1], [2, 3]]


def test_outputs_leave_out_none():
    scores, logits = np.ones(2), np.zeros(3)
    found = Output(iou_scores=scores, object_score_logits=logits)
    assert list(found) == ["iou_scores", "object_score_logits"]
    assert len(found) == 2
    assert found.pred_masks is None
    assert found[0] is found["iou_scores"] is found.iou_scores is scores
    assert found[1] is logits
    assert found[:2] == found.to_tuple() == (scores, logits)
    assert isinstance(found, dict)
    with pytest.raises(AttributeError):
        _ = found.nonsense
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(KeyError):
        found["pred_masks"]


def test_outputs_are_changed_by_name():
    found = Output(np.ones(2), None, np.zeros(3))
    found.pred_masks = np.ones(1)
    assert list(found) == ["iou_scores", "object_score_logits", "pred_masks"]
    found["pred_masks"] = np.zeros(1)
    assert found.pred_masks.tolist() == [0]
    found.pred_masks = None
    assert "pred_masks" not in found
    for call in (
        lambda: found.pop("iou_scores"),
        lambda: found.update(iou_scores=1),
        lambda: found.setdefault("iou_scores", 1),
        lambda: found.__delitem__("iou_scores"),
    ):
        with pytest.raises(SamRlxError, match="changes which names there are"):
            call()
    with pytest.raises(TypeError, match="nonsense"):
        Output(nonsense=1)


def test_outputs_are_copied_and_pickled():
    found = Output(np.ones(2), np.zeros((1, 2)))
    for again in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert type(again) is Output
        assert list(again) == list(found)
        assert np.array_equal(again.pred_masks, found.pred_masks)
    assert repr(found).startswith("Output(iou_scores=array")
