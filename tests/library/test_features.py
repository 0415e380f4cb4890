"""The mean of an image embedding inside a mask, against areas in NumPy and PyTorch."""

import numpy as np
import pytest
import sam_rlx
from sam_rlx import InvalidArgumentError, StateError
from support.half_size import half_size

MODELS = ["sam-nano", "sam2-nano", "sam3-nano"]


def photograph(height, width):
    return np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture(scope="module", params=MODELS)
def predictor(request):
    predictor = sam_rlx.ImagePredictor(half_size(request.param))
    predictor.set_image(photograph(90, 131))
    return predictor


def overlaps(count, input_size, side, cells):
    """Return how much of each cell each pixel covers, (cells, count): lengths of intersections."""
    edges = np.arange(count + 1) * (input_size / count) * (cells / side)
    left = np.maximum(edges[None, :-1], np.arange(cells)[:, None])
    right = np.minimum(edges[None, 1:], np.arange(cells)[:, None] + 1)
    return np.clip(right - left, 0, None)


def expected(predictor, mask):
    embedding = predictor.image_embedding[0].astype(np.float64)
    _, h, w = embedding.shape
    side = predictor.model.img_size
    (height, width), (rows, columns) = predictor.orig_hw, predictor.input_hw
    weights = overlaps(height, rows, side, h) @ mask @ overlaps(width, columns, side, w).T
    return (embedding * weights).sum((1, 2)) / weights.sum()


def masks(height, width):
    rng = np.random.default_rng(0)
    one = np.zeros((height, width), bool)
    one[height - 1, width // 3] = True
    box = np.zeros((height, width), bool)
    box[10:31, 50:53] = True
    return {"noise": rng.random((height, width)) < 0.3, "one pixel": one, "box": box}


@pytest.mark.parametrize("name", ["noise", "one pixel", "box"])
def test_the_mean_inside_a_mask(predictor, name):
    mask = masks(*predictor.orig_hw)[name]
    found = predictor.features(mask)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(predictor, mask), rtol=1e-5, atol=1e-6)
    assert predictor.features(mask.astype(np.uint8) * 255).tobytes() == found.tobytes()


def test_without_a_mask_it_is_the_image(predictor):
    whole = np.ones(predictor.orig_hw, bool)
    assert predictor.features().tobytes() == predictor.features(whole).tobytes()
    if predictor.input_hw == (predictor.model.img_size,) * 2:
        mean = predictor.image_embedding[0].astype(np.float64).mean((1, 2))
        np.testing.assert_allclose(predictor.features(), mean, rtol=1e-5, atol=1e-6)


def test_one_pixel_has_the_vector_of_its_position():
    predictor = sam_rlx.ImagePredictor(half_size("sam2-nano"))
    side, grid = predictor.model.img_size, predictor.model.mask_side // 4
    predictor.set_image(photograph(side, side))
    mask = np.zeros((side, side), bool)
    mask[side // grid * 5, side // grid * 2] = True
    assert (predictor.features(mask) == predictor.image_embedding[0, :, 5, 2]).all()


@pytest.mark.parity
def test_areas_are_pytorchs():
    """Where pixels divide cells evenly, weights are those of `interpolate(mode="area")`."""
    torch = pytest.importorskip("torch")
    predictor = sam_rlx.ImagePredictor(half_size("sam2-nano"))
    grid = predictor.model.mask_side // 4
    predictor.set_image(photograph(3 * grid, 2 * grid))
    mask = masks(3 * grid, 2 * grid)["noise"]
    weights = torch.nn.functional.interpolate(
        torch.from_numpy(mask).double()[None, None], (grid, grid), mode="area"
    )
    embedding = torch.from_numpy(predictor.image_embedding).double()
    wanted = (embedding * weights).sum((0, 2, 3)) / weights.sum()
    np.testing.assert_allclose(predictor.features(mask), wanted, rtol=1e-5, atol=1e-6)


def test_threads_and_kept_embeddings_change_nothing(predictor):
    mask = masks(*predictor.orig_hw)["noise"]
    other = sam_rlx.ImagePredictor(predictor.model, num_threads=3)
    other.set_image_embedding(predictor.image_embeddings, predictor.orig_hw)
    assert other.features(mask).tobytes() == predictor.features(mask).tobytes()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.ones((90, 130), bool), r"mask: expected shape \(90, 131\) as the image"),
        (np.zeros((90, 131), bool), "mask: expected at least one pixel"),
        (np.full((90, 131), 0.5), "probabilities"),
        (np.ones((1, 90, 131), bool), r"\(H, W\)"),
        (None, None),
    ],
)
def test_what_is_refused(predictor, mask, words):
    if mask is None:
        empty = sam_rlx.ImagePredictor(predictor.model)
        with pytest.raises(StateError, match="features: expected an image"):
            empty.features()
        return
    with pytest.raises(InvalidArgumentError, match=words):
        predictor.features(mask)
