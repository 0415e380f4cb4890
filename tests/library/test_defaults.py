"""One set of defaults for a model: every door gives the same masks of everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx import batch, io
from sam_rlx.apps.annotator.predict import Clicks
from sam_rlx.compat.segment_anything import SamAutomaticMaskGenerator
from sam_rlx.compat.segment_anything.modeling import Sam
from support.trained import trained

SIDE = 8


@pytest.mark.parametrize("name", ["sam-nano", "sam2-nano"])
def test_every_door_gives_the_same_masks(
    name: str,
    images: dict[str, np.ndarray],
    tmp_path: Path,
    run_cli: Callable[..., tuple[int, str, str]],
) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    path, image = tmp_path / "coins.png", images["odd 303x384"]
    io.write_image(path, image)
    model = sam_rlx.load_model(trained(name))
    records = sam_rlx.MaskGenerator(model, points_per_side=SIDE).generate(image)
    right = [record.to_coco()["segmentation"]["counts"] for record in records]
    assert len(right) > 3
    words = ["--model", trained(name), "--points-per-side", SIDE, "--json", tmp_path / "a.json"]
    code, _, err = run_cli("everything", path, *words)
    assert code == 0, err
    found = json.loads((tmp_path / "a.json").read_text())["annotations"]
    assert [entry["segmentation"]["counts"] for entry in found] == right
    options = {"points_per_side": SIDE}
    batch.run(path, tmp_path / "out", model=trained(name), options=options, workers=1)
    [row] = batch.read(tmp_path / "out")
    assert [entry["counts"] for entry in row["masks"]] == right
    clicks = Clicks(model)  # of the widget and of the page
    clicks.set_image(image)
    picked = clicks.everything(options, lambda done, total: None)
    assert [record.to_coco()["segmentation"]["counts"] for record in picked] == right


def test_upstreams_module_keeps_upstreams_defaults() -> None:
    generator = SamAutomaticMaskGenerator(Sam(sam_rlx.load_model(trained("sam-nano"))))
    assert generator.pred_iou_thresh == 0.88
    assert generator.stability_score_thresh == 0.95
