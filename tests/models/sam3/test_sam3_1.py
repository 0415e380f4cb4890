"""SAM 3.1 on images: texts, examples and clicks beside upstream's modules in float64."""

from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3_1
from support.cases import quick
from support.click_prompts import PROMPTS

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
upstream_sam3_1 = pytest.importorskip("support.upstream_sam3_1", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
clicks = pytest.importorskip("support.sam3_clicks", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

# As many queries as `concepts` finds something with.
CONFIG = replace(tiny_sam3_1.TINY, num_queries=concepts.CONFIG.num_queries)
SEED = 51234
TEXTS = ["a cat", "yellow school bus", "it's 3 dogs!"]


@pytest.fixture(scope="module")
def module():
    return upstream_sam3_1.image_model(CONFIG, SEED)


@pytest.fixture(scope="module")
def judges(module):
    """Upstream in float64, in float32, and with weights that differ in their last bit."""
    return concepts.Judges(module, CONFIG.img_size)


@pytest.fixture(scope="module")
def checkpoint(module, tmp_path_factory):
    path = tmp_path_factory.mktemp("sam3_1") / "x.safetensors"
    return upstream_sam3_1.save(path, module, CONFIG)


# ---------------------------------------------------------------- layers


def check_layers(parity, module, path, config, seed):
    side = config.img_size
    image = np.random.default_rng([seed, 5]).standard_normal((1, side, side, 3), np.float32)
    inputs = {"image": image, "texts": TEXTS, "kept": [0, 7, 3]}
    single = upstream.run(module, inputs, parts.ground_image)
    exact = upstream.run64(upstream.double(module), inputs, parts.ground_image)
    ids = upstream_sam3.tokenizer()(TEXTS, context_length=config.context_length).numpy()

    def run(isa, threads, arrays):
        return parity.testing.sam3_detect(
            str(path), arrays["image"], ids, arrays["kept"], isa=isa, num_threads=threads
        )

    parity._compare(f"sam3.1 seed {seed}", run, inputs, exact, [single])


def test_image_to_masks(parity, module, checkpoint):
    check_layers(parity, module, checkpoint, CONFIG, SEED)


def test_other_sizes(parity, tmp_path):
    """Windows that do not divide the map, other widths, one layer each."""
    config = replace(
        CONFIG,
        img_size=98,
        d_model=32,
        depth=3,
        global_att_blocks=(0, 2),
        text_layers=1,
        encoder_layers=1,
        decoder_layers=1,
        upsampling_stages=2,
    )
    module = upstream_sam3_1.image_model(config, SEED + 1)
    path = upstream_sam3_1.save(tmp_path / "x.safetensors", module, config)
    check_layers(parity, module, path, config, SEED + 1)


# ---------------------------------------------------------------- texts and examples

# In fractions of the image's sides.
BOXES = [[0.1, 0.2, 0.45, 0.9], [0.5, 0.05, 0.98, 0.4]]
CASES = {
    "one box": {"boxes": BOXES[:1], "box_labels": [1]},
    "refined": {"text": "person", "boxes": BOXES, "box_labels": [1, 0]},
}


def test_texts_and_examples(judges, checkpoint, images):
    image = images["odd 303x384"]
    judges.call("set_image", torch.from_numpy(image).permute(2, 0, 1))
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model(checkpoint), resize="integer")
    predictor.set_image(image)
    scale = [image.shape[1], image.shape[0]] * 2
    for case in CASES.values():
        boxes = {"boxes": (np.array(case["boxes"]) * scale).tolist()} if "boxes" in case else {}
        prompts = {**case, **boxes}
        expected, threshold = concepts.ground(judges, **prompts)
        found = predictor.predict(threshold=threshold, **prompts)
        concepts.check(expected, found.masks, found.boxes, found.scores)


# ---------------------------------------------------------------- clicks


def predict(model, image, prompts, multimask, **options):
    predictor = sam_rlx.ImagePredictor(model, resize="integer", **options)
    predictor.set_image(image)
    ours = {k: v[0] if k == "mask_input" else v for k, v in prompts.items()}
    found = predictor.predict(**ours, multimask_output=multimask, return_logits=True)
    embeddings = predictor.image_embeddings
    return (*embeddings, found.masks, found.iou_predictions, found.low_res_masks)


CLICKS = [(prompt, several) for prompt in PROMPTS for several in (True, False)]


@pytest.mark.parametrize(("prompt", "multimask"), quick(CLICKS, 0, 1, 3, 4, 7))
def test_clicks(parity, judges, checkpoint, images, prompt, multimask):
    """The predicted IoU is what the head gives, without a sigmoid."""
    image, prompts = images["wide 400x600"][:391, :263], PROMPTS[prompt]
    first, *others = judges.models
    with upstream.float64():
        exact = clicks.predict_inst(first, image, prompts, multimask)
    single = [clicks.predict_inst(model, image, prompts, multimask) for model in others]
    for isa in parity.isas:
        ours = predict(sam_rlx.load_model(checkpoint, isa=isa), image, prompts, multimask)
        for i, name in enumerate(clicks.NAMES):
            narrow, *more = (found[i] for found in single)
            parity.close(ours[i], exact[i], narrow, f"{isa}: {name}", more)
        parity.masks_agree(ours[3] > 0, exact[3])


def test_threads_change_no_bit(parity, checkpoint, images):
    model, image = sam_rlx.load_model(checkpoint), images["wide 400x600"]
    first = predict(model, image, PROMPTS["points"], True, num_threads=1)
    for threads in (2, 3):
        found = predict(model, image, PROMPTS["points"], True, num_threads=threads)
        parity.same_bits(first, found, f"{threads} threads")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_third_call_allocates_nothing(testing, checkpoint, images, threads):
    image = images["wide 400x600"]
    assert testing.allocations(str(checkpoint), image, 3, threads, 4)[2:] == [0, 0]
