"""A whole HQ-SAM 2: layer by layer, masks of all kinds of prompts, and the released size."""

import gc
from unittest import mock

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2, tiny_sam_hq

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
hq_sam2 = pytest.importorskip("support.upstream_hq_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity

CONFIG = tiny_sam2.TINY
POINTS = {"point_coords": np.array([[100.0, 60.5], [20.25, 200.0]]), "point_labels": [1, 0]}
BOX = np.array([40.0, 30.5, 210.0, 250.25])
NAMES = ("image_embedding", "logits", "iou_predictions", "low_res_masks")


@pytest.fixture(params=["facts", "public code"])
def decoder(request):
    if request.param == "facts":
        return hq_sam2.MaskDecoderHQ
    if hq_sam2.PUBLIC is None:
        pytest.skip("needs SysCV/sam-hq's sam-hq2 before sam2 on the path")
    return hq_sam2.PUBLIC


def cases(mask_side):
    """Prompts by name, as `predict` takes them."""
    mask = np.random.default_rng(5).standard_normal((1, mask_side, mask_side))
    mask = {"mask_input": 3 * mask.astype(np.float32)}
    return {
        "points": POINTS,
        "a box": {"box": BOX},
        "points and a box": {**POINTS, "box": BOX},
        "a mask": mask,
        "all": {**POINTS, "box": BOX, **mask},
    }


def run_upstream(network, image, prompts, *, multimask_output=True, hq_token_only=False):
    """Embedding, logits, scores and low-resolution logits; beside one mask the best of scores."""
    predictor = upstream_sam2.image_predictor(network)
    predictor.set_image(image)
    given = {name: np.asarray(value) for name, value in prompts.items()}
    module, asked = network.sam_mask_decoder, {"hq_token_only": hq_token_only}
    forward = module.forward
    # The package sam2's predictor does not ask for it, the public code's does.
    with mock.patch.object(module, "forward", lambda **given: forward(**given | asked)):
        masks, scores, low_res = predictor.predict(
            **given, multimask_output=multimask_output, return_logits=True
        )
    if len(masks) == 1:
        scores = scores.max(keepdims=True)
    return predictor._features["image_embed"].numpy(), masks, scores, low_res


def run_ours(predictor, prompts, **options):
    found = predictor.predict(**prompts, **options, return_logits=True)
    parts = (found.masks, found.iou_predictions, found.low_res_masks)
    if set(prompts) == {"mask_input"}:  # a mask makes a batch of one
        parts = tuple(part[0] for part in parts)
    return (predictor.image_embedding, *parts)


def compare(parity, ours, exact, single, nudged=()):
    for i, name in enumerate(NAMES):
        more = [each[i] for each in nudged] if exact[i].size < 8 else []
        parity.close(ours[i], exact[i], single[i], name, more)
    parity.masks_agree(ours[1] > 0, exact[1])


def moved(prompts, index):
    """The prompts, moved by their last bits: how wrong float32 is on one number is luck."""
    scale = np.float32(1 + (index + 1) * 1e-7)
    return {
        name: value if name == "point_labels" else (np.asarray(value) * scale).astype(np.float32)
        for name, value in prompts.items()
    }


def loaded(tmp_path, weights):
    """The file, whose metadata tells the sizes, and its model."""
    path = tiny_sam2.save_safetensors(tmp_path / "x.safetensors", CONFIG, weights)
    return path, sam_rlx.load_model(path)


@pytest.mark.parametrize("hq_token_only", [False, True])
@pytest.mark.parametrize("multimask_output", [True, False])
def test_masks(parity, decoder, tmp_path, images, multimask_output, hq_token_only):
    options = {"multimask_output": multimask_output, "hq_token_only": hq_token_only}
    weights = tiny_sam_hq.sam2_weights(CONFIG, 3 + 2 * multimask_output + hq_token_only)
    _, model = loaded(tmp_path, weights)
    predictor = sam_rlx.ImagePredictor(model)
    network = hq_sam2.build(decoder, CONFIG, weights)
    wide = upstream.double(network)
    count = 3 if multimask_output and not hq_token_only else 1
    for name, image in (
        ("wide", images["wide 400x600"]),
        ("odd", images["wide 400x600"][:391, :263]),
    ):
        predictor.set_image(image)
        for prompt, prompts in cases(model.mask_side).items():
            ours = run_ours(predictor, prompts, **options)
            single = run_upstream(network, image, prompts, **options)
            with upstream.float64():
                exact = run_upstream(wide, image, prompts, **options)
            assert ours[1].shape == exact[1].shape == (count, *image.shape[:2]), (name, prompt)
            nudged = [run_upstream(network, image, moved(prompts, i), **options) for i in range(3)]
            compare(parity, ours, exact, single, nudged)


def test_trace(parity, testing, decoder, tmp_path, images):
    image = images["wide 400x600"]
    weights = tiny_sam_hq.sam2_weights(CONFIG, 1)
    path, _ = loaded(tmp_path, weights)
    network = hq_sam2.build(decoder, CONFIG, weights)

    def taps(net):
        found = {}

        def call():
            run_upstream(net, image, POINTS)

        for name, value in upstream.record(net, call):
            value = value[0] if isinstance(value, tuple) else value
            if isinstance(value, np.ndarray):
                found[name] = np.moveaxis(value, 1, -1) if value.ndim == 4 else value
        return found

    single = taps(network)
    with upstream.float64():
        exact = taps(upstream.double(network))
    head = "sam_mask_decoder."
    required = [f"{head}hf_mlp", f"{head}embedding_maskfeature.2", f"{head}iou_prediction_head"]
    for isa in parity.isas:
        records = dict(testing.trace(str(path), image, isa=isa, **POINTS))
        ours = {k: v for k, v in records.items() if k in required}
        shaped = [
            {k: v.reshape(ours[k].shape) for k, v in each.items() if k in ours}
            for each in (exact, single)
        ]
        parity.trace(ours, *shaped, required=required)


@pytest.mark.parametrize("hq_token_only", [False, True])
def test_batches_are_the_loop(tmp_path, images, hq_token_only):
    _, model = loaded(tmp_path, tiny_sam_hq.sam2_weights(CONFIG, 8))
    boxes = np.stack([BOX, [120.0, 100.0, 390.0, 300.0], [5.0, 9.0, 60.0, 90.5]])
    found = []
    for threads in (1, 3):
        predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
        predictor.set_image(images["wide 400x600"])
        found.append(predictor.predict(box=boxes, hq_token_only=hq_token_only).low_res_masks)
        found.append(
            np.stack(
                [
                    predictor.predict(box=box, hq_token_only=hq_token_only).low_res_masks
                    for box in boxes
                ]
            )
        )
    assert found[0].shape[:2] == (3, 1 if hq_token_only else 3)
    for each in found[1:]:
        np.testing.assert_array_equal(found[0], each)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("hq_token_only", [False, True])
def test_released_size(parity, decoder, tmp_path, images, hq_token_only):
    config, image = tiny_sam2.VARIANTS["hiera_l"], images["wide 400x600"]
    weights = tiny_sam_hq.sam2_weights(config, 2)
    path = upstream.save_pth(tmp_path / "sam2.1_hq_hiera_large.pt", weights, key="model")
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam2", "hq_hiera_l", "2.1")
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    ours = run_ours(predictor, POINTS, hq_token_only=hq_token_only)
    del predictor, model
    path.unlink()
    gc.collect()
    network = hq_sam2.build(decoder, config, weights)
    del weights
    single = run_upstream(network, image, POINTS, hq_token_only=hq_token_only)
    network.double()
    with upstream.float64():
        exact = run_upstream(network, image, POINTS, hq_token_only=hq_token_only)
    compare(parity, ours, exact, single)
