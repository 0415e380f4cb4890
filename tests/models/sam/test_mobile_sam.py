"""A whole MobileSAM: layer by layer at a tiny size, masks at the released one."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny, tiny_mobile_sam

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
mobile_sam = pytest.importorskip("support.upstream_mobile_sam", reason="needs mobilesam-mirror")
pytestmark = pytest.mark.parity

CLICKS = {"point_coords": np.array([[100.0, 60.5], [20.25, 200.0]]), "point_labels": [1, 0]}
# Positions of the embedding at a side are the side over this.
STRIDE = {3: 16, 1: 4}


def heads_of(config, side, heads=tiny_mobile_sam.TINY_HEADS):
    return replace(heads, img_size=side, patch_size=STRIDE[config.patch_kernel])


def run_upstream(network, image):
    """Return the embedding, logits, scores and low-resolution logits."""
    predictor = upstream.sam.SamPredictor(network)
    predictor.set_image(image)
    prompts = {**CLICKS, "point_labels": np.array(CLICKS["point_labels"])}
    return (predictor.features.numpy(), *predictor.predict(**prompts, return_logits=True))


def encoder_taps(network, image):
    """Upstream's results of the trunk by path, channels last."""

    def call():
        upstream.sam.SamPredictor(network).set_image(image)

    taps = {}
    for path, value in upstream.record(network, call):
        if path.startswith("image_encoder.") and isinstance(value, np.ndarray):
            taps[path] = np.moveaxis(value, 1, -1) if value.ndim == 4 else value
    return taps


@pytest.mark.parametrize(
    ("config", "side"),
    [(tiny_mobile_sam.TINY, 128), (replace(tiny_mobile_sam.TINY, patch_kernel=1), 36)],
    ids=["MobileSAM", "LiteMedSAM"],
)
def test_trace(parity, testing, tmp_path, images, config, side):
    image = images["wide 400x600"]
    network = mobile_sam.build_sam(config, heads_of(config, side))
    path = upstream.save_pth(tmp_path / "x.pt", tiny_mobile_sam.weights(config))
    single = encoder_taps(network, image)
    with upstream.float64():
        exact = encoder_taps(upstream.double(network), image)
    for isa in parity.isas:
        records = dict(
            testing.trace(
                str(path),
                image,
                isa=isa,
                image_size=side,
                point_coords=CLICKS["point_coords"],
                point_labels=CLICKS["point_labels"],
            )
        )
        ours = {k: v for k, v in records.items() if k.startswith("image_encoder.")}
        shaped = [
            {k: v.reshape(ours[k].shape) for k, v in taps.items() if k in ours}
            for taps in (exact, single)
        ]
        layers = [f"image_encoder.layers.{i}.blocks.0" for i in range(4)]
        merges = [f"image_encoder.layers.{i}.downsample" for i in range(3)]
        ends = ["image_encoder.patch_embed", "image_encoder.neck"]
        parity.trace(ours, *shaped, required=[*layers, *merges, *ends])


def compare(parity, ours, network, image):
    single = run_upstream(network, image)
    with upstream.float64():
        exact = run_upstream(upstream.double(network), image)
    names = ("image_embedding", "logits", "iou_predictions", "low_res_masks")
    for name, mine, wide, narrow in zip(names, ours, exact, single, strict=True):
        parity.close(mine, wide, narrow, name)
    parity.masks_agree(ours[1] > 0, exact[1])


def run_ours(path, image, **options):
    model = sam_rlx.load_model(path, **options)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    result = predictor.predict(**CLICKS, return_logits=True)
    return model, (
        predictor.image_embedding,
        result.masks,
        result.iou_predictions,
        result.low_res_masks,
    )


@pytest.mark.parametrize("name", ["wide 400x600", "square 512x512"])
@pytest.mark.parametrize("side", [128, 176])
def test_masks(parity, tmp_path, images, name, side):
    config = tiny_mobile_sam.TINY
    path = upstream.save_pth(tmp_path / "x.pt", tiny_mobile_sam.weights(config, seed=3))
    model, ours = run_ours(path, images[name], image_size=side)
    assert (model.family, model.variant, model.image_size) == ("sam", "custom", side)
    network = mobile_sam.build_sam(config, heads_of(config, side), seed=3)
    compare(parity, ours, network, images[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "config", "side"),
    [
        ("vit_t", tiny_mobile_sam.VIT_T, 1024),
        ("custom", tiny_mobile_sam.LITE_MED_SAM, 256),
    ],
)
def test_released_size(parity, tmp_path, images, variant, config, side):
    image = images["wide 400x600"]
    weights = tiny_mobile_sam.weights(config, tiny.VIT_B, seed=5)
    path = upstream.save_pth(tmp_path / "x.pt", weights)
    model, ours = run_ours(path, image)
    assert (model.variant, model.image_size) == (variant, side)
    path.unlink()
    gc.collect()
    network = mobile_sam.build_sam(config, heads_of(config, side, tiny.VIT_B), seed=None)
    upstream.load_state_dict(network, weights)
    network.eval()  # makes the terms for pairs of positions of what was loaded
    compare(parity, ours, network, image)
