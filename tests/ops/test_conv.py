import numpy as np
import pytest
from support.ops import ACTIVATIONS, check, f64, normal, op, rng, torch_bound


def patches3x3(x):
    b, h, w, c = x.shape
    padded = np.zeros((b, h + 2, w + 2, c))
    padded[:, 1:-1, 1:-1] = x
    return np.stack([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], -2)


def conv3x3(x, weight):
    x, weight = f64(x, weight)
    return np.einsum("bhwtc,octk->bhwo", patches3x3(x), weight.reshape(*weight.shape[:2], 9, 1))


def conv_patch(x, weight):
    x, weight = f64(x, weight)
    b, h, w, c = x.shape
    p = weight.shape[2]
    return np.einsum("bhiwjc,ocij->bhwo", x.reshape(b, h // p, p, w // p, p, c), weight)


def conv_strided(x, weight, stride, padding):
    x, weight = f64(x, weight)
    k = weight.shape[2]
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), (1, 2))[:, ::stride, ::stride]
    return np.einsum("bhwcij,ocij->bhwo", windows, weight)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((1, 32, 24, 3), 7, 4, 3),  # SAM 2's patch embedding
        ((2, 9, 7, 5), 3, 2, 1),
        ((1, 5, 6, 2), 4, 4, 0),
        ((1, 1, 2, 3), 3, 1, 1),
        ((3, 13, 8, 1), 2, 3, 2),
        ((0, 4, 4, 2), 3, 1, 1),
    ],
)
@pytest.mark.parametrize("out", [1, 40])
def test_conv_strided(shape, kernel, stride, padding, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[3], kernel, kernel)
    bias = normal(random, out)
    truth = conv_strided(x, weight, stride, padding)
    window = {"stride": stride, "padding": padding}
    check("conv_strided", truth, x, weight, **window)
    residual = normal(random, *truth.shape)
    truth = np.maximum(truth + bias, 0) + residual
    check(
        "conv_strided", truth, x, weight, bias=bias, activation="relu", residual=residual, **window
    )


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 1), (2, 5, 7, 3), (1, 9, 4, 50), (3, 2, 16, 8), (0, 3, 3, 2)]
)
@pytest.mark.parametrize("out", [1, 33])
def test_conv3x3(shape, out):
    random = rng(*shape, out)
    x, weight, bias = (
        normal(random, *shape),
        normal(random, out, shape[3], 3, 3),
        normal(random, out),
    )
    residual = normal(random, *shape[:3], out)
    check("conv3x3", conv3x3(x, weight), x, weight)
    truth = np.maximum(conv3x3(x, weight) + bias, 0) + residual
    check("conv3x3", truth, x, weight, bias=bias, activation="relu", residual=residual)


@pytest.mark.parametrize(
    ("shape", "patch"),
    [((1, 4, 6, 1), 2), ((2, 32, 16, 3), 16), ((1, 6, 9, 5), 3), ((2, 3, 5, 7), 1)],
)
@pytest.mark.parametrize("out", [4, 40])
def test_conv_patch(shape, patch, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[3], patch, patch)
    bias = normal(random, out)
    check("conv_patch", conv_patch(x, weight) + bias, x, weight, bias=bias)


def conv3x3_stride2(x, weight):
    return conv3x3(x, weight)[:, ::2, ::2]


@pytest.mark.parametrize(
    "shape", [(1, 8, 6, 1), (2, 5, 7, 4), (1, 9, 4, 16), (3, 2, 16, 8), (1, 1, 1, 3), (0, 3, 3, 2)]
)
@pytest.mark.parametrize("out", [4, 33])
def test_conv3x3_stride2(shape, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[3], 3, 3)
    bias = normal(random, out)
    truth = np.maximum(conv3x3_stride2(x, weight) + bias, 0)
    check("conv3x3_stride2", truth, x, weight, bias=bias, activation="relu")


def depthwise(x, weight, bias):
    x, weight, bias = f64(x, weight, bias)
    size = int(len(weight) ** 0.5)
    pad = size // 2
    b, h, w, c = x.shape
    padded = np.zeros((b, h + 2 * pad, w + 2 * pad, c))
    padded[:, pad : pad + h, pad : pad + w] = x
    out = np.zeros(x.shape) + bias
    for i in range(size):
        for j in range(size):
            out += weight[i * size + j] * padded[:, i : i + h, j : j + w]
    return out


@pytest.mark.parametrize(
    "shape",
    [(1, 8, 8, 16), (2, 5, 7, 13), (1, 1, 1, 1), (1, 2, 16, 64), (3, 20, 3, 5), (0, 3, 3, 2)],
)
@pytest.mark.parametrize("size", [1, 3, 7])
def test_depthwise_conv(shape, size):
    random = rng(*shape, size)
    x, weight = normal(random, *shape), normal(random, size * size, shape[3])
    bias = normal(random, shape[3])
    check("depthwise_conv", depthwise(x, weight, bias), x, weight, bias)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="conv_patch: expected a map"):
        op("conv_patch", np.zeros((1, 5, 4, 3)), np.zeros((8, 3, 2, 2)))
    with pytest.raises(ValueError, match="conv_strided: expected a map"):
        op("conv_strided", np.zeros((1, 5, 4, 3)), np.zeros((8, 3, 7, 7)), 4, 1)
    with pytest.raises(ValueError, match="conv3x3: expected weight with 36 inputs"):
        op("conv3x3", np.zeros((1, 5, 4, 4)), np.zeros((8, 3, 3, 3)))
    with pytest.raises(ValueError, match="conv3x3_stride2: expected weight with 36 inputs"):
        op("conv3x3_stride2", np.zeros((1, 5, 4, 4)), np.zeros((8, 3, 3, 3)))
    with pytest.raises(ValueError, match="depthwise_conv: expected weight and bias of 4"):
        op("depthwise_conv", np.zeros((1, 5, 4, 4)), np.zeros((8, 4)), np.zeros(4))


@pytest.mark.parity
@pytest.mark.parametrize("kernel", [3, 16])
def test_pytorch(kernel):
    torch = pytest.importorskip("torch")
    random = rng(kernel)
    x, weight = normal(random, 1, 32, 48, 24), normal(random, 40, 24, kernel, kernel)
    images = torch.from_numpy(x).permute(0, 3, 1, 2)
    step = {"padding": 1} if kernel == 3 else {"stride": kernel}
    rival = torch.nn.functional.conv2d(images, torch.from_numpy(weight), **step)
    name, formula = ("conv3x3", conv3x3) if kernel == 3 else ("conv_patch", conv_patch)
    truth = formula(x, weight)
    check(name, truth, x, weight, bound=torch_bound(truth, rival.permute(0, 2, 3, 1)))


def conv_transpose2x2(x, weight):
    x, weight = f64(x, weight)
    b, h, w, _ = x.shape
    return np.einsum("bhwi,ioyx->bhywxo", x, weight).reshape(b, 2 * h, 2 * w, weight.shape[1])


@pytest.mark.parametrize(
    ("shape", "out"),
    [
        ((1, 1, 1, 1), 1),
        ((2, 5, 7, 3), 5),
        ((1, 3, 300, 17), 24),  # lines that are cut
        ((1, 2, 9, 1100), 12),  # inner sums that are cut
        ((1, 18, 18, 64), 40),
        ((0, 3, 3, 2), 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_conv_transpose2x2(shape, out, activation):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, shape[3], out, 2, 2)
    bias = normal(random, out)
    truth = ACTIVATIONS[activation](conv_transpose2x2(x, weight) + bias) if x.size else x
    truth = np.asarray(truth, np.float64).reshape(shape[0], 2 * shape[1], 2 * shape[2], out)
    check("conv_transpose2x2", truth, x, weight, bias, activation=activation)


def test_conv_transpose2x2_wrong_shape():
    with pytest.raises(ValueError, match="conv_transpose2x2: expected a map"):
        op("conv_transpose2x2", np.zeros((1, 5, 4, 3)), np.zeros((8, 3, 2, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="pack_conv_transpose2x2: expected a weight"):
        op("conv_transpose2x2", np.zeros((1, 5, 4, 8)), np.zeros((8, 3, 2, 2)), np.zeros(4))
