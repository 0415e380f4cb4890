"""Linear layers whose weights are the upper halves of float32."""

import numpy as np
import pytest
from support.ops import ACTIVATIONS, BFLOAT16_ISAS, ISAS, check, f64, normal, op, rng
from support.ops import to_bfloat16 as rounded

# Others multiply float32 with weights that they widen.
WIDENED = [isa for isa in ISAS if isa not in BFLOAT16_ISAS]

SHAPES = [(0, 5, 7), (1, 1, 1), (3, 1, 33), (14, 32, 32), (29, 383, 65), (13, 1153, 50)]
SHAPES += [(345, 777, 130)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_linear(m, k, n, activation):
    random = rng(m, k, n)
    x, w = normal(random, m, k), normal(random, n, k)
    bias, residual = normal(random, n), normal(random, m, n)
    for isas, inputs in ((WIDENED, x), (BFLOAT16_ISAS, rounded(x))):
        product = f64(inputs)[0] @ f64(rounded(w))[0].T
        for b, r, in_place in ((None, None, False), (bias, None, False), (bias, residual, True)):
            truth = ACTIVATIONS[activation](product if b is None else product + b)
            truth = truth if r is None else truth + r
            options = {"bias": b, "activation": activation, "residual": r, "in_place": in_place}
            check("linear", truth, x, w, format="bfloat16", isas=isas, **options)


def test_the_same_bits_as_float32_with_rounded_weights():
    random = rng(7)
    x, w = normal(random, 50, 900), normal(random, 70, 900)
    for isa in WIDENED:
        np.testing.assert_array_equal(
            op("linear", x, w, format="bfloat16", isa=isa),
            op("linear", x, rounded(w), format="float32", isa=isa),
        )


@pytest.mark.parametrize("isa", ISAS)
def test_numbers_that_are_none(isa):
    w = np.array([[np.nan], [np.inf], [-np.inf], [3.4e38], [1.0]], np.float32)
    found = op("linear", np.ones((1, 1)), w, format="bfloat16", isa=isa)
    np.testing.assert_array_equal(found, [[np.nan, np.inf, -np.inf, np.inf, 1.0]])
