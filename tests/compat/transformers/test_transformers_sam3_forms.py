"""Forms of arguments of ``Sam3Processor``, each beside transformers' own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

import torch
from PIL import Image
from sam_rlx.compat import transformers as ours
from sam_rlx.errors import SamRlxError
from support import concept_folders

A, B = concept_folders.two_images()
IMAGE, OTHER = Image.fromarray(A), Image.fromarray(B)
X, Y = [1, 2, 30, 40], [5, 6, 7, 8]
ALONE: dict[str, Any] = {"images": None}
TWO: dict[str, Any] = {"images": [IMAGE, OTHER]}

FORMS: dict[str, dict[str, Any]] = {
    "text": {"text": "cat"},
    "list of a text": {"text": ["cat"]},
    "tuple of a text": {"text": ("cat",)},
    "empty text": {"text": ""},
    "odd text": {"text": "\u201ccat\u201d  &amp; Dog"},
    "arrays": {"text": "cat", "return_tensors": "np"},
    "text without image": {**ALONE, "text": "cat"},
    "two images with a text": {**TWO, "text": "cat"},
    "two texts on an image": {"text": ["cat", "dog"]},
    "two texts": {**TWO, "text": ["cat", "dog"]},
    "a long text": {"text": "a " * 40},
    "lists": {"text": "cat", "return_tensors": None},
    "lists of texts": {"text": ["cat", "dog"], "return_tensors": None},
    "pixels": {},
    "labels alone": {"input_boxes_labels": [[1]]},
    "nothing": {**ALONE},
    "box": {"input_boxes": [[X]]},
    "box with text": {"input_boxes": [[X]], "text": "cat"},
    "box with label": {"input_boxes": [[X]], "input_boxes_labels": [[1]]},
    "array in a list": {"input_boxes": [np.array([X])]},
    "tensor in a list": {"input_boxes": [torch.tensor([X])]},
    "a short box": {"input_boxes": [[[1, 2, 30]]]},
    "text and sizes": {
        **ALONE,
        "text": "cat",
        "original_sizes": [[75, 100]],
        "input_boxes": [[X]],
    },
    "sizes as a tensor": {**ALONE, "original_sizes": torch.tensor([[75, 100]])},
    "two boxes": {"input_boxes": [[X, Y]], "input_boxes_labels": [[1, 0]]},
    "boxes of one of two images": {**TWO, "input_boxes": [[X], None], "text": ["cat", "dog"]},
    "no text where boxes are": {**TWO, "input_boxes": [[X], None], "text": [None, "dog"]},
    "ragged": {**TWO, "input_boxes": [[X, [1, 1, 2, 2]], [Y]]},
    "ragged labels": {
        **TWO,
        "input_boxes": [[X, [1, 1, 2, 2]], [Y]],
        "input_boxes_labels": [[1, 0], [1]],
    },
    "a box of padding": {"input_boxes": [[[-10, -10, -10, -10], X]]},
    "a box with one padding number": {"input_boxes": [[[-10, 5, 20, 30]]]},
    "boxes beyond the images": {"input_boxes": [[X], [Y]]},
    "fractions of pixels": {"input_boxes": [[[1.5, 2.25, 30.75, 40.1]]]},
    "labels as fractions": {"input_boxes": [[X]], "input_boxes_labels": [[0.5]]},
}
BAD: dict[str, dict[str, Any]] = {
    "None as text": {"text": [None]},
    "a number as text": {"text": 5},
    "no texts": {"text": []},
    "a list of lists": {"text": [["a"]]},
    "flat box": {"input_boxes": [X]},
    "array": {"input_boxes": np.array([[X]])},
    "tuple of numbers": {"input_boxes": [[tuple(X)]]},
    "None alone": {"input_boxes": [None]},
    "no boxes": {"input_boxes": []},
    "a label for two boxes": {"input_boxes": [[X, Y]], "input_boxes_labels": [[1]]},
    "two lists with a text": {"input_boxes": [[X], [Y]], "text": ["cat"], **TWO},
    "text and boxes without image": {**ALONE, "text": "cat", "input_boxes": [[X]]},
    "tensor": {"input_boxes": torch.tensor([[X]])},
    "points": {"input_points": [[[1, 2]]]},
    "another kind": {"text": "cat", "return_tensors": "tf"},
    "deep boxes": {"input_boxes": [[[X]]]},
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    theirs = concept_folders.processor()
    folder = tmp_path_factory.mktemp("processor")
    theirs.save_pretrained(folder)
    return ours.Sam3Processor.from_pretrained(folder), theirs


def call(processor: Any, form: dict[str, Any]) -> Any:
    return processor(**{"images": IMAGE, "return_tensors": "pt", **form})


@pytest.mark.parametrize("name", FORMS)
def test_forms_that_are_taken(both, name):
    form = FORMS[name]
    found, expected = (call(each, form) for each in both)
    if expected is None:
        assert found is None
        return
    assert list(found) == list(expected)
    for key, value in expected.items():
        mine = found[key]
        if isinstance(value, (list, tuple)) and not torch.is_tensor(value[0]):
            assert (
                [*map(list, mine)] == [*map(list, value)]
                if key == "original_sizes"
                else (list(mine) == list(value))
            )
            continue
        pairs = [(mine, value)] if not isinstance(value, list) else zip(mine, value, strict=True)
        for a, b in pairs:
            assert type(a) is type(b), key
            assert a.dtype == b.dtype, key
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), key)


@pytest.mark.parametrize("name", BAD)
def test_forms_that_are_refused(both, name):
    mine, theirs = both
    with pytest.raises(Exception) as expected:  # noqa: PT011
        call(theirs, BAD[name])
    with pytest.raises(expected.type) as found:
        call(mine, BAD[name])
    assert isinstance(found.value, SamRlxError)
