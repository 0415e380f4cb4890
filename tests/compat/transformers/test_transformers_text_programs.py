"""The programs of transformers' page on SAM 3, run with transformers and with the drop-in."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

import torch
import transformers
from PIL import Image
from sam_rlx.compat import transformers as ours
from support import concept_folders

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "transformers" / "texts.py"
STEPS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("one_text", "one_box", "several_boxes", "batches", "semantic"), ()),
    "features_again": (),
    "smaller": (70,),
}


def program(classes: Any) -> ModuleType:
    """Load the program with the classes of a package."""
    spec = importlib.util.spec_from_file_location("texts", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["transformers"] = classes
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "sam3"
    return str(concept_folders.save(path, concept_folders.make(), concept_folders.processor()))


@pytest.mark.parametrize("step", STEPS)
def test_a_step_gives_what_transformers_gives(folder, step):
    images = [Image.fromarray(each) for each in concept_folders.two_images()]
    mine, theirs = (
        list(getattr(program(each), step)(folder, images, *STEPS[step]))
        for each in (ours, transformers)
    )
    assert len(mine) == len(theirs) > 0
    for found, expected in zip(mine, theirs, strict=True):
        assert isinstance(found, torch.Tensor)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        if found.dtype == torch.bool:
            assert (found != expected).float().mean() < 1e-3
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
