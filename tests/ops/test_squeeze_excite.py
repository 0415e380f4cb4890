import numpy as np
import pytest
import sam_rlx
from support.ops import check, f64, normal, op, rng

SHAPES = [(1, 1, 1, 1), (2, 5, 7, 3), (1, 9, 4, 50), (3, 2, 130, 8), (1, 64, 64, 192)]


@pytest.mark.parametrize("shape", SHAPES)
def test_channel_means(shape):
    x = normal(rng(*shape), *shape)
    check("channel_means", f64(x)[0].mean((1, 2)), x, bound=1e-6)


def test_means_of_large_numbers():
    """Their sum has more digits than a float."""
    x = normal(rng(4), 1, 200, 300, 5) + np.float32(1000)
    check("channel_means", f64(x)[0].mean((1, 2)), x, bound=1e-3)


@pytest.mark.parametrize("shape", [*SHAPES, (0, 3, 3, 2)])
def test_gate_channels(shape):
    random = rng(*shape)
    x, logits = normal(random, *shape), 8 * normal(random, shape[0], shape[3])
    wide, gates = f64(x, logits)
    truth = wide / (1 + np.exp(-gates[:, None, None]))
    check("gate_channels", truth, x, logits)


def test_gates_without_bounds():
    x, logits = np.ones((1, 1, 1, 3), np.float32), np.array([[-np.inf, np.inf, np.nan]], np.float32)
    np.testing.assert_array_equal(op("gate_channels", x, logits), [[[[0, 1, np.nan]]]])


@pytest.mark.parametrize("name", ["channel_means", "gate_channels"])
def test_wrong_shapes(name):
    arguments = [np.ones((1, 0, 2, 3), np.float32)]
    if name == "gate_channels":
        arguments.append(np.ones((1, 2), np.float32))
    with pytest.raises(sam_rlx.InvalidArgumentError, match=name):
        op(name, *arguments)


@pytest.mark.parametrize(("shape", "size"), [((4, 6, 3), 2), ((3, 9, 5), 3), ((5, 2, 1), 1)])
def test_window_partition(shape, size):
    x = normal(rng(*shape), *shape)
    rows, cols = shape[0] // size, shape[1] // size
    windows = x.reshape(rows, size, cols, size, -1).swapaxes(1, 2)
    truth = windows.reshape(rows * cols, size * size, -1)
    check("window_partition", truth.astype(np.float64), x, size, bound=0)


def test_windows_that_do_not_divide_the_map():
    with pytest.raises(sam_rlx.InvalidArgumentError, match="window_partition"):
        op("window_partition", np.ones((4, 5, 2), np.float32), 2)
