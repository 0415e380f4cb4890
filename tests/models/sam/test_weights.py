"""The random weights are worth testing with: each of them changes the result visibly.

A parity test can only find what its weights show. Here every tensor of the tiny checkpoint is
disturbed in turn, and upstream's own result must move by far more than the tolerance allows.
"""

import numpy as np
import pytest
from support import tiny
from support.cases import quick
from support.parity import FACTOR, FLOOR

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

# Softmax takes no notice of what is added to all keys of a query: these change nothing.
INVARIANT = ("k_proj.bias",)


@pytest.fixture(scope="module")
def model():
    return upstream.double(upstream.build_sam(tiny.TINY))


NAMES = sorted(tiny.sam_shapes(tiny.TINY))


@pytest.fixture(scope="module")
def outputs(model, images):
    """Return a function that computes masks and scores for prompts that use every weight."""
    predictor = upstream.sam.SamPredictor(model)
    size = tiny.TINY.img_size
    image = upstream.tensor(images["square 512x512"][:size, :size].transpose(2, 0, 1)[None])
    coords = np.array([[[20.0, 30.0], [90.0, 60.0], [0.0, 0.0]]])
    labels = np.array([[1, 0, -1]], np.int32)
    box = np.array([[10.0, 20.0, 100.0, 90.0]])
    mask = np.random.default_rng(0).standard_normal((1, 1, 32, 32))
    arguments = [upstream.tensor(x, torch.float64) for x in (coords, labels, box, mask)]

    def compute():
        with upstream.float64():
            predictor.set_torch_image(image, (size, size))
            points, kinds, boxes, masks = arguments
            first = predictor.predict_torch(points, kinds, boxes, masks)
            second = predictor.predict_torch(points, kinds, multimask_output=False)
        return [x.numpy() for x in (first[2], first[1], second[2], second[1])]

    return compute


@pytest.fixture(scope="module")
def before(outputs):
    return outputs()


@pytest.mark.parametrize("name", quick(NAMES, *range(0, len(NAMES), 20)))
def test_weight_counts(model, outputs, before, name):
    weight = model.state_dict()[name]
    saved = weight.clone()
    weight[...] = torch.roll(saved, 1, dims=-1) if saved.shape[-1] > 1 else -saved
    try:
        after = outputs()
    finally:
        weight[...] = saved
    moved = max(
        float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(after, before, strict=True)
    )
    if name.endswith(INVARIANT):
        assert moved < 1e-12
        return
    # PyTorch's own float32 error on this model is below 2e-6.
    assert moved > 10 * (FACTOR * 2e-6 + FLOOR), f"{name} moves the result by {moved:.1e} only"
