"""The released sizes with random weights, and Meta's released weights if they are given."""

import gc
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

CLICKS = {"point_coords": np.array([[250.0, 130.0], [40.0, 390.0]]), "point_labels": [1, 0]}
FILES = {
    "vit_b": "sam_vit_b_01ec64.pth",
    "vit_l": "sam_vit_l_0b3195.pth",
    "vit_h": "sam_vit_h_4b8939.pth",
}
full = pytest.mark.full
# The released size in float64 takes minutes: with --full. Here a sixteenth of its positions.
CASES = [
    pytest.param("vit_b", 256, id="vit_b-256", marks=pytest.mark.slow),
    pytest.param("vit_b", 512, id="vit_b-512", marks=pytest.mark.slow),
    *(pytest.param(name, 1024, id=name, marks=full) for name in tiny.VARIANTS),
]


def run_upstream(network, image):
    """Return the embedding, masks as logits, scores and low-resolution logits."""
    predictor = upstream.sam.SamPredictor(network)
    predictor.set_image(image)
    prompts = {**CLICKS, "point_labels": np.array(CLICKS["point_labels"])}
    return (predictor.features.numpy(), *predictor.predict(**prompts, return_logits=True))


def run_ours(path, image, variant):
    model = sam_rlx.load_model(path)
    assert model.variant == variant
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    result = predictor.predict(**CLICKS, return_logits=True)
    return (
        predictor.image_embedding,
        result.masks,
        result.iou_predictions,
        result.low_res_masks,
    )


def compare(parity, ours, network, image):
    single = run_upstream(network, image)
    network.double()
    with upstream.float64():
        exact = run_upstream(network, image)
    names = ("image_embedding", "logits", "iou_predictions", "low_res_masks")
    for name, mine, wide, narrow in zip(names, ours, exact, single, strict=True):
        parity.close(mine, wide, narrow, name)
    parity.masks_agree(ours[1] > 0, exact[1])


@pytest.mark.parametrize(("variant", "side"), CASES)
def test_random_weights(parity, tmp_path, images, variant, side):
    config = replace(tiny.VARIANTS[variant], img_size=side)
    image = images["wide 400x600"]
    weights = tiny.sam_weights(config, seed=2)
    path = upstream.save_pth(tmp_path / f"{variant}.pth", weights)
    network = upstream.build_sam(config, seed=None)
    upstream.load_state_dict(network, weights)
    del weights
    ours = run_ours(path, image, variant)
    path.unlink()
    gc.collect()
    compare(parity, ours, network, image)


@pytest.mark.checkpoint
@pytest.mark.parametrize("variant", FILES)
def test_released_weights(parity, checkpoint_dir, images, variant):
    path, image = checkpoint_dir / FILES[variant], images["wide 400x600"]
    if not path.is_file():
        pytest.skip(f"{path.name} is not in the folder of --checkpoint-dir")
    ours = run_ours(path, image, variant)
    gc.collect()
    compare(parity, ours, upstream.sam.registry[variant](checkpoint=str(path)), image)
