"""Upscaling of mask logits, and what everything mode keeps of them."""

import numpy as np
import pytest
from support.parity import close, same_bits

_core = pytest.importorskip("sam_rlx._core")

# Result, part of the square that is image, square.
SIZES = [
    ((48, 64), (96, 128), 128),
    ((108, 192), (72, 128), 128),
    ((37, 100), (47, 128), 128),
    ((128, 128), (128, 128), 128),
    ((5, 7), (91, 128), 128),
    ((300, 1), (128, 1), 128),
    ((1, 300), (1, 128), 128),
]


def blobs(count, side, seed=0):
    """Smooth logits with edges everywhere."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[:side, :side] / side
    waves = random.uniform(2, 30, (count, 4, 1, 1))
    logits = np.sin(waves[:, 0] * x + waves[:, 1]) * np.cos(waves[:, 2] * y + waves[:, 3])
    return (6 * logits).astype(np.float32)


def geometry(low_res, size, part, square):
    return (*low_res.shape[1:], square, *part, *size)


def encode(mask):
    """Count runs in column-major order, beginning with zeros."""
    flat = np.concatenate([[False], np.asarray(mask, bool).ravel(order="F")])
    positions = np.flatnonzero(np.diff(flat))
    return np.diff(np.concatenate([[0], positions, [flat.size - 1]])).tolist()


def box(mask):
    if not mask.any():
        return (0, 0, 0, 0)
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return (columns[0], rows[0], columns[-1], rows[-1])


@pytest.mark.parity
@pytest.mark.parametrize(("size", "part", "square"), SIZES)
def test_two_steps_against_pytorch(size, part, square):
    torch = pytest.importorskip("torch")

    def resize(x, to):
        return torch.nn.functional.interpolate(x, to, mode="bilinear", align_corners=False)

    def reference(x):
        wide = resize(torch.from_numpy(x)[None], (square, square))
        return resize(wide[..., : part[0], : part[1]], size)[0].numpy()

    low_res = blobs(3, 32)
    exact, single = reference(low_res.astype(np.float64)), reference(low_res)
    found = _core.postprocess_masks(low_res, size, part, square)
    close(found, exact, single)
    masks = _core.postprocess_masks(low_res, size, part, square, threshold=0.0)
    clear = np.abs(exact) > 1e-5 * np.abs(exact).max()
    assert np.array_equal(masks[clear], (single > 0)[clear])


@pytest.mark.parity
def test_one_step_against_pytorch():
    torch = pytest.importorskip("torch")
    low_res = blobs(2, 64, seed=3)

    def reference(x):
        first = torch.from_numpy(x)[None]
        size = (100, 180)
        y = torch.nn.functional.interpolate(first, size, mode="bilinear", align_corners=False)
        return y[0].numpy()

    exact, single = reference(low_res.astype(np.float64)), reference(low_res)
    close(_core.postprocess_masks(low_res, (100, 180)), exact, single)


def test_an_image_of_the_square_s_size_passes_the_second_step(testing):
    low_res = blobs(2, 16)
    found = _core.postprocess_masks(low_res, (64, 64), (64, 64), 64)
    same_bits(found, testing.resize_bilinear(low_res, (64, 64)), "square")


@pytest.mark.parametrize(("size", "part", "square"), SIZES)
def test_threads_and_kinds_agree(testing, size, part, square):
    low_res = blobs(3, 32, seed=1)
    logits = _core.postprocess_masks(low_res, size, part, square)
    for threads in (2, 3):
        again = _core.postprocess_masks(low_res, size, part, square, num_threads=threads)
        same_bits(again, logits, "logits")
        for threshold in (0.0, 0.7):
            masks = _core.postprocess_masks(low_res, size, part, square, threshold, threads)
            assert np.array_equal(masks, logits > np.float32(threshold))


# Numbers on both sides of a threshold, as close as float32 has them, and what no sum keeps.
HARD = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -1e-45, 1e-38, 3e38, -3e38)


def patches(threshold, seed):
    """Logits (8, 32, 32) of equal numbers in patches, of which some are hard."""
    random = np.random.default_rng(seed)
    near = [np.float32(threshold)]
    for to in (np.inf, -np.inf):
        near += [np.nextafter(near[0], np.float32(to)), np.float32(near[0] + np.sign(to) * 1e-6)]
    with np.errstate(over="ignore", under="ignore"):
        values = np.array([*near, *HARD, *near, 5, -5, 5, -5], np.float32)
    small = random.choice(values, (8, 4, 4))
    large = small.repeat(8, 1).repeat(8, 2)
    large[4:] += random.choice(np.float32([0, 1e-6, -1e-6]), large[4:].shape)
    return large


@pytest.mark.parametrize("size", [(150, 700), (40, 333), (20, 31)])
@pytest.mark.parametrize(("part", "square"), [((0, 0), 0), ((70, 128), 128)])
@pytest.mark.parametrize("threshold", [0.0, 0.7, -1e-3, 1e30])
def test_what_is_not_computed_is_decided_as_computed(testing, size, part, square, threshold):
    """Masks and summaries are those of logits that are all computed."""
    low_res = patches(threshold, seed=size[0] + square)
    logits = _core.postprocess_masks(low_res, size, part, square)
    above = logits > np.float32(threshold)
    assert above.any()
    assert not above.all()
    masks = _core.postprocess_masks(low_res, size, part, square, threshold, 1)
    assert np.array_equal(masks, above)
    low, high = np.float32(threshold) - 1, np.float32(threshold) + 1
    shape = geometry(low_res, size, part, square)
    found = testing.summarize_masks(low_res, shape, (threshold, high, low), (*size, 0, 0), 1)
    for mask, whole, summary in zip(logits, above, found, strict=True):
        counts, sides, num_high, num_low = summary
        assert counts.tolist() == encode(whole)
        assert sides == box(whole)
        assert (num_high, num_low) == ((mask > high).sum(), (mask > low).sum())


@pytest.mark.parametrize(("size", "part", "square"), SIZES)
@pytest.mark.parametrize("threads", [1, 3])
def test_summaries(testing, size, part, square, threads):
    low_res = blobs(4, 32, seed=2)
    low_res[3] = -1.0  # an empty mask
    shape = geometry(low_res, size, part, square)
    logits = _core.postprocess_masks(low_res, size, part, square)
    frame = (size[0] + 9, size[1] + 4, 3, 5)
    for cut in ((*size, 0, 0), frame):
        found = testing.summarize_masks(low_res, shape, (0.0, 1.0, -1.0), cut, threads)
        for mask, (counts, sides, high, low) in zip(logits, found, strict=True):
            whole = np.zeros(cut[:2], bool)
            x0, y0 = cut[2:]
            whole[y0 : y0 + size[0], x0 : x0 + size[1]] = mask > 0
            assert counts.tolist() == encode(whole)
            assert sides == box(mask > 0)
            assert (high, low) == ((mask > 1).sum(), (mask > -1).sum())


@pytest.mark.parity
@pytest.mark.parametrize("offset", [0.0, 1.0, 2.5])
def test_stability_score(offset):
    upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
    logits = blobs(4, 90, seed=4)
    expected = upstream.sam.amg.calculate_stability_score(upstream.tensor(logits), 0.25, offset)
    found = [_core.stability_score(mask, 0.25, offset) for mask in logits]
    assert np.array_equal(np.float32(found), expected.numpy())


def test_stability_score_of_nothing():
    assert np.isnan(_core.stability_score(np.full((3, 3), -9, np.float32), 0.0, 1.0))


@pytest.mark.parametrize(
    ("size", "part", "square"),
    [((0, 4), (8, 8), 8), ((4, 4), (9, 8), 8), ((4, 4), (0, 8), 8), ((4, 4), (8, 8), -1)],
)
def test_wrong_sizes_are_refused(size, part, square):
    with pytest.raises(ValueError, match="expected"):
        _core.postprocess_masks(blobs(1, 8), size, part, square)


def test_no_masks():
    assert _core.postprocess_masks(np.zeros((0, 8, 8), np.float32), (5, 6)).shape == (0, 5, 6)
