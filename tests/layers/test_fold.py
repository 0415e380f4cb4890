"""A linear map of channels behind a layer, as one layer: float64 is the truth."""

import numpy as np
import pytest
from support.ops import check, f64, normal, op, rng

OUT, MID, IN = 5, 37, 11


def check_rounded_once(found, truth, largest):
    """Check that sums of numbers up to `largest` were made in double and rounded once."""
    assert found.dtype == np.float32
    assert found.shape == truth.shape
    assert np.all(np.abs(found - truth) <= 2.0**-24 * np.abs(truth) + 1e-13 * largest)


@pytest.mark.parametrize("ones", [(), (1, 1)])
@pytest.mark.parametrize(
    ("shape", "axis", "formula"),
    [
        ((MID, IN), 0, "om,mi->oi"),
        ((MID, IN, 3, 3), 0, "om,mixy->oixy"),
        ((IN, MID, 2, 2), 1, "om,imxy->ioxy"),
        ((MID, 1), 0, "om,mi->oi"),
        ((MID, 1031), 0, "om,mi->oi"),  # more columns than a thread takes at a time
        ((IN, MID, 23, 47), 1, "om,imxy->ioxy"),
    ],
)
def test_weight(shape, axis, formula, ones):
    random = rng(*shape, axis)
    weight, inner = normal(random, OUT, MID, *ones), normal(random, *shape)
    truth = np.einsum(formula, *f64(weight.reshape(OUT, MID), inner))
    check_rounded_once(op("folded_weight", weight, inner, axis), truth, MID)


def test_sums_are_double():
    big, small = 3e7, 1.0
    weight = np.array([[1, 1, 1]], np.float32)
    inner = np.array([[big], [small], [-big]], np.float32)
    assert op("folded_weight", weight, inner) == [[small]]
    assert op("folded_bias", weight, np.array([small], np.float32), inner[:, 0]) == [2 * small]


@pytest.mark.parametrize("with_bias", [True, False])
def test_bias(with_bias):
    random = rng(with_bias)
    weight, inner = normal(random, OUT, MID, 1, 1), normal(random, MID)
    bias = normal(random, OUT) if with_bias else None
    truth = weight.reshape(OUT, MID).astype(np.float64) @ inner + (bias if with_bias else 0.0)
    check_rounded_once(op("folded_bias", weight, bias, inner), truth, MID)


@pytest.mark.parametrize("shape", [(3, 7), (1, 5), (4, 1), (6, 1, 3, 3)])
def test_transposed(shape):
    x = normal(rng(*shape), *shape)
    np.testing.assert_array_equal(op("transposed", x), x.reshape(shape[0], -1).T)


def test_sizes_that_do_not_match():
    with pytest.raises(RuntimeError, match="folded_weight: sizes do not match"):
        op("folded_weight", np.zeros((OUT, MID)), np.zeros((MID + 1, IN)))
    with pytest.raises(RuntimeError, match="folded_bias: sizes do not match"):
        op("folded_bias", np.zeros((OUT, MID)), np.zeros(OUT + 1), np.zeros(MID))


def projected(x, weight, bias):
    return x @ weight.reshape(OUT, MID).T + bias


def folded(first, second, axis):
    """The weight and bias of two layers as one; the truth of their composition is not rounded."""
    return (
        op("folded_weight", second[0], first[0], axis),
        op("folded_bias", second[0], second[1], first[1]),
    )


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(1, 1, 0), (3, 1, 1), (3, 2, 1)])
def test_convolution_behind_a_convolution(kernel, stride, padding):
    random = rng(kernel, stride)
    x = normal(random, 2, 6, 5, IN)
    first = normal(random, MID, IN, kernel, kernel), normal(random, MID)
    second = normal(random, OUT, MID, 1, 1), normal(random, OUT)
    padded = np.pad(f64(x)[0], [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))
    hidden = np.einsum("bhwcij,ocij->bhwo", windows[:, ::stride, ::stride], f64(first[0])[0])
    truth = projected(hidden + first[1], *f64(*second))
    weight, bias = folded(first, second, 0)
    check("conv2d", truth, x, weight, stride, padding, bias=bias)


def test_convolution_behind_a_transposed_convolution():
    random = rng(7)
    x = normal(random, 2, 3, 4, IN)
    first = normal(random, IN, MID, 2, 2), normal(random, MID)
    second = normal(random, OUT, MID, 1, 1), normal(random, OUT)
    hidden = np.einsum("bhwi,ioyx->bhywxo", *f64(x, first[0])).reshape(2, 6, 8, MID)
    truth = projected(hidden + first[1], *f64(*second))
    weight, bias = folded(first, second, 1)
    check("conv_transpose2x2", truth, x, weight, bias)
