"""``--hq-token-only`` of the command line and of batches, on a checkpoint of SAM-HQ."""

import json

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from sam_rlx import batch, io
from sam_rlx.apps.cli import demo
from support import tiny_sam_hq

BOX = [10, 20, 200, 200]
LOOSE = ["--points-per-side", 2, "--pred-iou-thresh", 0, "--stability-score-thresh", 0]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("sam_hq") / "x.safetensors"
    save_file(tiny_sam_hq.weights(seed=4), path)
    return path


@pytest.fixture(scope="module")
def masks(path):
    """Masks of the box, without and with the option."""
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path))
    predictor.set_image(io.read_image(demo.IMAGE))
    found = [
        predictor.predict(box=BOX, multimask_output=False, hq_token_only=alone).masks
        for alone in (False, True)
    ]
    assert (found[0] != found[1]).any()
    return found


def test_segment(run_cli, path, masks, tmp_path):
    words = ["segment", demo.IMAGE, "--box", "10,20,200,200", "--model", path]
    for truth, more in zip(masks, ([], ["--hq-token-only"]), strict=True):
        assert run_cli(*words, *more, "--npz", tmp_path / "x.npz")[0] == 0
        with np.load(tmp_path / "x.npz") as arrays:
            np.testing.assert_array_equal(arrays["masks"], truth)


def test_everything(run_cli, path, tmp_path):
    generator = {"points_per_side": 2, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
    model, image = sam_rlx.load_model(path), io.read_image(demo.IMAGE)
    for alone in (False, True):
        more = ["--hq-token-only"] if alone else []
        words = ["everything", demo.IMAGE, "--model", path, *LOOSE, *more]
        code, out, _ = run_cli(*words, "--json", "-")
        assert code == 0
        found = sam_rlx.MaskGenerator(model, **generator, hq_token_only=alone).generate(image)
        assert len(found) <= 4
        areas = [mask["area"] for mask in json.loads(out)["annotations"]]
        assert areas == [mask.area for mask in found]


@pytest.mark.parametrize("command", ["segment", "everything"])
def test_other_models_refuse_it(run_cli, tiny_checkpoint, command):
    prompt = ["--box", "10,20,200,200"] if command == "segment" else LOOSE
    words = [command, demo.IMAGE, "--model", tiny_checkpoint, *prompt, "--hq-token-only"]
    code, _, err = run_cli(*words, "--json", "-")
    assert code != 0
    assert "hq_token_only: expected false, or a model of SAM-HQ or HQ-SAM 2, found sam tiny" in err


def test_batches_of_prompts(path, masks, tmp_path):
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    given = {"model": path, "boxes": [BOX], "workers": 1, "num_threads": 1}
    for name, truth in zip(("sum", "alone"), masks, strict=True):
        options = {"hq_token_only": name == "alone"}
        result = batch.run(demo.IMAGE, tmp_path / name, options=options, **given)
        assert not result.failures
        [row] = batch.read(tmp_path / name)
        assert row["masks"][0]["area"] == int(truth.sum())
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"found \['points_per_side'\] with"):
        batch.run(demo.IMAGE, tmp_path / "x", options={"points_per_side": 2}, **given)


@pytest.mark.parametrize("given", [{"boxes": [BOX]}, {}])
def test_batches_of_other_models_end_at_once(tiny_checkpoint, tmp_path, given):
    """One error at the beginning, not one for each image."""
    pytest.importorskip("pyarrow", reason="needs pyarrow")
    for at in range(3):
        io.write_image(tmp_path / "images" / f"{at}.png", np.full((40, 50, 3), at, np.uint8))
    asked = {"model": tiny_checkpoint, "workers": 1, "num_threads": 1, **given}
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"SAM-HQ or HQ-SAM 2, found sam tiny"):
        batch.run(tmp_path / "images", tmp_path / "x", options={"hq_token_only": True}, **asked)
    assert not list((tmp_path / "x").rglob("*.parquet"))
