"""`sam_rlx.parity` on checkpoints of SAM-HQ."""

from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from support import tiny, tiny_mobile_sam, tiny_sam_hq

pytest.importorskip("torch", reason="needs the reference packages")
pytest.importorskip("support.upstream", reason="needs the reference packages")
parity = pytest.importorskip("sam_rlx.parity")
pytestmark = pytest.mark.parity

STAGES = ["image", "point", "box", "mask"]
DECODER = [
    "mask_decoder.hf_mlp",
    "mask_decoder.embedding_maskfeature.2",
    "mask_decoder.transformer.queries",
    "mask_decoder.low_res_masks",
]
# TinyViT's code has the grid of 64 and the 256 numbers of the embedding written down.
HEADS = replace(tiny_mobile_sam.TINY_HEADS, img_size=1024, out_chans=256)


def save(path, trunk=None, damaged=None):
    config = tiny.TINY if trunk is None else HEADS
    weights = tiny_sam_hq.weights(config, trunk)
    if damaged is not None:
        weights[damaged] = weights[damaged] + np.float32(0.1)
    save_file(weights, path)
    return path


@pytest.fixture
def package():
    pytest.importorskip("support.upstream_sam_hq", reason="needs segment-anything-hq")


def layers_of(report):
    return {layer.path for layer in report.layers}


@pytest.mark.parametrize("kind", ["ViT", "TinyViT"])
def test_upstreams_package(package, tmp_path, images, kind):
    trunk = None if kind == "ViT" else replace(tiny_mobile_sam.TINY, out_chans=256)
    path = save(tmp_path / "x.safetensors", trunk)
    image = images["wide 400x600"][:190, :251]
    stages = [*STAGES, "everything"] if kind == "ViT" else STAGES[:2]
    report = parity.check(path, images=[image], stages=stages)
    assert report.same, str(report)
    assert report.reference.startswith("segment-anything-hq")
    assert set(DECODER) <= layers_of(report)
    assert "image_encoder.neck" in layers_of(report)


def test_transformers(tmp_path, images):
    path = save(tmp_path / "x.safetensors")
    image = images["wide 400x600"][:190, :251]
    report = parity.check(path, images=[image], stages=STAGES, reference="transformers")
    assert report.same, str(report)
    assert report.reference.startswith("transformers")
    assert {"mask_decoder.low_res_masks", "mask_decoder.hf_mlp"} <= layers_of(report)


def test_a_damaged_layer_is_named(tmp_path, images):
    good = save(tmp_path / "x.safetensors")
    bad = save(tmp_path / "y.safetensors", damaged="mask_decoder.hf_mlp.layers.1.bias")
    image = images["wide 400x600"][:100, :151]
    report = parity.check(
        bad,
        images=[image],
        reference_checkpoint=good,
        stages=["image", "point"],
        reference="transformers",
    )
    assert report.first_difference == "mask_decoder.hf_mlp", str(report)


def test_transformers_has_no_tiny_vit(tmp_path):
    path = save(tmp_path / "x.safetensors", replace(tiny_mobile_sam.TINY, out_chans=256))
    with pytest.raises(sam_rlx.UnsupportedError, match="expected 'meta' for MobileSAM"):
        parity.check(path, reference="transformers")
