import numpy as np
import pytest
from support.ops import ACTIVATIONS, check, check_bfloat16, f64, normal, op, rng, torch_bound


def conv2d(x, weight, stride, padding):
    x, weight = f64(x, weight)
    k = weight.shape[2]
    x = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (k, k), (1, 2))[:, ::stride, ::stride]
    return np.einsum("bhwcij,ocij->bhwo", windows, weight)


PATCH_EMBED = ((1, 32, 24, 3), 7, 4, 3)  # SAM 2's
WINDOWS = [
    *((shape, 3, 1, 1) for shape in [(1, 1, 1, 1), (2, 5, 7, 3), (1, 9, 4, 50), (3, 2, 16, 8)]),
    *((shape, 3, 2, 1) for shape in [(1, 8, 6, 1), (2, 5, 7, 4), (1, 9, 4, 16), (1, 1, 1, 3)]),
    *(((2, 32, 16, 3), 16, 16, 0), ((1, 6, 9, 5), 3, 3, 0), ((2, 3, 5, 7), 1, 1, 0)),
    PATCH_EMBED,
    ((1, 5, 6, 2), 4, 4, 0),  # patches that leave rows and columns over
    ((1, 1, 2, 3), 3, 1, 1),
    ((3, 13, 8, 1), 2, 3, 2),
    ((2, 6, 5, 4), 5, 1, 2),
    *(((0, 4, 4, 2), 3, stride, 1) for stride in (1, 2)),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), WINDOWS, ids=str)
@pytest.mark.parametrize("out", [1, 33, 40])
def test_conv2d(shape, kernel, stride, padding, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[3], kernel, kernel)
    bias = normal(random, out)
    window = {"stride": stride, "padding": padding}
    truth = conv2d(x, weight, **window)
    check("conv2d", truth, x, weight, **window)
    residual = normal(random, *truth.shape)
    truth = np.maximum(truth + bias, 0) + residual
    check("conv2d", truth, x, weight, bias=bias, activation="relu", residual=residual, **window)


BFLOAT16 = [((2, 5, 7, 32), 3, 1, 1), ((1, 9, 41, 96), 3, 1, 1), ((1, 6, 5, 64), 3, 2, 1)]
BFLOAT16 += [((2, 3, 5, 50), 1, 1, 0), ((1, 8, 8, 32), 4, 4, 0), ((0, 4, 4, 32), 3, 1, 1)]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), BFLOAT16, ids=str)
@pytest.mark.parametrize("out", [33, 64])
def test_conv2d_of_bfloat16(shape, kernel, stride, padding, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[3], kernel, kernel)
    bias = normal(random, out)
    window = {"stride": stride, "padding": padding}
    residual = normal(random, *conv2d(x, weight, **window).shape)

    def formula(x, weight):
        return np.maximum(conv2d(x, weight, **window) + bias, 0) + residual

    options = {"bias": bias, "activation": "relu", "residual": residual, **window}
    check_bfloat16("conv2d", formula, x, weight, **options)


def test_conv2d_of_other_numbers_of_inputs_stays_float32():
    random = rng(5)
    x, weight = normal(random, 1, 6, 8, 48), normal(random, 40, 48, 3, 3)
    check("conv2d", conv2d(x, weight, 1, 1), x, weight, padding=1, format="bfloat16")


def depthwise(x, weight, bias, stride=1):
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
    return out[:, ::stride, ::stride]


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
    for stride, activation in ((2, "gelu"), (3, "relu")):
        options = {"stride": stride, "activation": activation}
        truth = depthwise(x, weight, bias, stride)
        if truth.size:
            truth = np.asarray(ACTIVATIONS[activation](truth), np.float64)
        check("depthwise_conv", truth, x, weight, bias, **options)


def bottleneck(x, weights, stride, activations, residual):
    expand, expand_bias, weight, weight_bias, project, project_bias = f64(*weights)
    wide = ACTIVATIONS[activations[0]](f64(x)[0] @ expand.T + expand_bias)
    narrow = ACTIVATIONS[activations[1]](depthwise(wide, weight, weight_bias, stride))
    out = narrow @ project.T + project_bias
    return ACTIVATIONS[activations[2]](out if residual is None else out + residual)


@pytest.mark.parametrize(
    ("shape", "hidden", "out", "size", "stride"),
    [
        ((1, 40, 9, 8), 33, 8, 3, 1),  # bands of several threads
        ((2, 37, 5, 7), 16, 24, 3, 2),
        ((1, 1, 1, 3), 5, 3, 7, 1),
        ((1, 50, 4, 16), 40, 5, 5, 3),
        ((3, 3, 20, 6), 12, 6, 1, 1),
    ],
)
@pytest.mark.parametrize("activations", [("gelu", "gelu", "none"), ("relu", "none", "gelu")])
def test_bottleneck(shape, hidden, out, size, stride, activations):
    random = rng(*shape, hidden, size)
    sides = ((hidden, shape[3]), (size * size, hidden), (out, hidden))
    x, weights = normal(random, *shape), []
    for side in sides:
        weights += [normal(random, *side), normal(random, hidden if side != sides[2] else out)]
    args = (x, weights, stride, activations)
    check("bottleneck", bottleneck(*args, None), *args)
    residual = normal(random, *bottleneck(*args, None).shape)
    check("bottleneck", bottleneck(*args, residual), *args, residual=residual)


def test_bottleneck_of_other_sizes_is_refused():
    def weights(**changes):
        shapes = {"expand": (8, 4), "middle": (9, 8), "project": (6, 8), **changes}
        biases = {"expand": 8, "middle": 8, "project": 6}
        return [
            np.zeros(shape, np.float32) for name in shapes for shape in (shapes[name], biases[name])
        ]

    x = np.zeros((1, 5, 4, 4), np.float32)
    for changes, text in (
        ({"expand": (8, 3)}, r"expected a map \(B, H, W, 3\)"),
        ({"middle": (9, 7)}, "expected weight and bias of 8 channels"),
        ({"project": (6, 7)}, "project: expected 8 inputs, found 7"),
    ):
        with pytest.raises(ValueError, match=f"bottleneck.*{text}"):
            op("bottleneck", x, weights(**changes))
    with pytest.raises(ValueError, match="bottleneck: residual"):
        op("bottleneck", x, weights(), residual=np.zeros((1, 5, 4, 5)))


def test_wrong_shapes():
    with pytest.raises(ValueError, match="conv2d: expected a map"):
        op("conv2d", np.zeros((1, 5, 4, 3)), np.zeros((8, 3, 7, 7)), 4, 1)
    for padding in (0, 1):
        with pytest.raises(ValueError, match="conv2d: expected weight with 36 inputs"):
            op("conv2d", np.zeros((1, 5, 4, 4)), np.zeros((8, 3, 3, 3)), 1, padding)
    with pytest.raises(ValueError, match="depthwise_conv: expected weight and bias of 4"):
        op("depthwise_conv", np.zeros((1, 5, 4, 4)), np.zeros((8, 4)), np.zeros(4))
    with pytest.raises(ValueError, match="expected a stride of at least 1, found 0"):
        op("depthwise_conv", np.zeros((1, 5, 4, 4)), np.zeros((9, 4)), np.zeros(4), stride=0)


@pytest.mark.parity
@pytest.mark.parametrize("kernel", [3, 16])
def test_pytorch(kernel):
    torch = pytest.importorskip("torch")
    random = rng(kernel)
    x, weight = normal(random, 1, 32, 48, 24), normal(random, 40, 24, kernel, kernel)
    images = torch.from_numpy(x).permute(0, 3, 1, 2)
    window = {"stride": 1 if kernel == 3 else kernel, "padding": int(kernel == 3)}
    rival = torch.nn.functional.conv2d(images, torch.from_numpy(weight), **window)
    truth = conv2d(x, weight, **window)
    bound = torch_bound(truth, rival.permute(0, 2, 3, 1))
    check("conv2d", truth, x, weight, bound=bound, **window)


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


@pytest.mark.parametrize(
    ("shape", "out"), [((2, 5, 7, 3), 5), ((1, 3, 300, 80), 24), ((1, 18, 18, 1100), 40)], ids=str
)
def test_conv_transpose2x2_of_bfloat16(shape, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, shape[3], out, 2, 2)
    bias = normal(random, out)

    def formula(x, weight):
        return ACTIVATIONS["gelu"](conv_transpose2x2(x, weight) + bias)

    check_bfloat16("conv_transpose2x2", formula, x, weight, bias, activation="gelu")


def test_conv_transpose2x2_wrong_shape():
    with pytest.raises(ValueError, match="conv_transpose2x2: expected a map"):
        op("conv_transpose2x2", np.zeros((1, 5, 4, 3)), np.zeros((8, 3, 2, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="pack_conv_transpose2x2: expected a weight"):
        op("conv_transpose2x2", np.zeros((1, 5, 4, 8)), np.zeros((8, 3, 2, 2)), np.zeros(4))
