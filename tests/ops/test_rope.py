import numpy as np
import pytest
from support.ops import check, f64, normal, op, rng


def rotate(x, cos, sin):
    """Channels in halves; half of the pairs turns with the column, the rest with the row."""
    x, cos, sin = f64(x, cos, sin)
    side = len(cos)
    position = np.arange(len(x)) % (side * side)
    turn = (cos + 1j * sin)[np.stack([position % side, position // side], 1)].reshape(
        len(x), x.shape[1] // 2
    )
    half = x.shape[1] // 2
    turned = (x[:, :half] + 1j * x[:, half:]) * turn
    return np.concatenate([turned.real, turned.imag], 1)


@pytest.mark.parametrize(
    ("side", "quarter", "grids"), [(1, 1, 1), (3, 5, 2), (8, 16, 3), (5, 64, 1), (4, 8, 0)]
)
def test_rotate(side, quarter, grids):
    random = rng(side, quarter)
    x = normal(random, grids * side * side, 4 * quarter)
    angles = random.uniform(0, 6, (side, quarter))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    check("rotate", rotate(x, cos, sin), x, cos, sin)


def test_wrong_shapes():
    table = np.zeros((3, 2))
    with pytest.raises(ValueError, match="rotate_: expected rows of 8 for grids of 3 x 3"):
        op("rotate", np.zeros((8, 8)), table, table)


@pytest.mark.parametrize(
    ("shape", "side", "heads", "quarter"),
    [((1, 4, 4), 4, 2, 2), ((2, 3, 7), 3, 1, 5), ((1, 9, 5), 4, 3, 16), ((0, 2, 2), 2, 1, 1)],
)
def test_rotate_heads(shape, side, heads, quarter):
    """Queries and keys of a fused projection turn as `rotate` turns rows; values stay."""
    random = rng(side, heads, quarter)
    width = 4 * quarter
    qkv = normal(random, *shape, 3 * heads * width)
    angles = random.uniform(0, 6, (side, quarter))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    truth = f64(qkv)[0].reshape(*shape, 3 * heads, width)
    row, column = np.meshgrid(np.arange(shape[1]), np.arange(shape[2]), indexing="ij")
    turn = np.exp(1j * np.arctan2(*f64(sin, cos)))
    turn = np.concatenate([turn[column % side], turn[row % side]], -1)[None, :, :, None]
    pairs = truth[..., : 2 * heads, : 2 * quarter] + 1j * truth[..., : 2 * heads, 2 * quarter :]
    turned = pairs * turn
    truth[..., : 2 * heads, :] = np.concatenate([turned.real, turned.imag], -1)
    check("rotate_heads", truth.reshape(qkv.shape), qkv, cos, sin, 2 * heads)


def test_rotate_heads_wrong_shape():
    table = np.zeros((3, 2))
    with pytest.raises(ValueError, match="rotate_heads_: expected a map"):
        op("rotate_heads", np.zeros((1, 3, 3, 12)), table, table, 2)
