"""Files whose names are no UTF-8, as old archives and shares have them: bytes name them."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx.model import list_tensors

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems refuse such names of files"
)


@pytest.fixture
def named(tmp_path: Path, tiny_checkpoint: Path) -> str:
    """A checkpoint with a name in Latin-1."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.safetensors")
    Path(path).write_bytes(tiny_checkpoint.read_bytes())
    return path


def test_a_checkpoint_loads(named: str, tiny_checkpoint: Path, image: np.ndarray) -> None:
    results = []
    for source in (tiny_checkpoint, named, Path(named)):
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source), num_threads=1)
        predictor.set_image(image[::4, ::4])
        results.append(predictor.predict(box=[10, 10, 60, 70], return_logits=True).masks)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])
    model = sam_rlx.load_model(named)
    assert model.source == named
    assert pickle.loads(pickle.dumps(model)).source == named
    assert list_tensors(named) == list_tensors(tiny_checkpoint)


def test_a_checkpoint_is_converted(named: str, tmp_path: Path) -> None:
    target = os.fsdecode(os.fsencode(tmp_path) + b"/\xfc.gguf")
    sam_rlx.convert(named, target)
    assert sam_rlx.load_model(target).num_parameters == sam_rlx.load_model(named).num_parameters


def test_errors_show_the_bytes(named: str) -> None:
    Path(named).write_bytes(Path(named).read_bytes()[:100])
    with pytest.raises(sam_rlx.CheckpointError, match=r"caf\\xe9\.safetensors, byte 8: expected"):
        sam_rlx.load_model(named)
