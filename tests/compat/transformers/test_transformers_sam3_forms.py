"""Forms of arguments of ``Sam3Processor``, beside transformers' own and by a stored copy."""

from __future__ import annotations

import json

import numpy as np
import pytest

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

from sam_rlx.compat.transformers.image_processors import Sam3ImageProcessor
from sam_rlx.compat.transformers.processing_sam3 import Sam3Processor
from sam_rlx.compat.transformers.text import CLIPTokenizer
from sam_rlx.errors import SamRlxError
from support import concept_forms
from support.concept_forms import BAD, FORMS, call

STORED = json.loads(concept_forms.STORED.read_text(encoding="utf-8"))


def test_the_stored_copy_has_all_forms():
    assert list(STORED) == [*FORMS, *BAD]
    assert len(FORMS) == 34
    assert len(BAD) == 16


@pytest.mark.parametrize("name", [*FORMS, *BAD])
def test_forms_have_the_outcome_of_a_stored_copy(name):
    if name in concept_forms.TENSORS and torch is None:
        pytest.skip("needs PyTorch")
    square, mask = {"height": 112, "width": 112}, {"height": 32, "width": 32}
    images = Sam3ImageProcessor(size=square, mask_size=mask)
    processor = Sam3Processor(images, CLIPTokenizer(concept_forms.vocabulary()))
    found = concept_forms.outcome(processor, (FORMS | BAD)[name])
    if "error" in STORED[name]:
        assert STORED[name]["error"][0] in found["error"]
        assert "SamRlxError" in found["error"]
    else:
        assert json.loads(json.dumps(found)) == STORED[name]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers", exc_type=ImportError)
    from support import concept_folders

    theirs = concept_folders.processor()
    folder = tmp_path_factory.mktemp("processor")
    theirs.save_pretrained(folder)
    return Sam3Processor.from_pretrained(folder), theirs


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
