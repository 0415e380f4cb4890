"""Attention to maps with rotary keys, against keys that are made."""

import numpy as np
import pytest
from support.ops import ISAS, check, f64, normal, op, rng, softmax


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


@pytest.mark.parametrize("products", ["float32", "int16"])
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
        (3, 16, 6, 9, 30, 0),  # integers: rows of maps in three blocks
        (3, 8, 5, 2, 128, 0),
        (3, 8, 5, 2, 1, 300),
    ],
)
def test_position_attention(queries, channels, inputs, side, maps, tokens, products):
    given = arrays(queries, channels, inputs, side, maps, tokens)
    truth = position_attention(*given)
    bound = 2**-8 * np.abs(truth).max(initial=0) if products == "int16" else None
    check("position_attention", truth, *given, bound=bound, products=products)


def test_integers_are_multiplied():
    given = arrays(40, 64, 16, 8, 3, 4)
    for isa in ISAS:
        exact, integers = (
            op("position_attention", *given, products=products, isa=isa)
            for products in ("float32", "int16")
        )
        assert not np.array_equal(exact, integers)


@pytest.mark.parametrize("products", ["float32", "int16"])
def test_large_scores_do_not_overflow(products):
    given = list(arrays(20, 16, 4, 4, 3, 2))
    given[0] *= 100
    truth = position_attention(*given)
    bound = 1e-2 if products == "float32" else 5e-2 * np.abs(truth).max()
    check("position_attention", truth, *given, bound=bound, products=products)


def test_one_query_far_larger_than_others():
    # Each query has scales of its own.
    given = list(arrays(20, 16, 4, 4, 3, 2))
    given[0][7] *= 1e4
    truth = position_attention(*given)
    for isa in ISAS:
        found = op("position_attention", *given, products="int16", isa=isa)
        others = np.arange(20) != 7
        assert np.abs(found - truth)[others].max() < 2**-8 * np.abs(truth).max()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["query", "features", "pos", "tokens", "token_pos"])
def test_integers_hide_no_nan_nor_infinity(bad, where):
    given = list(arrays(20, 16, 4, 4, 3, 2))
    names = ["query", "weight", "bias", "features", "pos", "tpos", "tokens", "token_pos"]
    given[names.index(where)].reshape(-1)[5] = bad
    for isa in ISAS:
        found = op("position_attention", *given, products="int16", isa=isa)
        hit = found[:1] if where == "query" else found
        assert not np.isfinite(hit).all(axis=-1).any()


def test_more_maps_than_a_block_of_integers_has():
    given = arrays(4, 8, 3, 2, 129, 0)
    with pytest.raises(ValueError, match="pack_positions: expected 128 maps at most, found 129"):
        op("position_attention", *given, products="int16")


def test_no_keys():
    given = arrays(4, 8, 3, 2, 0, 0)
    with pytest.raises(ValueError, match="position_attention: expected at least one key"):
        op("position_attention", *given)
