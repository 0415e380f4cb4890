"""`sam_rlx.parity` on checkpoints with MobileSAM's trunk."""

from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from support import tiny_mobile_sam

pytest.importorskip("torch", reason="needs the reference packages")
pytest.importorskip("support.upstream", reason="needs the reference packages")
pytest.importorskip("support.upstream_mobile_sam", reason="needs mobilesam-mirror")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

# Its code has the grid of 64 and the 256 numbers of the embedding written down.
HEADS = replace(tiny_mobile_sam.TINY_HEADS, img_size=1024, out_chans=256)


def save(path, patch_kernel, damaged=None):
    config = replace(tiny_mobile_sam.TINY, out_chans=256, patch_kernel=patch_kernel)
    weights = tiny_mobile_sam.weights(config, HEADS)
    if damaged is not None:
        weights[damaged] = weights[damaged] + np.float32(0.1)
    save_file(weights, path)
    return path


@pytest.mark.parametrize("patch_kernel", [3, 1], ids=["MobileSAM", "LiteMedSAM"])
def test_layers_and_masks_are_the_same(tmp_path, images, patch_kernel):
    path = save(tmp_path / "x.safetensors", patch_kernel)
    image = images["wide 400x600"][:190, :251]
    report = parity.check(path, images=[image], stages=["image", "point", "box"])
    assert report.same, str(report)
    assert report.reference.startswith("mobilesam-mirror")
    names = {layer.path for layer in report.layers}
    assert {f"image_encoder.layers.{i}.blocks.0" for i in range(4)} <= names
    assert {"image_encoder.patch_embed", "image_encoder.neck"} <= names


def test_a_damaged_layer_is_named(tmp_path):
    name = "image_encoder.layers.1.blocks.1.local_conv.bn.running_mean"
    good, bad = save(tmp_path / "x.safetensors", 3), save(tmp_path / "y.safetensors", 3, name)
    report = parity.check(bad, reference_checkpoint=good, stages=["image"])
    assert report.first_difference == "image_encoder.layers.1.blocks.1", str(report)


def test_what_the_references_do_not_have_is_told(tmp_path):
    path = save(tmp_path / "x.safetensors", 3)
    with pytest.raises(sam_rlx.UnsupportedError, match="expected 'meta' for MobileSAM"):
        parity.check(path, reference="transformers")
    other = tmp_path / "y.safetensors"
    save_file(tiny_mobile_sam.weights(), other)
    with pytest.raises(sam_rlx.UnsupportedError, match="an embedding of 64 x 64 positions"):
        parity.check(other, stages=["image"])
