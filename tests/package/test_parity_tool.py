"""`sam_rlx.parity` finds agreement where there is one, and a difference where there is one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support import tiny

pytestmark = pytest.mark.parity


@pytest.fixture
def parity() -> object:
    from sam_rlx import parity

    return parity


@pytest.mark.parametrize("prompt", [{}, {"point": (300, 60)}, {"box": (160, 20, 420, 330)}])
def test_both_sides_agree(
    sam_rlx_parity: object, tiny_checkpoint: Path, picture: np.ndarray, prompt: dict[str, object]
) -> None:
    report = sam_rlx_parity(tiny_checkpoint, picture, **prompt)  # type: ignore[operator]
    report.check()
    names = ["resized", "input", "image_embedding", "low_res_masks", "iou_predictions", "masks"]
    assert [stage.name for stage in report.stages] == names
    assert report["resized"].max_abs == 0
    assert all(name in str(report) for name in names)


def test_a_difference_is_found(
    parity: object, tiny_checkpoint: Path, tiny_weights: tiny.Weights, picture: np.ndarray
) -> None:
    model = sam_rlx.load_model(tiny_checkpoint)
    changed = {
        **tiny_weights,
        "mask_decoder.mask_tokens.weight": 0.5 + tiny_weights["mask_decoder.mask_tokens.weight"],
    }
    other = tiny.save_safetensors(tiny_checkpoint.with_name("changed.safetensors"), changed)
    model._source = str(other)  # the reference reads other weights than ours has
    report = parity.compare(model, picture)  # type: ignore[attr-defined]
    assert report["image_embedding"].relative < 1e-4
    with pytest.raises(AssertionError):
        report.check()


def test_the_command(
    parity: object, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sam_rlx.cli import demo

    command = parity.main  # type: ignore[attr-defined]
    assert command([str(tiny_checkpoint), str(demo.PICTURE), "--point", "182,140"]) == 0
    assert "image_embedding" in capsys.readouterr().out
    assert command([str(tiny_checkpoint), str(tmp_path / "absent.png")]) == 1
