"""A convolution whose channels are summed with weights, in float64."""

import numpy as np
import pytest
import sam_rlx
from support.ops import check, f64, normal, op, rng

SHAPES = [
    (1, 1, 1, 1),
    (5, 7, 3, 2),
    (2, 33, 16, 8),
    (1, 40, 5, 3),
    (12, 1, 4, 4),
    (64, 64, 64, 32),
]


def inputs(height, width, channels, count):
    random = rng(height, width, channels)
    return (
        normal(random, height, width, channels),
        normal(random, count, channels, 3, 3),
        normal(random, count),
        normal(random, count),
        normal(random, height, width, count),
    )


def truth_of(arrays):
    x, weight, bias, weights, *beside = f64(*arrays)
    height, width = x.shape[:2]
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    result = np.zeros((height, width, len(bias))) + bias + sum(beside)
    for dy in range(3):
        for dx in range(3):
            result += padded[dy : dy + height, dx : dx + width] @ weight[:, :, dy, dx].T
    return result @ weights


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_weighted_conv3x3(shape, adds, beside):
    arrays = inputs(*shape)
    arrays = arrays if beside else arrays[:-1]
    truth, added = truth_of(arrays), {}
    if adds:
        added["added"] = normal(rng(9), *shape[:2])
        truth = truth + f64(added["added"])[0]
    check("weighted_conv3x3", truth, *arrays, **added)


def test_wrong_shapes():
    x, weight, bias, weights, beside = inputs(4, 5, 3, 2)
    for arrays in (
        (x[:3], weight, bias, weights, beside),
        (x, weight[:, :, :2], bias, weights),
        (x, weight, bias[:1], weights),
        (x, weight, bias, weights[:1]),
        (x, weight, bias, weights, beside[..., :1]),
    ):
        with pytest.raises(sam_rlx.InvalidArgumentError, match="weighted_conv3x3: expected shape"):
            op("weighted_conv3x3", *map(np.ascontiguousarray, arrays))
