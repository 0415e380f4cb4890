"""`ImagePredictor` and `MaskGenerator` on SAM 3's click model beside upstream's `predict_inst`."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3
from support.cases import quick
from support.click_prompts import PROMPTS

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
clicks = pytest.importorskip("support.sam3_clicks", reason="needs sam3")
pytestmark = pytest.mark.parity

TINY = tiny_sam3.TINY
DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture(scope="module")
def network():
    return upstream_sam3.image_model(clicks=True)


@pytest.fixture(scope="module")
def double(network):
    return upstream.double(network)


@pytest.fixture(scope="module")
def checkpoint(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("sam3") / "tiny.safetensors"
    return tiny_sam3.save_safetensors(path, TINY, upstream_sam3.meta_weights(network))


def ours_of(prompts):
    """An axis in front of a mask is a batch for us."""
    return {k: v[0] if k == "mask_input" else v for k, v in prompts.items()}


def run_ours(model, image, prompts, multimask, **options):
    predictor = sam_rlx.ImagePredictor(model, resize="integer", **options)
    predictor.set_image(image)
    found = predictor.predict(**ours_of(prompts), multimask_output=multimask, return_logits=True)
    embeddings = predictor.image_embeddings
    return (*embeddings, found.masks, found.iou_predictions, found.low_res_masks)


# All prompts of one image by default, each with one of the two numbers of masks; of the others one.
CASES = list(
    itertools.product(
        ("wide 400x600", "square 512x512", "one column 120x1"), PROMPTS, (True, False)
    )
)


@pytest.mark.parametrize(
    ("chosen", "prompt", "multimask"),
    quick(
        CASES,
        *(2 * number + number % 2 for number in range(len(PROMPTS))),
        len(PROMPTS) * 2 + 2,
        len(PROMPTS) * 4 + 3,
    ),
)
def test_predict(parity, network, double, checkpoint, images, chosen, prompt, multimask):
    image, prompts = images[chosen], PROMPTS[prompt]
    single = clicks.predict_inst(network, image, prompts, multimask)
    with upstream.float64():
        exact = clicks.predict_inst(double, image, prompts, multimask)
    for isa in parity.isas:
        ours = run_ours(sam_rlx.load_model(checkpoint, isa=isa), image, prompts, multimask)
        for name, mine, wide, narrow in zip(clicks.NAMES, ours, exact, single, strict=True):
            parity.close(mine, wide, narrow, f"{isa}: {name}")
        parity.masks_agree(ours[3] > 0, exact[3])
        assert np.max(np.abs(ours[4] - exact[4])) < 1e-3


def test_holes_are_filled_in_the_larger_mask_alone(checkpoint, images):
    model, image = sam_rlx.load_model(checkpoint), images["wide 400x600"]
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    found = predictor.predict(**PROMPTS["points"], return_logits=True)
    binary = predictor.predict(**PROMPTS["points"])
    np.testing.assert_array_equal(binary.masks, found.masks > 0)
    filled = sam_rlx._core.remove_small_mask_regions(found.low_res_masks, 256.0, 0.0, 0.0)
    assert np.any(filled != found.low_res_masks)
    # Where a mask is filled, its image has the margin's logit.
    assert np.any(found.masks == 10.0)


def test_threads_change_no_bit(parity, checkpoint, images):
    model, image = sam_rlx.load_model(checkpoint), images["wide 400x600"]
    first = run_ours(model, image, PROMPTS["points"], True, num_threads=1)
    for threads in (2, 3):
        found = run_ours(model, image, PROMPTS["points"], True, num_threads=threads)
        parity.same_bits(first, found, f"{threads} threads")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_third_call_allocates_nothing(testing, checkpoint, images, threads):
    image = images["wide 400x600"]
    assert testing.allocations(str(checkpoint), image, 3, threads, 4)[2:] == [0, 0]


def test_a_batch_is_the_loop(checkpoint, images):
    random = np.random.default_rng(0)
    points, labels = random.uniform(0, 300, (5, 2, 2)), random.integers(0, 2, (5, 2))
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(checkpoint), num_threads=3)
    predictor.set_image(images["wide 400x600"])
    batch = predictor.predict(point_coords=points, point_labels=labels)
    for i in range(len(points)):
        one = predictor.predict(point_coords=points[i], point_labels=labels[i])
        np.testing.assert_array_equal(one.masks, batch.masks[i])
        np.testing.assert_array_equal(one.low_res_masks, batch.low_res_masks[i])


def test_the_two_ways_to_resize_differ(checkpoint, images):
    model, found = sam_rlx.load_model(checkpoint), []
    for resize in ("float", "integer"):
        predictor = sam_rlx.ImagePredictor(model, resize=resize)
        predictor.set_image(images["wide 400x600"])
        found.append(predictor.image_embedding)
    scale = np.max(np.abs(found[0]))
    assert 0 < np.max(np.abs(found[0] - found[1])) < 0.1 * scale
    with pytest.raises(sam_rlx.InvalidArgumentError, match='resize: expected "float" or "integer"'):
        sam_rlx.ImagePredictor(model, resize="cubic")
    sam = sam_rlx.load_model("sam-nano")
    with pytest.raises(sam_rlx.InvalidArgumentError, match='resize: expected "float" for family'):
        sam_rlx.ImagePredictor(sam, resize="integer")


def test_saved_embeddings(checkpoint, images, tmp_path):
    model = sam_rlx.load_model(checkpoint)
    predictor, other = sam_rlx.ImagePredictor(model), sam_rlx.ImagePredictor(model)
    predictor.set_image(images["wide 400x600"])
    predictor.save_embedding(tmp_path / "image.safetensors")
    other.load_embedding(tmp_path / "image.safetensors")
    found = [p.predict(**PROMPTS["points"], return_logits=True) for p in (predictor, other)]
    np.testing.assert_array_equal(found[0].masks, found[1].masks)


def test_a_checkpoint_without_the_tracker(network, tmp_path):
    weights = upstream_sam3.meta_weights(network)
    kept = {name: w for name, w in weights.items() if not name.startswith("tracker.")}
    model = sam_rlx.load_model(tiny_sam3.save_safetensors(tmp_path / "detector", TINY, kept))
    for kind in (sam_rlx.ImagePredictor, sam_rlx.MaskGenerator):
        with pytest.raises(sam_rlx.UnsupportedError, match="tracker, which takes clicks"):
            kind(model)


def test_everything_mode(checkpoint, images):
    """Upstream has none for SAM 3. Each mask is that of its point, before holes are filled."""
    model, image = sam_rlx.load_model(checkpoint), images["wide 400x600"]
    generator = sam_rlx.MaskGenerator(
        model, points_per_side=3, pred_iou_thresh=0.0, stability_score_thresh=0.0
    )
    records = generator.generate(image)
    assert records
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(image)
    for record in records:
        one = predictor.predict(point_coords=[record.point_coords[0]], point_labels=[1])
        distance = np.abs(one.iou_predictions - record.predicted_iou)
        assert np.min(distance) < 1e-6
        mask = one.masks[np.argmin(distance)]
        assert np.all(mask[record.segmentation])


def test_transformers_computes_the_same(tmp_path):
    """Its click model, from the tensors that `test_key_map_sam3` loads."""
    shapes = json.loads((DATA / "hugging_face_sam3.json").read_text())
    weights = tiny_sam3.hugging_face_weights(shapes)
    config = replace(TINY, mem_dim=64)
    model = sam_rlx.load_model(tiny_sam3.save_safetensors(tmp_path / "hf", config, weights))
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(tiny_sam3.noise(config))
    found = predictor.predict(point_coords=[[40.0, 70.0]], point_labels=[1])
    with np.load(DATA / "hugging_face_sam3.npz") as recorded:
        low_res, iou = recorded["low_res"], recorded["iou"]
    scale = np.max(np.abs(low_res))
    np.testing.assert_allclose(found.low_res_masks, low_res.clip(-32, 32), atol=2e-5 * scale)
    np.testing.assert_allclose(found.iou_predictions, iou, atol=1e-5)
