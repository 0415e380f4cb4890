"""Linear layers whose weights have 16 bits: the upper halves of float32, or integers."""

import numpy as np
import pytest
from support.ops import (
    ACTIVATIONS,
    BFLOAT16_ISAS,
    INT16_ERROR,
    INT16_ISAS,
    ISAS,
    WIDENED_ISAS,
    check,
    f64,
    normal,
    op,
    rng,
)
from support.ops import to_bfloat16 as rounded

SHAPES = [(0, 5, 7), (1, 1, 1), (3, 1, 33), (14, 32, 32), (29, 383, 65), (13, 1153, 50)]
SHAPES += [(345, 777, 130)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_linear(m, k, n, activation):
    random = rng(m, k, n)
    x, w = normal(random, m, k), normal(random, n, k)
    bias, residual = normal(random, n), normal(random, m, n)
    multiplied = ((WIDENED_ISAS, x, rounded(w)), (BFLOAT16_ISAS, rounded(x), rounded(w)))
    for isas, inputs, weight in (*multiplied, (INT16_ISAS, x, w)):
        product = f64(inputs)[0] @ f64(weight)[0].T
        bound = INT16_ERROR * np.abs(product).max(initial=0) if isas is INT16_ISAS else None
        for b, r, in_place in ((None, None, False), (bias, None, False), (bias, residual, True)):
            truth = ACTIVATIONS[activation](product if b is None else product + b)
            truth = truth if r is None else truth + r
            options = {"bias": b, "activation": activation, "residual": r, "in_place": in_place}
            check("linear", truth, x, w, format="bfloat16", isas=isas, bound=bound, **options)


def test_the_same_bits_as_float32_with_rounded_weights():
    random = rng(7)
    x, w = normal(random, 50, 900), normal(random, 70, 900)
    for isa in WIDENED_ISAS:
        np.testing.assert_array_equal(
            op("linear", x, w, format="bfloat16", isa=isa),
            op("linear", x, rounded(w), format="float32", isa=isa),
        )


def test_integers_are_closer_than_bfloat16():
    """Also where one input in fifty is forty times as large, as in trained transformers."""
    random = rng(11)
    w = normal(random, 90, 1100)
    for large in (1, 40):
        x = normal(random, 60, 1100)
        x[:, ::50] *= large
        truth = f64(x)[0] @ f64(w)[0].T
        error = np.abs(f64(rounded(x))[0] @ f64(rounded(w))[0].T - truth).std()
        for isa in INT16_ISAS:
            assert np.abs(op("linear", x, w, format="bfloat16", isa=isa) - truth).std() < error / 2


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_the_largest_sums_of_integers(size):
    """Rows and channels of equal numbers, whose sums of a block are as large as they can be.

    In every fourth channel half of each block is zero, so that a block which began elsewhere would
    have larger sums.
    """
    x = np.full((17, 1000), size, np.float32)
    w = np.full((33, 1000), -1 / np.float32(size), np.float32)
    w[::2] *= -1
    w[::4, (np.arange(1000) + 128) % 512 >= 256] = 0
    truth = f64(x)[0] @ f64(w)[0].T
    for isa in INT16_ISAS:
        check("linear", truth, x, w, format="bfloat16", isas=[isa], bound=0.2)


@pytest.mark.parametrize("isa", ISAS)
def test_nan_and_infinity(isa):
    """Integers have no infinity: it is NaN, in its own channel or row alone."""
    w = np.array([[np.nan], [np.inf], [-np.inf], [3.4e38], [1.0], [0.0]], np.float32)
    x = np.ones((1, 1), np.float32)
    found = op("linear", x, w, format="bfloat16", isa=isa)
    if isa in INT16_ISAS:
        expected = [[np.nan, np.nan, np.nan, 3.4e38, 1.0, 0.0]]
        np.testing.assert_allclose(found, expected, rtol=INT16_ERROR)
    else:
        np.testing.assert_array_equal(found, [[np.nan, np.inf, -np.inf, np.inf, 1.0, 0.0]])
    for bad in (np.nan, np.inf, -np.inf):
        x = np.ones((3, 5), np.float32)
        x[1, 2] = bad
        found = op("linear", x, np.ones((4, 5), np.float32), format="bfloat16", isa=isa)
        assert not np.isfinite(found[1]).any()
        np.testing.assert_allclose(found[::2], np.full((2, 4), 5.0), rtol=INT16_ERROR)
