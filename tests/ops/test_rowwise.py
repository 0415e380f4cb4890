"""Layer norm, activations and sums."""

import numpy as np
import pytest
from support.ops import ACTIVATIONS, ISAS, check, f64, normal, op, rng, torch_bound


def layer_norm(x, weight, bias, eps):
    x, weight, bias = f64(x, weight, bias)
    center = x - x.mean(-1, keepdims=True)
    return center / np.sqrt((center**2).mean(-1, keepdims=True) + eps) * weight + bias


@pytest.mark.parametrize("cols", [1, 3, 16, 67, 256, 768])
@pytest.mark.parametrize("rows", [0, 1, 300])
def test_layer_norm(rows, cols):
    random = rng(rows, cols)
    x = normal(random, rows, cols) * 3 + 5
    weight, bias = normal(random, cols), normal(random, cols)
    check("layer_norm", layer_norm(x, weight, bias, 1e-6), x, weight, bias, 1e-6)


def test_layer_norm_with_large_mean():
    # One-pass formulas lose the variance here.
    x = normal(rng(3), 5, 512) + 1000
    one, nothing = np.ones(512), np.zeros(512)
    truth = layer_norm(x, one, nothing, 1e-6)
    check("layer_norm", truth, x, one, nothing, 1e-6, bound=1e-3)


@pytest.mark.parametrize("name", ["none", "relu", "gelu"])
@pytest.mark.parametrize("size", [0, 1, 37, 50_000])
def test_activation(name, size):
    x = normal(rng(size), size) * 4
    check("activation", ACTIVATIONS[name](np.float64(x)), x, name, bound=0)


def test_gelu_is_accurate_relative_to_its_argument():
    x = np.concatenate([np.linspace(-20, 20, 100_001), np.geomspace(1e-30, 1, 999)])
    x = np.concatenate([x, [0.0, -1e4, 1e4]]).astype(np.float32)
    truth = ACTIVATIONS["gelu"](np.float64(x))
    for isa in ISAS:
        error = np.abs(op("activation", x, "gelu", isa=isa) - truth)
        assert (error <= 1.5e-7 * np.abs(x)).all()


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (3, 4)), ((2, 3, 5), (5,)), ((4, 7, 1001), (7, 1001)), ((0, 3), (3,))]
)
def test_add(a, b):
    random = rng(*a)
    x, y = normal(random, *a), normal(random, *b)
    check("add", np.float64(x) + y, x, y)


@pytest.mark.parametrize("shape", [(1, 1), (0, 5), (5, 0), (17, 33), (130, 700), (300, 3)])
def test_transpose(shape):
    x = normal(rng(*shape), *shape)
    check("transpose", np.float64(x).T, x, bound=0)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="add: expected second shape"):
        op("add", np.zeros((3, 4)), np.zeros(5))
    with pytest.raises(ValueError, match="layer_norm: expected weight"):
        op("layer_norm", np.zeros((3, 4)), np.zeros(5), np.zeros(4), 1e-6)


@pytest.mark.parity
def test_pytorch():
    torch = pytest.importorskip("torch")
    random = rng(9)
    x = normal(random, 400, 768) * 2 + 1
    weight, bias = normal(random, 768), normal(random, 768)
    tensors = [torch.from_numpy(a) for a in (x, weight, bias)]
    truth = layer_norm(x, weight, bias, 1e-6)
    rival = torch.nn.functional.layer_norm(tensors[0], (768,), *tensors[1:], eps=1e-6)
    check("layer_norm", truth, x, weight, bias, 1e-6, bound=torch_bound(truth, rival))
    truth = ACTIVATIONS["gelu"](np.float64(x))
    rival = torch.nn.functional.gelu(tensors[0])
    check("activation", truth, x, "gelu", bound=torch_bound(truth, rival))
