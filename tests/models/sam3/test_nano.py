"""The trained weights of sam3-nano beside upstream: every number, and whole sessions."""

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx.compat.sam3 import build_sam3_image_model
from sam_rlx.compat.sam3.model.sam3_image_processor import Sam3Processor
from support.cases import quick
from support.trained import trained

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
nano = pytest.importorskip("support.upstream_sam3_nano", reason="needs sam3")
parts = pytest.importorskip("support.sam3_detector", reason="needs sam3")
concepts = pytest.importorskip("support.sam3_concepts", reason="needs sam3")
pytestmark = pytest.mark.parity

CHECKPOINT = trained("sam3-nano")
TEXTS = ["red circle", "a small blue object", "yellow ring"]
RED, BLUE = (215, 40, 35), (40, 60, 210)


def painted(height, width):
    """Two red discs, a blue one and a red ring on dull ground, light from the upper left."""
    y, x = np.mgrid[:height, :width]
    image = np.stack([120 + 14 * np.sin(x / 7 + y / 13)] * 3, -1)
    light = 1.1 - 0.25 * (x + y)[..., None] / (height + width)
    unit = min(height, width)
    for (u, v), size, hole, colour in (
        ((0.24, 0.3), 0.17, 0, RED),
        ((0.3, 0.75), 0.11, 0, RED),
        ((0.72, 0.26), 0.08, 0, BLUE),
        ((0.7, 0.7), 0.2, 0.11, RED),
    ):
        away = np.hypot(x - u * width, y - v * height) / unit
        cover = np.clip((size - away) * unit + 0.5, 0, 1) * np.clip((away - hole) * unit, 0, 1)
        image += cover[..., None] * (np.array(colour) - image)
    return (image * light).clip(0, 255).astype(np.uint8)


IMAGES = {"square": painted(336, 336), "wide": painted(300, 400), "tall": painted(451, 380)}


@pytest.fixture(scope="module")
def network():
    """Upstream's model at the sizes and with the weights of the package."""
    return nano.image_model()


@pytest.fixture(scope="module")
def model():
    return sam_rlx.load_model(CHECKPOINT)


def test_image_to_masks(parity, testing, network):
    """All queries of three texts: scores, boxes, presence, masks and the semantic map."""
    pixels = testing.preprocess_sam3(IMAGES["wide"], 336, integer=True)[None]
    inputs = {"image": pixels, "texts": TEXTS, "kept": [0, 7, 39]}
    single = upstream.run(network, inputs, parts.ground_image)
    exact = upstream.run64(upstream.double(network), inputs, parts.ground_image)
    ids = upstream_sam3.tokenizer()(TEXTS, context_length=32).numpy()

    def run(isa, threads, arrays):
        return testing.sam3_detect(
            str(CHECKPOINT), arrays["image"], ids, arrays["kept"], isa=isa, num_threads=threads
        )

    parity._compare("sam3-nano", run, inputs, exact, [single])


def agree(ours, theirs):
    """Both processors found the same; how much that was."""
    expected = concepts.results(theirs)
    masks, boxes, scores = (ours[name].numpy() for name in ("masks", "boxes", "scores"))
    concepts.check_promise(expected, masks[:, 0], boxes, scores)
    return len(ours["scores"])


@pytest.mark.parametrize("name", quick(["square", "wide"], 1))
def test_processor(network, name):
    """Texts, boxes that refine them, and a box alone, at the default threshold."""
    image = Image.fromarray(IMAGES[name])
    theirs = upstream_sam3.processor(network, 336)
    ours = Sam3Processor(build_sam3_image_model(checkpoint_path=str(CHECKPOINT)), resolution=336)
    counts = []
    with upstream_sam3.on_cpu():
        states = [processor.set_image(image) for processor in (ours, theirs)]
        for method, arguments in (
            *(("set_text_prompt", [text]) for text in (*TEXTS, "red object", "green letter")),
            ("add_geometric_prompt", [[0.24, 0.3, 0.34, 0.34], True]),
            ("add_geometric_prompt", [[0.72, 0.26, 0.16, 0.16], False]),
            ("reset_all_prompts", []),
            ("add_geometric_prompt", [[0.24, 0.3, 0.34, 0.34], True]),
        ):
            for processor, state in zip((ours, theirs), states, strict=True):
                getattr(processor, method)(*arguments, state)
            if "scores" in states[1]:
                counts.append(agree(*states))
    assert min(counts) == 0
    assert max(counts) >= 2


@pytest.mark.parametrize("name", IMAGES)
def test_it_finds_what_texts_name(model, name):
    """What is there is found, with its whole outline, and what is not there is not."""
    predictor = sam_rlx.ConceptPredictor(model)
    predictor.set_image(IMAGES[name])
    height, width = IMAGES[name].shape[:2]
    y, x = np.mgrid[:height, :width]
    unit = min(height, width)
    blue = np.hypot(x - 0.72 * width, y - 0.26 * height) < 0.08 * unit
    found = predictor.predict(text="blue object")
    assert len(found.scores) == 1
    assert (found.masks[0] & blue).sum() > 0.8 * (found.masks[0] | blue).sum()
    assert len(predictor.predict(text="red object").scores) == 3
    for text in ("green circle", "yellow ring", "blue ring"):
        assert len(predictor.predict(text=text).scores) == 0, text
