"""The reference itself: small models of upstream's SAM 3 run, in both precisions."""

import numpy as np
import pytest
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
pytestmark = pytest.mark.parity


def outputs(model, image):
    """Everything that a text, a box and a click give, thresholds left out."""
    upstream_sam3.refresh(model)
    processor = upstream_sam3.processor(model, tiny_sam3.TINY.img_size, confidence_threshold=0.0)
    state = processor.set_image(upstream.tensor(image).permute(2, 0, 1))
    state = processor.set_text_prompt("a cat", state)
    state = processor.add_geometric_prompt([0.5, 0.5, 0.4, 0.3], True, state)
    click = model.predict_inst(
        state,
        point_coords=np.array([[30.0, 20.0]]),
        point_labels=np.array([1]),
        return_logits=True,
    )
    found = [upstream.array(state[name]) for name in ("masks_logits", "scores", "boxes")]
    return [*found, *click]


def test_whole_model():
    """Every cached table is made anew in float64: the precisions agree to float32's error."""
    generator = np.random.default_rng(0)
    image = generator.integers(0, 256, (60, 80, 3), dtype=np.uint8)
    model = upstream_sam3.image_model(clicks=True)
    with upstream_sam3.on_cpu():
        single = outputs(model, image)
        with upstream.float64():
            double = outputs(upstream.double(model), image)
    for ours, exact in zip(single, double, strict=True):
        assert np.std(exact) > 0
        assert np.max(np.abs(ours - exact)) < 2e-5 * np.max(np.abs(exact))


@pytest.mark.parametrize(
    ("text", "ids"),
    [("yellow school bus", [4481, 1228, 2840]), ("it's 3 dogs!", [585, 568, 274, 3255, 256])],
)
def test_tokenizer(text, ids):
    found = upstream_sam3.tokenizer()(text, context_length=32)[0].tolist()
    assert found == [49406, *ids, 49407] + [0] * (30 - len(ids))
