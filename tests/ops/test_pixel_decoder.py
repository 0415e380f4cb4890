"""The pixel decoder's convolutions in quarters, its norm, and products with its channels."""

import numpy as np
import pytest
from support.ops import ISAS, check, check_bfloat16, f64, normal, op, rng, torch_bound


def conv3x3(x, weight):
    """x (H, W, C), weight (out, in, 3, 3) -> (H, W, out)."""
    x, weight = f64(x, weight)
    height, width, _ = x.shape
    padded = np.pad(x, [(1, 1), (1, 1), (0, 0)])
    return sum(
        padded[i : i + height, j : j + width] @ weight[:, :, i, j].T
        for i in range(3)
        for j in range(3)
    )


def to_quarters(x):
    return np.stack([x[dy::2, dx::2] for dy in (0, 1) for dx in (0, 1)])


def from_quarters(x):
    _, height, width, channels = x.shape
    out = np.empty((2 * height, 2 * width, channels), x.dtype)
    for quarter in range(4):
        out[quarter // 2 :: 2, quarter % 2 :: 2] = x[quarter]
    return out


SHAPES = [(2, 2, 1), (4, 6, 3), (10, 14, 40), (6, 2, 17)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("out", [1, 33])
def test_conv3x3_to_quarters(shape, out):
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[2], 3, 3)
    bias = normal(random, out)
    truth = to_quarters(conv3x3(x, weight) + bias)
    check("conv3x3_to_quarters", truth, x, weight, bias)


ENLARGED = [((1, 1, 2), False), ((3, 5, 4), False)]
ENLARGED += [(shape, quarters) for shape in SHAPES for quarters in (False, True)]


@pytest.mark.parametrize(("shape", "quarters"), ENLARGED)
@pytest.mark.parametrize("out", [1, 33])
def test_conv3x3_upsampled(shape, out, quarters):
    """The same as a convolution of the enlarged map, borders included."""
    random = rng(*shape, out)
    x, weight = normal(random, *shape), normal(random, out, shape[2], 3, 3)
    residual = normal(random, 4, *shape[:2], out)
    enlarged = x.repeat(2, axis=0).repeat(2, axis=1)
    truth = to_quarters(conv3x3(enlarged, weight)) + residual
    check("conv3x3_upsampled", truth, to_quarters(x) if quarters else x, weight, residual)


@pytest.mark.parametrize("shape", [(2, 2, 32), (10, 14, 96)])
def test_convolutions_of_bfloat16(shape):
    random = rng(*shape)
    x, weight = normal(random, *shape), normal(random, 33, shape[2], 3, 3)
    bias, residual = normal(random, 33), normal(random, 4, *shape[:2], 33)

    def formula(x, weight):
        return to_quarters(conv3x3(x, weight) + bias)

    check_bfloat16("conv3x3_to_quarters", formula, x, weight, bias)
    enlarged = x.repeat(2, axis=0).repeat(2, axis=1)
    truth = to_quarters(conv3x3(enlarged, weight)) + residual
    # Weights are rounded once they are summed: both factors of a product by half a step each.
    bound = 2**-8 * conv3x3(np.abs(enlarged), np.abs(weight)).max()
    for part in (x, to_quarters(x)):
        args = (part, weight, residual)
        check("conv3x3_upsampled", truth, *args, bound=bound, format="bfloat16")
        for isa in ISAS:
            found = op("conv3x3_upsampled", *args, format="bfloat16", isa=isa)
            assert np.abs(found - truth).max() > 1e-3  # something was rounded


def test_convolutions_of_other_numbers_of_inputs_stay_float32():
    random = rng(5)
    x, weight = normal(random, 6, 8, 48), normal(random, 40, 48, 3, 3)
    bias, residual = np.zeros(40, np.float32), np.zeros((4, 6, 8, 40), np.float32)
    quarters = to_quarters(conv3x3(x, weight))
    check("conv3x3_to_quarters", quarters, x, weight, bias, format="bfloat16")
    enlarged = to_quarters(conv3x3(x.repeat(2, axis=0).repeat(2, axis=1), weight))
    check("conv3x3_upsampled", enlarged, x, weight, residual, format="bfloat16")


def group_norm_relu(x, weight, bias, groups, eps=1e-5):
    x, weight, bias = f64(x, weight, bias)
    grouped = x.reshape(-1, groups, x.shape[-1] // groups)
    center = grouped - grouped.mean((0, 2), keepdims=True)
    scaled = center / np.sqrt((center**2).mean((0, 2), keepdims=True) + eps)
    return np.maximum(scaled.reshape(x.shape) * weight + bias, 0)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((1, 1, 16), 2), ((3, 5, 16), 8), ((4, 9, 7, 24), 8), ((70, 80, 40), 8), ((5, 6, 12), 1)],
)
def test_group_norm(shape, groups):
    random = rng(*shape)
    x = normal(random, *shape) * 3 + normal(random, shape[-1])
    weight, bias = normal(random, shape[-1]), normal(random, shape[-1])
    truth = group_norm_relu(x, weight, bias, groups)
    check("group_norm", truth, x, weight, bias, groups, 1e-5)


def test_group_norm_with_large_mean():
    # One-pass formulas lose the variance here.
    x = normal(rng(3), 60, 70, 8) + 1000
    one, nothing = np.ones(8, np.float32), np.zeros(8, np.float32)
    truth = group_norm_relu(x, one, nothing, 2)
    check("group_norm", truth, x, one, nothing, 2, 1e-5, bound=1e-3)


@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 4), (7, 130, 40)])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_map_products(shape, count):
    random = rng(*shape, count)
    x = normal(random, 4, *shape)
    scale, shift = normal(random, shape[2]), normal(random, shape[2])
    vectors, bias = normal(random, count, shape[2]), normal(random, count)
    pixels = np.maximum(from_quarters(np.float64(x)) * scale + shift, 0)
    truth = np.einsum("hwc,kc->khw", pixels, np.float64(vectors)) + bias[:, None, None]
    check("map_products", truth, x, scale, shift, vectors, bias)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="conv3x3_to_quarters: expected a map"):
        op("conv3x3_to_quarters", np.zeros((3, 4, 2)), np.zeros((2, 2, 3, 3)), np.zeros(2))
    x, weight = np.zeros((3, 4, 2)), np.zeros((2, 2, 3, 3))
    with pytest.raises(ValueError, match="conv3x3_upsampled: result"):
        op("conv3x3_upsampled", x, weight, np.zeros((4, 4, 3, 2)))
    with pytest.raises(ValueError, match="group_norm: expected 3 groups"):
        op("group_norm", np.zeros((2, 2, 8)), np.ones(8), np.ones(8), 3, 1e-5)
    two = np.ones(2)
    with pytest.raises(ValueError, match="map_products: expected a map in quarters"):
        op("map_products", np.zeros((3, 4, 4, 2)), two, two, np.ones((1, 2)), np.ones(1))


@pytest.mark.parity
def test_pytorch():
    torch = pytest.importorskip("torch")
    random = rng(1)
    coarse, level = normal(random, 9, 11, 32), normal(random, 18, 22, 32)
    weight = normal(random, 32, 32, 3, 3)
    planes = [torch.from_numpy(a).permute(2, 0, 1)[None] for a in (coarse, level)]
    enlarged = torch.nn.functional.interpolate(planes[0], scale_factor=2.0, mode="nearest")
    rival = torch.nn.functional.conv2d(planes[1] + enlarged, torch.from_numpy(weight), padding=1)
    rival = rival[0].permute(1, 2, 0)
    truth = conv3x3(np.float64(level) + np.float64(coarse).repeat(2, 0).repeat(2, 1), weight)
    bound = torch_bound(truth, rival)
    residual = op("conv3x3_to_quarters", level, weight, np.zeros(32))
    found = from_quarters(op("conv3x3_upsampled", coarse, weight, residual))
    assert np.max(np.abs(found - truth)) <= bound + 1e-6 * np.max(np.abs(truth))

    gain, bias = normal(random, 32), normal(random, 32)
    norm = torch.nn.functional.group_norm(
        rival.permute(2, 0, 1)[None], 8, *map(torch.from_numpy, (gain, bias))
    )
    truth = group_norm_relu(rival.numpy(), gain, bias, 8)
    bound = torch_bound(truth, torch.relu(norm)[0].permute(1, 2, 0))
    check("group_norm", truth, rival.contiguous().numpy(), gain, bias, 8, 1e-5, bound=bound)
