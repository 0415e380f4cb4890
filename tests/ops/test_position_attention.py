"""Attention to maps with rotary keys, against keys that are made."""

import numpy as np
import pytest
from support.ops import check, f64, normal, op, rng, softmax


def turned(x, side):
    """Rows of positions of a grid, channels in halves, by the axial angles."""
    pairs = x.shape[1] // 4
    angle = np.arange(side)[:, None] * 10000.0 ** (-np.arange(pairs) / pairs)
    position = np.arange(len(x)) % (side * side)
    angle = np.concatenate([angle[position % side], angle[position // side]], 1)
    half = x.shape[1] // 2
    result = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angle)
    return np.concatenate([result.real, result.imag], 1)


def position_attention(query, weight, bias, features, pos, tpos, tokens, token_pos, scale):
    query, weight, bias, features, pos = f64(query, weight, bias, features, pos)
    tpos, tokens, token_pos = f64(tpos, tokens, token_pos)
    side, inputs = round(len(pos) ** 0.5), weight.shape[1]
    maps = (features + pos + tpos[:, None]).reshape(-1, inputs)
    keys = np.concatenate(
        [turned(maps @ weight.T + bias, side), (tokens + token_pos) @ weight.T + bias]
    )
    values = np.concatenate([features.reshape(-1, inputs), tokens])
    return softmax(query @ keys.T * scale) @ values


def arrays(queries, channels, inputs, side, maps, tokens):
    random = rng(queries, channels, inputs, side, maps, tokens)
    positions = side * side
    return (
        normal(random, queries, channels),
        normal(random, channels, inputs) / np.float32(inputs**0.5),
        normal(random, channels),
        normal(random, maps, positions, inputs),
        normal(random, positions, inputs),
        normal(random, maps, inputs),
        normal(random, tokens, inputs),
        normal(random, tokens, inputs),
        channels**-0.5,
    )


@pytest.mark.parametrize(
    ("queries", "channels", "inputs", "side", "maps", "tokens"),
    [
        (64, 64, 16, 8, 2, 4),
        (9, 32, 5, 3, 7, 0),
        (33, 16, 8, 5, 1, 3),
        (1, 4, 1, 1, 3, 1),
        (16, 64, 64, 4, 16, 64),
        (5, 8, 3, 2, 0, 9),
        (0, 8, 3, 2, 2, 1),
        (40, 256, 64, 7, 13, 5),
    ],
)
def test_position_attention(queries, channels, inputs, side, maps, tokens):
    given = arrays(queries, channels, inputs, side, maps, tokens)
    check("position_attention", position_attention(*given), *given)


def test_large_scores_do_not_overflow():
    given = list(arrays(20, 16, 4, 4, 3, 2))
    given[0] *= 100
    check("position_attention", position_attention(*given), *given, bound=1e-2)


def test_no_keys():
    given = arrays(4, 8, 3, 2, 0, 0)
    with pytest.raises(ValueError, match="position_attention: expected at least one key"):
        op("position_attention", *given)
