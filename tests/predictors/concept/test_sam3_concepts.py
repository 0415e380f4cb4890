"""Images and texts to instances, end to end beside upstream's processor."""

import functools

import numpy as np
import pytest
import sam_rlx
from support.cases import quick

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


@pytest.fixture(scope="module")
def judges(module, images):
    """Upstream's processors by the image that they have."""

    @functools.cache
    def made(name):
        made = concepts.Judges(module)
        made.call("set_image", torch.from_numpy(images[name]).permute(2, 0, 1))
        return made

    return made


def in_pixels(case, image):
    """Return a case whose boxes are pixels of an image."""
    height, width = image.shape[:2]
    boxes = np.array(case.get("boxes", np.zeros((0, 4)))) * [width, height, width, height]
    return {**case, "boxes": boxes.tolist()} if "boxes" in case else case


def check(expected, found):
    concepts.check(expected, found.masks, found.boxes, found.scores)


@pytest.mark.parametrize("name", quick(IMAGES, 1, 2))
def test_prompts(judges, model, images, name):
    image = images[name]
    predictor = predictor_of(model, image)
    # Every case on one image, on the others those that differ in how sides are scaled.
    chosen = CASES if name.startswith("odd") else ("words", "refined")
    for case in map(CASES.get, chosen):
        prompts = in_pixels(case, image)
        expected, threshold = concepts.ground(judges(name), **prompts)
        found = predictor.predict(threshold=threshold, **prompts)
        check(expected, found)
        assert found.texts == (prompts.get("text", "visual"),)
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


def test_default_threshold(judges, model, images):
    """The margin of the scores around 1/2 is wide enough for a comparison."""
    compared = 0
    for name in IMAGES:
        predictor = predictor_of(model, images[name])
        for text in ("a cat", "visual", "dog", "person"):
            found = predictor.predict(text=text, raw=True)
            every = predictor.predict(text=text, threshold=0.0).scores
            if np.abs(every - 0.5).min() < 2e-3:
                continue
            check(concepts.ground_at(judges(name), text, 0.5), found)
            compared += len(found.scores)
    assert compared > 10


def test_points(judges, model, images):
    name = "tall 451x300"
    points, labels = [[30.0, 40.0], [200.5, 400.0], [299.0, 3.0]], [1, 0, 1]
    expected, threshold = concepts.ground_points(judges(name), "dog", points, labels)
    found = predictor_of(model, images[name]).predict(
        text="dog", point_coords=points, point_labels=labels, threshold=threshold
    )
    check(expected, found)


def test_resize_as_on_a_gpu(module, model, images, monkeypatch):
    """The default; a byte next to a half may be rounded to the other side."""
    from torchvision.transforms.v2.functional import _geometry

    image = images["odd 303x384"]
    integer = predictor_of(model, image).predict(text="a cat", threshold=0.0)
    monkeypatch.setattr(_geometry, "_do_native_uint8_resize_on_cpu", lambda _mode: False)
    judges = concepts.Judges(module)
    judges.call("set_image", torch.from_numpy(image).permute(2, 0, 1))
    expected, threshold = concepts.ground(judges, "a cat")
    predictor = sam_rlx.ConceptPredictor(model)
    check(expected, predictor.predict(image, text="a cat", threshold=threshold))
    every = predictor.predict(text="a cat", threshold=0.0)
    assert np.abs(every.low_res_masks - integer.low_res_masks).max() > 1e-5


def outputs(module, processor, state):
    """Every number of upstream's network, by our names."""
    with torch.inference_mode():
        out = module.forward_grounding(
            backbone_out=state["backbone_out"],
            find_input=processor.find_stage,
            geometric_prompt=state["geometric_prompt"],
            find_target=None,
        )
    return {
        "pred_logits": upstream.array(out["pred_logits"][0, :, 0]),
        "pred_boxes": upstream.array(out["pred_boxes"][0]),
        "presence_logit_dec": upstream.array(out["presence_logit_dec"][0, 0]),
        "pred_masks": upstream.array(out["pred_masks"][0]),
        "semantic_seg": upstream.array(out["semantic_seg"][0, 0]),
    }


def test_raw_outputs(judges, model, images, parity):
    """Every number of the network, and which queries are kept."""
    name = "odd 303x384"
    image = images[name]
    found = predictor_of(model, image).predict(text=["a cat", "dog"], raw=True, threshold=0.3)
    upstream_judges = judges(name)
    upstream_judges.begin()
    for raw, text in zip(found.raw, ("a cat", "dog"), strict=True):
        upstream_judges.call("set_text_prompt", text)
        exact, single, *more = upstream_judges.each(outputs)
        for name in exact:
            ours = np.asarray(getattr(raw, name), np.float32)
            parity.close(ours, exact[name], single[name], name, [each[name] for each in more])
        kept = 1 / (1 + np.exp(-raw.pred_logits)) / (1 + np.exp(-raw.presence_logit_dec)) > 0.3
        label = found.texts.index(text)
        np.testing.assert_array_equal(
            found.low_res_masks[found.labels == label], raw.pred_masks[kept]
        )
    plain = predictor_of(model, image).predict(text=["a cat", "dog"], threshold=0.3)
    assert plain.raw is None
    parity.same_bits(plain.low_res_masks, found.low_res_masks, "masks of the kept queries alone")
