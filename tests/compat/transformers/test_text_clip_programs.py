"""The programs of transformers' page on texts in clips, with transformers and with the drop-in."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", exc_type=ImportError)
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:Sam3VideoModel")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from sam_rlx.compat import transformers as ours  # noqa: E402
from support import transformers_text_clips as clips  # noqa: E402
from support import upstream  # noqa: E402

upstream.prepare()
PROGRAM = Path(__file__).parents[3] / "benchmarks" / "programs" / "transformers" / "text_clips.py"


def program(classes: Any) -> Any:
    """Load the program with the classes of a package."""
    spec = importlib.util.spec_from_file_location("text_clips", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["transformers"] = classes
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose settings let random weights find something."""
    side = clips.theirs()
    for name, value in clips.LOOSE.items():
        setattr(side.model.config, name, value)
    return str(clips.save(side, tmp_path_factory.mktemp("programs") / "folder"))


@pytest.mark.parametrize("step", ["whole_clip", "several_texts", "stream"])
def test_a_step_gives_what_transformers_gives(folder, step):
    video = list(clips.frames(5))
    mine, theirs = (
        list(getattr(program(each), step)(folder, video)) for each in (ours, transformers)
    )
    assert len(mine) == len(theirs) > 0
    assert any(found.numel() for found in mine)
    for found, expected in zip(mine, theirs, strict=True):
        assert isinstance(found, torch.Tensor)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if found.dtype == torch.bool:
            assert (found != expected).float().mean() < 5e-3  # memories are bfloat16 on both sides
        elif found.dtype == torch.float32:
            pixel, score = 1.0, 0.02  # of boxes, and of what is between 0 and 1
            np.testing.assert_allclose(found, expected, atol=pixel if found.ndim == 2 else score)
        else:
            assert found.tolist() == expected.tolist()
