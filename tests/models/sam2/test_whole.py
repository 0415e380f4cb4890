"""The released sizes of SAM 2 and 2.1 with random weights, from image to masks."""

import gc

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
pytestmark = [pytest.mark.parity, pytest.mark.slow]

CLICKS = {"point_coords": np.array([[250.0, 130.0], [40.0, 390.0]]), "point_labels": [1, 0]}
NAMES = ("image_embed", "high_res_0", "high_res_1", "logits", "iou_predictions", "low_res")
CASES = [
    pytest.param(variant, version, marks=[] if variant == "hiera_t" else pytest.mark.full)
    for variant in tiny_sam2.VARIANTS
    for version in ("2.0", "2.1")
]


def run_upstream(network, image):
    predictor = upstream_sam2.image_predictor(network)
    predictor.set_image(image)
    prompts = {**CLICKS, "point_labels": np.array(CLICKS["point_labels"])}
    results = predictor.predict(**prompts, return_logits=True)
    features = [predictor._features["image_embed"], *predictor._features["high_res_feats"]]
    return (*(f.numpy() for f in features), *results)


def run_ours(path, image, variant, version):
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam2", variant, version)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    found = predictor.predict(**CLICKS, return_logits=True)
    return (
        *predictor.image_embeddings,
        found.masks,
        found.iou_predictions,
        found.low_res_masks,
    )


@pytest.mark.parametrize(("variant", "version"), CASES)
def test_random_weights(parity, tmp_path, images, variant, version):
    config, image = tiny_sam2.VARIANTS[variant], images["wide 400x600"]
    weights = tiny_sam2.weights(config, 2, version)
    # As Meta's files: a state_dict under the key "model".
    path = upstream.save_pth(tmp_path / f"{variant}.pt", weights, key="model")
    network = upstream_sam2.build_sam2(config, weights, version)
    del weights
    ours = run_ours(path, image, variant, version)
    path.unlink()
    gc.collect()
    single = run_upstream(network, image)
    network.double()
    with upstream.float64():
        exact = run_upstream(network, image)
    for name, mine, wide, narrow in zip(NAMES, ours, exact, single, strict=True):
        parity.close(mine, wide, narrow, name)
    parity.masks_agree(ours[3] > 0, exact[3])
