import time

import numpy as np
import pytest
from support.ops import (
    BFLOAT16_ISAS,
    INT16_ISAS,
    ISAS,
    check,
    f64,
    normal,
    op,
    rng,
    softmax,
    to_bfloat16,
    torch_bound,
)


def attention(q, k, v, heads, scale):
    q, k, v = (a.reshape(*a.shape[:2], heads, a.shape[2] // heads) for a in f64(q, k, v))
    p = softmax(np.einsum("bnhd,bmhd->bhnm", q, k) * scale)
    return np.einsum("bhnm,bmhd->bnhd", p, v).reshape(*q.shape[:2], heads * v.shape[3])


def rel_terms(q, table, size):
    """q (..., size, D) over one axis of a window -> (..., size, size)."""
    index = np.arange(size)[:, None] - np.arange(size)[None] + size - 1
    return np.einsum("...id,ijd->...ij", q, table[index])


def window_attention(
    qkv,
    heads,
    window,
    scale,
    rel_h=None,
    rel_w=None,
    pad_qkv=None,
    distance_bias=None,
    number=lambda x: x,
):
    """`number` is what the factors of scores and of the result are made of."""
    qkv, rel_h, rel_w, pad_qkv = f64(qkv, rel_h, rel_w, pad_qkv)
    b, h, w, c3 = qkv.shape
    size_h, size_w = (window, window) if window else (h, w)
    rows, cols = -(-h // size_h), -(-w // size_w)
    padded = np.empty((b, rows * size_h, cols * size_w, c3))
    if pad_qkv is not None and pad_qkv.ndim == 3:  # a vector for each position of a window
        pad_qkv = np.tile(pad_qkv, (rows, cols, 1))
    padded[:] = 0 if pad_qkv is None else pad_qkv
    padded[:, :h, :w] = qkv
    x = padded.reshape(b, rows, size_h, cols, size_w, 3, heads, -1)
    q, k, v = np.moveaxis(x, (5, 6), (0, 4))  # (b, rows, size_h, heads, cols, size_w, d)
    q, k, v = (np.moveaxis(a, (2, 5), (4, 5)) for a in (q, k, v))  # (b, rows, heads, cols, h, w, d)
    flat = (*q.shape[:4], size_h * size_w, -1)
    factors = [f64(number(x.reshape(flat)))[0] for x in (q, k, v)]
    scores = np.einsum("...id,...jd->...ij", *factors[:2]) * scale
    if rel_h is not None:
        scores = scores.reshape(*q.shape[:4], size_h, size_w, size_h, size_w)
        scores = (
            scores + np.moveaxis(rel_terms(np.swapaxes(q, 4, 5), rel_h, size_h), 4, 5)[..., :, None]
        )
        scores = scores + rel_terms(q, rel_w, size_w)[..., None, :]
        scores = scores.reshape(*q.shape[:4], size_h * size_w, -1)
    if distance_bias is not None:
        y, x = np.divmod(np.arange(size_h * size_w), size_w)
        apart = [np.abs(np.subtract.outer(axis, axis)) for axis in (y, x)]
        (bias,) = f64(distance_bias)
        scores = scores + bias[:, apart[0], apart[1]][:, None]
    out = np.einsum("...ij,...jd->...id", softmax(scores), factors[2]).reshape(q.shape)
    out = np.moveaxis(out, (4, 5), (2, 5))  # (b, rows, size_h, heads, cols, size_w, d)
    out = np.moveaxis(out, 3, 5).reshape(b, rows * size_h, cols * size_w, -1)
    return out[:, :h, :w]


@pytest.mark.parametrize(
    ("batch", "queries", "keys", "heads", "head_dim", "value_dim"),
    [
        (1, 1, 1, 1, 1, 1),
        (2, 7, 300, 2, 16, 16),
        (1, 300, 7, 3, 16, 16),
        (3, 33, 65, 1, 5, 9),
        (1, 130, 600, 2, 64, 64),
        (2, 0, 5, 2, 8, 8),
        (0, 3, 5, 2, 8, 8),
        (1, 40, 1024, 1, 80, 33),
    ],
)
def test_attention(batch, queries, keys, heads, head_dim, value_dim):
    random = rng(batch, queries, keys, heads)
    q = normal(random, batch, queries, heads * head_dim)
    k = normal(random, batch, keys, heads * head_dim)
    v = normal(random, batch, keys, heads * value_dim)
    scale = head_dim**-0.5
    check("attention", attention(q, k, v, heads, scale), q, k, v, heads, scale)


@pytest.mark.parametrize("isa", ISAS)
def test_scores_that_are_far_apart_cost_no_more(isa):
    """Weights that are denormal or 0 are slow on some processors: 50 times with AVX-512."""
    random = rng(11)
    q, k, v = (normal(random, 1, count, 16) for count in (192, 2048, 2048))

    def seconds(scale):
        start = time.process_time()
        op("attention", q, k, v, 1, scale, isa=isa)
        return time.process_time() - start

    # Of turns, so that others on the machine meet both.
    near, far = zip(*((seconds(0.1), seconds(40.0)) for _ in range(7)), strict=True)
    assert min(far) < 3 * min(near)


def biased_attention(q, k, v, heads, scale, bias_h, bias_w, first):
    """The bias of each pair of a query and a key, made."""
    q, k, v, bias_h, bias_w = f64(q, k, v, bias_h, bias_w)
    batch, queries, _ = q.shape
    bias = bias_h[..., :, None] + bias_w[..., None, :]
    bias = bias.reshape(batch, heads, queries - first, k.shape[1])
    bias = np.concatenate([np.zeros((batch, heads, first, bias.shape[3])), bias], 2)
    q, k, v = (a.reshape(*a.shape[:2], heads, -1) for a in (q, k, v))
    p = softmax(np.einsum("bnhd,bmhd->bhnm", q, k) * scale + bias)
    return np.einsum("bhnm,bmhd->bnhd", p, v).reshape(batch, queries, -1)


@pytest.mark.parametrize(
    ("batch", "queries", "grid", "heads", "head_dim", "first"),
    [
        (1, 11, (5, 7), 2, 16, 1),
        (2, 3, (1, 1), 1, 4, 0),
        (1, 201, (24, 24), 8, 8, 1),
        (3, 40, (9, 40), 3, 5, 3),
        (1, 1, (3, 2), 2, 8, 1),  # nothing but the query without bias
    ],
)
def test_bias_of_a_map(batch, queries, grid, heads, head_dim, first):
    random = rng(batch, queries, *grid)
    width = heads * head_dim
    q = normal(random, batch, queries, width)
    k, v = (normal(random, batch, grid[0] * grid[1], width) for _ in range(2))
    bias_h, bias_w = (normal(random, batch * heads, queries - first, n) * 2 for n in grid)
    scale = head_dim**-0.5
    truth = biased_attention(q, k, v, heads, scale, bias_h, bias_w, first)
    bias = {"bias_h": bias_h, "bias_w": bias_w, "bias_first": first}
    check("attention", truth, q, k, v, heads, scale, **bias)


@pytest.mark.parametrize(
    ("batch", "queries", "grid", "heads", "head_dim", "first"),
    [(2, 7, (10, 30), 2, 16, 0), (1, 201, (24, 24), 8, 8, 1), (1, 130, (3, 5), 3, 96, 3)],
)
@pytest.mark.parametrize("biased", [False, True])
def test_attention_of_bfloat16(batch, queries, grid, heads, head_dim, first, biased):
    random = rng(batch, queries, *grid)
    width = heads * head_dim
    q = normal(random, batch, queries, width)
    k, v = (normal(random, batch, grid[0] * grid[1], width) for _ in range(2))
    bias = [normal(random, batch * heads, queries - first, n) * 2 for n in grid]
    args = [heads, head_dim**-0.5, *([*bias, first] if biased else [])]
    formula = biased_attention if biased else attention
    products = [to_bfloat16(x) for x in (q, k, v)]
    truth = formula(*products, *args)
    # The softmax's weights are rounded at 8 bits as well.
    bound = 2**-8 * formula(*products[:2], np.abs(v), *args).max()
    check("attention", truth, q, k, v, *args, bound=bound, products="bfloat16")


INT16_CASES = [
    # queries, grid of keys, heads, head_dim
    (32, (1, 33), 3, 7),  # an odd number of everything, and keys that end in the middle of a pair
    (40, (10, 30), 2, 16),  # more keys than a step has
    (201, (24, 24), 2, 64),
    (130, (3, 5), 3, 96),
]


@pytest.mark.parametrize(("queries", "grid", "heads", "head_dim"), INT16_CASES)
@pytest.mark.parametrize("biased", [False, True])
def test_attention_of_int16(queries, grid, heads, head_dim, biased):
    random = rng(queries, *grid)
    width, batch = heads * head_dim, 2
    q = normal(random, batch, queries, width)
    k, v = (normal(random, batch, grid[0] * grid[1], width) for _ in range(2))
    bias = [normal(random, batch * heads, queries - 1, n) * 2 for n in grid]
    args = [heads, head_dim**-0.5, *([*bias, 1] if biased else [])]
    formula = biased_attention if biased else attention
    # Scores have 13 bits and more, the weights of a step 14 and its values 10. Errors of many keys
    # cancel; of a few weights, those of values count alone.
    bound = 2**-10 * formula(q, k, np.abs(v), *args).max()
    check("attention", formula(q, k, v, *args), q, k, v, *args, bound=bound, products="int16")
    for isa in ISAS:
        low = op("attention", q, k, v, *args, products="int16", isa=isa)
        assert not np.array_equal(low, op("attention", q, k, v, *args, isa=isa))


def test_products_are_those_that_the_processor_multiplies_fastest():
    for isa in ISAS:
        fewer_bits = "int16" if isa in INT16_ISAS else "float32"
        if isa in BFLOAT16_ISAS:
            fewer_bits = "bfloat16"
        of_positions = "int16" if isa in (*INT16_ISAS, "avx512_bf16") else "float32"
        formats = {
            "float32": ("float32", "float32"),
            **dict.fromkeys(("bfloat16", "int8"), (fewer_bits, of_positions)),
        }
        assert {name: op("attention_products", name, isa=isa) for name in formats} == formats


def test_few_queries_are_not_worth_int16():
    q, k, v = (normal(rng(n), 1, 31, 8) for n in range(3))
    for isa in ISAS:
        low, exact = (
            op("attention", q, k, v, 2, 0.4, products=products, isa=isa)
            for products in ("int16", "float32")
        )
        assert np.array_equal(low, exact)


def test_many_small_weights_beside_a_large_one_in_int16():
    """A key that draws most of the weight leaves the others theirs, in steps without it."""
    random = rng(5)
    keys, dim = 1600, 16
    q, k, v = np.ones((1, 32, dim)), normal(random, 1, keys, dim) / 8, normal(random, 1, keys, dim)
    k[:, 3] = 0.75  # e^12 times the weight of most keys
    v[:, 3] = 0
    v += 1
    truth = attention(q, k, v, 1, 1.0)
    check("attention", truth, q, k, v, 1, 1.0, bound=2e-3, products="int16")


@pytest.mark.parametrize(
    ("products", "bad"),
    [
        ("int16", np.nan),
        ("int16", np.inf),
        ("int16", -np.inf),
        ("bfloat16", np.nan),
    ],
)
def test_fewer_bits_hide_no_nan_nor_infinity(products, bad):
    """Integers have no infinity: it is NaN."""
    x = [normal(rng(n), 1, 60, 20) for n in range(3)]
    for which, hidden in ((0, np.s_[:, 7, 10:]), (1, np.s_[:, :, 10:]), (2, np.s_[:, :, 12])):
        inputs = [a.copy() for a in x]
        inputs[which][0, 7, 12] = bad
        expected = np.zeros((1, 60, 20), bool)
        expected[hidden] = True
        for isa in ISAS:
            out = op("attention", *inputs, 2, 0.3, products=products, isa=isa)
            assert np.array_equal(np.isnan(out), expected)


def test_zeros_in_int16():
    """Keys, queries and values of zeros, and such whose scale is no normal number."""
    v = np.full((1, 40, 6), 0.5, np.float32)
    v[..., 1] = 0
    for number in (0.0, 1e-42):
        q = np.full((1, 33, 6), number, np.float32)
        check(
            "attention",
            np.tile(v[:, :1], (1, 33, 1)),
            q,
            q[:, :1].repeat(40, 1),
            v,
            2,
            1.0,
            bound=1e-6,
            products="int16",
        )


@pytest.mark.parametrize("shapes", [((2, 3, 2), (2, 3, 4)), ((2, 4, 2), (2, 4, 3))])
def test_bias_of_another_map_is_refused(shapes):
    zeros = [np.zeros(shape, np.float32) for shape in shapes]
    positions = np.zeros((1, 6, 4))
    bias = {"bias_h": zeros[0], "bias_w": zeros[1], "bias_first": 1}
    with pytest.raises(ValueError, match="attention: bias: expected terms"):
        op("attention", np.zeros((1, 4, 4)), positions, positions, 2, 1.0, **bias)


def test_large_scores_do_not_overflow():
    random = rng(4)
    q, k, v = (normal(random, 1, 20, 16) * 30 for _ in range(3))
    q[:, :3] = 0
    check("attention", attention(q, k, v, 1, 1.0), q, k, v, 1, 1.0, bound=1e-2)


def test_no_keys():
    with pytest.raises(ValueError, match="at least one key"):
        op("attention", np.zeros((1, 2, 4)), np.zeros((1, 0, 4)), np.zeros((1, 0, 4)), 1, 1.0)


WINDOW_CASES = [
    # shape (B, H, W), heads, head_dim, window
    ((1, 14, 14), 2, 8, 14),
    ((2, 8, 6), 1, 5, 0),
    ((2, 10, 7), 2, 16, 4),
    ((1, 20, 33), 2, 16, 14),
    ((3, 3, 2), 1, 4, 5),
    ((1, 24, 40), 1, 64, 0),
    # Windows one above the other: keys and values are read from where they are.
    ((2, 24, 8), 2, 96, 8),
    ((1, 20, 4), 3, 20, 4),
    ((1, 21, 7), 1, 33, 7),
]


@pytest.mark.parametrize(("shape", "heads", "head_dim", "window"), WINDOW_CASES)
@pytest.mark.parametrize("rel_pos", [False, True])
def test_window_attention(shape, heads, head_dim, window, rel_pos):
    random = rng(*shape, window)
    c = heads * head_dim
    qkv, pad = normal(random, *shape, 3 * c), normal(random, 3 * c)
    size_h, size_w = (window, window) if window else shape[1:]
    rel = {}
    if rel_pos:
        rel = {
            "rel_h": normal(random, 2 * size_h - 1, head_dim) * 0.3,
            "rel_w": normal(random, 2 * size_w - 1, head_dim) * 0.3,
        }
    scale = head_dim**-0.5
    truth = window_attention(qkv, heads, window, scale, pad_qkv=pad, **rel)
    check("window_attention", truth, qkv, heads, window, scale, pad_qkv=pad, **rel)


DISTANCE_CASES = [
    *WINDOW_CASES,
    ((1, 64, 9), 2, 32, 7),  # cut at the right
    ((1, 9, 14), 3, 32, 7),  # and at the bottom
    ((2, 31, 20), 2, 32, 14),
    ((1, 18, 37), 1, 16, 18),  # more keys than a block has
]


@pytest.mark.parametrize(("shape", "heads", "head_dim", "window"), DISTANCE_CASES)
def test_a_term_for_each_distance(shape, heads, head_dim, window):
    random = rng(*shape, window)
    c = heads * head_dim
    qkv, pad = normal(random, *shape, 3 * c), normal(random, 3 * c)
    sides = (window, window) if window else shape[1:]
    options = {"pad_qkv": pad, "distance_bias": 2 * normal(random, heads, *sides)}
    args = (qkv, heads, window, head_dim**-0.5)
    check("window_attention", window_attention(*args, **options), *args, **options)
    truth = window_attention(*args, **options, number=to_bfloat16)
    bound = 2**-8 * softmax_weighted_size(*args, options)
    check("window_attention", truth, *args, bound=bound, products="bfloat16", **options)
    check(
        "window_attention",
        window_attention(*args, **options),
        *args,
        bound=bound / 2,
        products="int16",
        **options,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"distance_bias": np.zeros((2, 4, 3), np.float32)},
        {"distance_bias": np.zeros((1, 4, 4), np.float32)},
        {
            "distance_bias": np.zeros((2, 4, 4), np.float32),
            "rel_h": np.zeros((7, 4), np.float32),
            "rel_w": np.zeros((7, 4), np.float32),
        },
        {
            "distance_bias": np.zeros((2, 4, 4), np.float32),
            "query": np.zeros((1, 4, 4, 8), np.float32),
        },
    ],
    ids=["sides", "heads", "two kinds of terms", "queries of another map"],
)
def test_terms_for_distances_that_do_not_fit_are_refused(options):
    with pytest.raises(ValueError, match="window_attention: distances: expected terms"):
        op("window_attention", np.zeros((1, 8, 8, 24)), 2, 4, 1.0, **options)


@pytest.mark.parametrize(
    ("shape", "heads", "head_dim", "window"),
    [*WINDOW_CASES, ((1, 16, 24), 2, 56, 8), ((1, 14, 28), 1, 72, 14), ((1, 32, 19), 1, 96, 0)],
)
@pytest.mark.parametrize("rel_pos", [False, True])
def test_products_of_16_bits(shape, heads, head_dim, window, rel_pos):
    random = rng(*shape, window)
    c = heads * head_dim
    qkv, pad = normal(random, *shape, 3 * c), normal(random, 3 * c)
    options = {"pad_qkv": pad}
    if rel_pos:
        sides = (window, window) if window else shape[1:]
        for name, side in zip(("rel_h", "rel_w"), sides, strict=True):
            options[name] = normal(random, 2 * side - 1, head_dim) * 0.3
    scale = head_dim**-0.5
    truth = window_attention(qkv, heads, window, scale, **options, number=to_bfloat16)
    # The softmax's weights are rounded at 8 bits as well.
    bound = 2**-8 * softmax_weighted_size(qkv, heads, window, scale, options)
    args = (qkv, heads, window, scale)
    check("window_attention", truth, *args, bound=bound, products="bfloat16", **options)
    truth = window_attention(*args, **options)
    check("window_attention", truth, *args, bound=bound / 2, products="int16", **options)


@pytest.mark.parametrize(
    ("shape", "heads", "head_dim", "window"),
    [((2, 5, 7), 2, 4, 3), ((1, 3, 4), 1, 8, 6), ((1, 30, 25), 2, 16, 24)],
)
def test_padded_positions_of_their_own(shape, heads, head_dim, window):
    random = rng(*shape, window)
    c3 = 3 * heads * head_dim
    qkv, pad = normal(random, *shape, c3), normal(random, window, window, c3)
    scale = head_dim**-0.5
    truth = window_attention(qkv, heads, window, scale, pad_qkv=pad)
    check("window_attention", truth, qkv, heads, window, scale, pad_qkv=pad, pad_stride=c3)


def softmax_weighted_size(qkv, heads, window, scale, options):
    """The largest sum of softmax weights and absolute values."""
    sizes = np.array(qkv)
    third = qkv.shape[-1] // 3
    sizes[..., 2 * third :] = np.abs(sizes[..., 2 * third :])
    pad = np.array(options["pad_qkv"])
    pad[2 * third :] = np.abs(pad[2 * third :])
    return window_attention(sizes, heads, window, scale, **{**options, "pad_qkv": pad}).max()


def pooled_window_attention(qkv, heads, window, scale, pad_qkv, pool):
    """Queries are the largest of `pool` x `pool` positions of a padded window, as upstream."""
    qkv, pad_qkv = f64(qkv, pad_qkv)
    b, h, w, c3 = qkv.shape
    size_h, size_w = (window, window) if window else (h, w)
    channels, out = c3 // 3, np.empty((b, h // pool, w // pool, c3 // 3))
    for y in range(0, h, size_h):
        for x in range(0, w, size_w):
            part = np.empty((b, size_h, size_w, c3))
            part[:] = pad_qkv
            inside = qkv[:, y : y + size_h, x : x + size_w]
            part[:, : inside.shape[1], : inside.shape[2]] = inside
            q, k, v = np.split(part, 3, -1)
            q = q.reshape(b, size_h // pool, pool, size_w // pool, pool, channels).max((2, 4))
            positions = q.shape[1:3]
            flat = (a.reshape(b, -1, channels) for a in (q, k, v))
            result = attention(*flat, heads, scale).reshape(b, *positions, channels)
            target = out[:, y // pool :, x // pool :][:, : positions[0], : positions[1]]
            target[:] = result[:, : target.shape[1], : target.shape[2]]
    return out


@pytest.mark.parametrize(
    ("shape", "heads", "head_dim", "window", "pool"),
    [
        ((1, 8, 8), 1, 16, 4, 2),
        ((2, 10, 6), 2, 12, 4, 2),  # padded windows
        ((1, 4, 8), 2, 5, 14, 2),  # one window, larger than the map
        ((2, 6, 4), 1, 24, 0, 2),
        ((1, 18, 9), 2, 8, 6, 3),
        ((1, 32, 32), 2, 72, 8, 2),
        ((2, 24, 8), 2, 56, 8, 2),  # windows one above the other
        ((1, 12, 4), 4, 96, 4, 2),
    ],
)
def test_pooled_queries(shape, heads, head_dim, window, pool):
    random = rng(*shape, window)
    c = heads * head_dim
    qkv, pad = normal(random, *shape, 3 * c), normal(random, 3 * c)
    b, h, w = shape
    query = qkv[..., :c].reshape(b, h // pool, pool, w // pool, pool, c).max((2, 4))
    scale = head_dim**-0.5
    truth = pooled_window_attention(qkv, heads, window, scale, pad, pool)
    check("window_attention", truth, qkv, heads, window, scale, pad_qkv=pad, query=query)


@pytest.mark.parametrize("query", [(1, 2, 2, 2), (1, 4, 2, 4), (1, 3, 3, 4), (1, 8, 8, 2)])
def test_queries_of_another_map_are_refused(query):
    zeros = np.zeros(query, np.float32)
    with pytest.raises(ValueError, match="window_attention: queries"):
        op("window_attention", np.zeros((1, 8, 8, 12)), 1, 4, 1.0, query=zeros)


def test_padding_is_needed():
    with pytest.raises(ValueError, match="a vector for padded positions"):
        op("window_attention", np.zeros((1, 5, 4, 6)), 1, 4, 1.0)


@pytest.mark.parity
def test_pytorch():
    torch = pytest.importorskip("torch")
    random = rng(5)
    heads, dim = 3, 64
    q, k, v = (normal(random, 1, n, heads * dim) for n in (150, 700, 700))
    parts = [torch.from_numpy(a).reshape(1, -1, heads, dim).transpose(1, 2) for a in (q, k, v)]
    rival = torch.softmax(parts[0] @ parts[1].transpose(2, 3) * dim**-0.5, -1) @ parts[2]
    truth = attention(q, k, v, heads, dim**-0.5)
    bound = torch_bound(truth, rival.transpose(1, 2).reshape(truth.shape))
    check("attention", truth, q, k, v, heads, dim**-0.5, bound=bound)
