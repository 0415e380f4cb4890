"""`ImagePredictor` and `MaskGenerator` on SAM 2 beside upstream's classes."""

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam2
from support.cases import quick
from support.click_prompts import PROMPTS

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2")
pytestmark = pytest.mark.parity

SEED = 3


def network_of(version="2.1"):
    weights = tiny_sam2.weights(tiny_sam2.TINY, SEED, version)
    return upstream_sam2.build_sam2(tiny_sam2.TINY, weights, version)


@pytest.fixture(scope="module", params=["2.0", "2.1"])
def checkpoint(request, tmp_path_factory):
    weights = tiny_sam2.weights(tiny_sam2.TINY, SEED, request.param)
    path = tmp_path_factory.mktemp("sam2") / "tiny.safetensors"
    return tiny_sam2.save_safetensors(path, tiny_sam2.TINY, weights), request.param


def run_upstream(predictor, prompts, multimask):
    masks, scores, low_res = predictor.predict(
        **prompts, multimask_output=multimask, return_logits=True
    )
    features = [predictor._features["image_embed"], *predictor._features["high_res_feats"]]
    return (*(f.numpy() for f in features), masks, scores, low_res)


def ours_of(prompts):
    """An axis in front of a mask is a batch for us."""
    return {k: v[0] if k == "mask_input" else v for k, v in prompts.items()}


CHOSEN = ["wide 400x600", "odd 303x384", "one column 120x1", "as large as the input"]


@pytest.fixture(scope="module", params=quick(CHOSEN, 1, 2, 3))
def predictors(request, parity, checkpoint, images):
    """Predictors that have encoded an image: upstream's in float32 and float64, and ours by ISA."""
    path, version = checkpoint
    side = tiny_sam2.TINY.image_size
    cut = {"as large as the input": images["square 512x512"][100 : 100 + side, 200 : 200 + side]}
    image, network = {**images, **cut}[request.param], network_of(version)
    single = upstream_sam2.image_predictor(network)
    single.set_image(image)
    with upstream.float64():
        exact = upstream_sam2.image_predictor(upstream.double(network))
        exact.set_image(image)
    ours = {isa: sam_rlx.ImagePredictor(sam_rlx.load_model(path, isa=isa)) for isa in parity.isas}
    for predictor in ours.values():
        predictor.set_image(image)
    return single, exact, ours


@pytest.mark.parametrize("multimask", [True, False])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_predict(parity, predictors, prompt, multimask):
    one, other, ours_by_isa = predictors
    prompts = PROMPTS[prompt]
    single = run_upstream(one, prompts, multimask)
    with upstream.float64():
        exact = run_upstream(other, prompts, multimask)
    names = ("image_embed", "high_res_0", "high_res_1", "logits", "iou_predictions", "low_res")
    for isa, predictor in ours_by_isa.items():
        found = predictor.predict(
            **ours_of(prompts), multimask_output=multimask, return_logits=True
        )
        ours = (
            *predictor.image_embeddings,
            found.masks,
            found.iou_predictions,
            found.low_res_masks,
        )
        for name, mine, wide, narrow in zip(names, ours, exact, single, strict=True):
            parity.close(mine, wide, narrow, f"{isa}: {name}")
        parity.masks_agree(found.masks > 0, exact[3])


def test_model_tells_what_it_is(checkpoint):
    path, version = checkpoint
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam2", "tiny", version)
    assert (model.img_size, model.mask_side) == (128, 32)
    assert not any(model.report().values())


def test_batch_and_threads_change_no_bit(checkpoint, images):
    model = sam_rlx.load_model(checkpoint[0])
    random = np.random.default_rng(0)
    points, labels = random.uniform(0, 300, (5, 2, 2)), random.integers(0, 2, (5, 2))
    results = []
    for threads in (1, 2, 3):
        predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
        predictor.set_image(images["odd 303x384"])
        for multimask in (True, False):
            prompts = {"multimask_output": multimask, "return_logits": True}
            batch = predictor.predict(point_coords=points, point_labels=labels, **prompts)
            for i in range(len(points)):
                one = predictor.predict(point_coords=points[i], point_labels=labels[i], **prompts)
                np.testing.assert_array_equal(one.masks, batch.masks[i])
                np.testing.assert_array_equal(one.low_res_masks, batch.low_res_masks[i])
            results.append((multimask, batch))
    for multimask, batch in results[2:]:
        first = next(b for m, b in results if m == multimask)
        np.testing.assert_array_equal(batch.masks, first.masks)
        np.testing.assert_array_equal(batch.iou_predictions, first.iou_predictions)


def test_saved_embeddings(checkpoint, images, tmp_path):
    model = sam_rlx.load_model(checkpoint[0])
    first = sam_rlx.ImagePredictor(model)
    first.set_images([images["wide 400x600"], images["odd 303x384"]])
    first.select(1)
    expected = first.predict(**PROMPTS["points"], return_logits=True)
    first.save_embedding(tmp_path / "image.safetensors")
    second = sam_rlx.ImagePredictor(model)
    second.load_embedding(tmp_path / "image.safetensors")
    found = second.predict(**PROMPTS["points"], return_logits=True)
    np.testing.assert_array_equal(found.masks, expected.masks)
    second.set_image_embedding(first.image_embeddings, (303, 384))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="expected 3 arrays, found 1"):
        second.set_image_embedding(first.image_embedding, (303, 384))


GENERATORS = {
    "all": {"stability_score_thresh": 0.0, "box_nms_thresh": 1.0},
    "suppressed": {"stability_score_thresh": 0.0},
    "single": {"stability_score_thresh": 0.0, "multimask_output": False},
    "m2m": {"stability_score_thresh": 0.0, "use_m2m": True},
    "crops": {
        "stability_score_thresh": 0.0,
        "crop_n_layers": 1,
        "crop_n_points_downscale_factor": 2,
    },
    "threshold": {"stability_score_thresh": 0.0, "mask_threshold": 0.05},
}


@pytest.mark.parametrize("name", GENERATORS)
def test_generate(checkpoint, images, name):
    path, version = checkpoint
    options = {"points_per_side": 4, "pred_iou_thresh": 0.0, **GENERATORS[name]}
    network = network_of(version)
    image = images["odd 303x384"]
    with upstream.stable_nms():
        theirs = upstream_sam2.mask_generator(network, **options).generate(image)
    ours = sam_rlx.MaskGenerator(sam_rlx.load_model(path), **options).generate(image)
    assert theirs, "the reference finds nothing: the case proves nothing"
    assert len(ours) == len(theirs)

    def order(record):
        return (*record["crop_box"], *record["point_coords"][0], record["predicted_iou"])

    for mine, other in zip(sorted(ours, key=order), sorted(theirs, key=order), strict=True):
        assert mine["point_coords"][0] == pytest.approx(other["point_coords"][0], abs=1e-4)
        assert mine["predicted_iou"] == pytest.approx(other["predicted_iou"], abs=1e-4)
        differing = np.sum(mine["segmentation"] != other["segmentation"])
        assert differing <= 2 + 1e-3 * other["area"]
