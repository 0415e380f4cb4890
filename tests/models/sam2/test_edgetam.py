"""A whole EdgeTAM on images: layer by layer at a tiny size, masks at the released one."""

import gc

import numpy as np
import pytest
import sam_rlx
from support import tiny_edgetam

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
edgetam = pytest.importorskip(
    "support.upstream_edgetam", reason="needs edgetam-dimos before sam2 on the path"
)
upstream_sam2 = pytest.importorskip("support.upstream_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

CLICKS = {"point_coords": np.array([[100.0, 60.5], [20.25, 200.0]]), "point_labels": [1, 0]}
NAMES = ("image_embedding", "masks", "iou_predictions", "low_res_masks")


def run_upstream(network, image):
    """Return the embedding, logits, scores and low-resolution logits."""
    predictor = upstream_sam2.image_predictor(network)
    predictor.set_image(image)
    prompts = {**CLICKS, "point_labels": np.array(CLICKS["point_labels"])}
    masks, scores, low_res = predictor.predict(**prompts, return_logits=True)
    embedding = predictor._features["image_embed"].numpy()
    return embedding, masks, scores, low_res


def run_ours(path, image, **options):
    model = sam_rlx.load_model(path, **options)
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    found = predictor.predict(**CLICKS, return_logits=True)
    embedding = predictor.image_embedding
    return model, (embedding, found.masks, found.iou_predictions, found.low_res_masks)


def compare(parity, ours, network, config, image):
    single = run_upstream(network, image)
    double = upstream.double(network)
    with upstream.float64():
        edgetam.refresh(double, config)
        exact = run_upstream(double, image)
    for name, mine, wide, narrow in zip(NAMES, ours, exact, single, strict=True):
        parity.close(mine, wide, narrow, name)
    parity.masks_agree(ours[1] > 0, exact[1])


@pytest.mark.parametrize("name", ["wide 400x600", "square 512x512"])
@pytest.mark.parametrize("seed", [0, 3])
def test_masks(parity, tmp_path, images, name, seed):
    config = tiny_edgetam.TINY
    weights = tiny_edgetam.weights(config, seed)
    path = upstream.save_pth(tmp_path / "x.pt", weights, key="model")
    model, ours = run_ours(path, images[name], image_size=config.image_size)
    assert (model.family, model.variant, model.version) == ("sam2", "custom", "1.0")
    compare(parity, ours, edgetam.build(config, weights), config, images[name])


def encoder_taps(module, x):
    """Upstream's results of the image encoder by path, channels last."""
    taps = {}

    def call():
        module(upstream.channels_first(x))

    for path, value in upstream.record(module, call):
        if isinstance(value, np.ndarray) and value.ndim == 4:
            taps[path] = np.moveaxis(value, 1, -1)
        elif path == "neck":
            for level, each in enumerate(value[0]):
                taps[f"neck.{level}"] = np.moveaxis(each, 1, -1)
    return taps


def test_trace(parity, testing):
    config = tiny_edgetam.TINY
    module = upstream.randomise(edgetam.image_encoder(config), 5)
    weights, side = upstream.state_dict(module), config.image_size
    x = np.random.default_rng(5).standard_normal((1, side, side, 3), np.float32)
    single = encoder_taps(module, upstream.tensor(x))
    double = upstream.double(module)
    with upstream.float64():
        edgetam.refresh(double, config)
        exact = encoder_taps(double, upstream.tensor(x, upstream.torch.float64))
    stages = [f"trunk.body.stages_{i}" for i in range(len(config.depth))]
    required = [f"{stage}.blocks.0" for stage in stages]
    required += [f"{stage}.downsample" for stage in stages[1:]]
    required += ["trunk.body.stem", *(f"neck.{i}" for i in range(4))]
    for isa in parity.isas:
        sizes = {**config.trunk, **config.neck, "scalp": 1}
        layer = testing.layer("sam2.EdgeTamImageEncoder", sizes, weights, isa=isa, num_threads=2)
        parity.trace(dict(layer.trace(x=x)), exact, single, required=required)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_released_size(parity, tmp_path, images):
    config, image = tiny_edgetam.EDGETAM, images["wide 400x600"]
    weights = tiny_edgetam.weights(config, 2)
    path = upstream.save_pth(tmp_path / "edgetam.pt", weights, key="model")
    model, ours = run_ours(path, image)
    assert (model.variant, model.image_size) == ("edgetam", 1024)
    path.unlink()
    gc.collect()
    compare(parity, ours, edgetam.build(config, weights), config, image)
