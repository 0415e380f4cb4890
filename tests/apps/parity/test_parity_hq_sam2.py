"""`sam_rlx.parity` on checkpoints of HQ-SAM 2."""

import importlib.util

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2, tiny_sam_hq

pytest.importorskip("torch", reason="needs the reference packages")
pytest.importorskip("support.upstream", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

CONFIG = tiny_sam2.TINY
HEAD = "sam_mask_decoder."


def save(path, damaged=None):
    weights = tiny_sam_hq.sam2_weights(CONFIG)
    weights[f"{HEAD}pred_obj_score_head.layers.2.bias"] += 3  # the object of a clip is there
    if damaged is not None:
        weights[damaged] = weights[damaged] + np.float32(0.1)
    return tiny_sam2.save_safetensors(path, CONFIG, weights)


@pytest.fixture
def public_code():
    pytest.importorskip(
        "sam2.modeling.sam.mask_hq_decoder",
        reason="needs SysCV/sam-hq's sam-hq2 before sam2 on the path",
    )


def test_layers_and_masks_are_the_same(public_code, tmp_path, images):
    path, image = save(tmp_path / "x.safetensors"), images["wide 400x600"][:190, :251]
    report = parity.check(path, images=[image], stages=["image", "point", "box", "mask", "video"])
    assert report.same, str(report)
    assert report.reference.startswith("HQ-SAM 2")
    names = {layer.path for layer in report.layers}
    assert {f"{HEAD}hf_mlp", f"{HEAD}embedding_maskfeature.2"} <= names


def test_a_damaged_layer_is_named(public_code, tmp_path):
    good = save(tmp_path / "x.safetensors")
    bad = save(tmp_path / "y.safetensors", f"{HEAD}hf_mlp.layers.1.bias")
    report = parity.check(bad, reference_checkpoint=good, stages=["image", "point"])
    assert report.first_difference == f"{HEAD}hf_mlp", str(report)


def test_the_public_code_is_asked_for(tmp_path):
    if importlib.util.find_spec("sam2.modeling.sam.mask_hq_decoder") is not None:
        pytest.skip("it is there")
    with pytest.raises(sam_rlx.errors.MissingExtraError, match=r"pip install git\+https.*sam-hq2"):
        parity.check(save(tmp_path / "x.safetensors"), reference="meta")


def test_transformers_has_no_class_for_it(tmp_path):
    with pytest.raises(sam_rlx.UnsupportedError, match="expected 'meta' for HQ-SAM 2"):
        parity.check(save(tmp_path / "x.safetensors"), reference="transformers")
