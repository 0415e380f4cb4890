import numpy as np
import pytest
from support.ops import ACTIVATIONS, ISAS, check, f64, normal, op, rng, torch_bound

SHAPES = [
    (0, 5, 7),
    (1, 1, 1),
    (3, 1, 33),
    (7, 256, 300),
    (14, 32, 32),
    (15, 17, 31),
    (29, 383, 65),
    (30, 385, 16),
    (13, 1153, 50),
    (200, 40, 100),
    (345, 777, 130),
]


def formula(x, w, bias, activation, residual):
    x, w, bias, residual = f64(x, w, bias, residual)
    y = x @ w.T
    if bias is not None:
        y = y + bias
    y = ACTIVATIONS[activation](y)
    return y if residual is None else y + residual


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
def test_linear(m, k, n, activation):
    random = rng(m, k, n)
    x, w = normal(random, m, k), normal(random, n, k)
    bias, residual = normal(random, n), normal(random, m, n)
    for b, r in ((None, None), (bias, None), (bias, residual)):
        truth = formula(x, w, b, activation, r)
        check("linear", truth, x, w, bias=b, activation=activation, residual=r)


@pytest.mark.parametrize("activation", ["none", "gelu"])
@pytest.mark.parametrize("k", [20, 900])
def test_residual_in_place(k, activation):
    random = rng(k)
    x, w = normal(random, 50, k), normal(random, 70, k)
    bias, residual = normal(random, 70), normal(random, 50, 70)
    truth = formula(x, w, bias, activation, residual)
    check("linear", truth, x, w, bias=bias, activation=activation, residual=residual, in_place=True)


def test_leading_axes_and_empty():
    random = rng(1)
    x, w = normal(random, 2, 3, 5, 8), normal(random, 9, 8)
    check("linear", formula(x, w, None, "none", None), x, w)
    assert op("linear", x[:0], w).shape == (0, 3, 5, 9)


def test_wrong_shape():
    with pytest.raises(ValueError, match="linear: expected last axis of 4"):
        op("linear", np.zeros((2, 5)), np.zeros((3, 4)))


@pytest.mark.parity
@pytest.mark.parametrize(("m", "k", "n"), [(197, 768, 200), (33, 3072, 96)])
def test_pytorch(m, k, n):
    torch = pytest.importorskip("torch")
    random = rng(m, k, n)
    x, w, bias = normal(random, m, k), normal(random, n, k), normal(random, n)
    truth = formula(x, w, bias, "gelu", None)
    rival = torch.nn.functional.gelu(
        torch.nn.functional.linear(*(torch.from_numpy(a) for a in (x, w, bias)))
    )
    check("linear", truth, x, w, bias=bias, activation="gelu", bound=torch_bound(truth, rival))


def test_rows_do_not_depend_on_each_other():
    # A row has the same bits alone and among others: predictions do not depend on the batch.
    random = rng(2)
    x, w = normal(random, 40, 500), normal(random, 48, 500)
    for isa in ISAS:
        whole = op("linear", x, w, isa=isa)
        for i in (0, 13, 39):
            np.testing.assert_array_equal(whole[i : i + 1], op("linear", x[i : i + 1], w, isa=isa))
