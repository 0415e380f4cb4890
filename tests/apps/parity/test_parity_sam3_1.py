"""`sam_rlx.parity` on checkpoints of SAM 3.1."""

import numpy as np
import pytest
from sam_rlx import UnsupportedError
from support import tiny_sam3, tiny_sam3_1

pytest.importorskip("torch", reason="needs the reference packages")
pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3_1 = pytest.importorskip("support.upstream_sam3_1", reason="needs sam3")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

CONFIG = tiny_sam3_1.TINY
HEADS = "tracker.model.interactive_sam_"


@pytest.fixture(scope="module")
def weights():
    return upstream_sam3_1.meta_weights(upstream_sam3_1.image_model(CONFIG, 9041), CONFIG)


def test_layers_and_masks_are_the_same(tmp_path, images, weights):
    path = tiny_sam3.save_safetensors(tmp_path / "x.safetensors", CONFIG, weights)
    image = images["wide 400x600"][:190, :251]
    report = parity.check(path, images=[image], stages=["point", "box", "text", "example"])
    assert report.same, str(report)
    assert report.reference.startswith("sam3 ")
    names = {layer.path for layer in report.layers}
    necks = ("convs.0", "convs.2", "interactive_convs.2")
    assert {tiny_sam3_1.NECK + level for level in necks} <= names
    assert {f"{HEADS}mask_decoder.iou_prediction_head", f"{HEADS}mask_decoder.conv_s0"} <= names


def test_a_damaged_layer_is_named(tmp_path, weights):
    good = tiny_sam3.save_safetensors(tmp_path / "x.safetensors", CONFIG, weights)
    name = f"{HEADS}mask_decoder.pred_obj_score_head.layers.0.bias"
    damaged = {**weights, name: weights[name] + np.float32(0.1)}
    bad = tiny_sam3.save_safetensors(tmp_path / "y.safetensors", CONFIG, damaged)
    report = parity.check(bad, reference_checkpoint=good, stages=["point"])
    assert report.first_difference == f"{HEADS}mask_decoder.pred_obj_score_head", str(report)


def test_what_it_has_no_reference_for(tmp_path, weights):
    path = tiny_sam3.save_safetensors(tmp_path / "x.safetensors", CONFIG, weights)
    with pytest.raises(UnsupportedError, match=r"expected 'meta' for SAM 3\.1"):
        parity.check(path, reference="transformers")
