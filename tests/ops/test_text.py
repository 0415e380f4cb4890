"""Rows of tables by number, and causal attention inside of runs of rows."""

import itertools

import numpy as np
import pytest
from support.ops import check, f64, normal, op, rng, softmax


def causal_attention(qkv, begins, heads, scale, hidden=()):
    (qkv,) = f64(qkv)
    seen = np.ones(len(qkv), bool) if not len(hidden) else np.asarray(hidden) == 0
    q, k, v = np.moveaxis(qkv.reshape(len(qkv), 3, heads, qkv.shape[1] // (3 * heads)), 1, 0)
    out = np.empty_like(q)
    for first, end in itertools.pairwise(begins):
        for i in range(first, end):
            rows = first + np.flatnonzero(seen[first : i + 1])
            scores = np.einsum("hd,jhd->hj", q[i], k[rows]) * scale
            weights = softmax(scores) if len(rows) else scores
            out[i] = np.einsum("hj,jhd->hd", weights, v[rows])
    return out.reshape(len(qkv), qkv.shape[1] // 3)


@pytest.mark.parametrize(
    ("lengths", "heads", "head_dim"),
    [
        ([1], 1, 1),
        ([5], 2, 3),
        ([4, 0, 7, 1], 3, 5),
        ([0], 2, 4),
        ([32, 9, 17], 4, 16),
        ([33, 77], 2, 64),
        ([2] * 40, 1, 8),
    ],
)
def test_causal_attention(lengths, heads, head_dim):
    random = rng(*lengths, heads)
    begins = [0, *np.cumsum(lengths).tolist()]
    qkv = normal(random, begins[-1], 3 * heads * head_dim)
    scale = head_dim**-0.5
    truth = causal_attention(qkv, begins, heads, scale)
    check("causal_attention", truth, qkv, begins, heads, scale)


@pytest.mark.parametrize("first", [0, 1])
def test_rows_that_no_row_attends_to(first):
    """Those that are hidden attend to others themselves; a row that sees none gets zeros."""
    random = rng(first)
    qkv = normal(random, 21, 3 * 24)
    hidden = [0] * 5 + [1] * 4 + [1 - first, 0, 1, 0] + [0] * 8
    hidden[0] = first
    begins = [0, 9, 13, 21]
    truth = causal_attention(qkv, begins, 3, 0.3, hidden)
    check("causal_attention", truth, qkv, begins, 3, 0.3, hidden)
    found = op("causal_attention", qkv, begins, 3, 0.3, hidden)
    assert (found[0] == 0).all() == bool(first)
    changed = qkv.copy()
    changed[5:9, 24:] = 1e30
    other = op("causal_attention", changed, begins, 3, 0.3, hidden)
    np.testing.assert_array_equal(found[9:], other[9:])


def test_no_row_sees_what_follows_it():
    """A row and all before it keep their bits when what follows changes, or is not there."""
    random = rng(3)
    qkv = normal(random, 20, 3 * 24)
    whole = op("causal_attention", qkv, [0, 20], 2, 0.3)
    changed = qkv.copy()
    changed[12:] = 1e30
    np.testing.assert_array_equal(whole[:12], op("causal_attention", changed, [0, 20], 2, 0.3)[:12])
    other = op("causal_attention", np.roll(qkv, 1, axis=0), [0, 20], 2, 0.3)
    assert np.abs(other[1:13] - whole[:12]).max() > 0.01


@pytest.mark.parametrize("begins", [[], [0], [1, 6], [0, 5], [0, 4, 3, 6], [0, 7]])
def test_runs_that_do_not_fit(begins):
    with pytest.raises(ValueError, match="runs that cover 6 rows"):
        op("causal_attention", np.zeros((6, 12)), begins, 2, 1.0)


def test_heads_that_do_not_divide():
    with pytest.raises(ValueError, match="divisible by the heads"):
        op("causal_attention", np.zeros((6, 12)), [0, 6], 3, 1.0)


@pytest.mark.parametrize("ids", [[], [0], [4, 0, 4, 3], list(range(5)) * 30])
def test_embedding(ids):
    table = normal(rng(len(ids)), 5, 7)
    found = op("embedding", table, ids, num_threads=3)
    assert found.tobytes() == table[np.asarray(ids, int)].tobytes()


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_numbers_outside_of_the_table(wrong):
    with pytest.raises(ValueError, match=f"ids: expected numbers from 0 to 4, found {wrong}"):
        op("embedding", np.zeros((5, 7)), [0, wrong, -7])
