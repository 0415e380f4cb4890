"""Linear layers of bytes: the integers exactly, what follows in float32."""

import numpy as np
import pytest
from support.ops import ACTIVATIONS, ISAS, THREADS, _testing, f64, normal, op, rng

SMALLEST = np.float32(1.17549435e-38)


def quantized_rows(x):
    """Bytes, scale and zero point of each row: the kernel's formula, step by step in float32."""
    low, high = np.minimum(x, 0).min(1), np.maximum(x, 0).max(1)
    scale = high / np.float32(255) - low / np.float32(255)
    scale = np.where(scale < SMALLEST, np.float32(0), scale)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    zero = np.rint(-low * inverse)
    bytes_ = np.clip(np.rint(x * inverse[:, None]) + zero[:, None], 0, 255)
    return bytes_.astype(np.int64), scale, zero.astype(np.int64)


def quantized_weight(w):
    """Bytes and scale of each channel: neighbours of one sign sum to 127, then they are rounded."""
    half = np.pad(w, ((0, 0), (0, w.shape[1] % 2))).reshape(len(w), -1, 2) * np.float32(0.5)
    positive, negative = np.maximum(half, 0).sum(2), np.maximum(-half, 0).sum(2)
    scale = np.maximum(positive, negative).max(1) / np.float32(63.5)
    scale = np.where(scale < SMALLEST, np.float32(0), scale)
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 0)
    return np.rint(w * inverse[:, None]).astype(np.int64), scale


def formula(x, w, bias=None, activation="none", residual=None):
    """The product of the rounded numbers, in float64."""
    rows, row_scale, zero = quantized_rows(x)
    columns, column_scale = quantized_weight(w)
    sums = (rows - zero[:, None]) @ columns.T
    y = sums * (f64(row_scale)[0][:, None] * f64(column_scale)[0])
    bias, residual = f64(bias, residual)
    y = ACTIVATIONS[activation](y if bias is None else y + bias)
    return y if residual is None else y + residual


def awkward_rows(cols):
    """Rows that test the ends of the ranges."""
    x = normal(rng(cols), 12, cols) * np.float32(3)
    x[1] = 0
    x[2] = 0.7
    x[3] = -1e30
    x[4] = np.abs(x[4])
    x[5] = -np.abs(x[5])
    x[6] *= np.float32(1e-42)
    x[7] *= np.float32(1e37)
    x[8, 0], x[8, -1] = -3e38, 3e38
    x[9] = np.arange(cols) - cols / 2  # halves: to even
    x[10, 1:] = 0
    return x


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("cols", [1, 3, 4, 15, 64, 129, 510])
def test_rows(isa, cols):
    x = awkward_rows(cols)
    found, scale, zero = op("quantize_rows", x, isa=isa)
    expected = quantized_rows(x)
    np.testing.assert_array_equal(found, expected[0])
    np.testing.assert_array_equal(scale, expected[1])
    np.testing.assert_array_equal(zero, expected[2])
    # Zero stays zero, and nothing is further away than a step.
    back = f64(scale)[0][:, None] * (found.astype(np.int64) - zero[:, None])
    assert not back[x == 0].any()
    assert (np.abs(back - x) <= np.maximum(scale, 255 * SMALLEST)[:, None] * 1.0001).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("n", "k"), [(1, 1), (5, 3), (16, 64), (33, 130), (70, 31)])
def test_weight(isa, n, k):
    w = normal(rng(n, k), n, k) * np.float32(0.05)
    w[0] = 0
    w[-1] *= np.float32(1e30)
    found, scale, total = op("pack_int8", w, isa=isa)
    expected, expected_scale = quantized_weight(w)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scale, expected_scale)
    np.testing.assert_array_equal(total, expected.sum(1))
    pairs = np.pad(found.astype(int), ((0, 0), (0, k % 2))).reshape(n, -1, 2)
    largest = max(np.maximum(pairs, 0).sum(2).max(), np.maximum(-pairs, 0).sum(2).max())
    assert largest in ((127, 128) if w.any() else (0,))


SHAPES = [(1, 1, 1), (3, 1, 33), (4, 4, 16), (5, 7, 2), (7, 300, 256), (13, 50, 33), (70, 129, 95)]
SHAPES += [(345, 130, 50), (2, 3073, 17)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
@pytest.mark.parametrize("fused", ["nothing", "bias", "residual", "in place"])
def test_linear(m, k, n, activation, fused):
    random = rng(m, k, n)
    x, w = normal(random, m, k), normal(random, n, k)
    bias = None if fused == "nothing" else normal(random, n)
    residual = normal(random, m, n) if fused in ("residual", "in place") else None
    truth = formula(x, w, bias, activation, residual)
    first = None
    for isa in ISAS:
        for threads in THREADS:
            found = op(
                "linear",
                *(x, w),
                bias=bias,
                activation=activation,
                residual=residual,
                in_place=fused == "in place",
                format="int8",
                isa=isa,
                num_threads=threads,
            )
            # The sums are exact: what is left are some roundings of float32.
            np.testing.assert_allclose(found, truth, rtol=0, atol=4e-7 * np.abs(truth).max())
            if activation != "gelu" or isa == ISAS[0]:
                first = found if first is None else first
                np.testing.assert_array_equal(found, first)


@pytest.mark.parametrize("isa", ISAS)
def test_no_saturation(isa):
    """Bytes and weights at their limits: pairs of products just fit into 16 bits."""
    x = np.full((3, 64), 255, np.float32)
    w = np.full((17, 64), 63.5, np.float32)  # halves: to 64
    w[1::4] = -63.5
    w[2::4, ::2], w[2::4, 1::2] = 127, 0
    w[3::4, ::2], w[3::4, 1::2] = -127, 127
    np.testing.assert_array_equal(op("pack_int8", w, isa=isa)[0], np.rint(w))
    np.testing.assert_array_equal(
        op("linear", x, w, format="int8", isa=isa), x.astype(np.float64) @ np.rint(w).T
    )


@pytest.mark.parametrize("isa", ISAS)
def test_weight_of_the_largest_numbers(isa):
    """Two of them sum to more than float32 holds."""
    w = np.full((3, 8), np.finfo(np.float32).max)
    w[1] = -w[1]
    found, scale, _ = op("pack_int8", w, isa=isa)
    expected, expected_scale = quantized_weight(w)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scale, expected_scale)
    assert np.isfinite(scale).all()
    assert (np.sign(found) == np.sign(w)).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(isa, bad):
    random = rng(3)
    x, w = normal(random, 9, 40), normal(random, 20, 40)
    x[4, 39] = bad
    found = op("linear", x, w, activation="relu", format="int8", isa=isa)
    assert np.isnan(found[4]).all()
    assert np.isfinite(np.delete(found, 4, 0)).all()
    w[7, 0] = bad
    found = op("linear", x[:4], w, format="int8", isa=isa)
    assert np.isnan(found[:, 7]).all()
    assert np.isfinite(np.delete(found, 7, 1)).all()


def test_close_to_float32():
    """A hundredth of a usual value: what two numbers of 8 bits can give."""
    random = rng(4)
    x, w = normal(random, 60, 256), normal(random, 96, 256)
    truth = f64(x)[0] @ f64(w)[0].T
    error = op("linear", x, w, format="int8") - truth
    assert 1e-4 < np.sqrt(np.mean(error**2)) / np.sqrt(np.mean(truth**2)) < 0.0125


def test_empty_and_leading_axes():
    random = rng(5)
    x, w = normal(random, 2, 3, 5, 8), normal(random, 9, 8)
    whole = op("linear", x, w, format="int8")
    assert whole.shape == (2, 3, 5, 9)
    np.testing.assert_array_equal(
        whole.reshape(30, 9), op("linear", x.reshape(30, 8), w, format="int8")
    )
    assert op("linear", x[:0], w, format="int8").shape == (0, 3, 5, 9)


@pytest.mark.parametrize("isa", ISAS)
def test_too_deep(isa):
    with pytest.raises(NotImplementedError, match="at most 131072 input features, found 131073"):
        op("linear", np.ones((1, 131073)), np.ones((1, 131073)), format="int8", isa=isa)
    deep = np.full((1, 131072), 255, np.float32)  # the largest sum
    weight = np.full((1, 131072), -63.5, np.float32)  # halves: to 64
    found = op("linear", deep, weight, format="int8", isa=isa)
    np.testing.assert_array_equal(found, [[-255.0 * 64 * 131072]])


def test_unknown_format():
    with pytest.raises(NotImplementedError, match="precision: expected float32, bfloat16 or int8"):
        op("linear", np.ones((1, 1)), np.ones((1, 1)), format="int3")


@pytest.mark.parametrize(
    "isa",
    [
        *("amx", "avx512_bf16", "avx512_vnni", "avx512", "avx2_vnni", "avx2"),
        *("neon_bf16", "neon_i8mm", "neon_dotprod", "neon"),
    ],
)
def test_instruction_sets(isa):
    """Says which products of short numbers this machine cannot try."""
    if isa not in ISAS:
        pytest.skip(f"this processor has no {isa}")
    assert _testing.missing_kernels(isa) == []
