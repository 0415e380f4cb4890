"""Numbers become packed formats: as ggml packs them, or better than its plainest way."""

import numpy as np
import pytest
import sam_rlx.errors
from support import gguf_files as files

K_FORMATS = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
# Numbers of a part of a block, whole numbers q, and scales; signed ones have no minima.
SIGNED = {"Q3_K": (16, 4, 3, 31), "Q6_K": (16, 32, 31, 127)}
# The largest whole number that d is multiplied with: scale times q.
LARGEST = {"Q2_K": 15 * 3, "Q3_K": 32 * 4, "Q4_K": 63 * 15, "Q5_K": 63 * 31, "Q6_K": 128 * 32}
UNSIGNED = {"Q2_K": (16, 3, 15), "Q4_K": (32, 15, 63), "Q5_K": (32, 31, 63)}


def draw(rows=12, cols=512, seed=0):
    """Rows of very different sizes and shapes of distribution."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, cols))
    x[1] = rng.standard_t(2, cols)
    x[2] = np.abs(x[2]) + 0.5
    x[3] = -np.abs(x[3])
    x[4, ::7] = 0
    x[5] = 0
    x[6] = 0.25
    x[7, :256] = 0
    x[7, 100] = -3
    return (x * 10.0 ** rng.integers(-4, 3, (rows, 1))).astype(np.float32)


def quantize(testing, kind, x, threads=1):
    _, numbers, size = files.TYPES[kind]
    packed = testing.quantize(kind, x.ravel(), threads)
    return packed.reshape(*x.shape[:-1], x.shape[-1] // numbers * size)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "MXFP4"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_gguf_package(testing, kind, seed):
    gguf = pytest.importorskip("gguf")
    x = draw(seed=seed)
    expected = gguf.quants.quantize(x, gguf.GGMLQuantizationType[kind])
    np.testing.assert_array_equal(quantize(testing, kind, x), expected.view(np.uint8))


def test_every_half_and_what_lies_between(testing):
    """All finite float16, the middles between neighbours, and a little beside those."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = np.unique(halves[np.isfinite(halves)]).astype(np.float32)
    middles = (halves[1:] + halves[:-1]) / 2
    around = [np.nextafter(middles, np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([halves, -halves, middles, *around])
    found = testing.quantize("F16", x, 2).view(np.float16)
    np.testing.assert_array_equal(found.view(np.uint16), x.astype(np.float16).view(np.uint16))


def plain(kind, x):
    """Scales and minima from the smallest and largest number of a part, each rounded once."""
    blocks = x.astype(np.float64).reshape(-1, 256)
    half = lambda d: d.astype(np.float16).astype(np.float64)  # noqa: E731
    whole = lambda a, b, top: np.clip(  # noqa: E731
        np.rint(np.divide(a, b, out=np.zeros_like(a), where=b != 0)), 0, top
    )
    if kind in SIGNED:
        length, low, high, top = SIGNED[kind]
        parts = blocks.reshape(len(blocks), -1, length)
        scale = np.abs(parts).max(-1) / high
        d = half(scale.max(-1, keepdims=True) / top)
        step = (d * whole(scale, d, top))[..., None]
        q = np.rint(np.divide(parts, step, out=np.zeros_like(parts), where=step != 0))
        return (step * np.clip(q, -low, high)).reshape(x.shape)
    length, high, top = UNSIGNED[kind]
    parts = blocks.reshape(len(blocks), -1, length)
    minimum = np.maximum(0, -parts.min(-1))
    scale = (parts.max(-1) + minimum) / high
    d, dmin = (half(a.max(-1, keepdims=True) / top) for a in (np.maximum(scale, 0), minimum))
    step, offset = (d * whole(scale, d, top))[..., None], (dmin * whole(minimum, dmin, top))
    offset = offset[..., None]
    q = np.divide(parts + offset, step, out=np.zeros_like(parts), where=step != 0)
    return (step * np.clip(np.rint(q), 0, high) - offset).reshape(x.shape)


@pytest.mark.parametrize("kind", K_FORMATS)
@pytest.mark.parametrize("seed", range(3))
def test_searched_scales_are_better_than_plain_ones(testing, kind, seed):
    gguf = pytest.importorskip("gguf")
    x = draw(rows=24, seed=seed)
    packed = quantize(testing, kind, x)
    found = gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind])
    error = ((found - x.astype(np.float64)) ** 2).reshape(-1, 256).sum(-1)
    bound = ((plain(kind, x) - x) ** 2).reshape(-1, 256).sum(-1)
    # Blocks of one number, or of very small ones, are as good as d is rounded to float16.
    rounding = 2.0**-22 * (x.astype(np.float64).reshape(-1, 256) ** 2).sum(-1)
    rounding += 256 * (2.0**-25 * LARGEST[kind]) ** 2
    assert (error <= bound * (1 + 1e-5) + rounding).all()
    normal = slice(2 * 8, 2 * 24)  # rows of normal numbers
    assert error[normal].sum() < (0.97 if kind != "Q6_K" else 1.0) * bound[normal].sum()
    assert not found[5].any()


def test_q8_k(testing):
    x = draw()
    packed = quantize(testing, "Q8_K", x).reshape(-1, 292)
    scales = np.ascontiguousarray(packed[:, :4]).view(np.float32).astype(np.float64)
    q = packed[:, 4:260].view(np.int8).astype(np.int64)
    sums = np.ascontiguousarray(packed[:, 260:]).view(np.int16)
    np.testing.assert_array_equal(sums, q.reshape(-1, 16, 16).sum(-1))
    blocks = x.astype(np.float64).reshape(-1, 256)
    step = np.abs(blocks).max(-1, keepdims=True) / 127
    rounded = np.rint(np.divide(blocks, step, out=np.zeros_like(blocks), where=step != 0)) * step
    error, bound = (((y - blocks) ** 2).sum(-1) for y in (scales * q, rounded))
    assert (error <= bound * (1 + 1e-5) + 2.0**-46 * (blocks**2).sum(-1)).all()


@pytest.mark.parametrize("kind", ["F16", "Q4_0", "Q5_1", "MXFP4", "Q4_K", "Q6_K"])
def test_threads_do_not_matter(testing, kind):
    x = draw(rows=97, cols=768)
    expected = quantize(testing, kind, x, 1)
    for threads in (2, 3):
        np.testing.assert_array_equal(quantize(testing, kind, x, threads), expected)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q2_K", "Q8_K"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 65520.0, -1e30])
def test_refuses_what_a_format_cannot_hold(testing, kind, bad):
    x = np.zeros(2**15, np.float32)
    x[20000] = bad
    with pytest.raises(sam_rlx.errors.CheckpointError, match=f"up to 65504 for {kind}, found"):
        testing.quantize(kind, x, 2)


def test_refuses_parts_of_blocks_and_formats_that_are_only_read(testing):
    with pytest.raises(sam_rlx.errors.InvalidArgumentError, match="whole blocks of 256"):
        testing.quantize("Q4_K", np.zeros(128, np.float32), 1)
    with pytest.raises(sam_rlx.errors.InvalidArgumentError, match="for GGUF"):
        testing.quantize("I32", np.zeros(128, np.float32), 1)
