"""Images and texts to instances, end to end beside upstream's processor."""

import numpy as np
import pytest
import sam_rlx

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

IMAGES = ("square 512x512", "odd 303x384", "tall 451x300")
# In fractions of the image's sides.
BOXES = [[0.1, 0.2, 0.45, 0.9], [0.5, 0.05, 0.98, 0.4], [0.02, 0.6, 0.3, 1.0]]
CASES = {
    "words": {"text": "a cat"},
    "many words": {"text": "it's 3 yellow school buses!"},
    "empty": {"text": ""},
    "one box": {"boxes": BOXES[:1], "box_labels": [1]},
    "negative box": {"boxes": BOXES[1:2], "box_labels": [0]},
    "boxes": {"boxes": BOXES, "box_labels": [1, 0, 1]},
    "refined": {"text": "person", "boxes": BOXES[:2], "box_labels": [1, 0]},
}


@pytest.fixture(scope="module")
def module():
    return concepts.image_model()


@pytest.fixture(scope="module")
def model(module, tmp_path_factory):
    return sam_rlx.load_model(
        concepts.save(tmp_path_factory.mktemp("sam3") / "x.safetensors", module)
    )


def predictor_of(model, image=None, **options):
    predictor = sam_rlx.ConceptPredictor(model, **{"resize": "integer", **options})
    if image is not None:
        predictor.set_image(image)
    return predictor


def in_pixels(case, image):
    """Return a case whose boxes are pixels of an image."""
    height, width = image.shape[:2]
    boxes = np.array(case.get("boxes", np.zeros((0, 4)))) * [width, height, width, height]
    return {**case, "boxes": boxes.tolist()} if "boxes" in case else case


def check(expected, found):
    concepts.check(expected, found.masks, found.boxes, found.scores)


@pytest.mark.parametrize("name", IMAGES)
def test_prompts(module, model, images, name):
    image = images[name]
    predictor = predictor_of(model, image)
    for case in CASES.values():
        prompts = in_pixels(case, image)
        expected, threshold = concepts.ground(module, image, **prompts)
        found = predictor.predict(threshold=threshold, **prompts)
        check(expected, found)
        assert found.phrases == (prompts.get("text", "visual"),)
        assert found.masks.shape[1:] == image.shape[:2]


def test_prompts_matter(model, images):
    """What the cases above compare is not the same for all."""
    image = images["odd 303x384"]
    predictor = predictor_of(model, image)
    scores = [
        predictor.predict(threshold=0.0, **in_pixels(case, image)).scores for case in CASES.values()
    ]
    for i, one in enumerate(scores):
        for other in scores[:i]:
            assert np.abs(one - other).max() > 0.01


def test_default_threshold(module, model, images):
    """The margin of the scores around 1/2 is wide enough for a comparison."""
    compared = 0
    for name in IMAGES:
        predictor, processor = predictor_of(model, images[name]), concepts.processor(module)
        for text in ("a cat", "visual", "dog", "person"):
            found = predictor.predict(text=text, raw=True)
            every = predictor.predict(text=text, threshold=0.0).scores
            if np.abs(every - 0.5).min() < 2e-3:
                continue
            with upstream_sam3.on_cpu():
                chw = torch.from_numpy(images[name]).permute(2, 0, 1)
                state = processor.set_text_prompt(text, processor.set_image(chw))
            check(concepts.results(state), found)
            compared += len(found.scores)
    assert compared > 10


def test_points(module, model, images):
    image = images["tall 451x300"]
    points, labels = [[30.0, 40.0], [200.5, 400.0], [299.0, 3.0]], [1, 0, 1]
    expected, threshold = concepts.ground_points(module, image, "dog", points, labels)
    found = predictor_of(model, image).predict(
        text="dog", point_coords=points, point_labels=labels, threshold=threshold
    )
    check(expected, found)


def test_resize_as_on_a_gpu(module, model, images, monkeypatch):
    """The default; a byte next to a half may be rounded to the other side."""
    from torchvision.transforms.v2.functional import _geometry

    image = images["odd 303x384"]
    integer = predictor_of(model, image).predict(text="a cat", threshold=0.0)
    monkeypatch.setattr(_geometry, "_do_native_uint8_resize_on_cpu", lambda _mode: False)
    expected, threshold = concepts.ground(module, image, "a cat")
    predictor = sam_rlx.ConceptPredictor(model)
    check(expected, predictor.predict(image, text="a cat", threshold=threshold))
    every = predictor.predict(text="a cat", threshold=0.0)
    assert np.abs(every.low_res_masks - integer.low_res_masks).max() > 1e-5


def test_raw_outputs(module, model, images, parity):
    """Every number of the network, held by the float64 rule in test_sam3.py; here: the wiring."""
    image = images["odd 303x384"]
    found = predictor_of(model, image).predict(text=["a cat", "dog"], raw=True, threshold=0.3)
    processor = concepts.processor(module)
    with torch.inference_mode(), upstream_sam3.on_cpu():
        chw = torch.from_numpy(image).permute(2, 0, 1)
        state = processor.set_image(chw)
        for raw, text in zip(found.raw, ("a cat", "dog"), strict=True):
            processor.set_text_prompt(text, state)
            out = module.forward_grounding(
                backbone_out=state["backbone_out"],
                find_input=processor.find_stage,
                geometric_prompt=state["geometric_prompt"],
                find_target=None,
            )
            for ours, theirs in (
                (raw.pred_logits, out["pred_logits"][0, :, 0]),
                (raw.pred_boxes, out["pred_boxes"][0]),
                (raw.presence_logit_dec, out["presence_logit_dec"][0, 0]),
                (raw.pred_masks, out["pred_masks"][0]),
                (raw.semantic_seg, out["semantic_seg"][0, 0]),
            ):
                theirs = upstream.array(theirs)
                assert np.shape(ours) == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-3 * np.abs(theirs).max())
            kept = 1 / (1 + np.exp(-raw.pred_logits)) / (1 + np.exp(-raw.presence_logit_dec)) > 0.3
            label = found.phrases.index(text)
            np.testing.assert_array_equal(
                found.low_res_masks[found.labels == label], raw.pred_masks[kept]
            )
    plain = predictor_of(model, image).predict(text=["a cat", "dog"], threshold=0.3)
    assert plain.raw is None
    parity.same_bits(plain.low_res_masks, found.low_res_masks, "masks of the kept queries alone")
