"""The released size of SAM 3 with random weights: a text, and a click."""

import gc

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3

torch = pytest.importorskip("torch", reason="needs the reference packages")
upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
clicks = pytest.importorskip("support.sam3_clicks", reason="needs sam3")
pytestmark = [pytest.mark.parity, pytest.mark.slow, pytest.mark.full]

RELEASED = tiny_sam3.RELEASED
TEXTS = ["yellow school bus"]
KEPT = [0, 17, 199]
CLICK = {
    "point_coords": np.array([[250.0, 130.0], [40.0, 390.0]]),
    "point_labels": np.array([1, 0]),
}
FOUND = ("logits", "boxes", "presence", "masks", "semantic")


def run_upstream(path, image, pixels):
    """Run upstream, and write its weights as Meta's file has them, tables of rotations included."""
    network = upstream_sam3.image_model(RELEASED, clicks=True)
    state = {upstream_sam3.meta_name(name): w for name, w in network.state_dict().items()}
    torch.save({"model": state}, path)
    inputs = {"image": pixels, "texts": TEXTS, "kept": KEPT}
    return (
        dict(zip(FOUND, upstream.run(network, inputs, parts.ground_image), strict=True)),
        dict(zip(clicks.NAMES, clicks.predict_inst(network, image, CLICK, True), strict=True)),
    )


def close(ours, theirs, name):
    """Hold ours to upstream in float32: in float64 it would need 7 GB beside the rest."""
    error = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))
    assert error < 1e-3, f"{name}: relative error {error:.2e}"


def test_random_weights(testing, parity, tmp_path, images):
    path, image = tmp_path / "sam3.pt", images["wide 400x600"]
    pixels = testing.preprocess_sam3(image, RELEASED.img_size, integer=True)[None]
    found, click = run_upstream(path, image, pixels)
    gc.collect()

    ids = upstream_sam3.tokenizer()(TEXTS, context_length=RELEASED.context_length).numpy()
    ours = testing.sam3_detect(str(path), pixels, ids, KEPT, num_threads=2)
    for name, mine in zip(FOUND, ours, strict=True):
        close(mine, found[name], name)
    assert np.max(np.abs(ours[0] - found["logits"])) < 1e-3
    parity.masks_agree(ours[3] > 0, found["masks"])

    model = sam_rlx.load_model(path)
    path.unlink()
    predictor = sam_rlx.ImagePredictor(model, resize="integer")
    predictor.set_image(image)
    result = predictor.predict(**CLICK, return_logits=True)
    for name, mine in zip(clicks.NAMES, predictor.image_embeddings, strict=False):
        close(mine, click[name], name)
    close(result.low_res_masks, click["low_res"], "low_res")
    assert np.max(np.abs(result.iou_predictions - click["iou_predictions"])) < 1e-3
    parity.masks_agree(result.masks > 0, click["logits"])
    report = model.report()
    assert (model.family, model.variant) == ("sam3", "sam3")
    # Of upstream's parameters, a projection has no use; the matrix of the positions is a buffer.
    assert model.num_parameters == 860_055_224 - 1024 * 512 + 2 * 128
    assert len(report["skipped"]) == RELEASED.depth
    assert not report["unexpected"]
