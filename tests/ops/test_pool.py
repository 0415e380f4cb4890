import numpy as np
import pytest
from support.ops import ISAS, THREADS, normal, op, rng


def pooled(x, channels):
    b, h, w, _ = x.shape
    return x[..., :channels].reshape(b, h // 2, 2, w // 2, 2, channels).max((2, 4))


@pytest.mark.parametrize(
    ("shape", "channels"),
    [((1, 2, 2, 1), 1), ((2, 6, 4, 9), 9), ((1, 8, 10, 33), 11), ((3, 16, 64, 96), 32)],
)
def test_max_pool(shape, channels):
    x = normal(rng(*shape), *shape)
    for isa in ISAS:
        for threads in THREADS:
            found = op("max_pool2x2", x, channels, isa=isa, num_threads=threads)
            np.testing.assert_array_equal(found, pooled(x, channels))


def test_no_maps():
    assert op("max_pool2x2", np.zeros((0, 4, 4, 3), np.float32), 3).shape == (0, 2, 2, 3)


def test_odd_sides_are_refused():
    with pytest.raises(ValueError, match=r"max_pool2x2: expected a map .* even sides"):
        op("max_pool2x2", np.zeros((1, 3, 4, 2), np.float32), 2)
    with pytest.raises(ValueError, match="max_pool2x2: result"):
        op("max_pool2x2", np.zeros((1, 4, 4, 2), np.float32), 3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 7), (32, 32, 16)])
def test_upsample_nearest(shape):
    x = normal(rng(*shape), *shape)
    for threads in THREADS:
        found = op("upsample_nearest2x_hwc", x, num_threads=threads)
        np.testing.assert_array_equal(found, x.repeat(2, 0).repeat(2, 1))
