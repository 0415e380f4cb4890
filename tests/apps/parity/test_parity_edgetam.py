"""`sam_rlx.parity` on checkpoints of EdgeTAM."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file
from support import tiny_edgetam

pytest.importorskip("torch", reason="needs the reference packages")
pytest.importorskip("support.upstream", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

# With the width of the memory that transformers' classes have written down.
CONFIG = replace(tiny_edgetam.TINY, d_model=128, mem_dim=64)
SETTINGS = {"image_size": CONFIG.image_size, "d_model": CONFIG.d_model}


def save(path, damaged=None):
    weights = tiny_edgetam.weights(CONFIG, presence=3)
    if damaged is not None:
        weights[damaged] = weights[damaged] + np.float32(0.1)
    settings = json.dumps({**SETTINGS, "fpn_top_down_levels": [2, 3]})
    save_file(weights, path, metadata={"config": settings})
    return path


def reference(name):
    if name == "meta":
        reason = "needs edgetam-dimos before sam2 on the path"
        pytest.importorskip("support.upstream_edgetam", reason=reason)
    else:
        pytest.importorskip("transformers", reason="needs transformers")
    return name


@pytest.mark.parametrize("name", ["meta", "transformers"])
def test_layers_and_masks_are_the_same(tmp_path, images, name):
    path, image = save(tmp_path / "x.safetensors"), images["wide 400x600"][:190, :251]
    stages = ["image", "point", "video"]
    report = parity.check(path, reference=reference(name), images=[image], stages=stages)
    assert report.same, str(report)
    assert report.reference.startswith("edgetam-dimos" if name == "meta" else "transformers")
    names = {layer.path for layer in report.layers}
    assert {f"image_encoder.trunk.body.stages_{i}.blocks.0" for i in range(4)} <= names
    assert {"image_encoder.trunk.body.stem", "spatial_perceiver"} <= names


@pytest.mark.parametrize("name", ["meta", "transformers"])
def test_a_damaged_layer_is_named(tmp_path, name):
    damaged = "image_encoder.trunk.body.stages_2.blocks.1.token_mixer.conv.bn.running_mean"
    good, bad = save(tmp_path / "x.safetensors"), save(tmp_path / "y.safetensors", damaged)
    report = parity.check(
        bad, reference=reference(name), reference_checkpoint=good, stages=["image"]
    )
    assert report.first_difference == "image_encoder.trunk.body.stages_2.blocks.1", str(report)
