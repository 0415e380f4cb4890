"""SAM 3's text encoder. Ours gives the tokens that count, text by text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sam_rlx
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
pytestmark = pytest.mark.parity

START, END = 49406, 49407
# Texts of 2 to 9 ids; one has the id of padding in its midst.
IDS = np.zeros((5, 9), np.int64)
IDS[0, :4] = START, 320, 2368, END
IDS[1] = START, 4481, 1228, 2840, 257, 27706, 257, 12, END
IDS[2, :2] = START, END
IDS[3, :4] = START, 0, 12382, END
IDS[4, :5] = START, 1769, 0, 0, END


def small(**sizes):
    """A vocabulary of 97 ids makes a small table."""
    return replace(tiny_sam3.TINY, vocab_size=97, **sizes)


def small_ids(ids):
    """The same texts with ids below 97, 0 at the same positions."""
    return np.where(ids == 0, 0, ids % 96 + 1)


@cache
def reference(config):
    """Upstream without the matrix whose result it drops."""
    module = upstream_sam3.text_encoder(config)
    module.encoder.text_projection = None
    return module


def config_of(config):
    return {
        "d_model": config.d_model,
        "width": config.text_width,
        "heads": config.text_heads,
        "layers": config.text_layers,
        "context_length": config.context_length,
        "vocab_size": config.vocab_size,
    }


def valid(ids):
    """Lengths of texts without what follows their last id."""
    return [int(np.flatnonzero(row)[-1]) + 1 for row in np.asarray(ids)]


def adapt(module, ids):
    """What `VETextEncoder.forward` does with ids, and the rows that our tokens are."""
    _pooled, memory = module.encoder(ids)
    resized = module.resizer(memory.transpose(0, 1)).transpose(0, 1)
    rows = [(i, slice(0, length)) for i, length in enumerate(valid(ids))]
    tokens = upstream.torch.cat([resized[row] for row in rows])
    mask = (ids != 0).bool().ne(1)
    return tokens, upstream.torch.cat([mask[row] for row in rows]).to(tokens.dtype)


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"text_heads": 1, "text_layers": 1},
        {"text_width": 40, "text_heads": 5, "text_layers": 3, "d_model": 24},
        {"context_length": 9},
        {"text_width": 128, "text_heads": 2, "text_layers": 24},
    ],
)
@pytest.mark.parametrize("texts", [slice(0, 5), slice(0, 1), slice(3, 4)])
def test_text_encoder(parity, sizes, texts):
    config = small(**sizes)
    parity.check(
        "sam3.VETextEncoder",
        reference(config),
        config_of(config),
        adapt=adapt,
        seeds=(0,) if sizes.get("text_layers") == 24 else (0, 1),
        ids=small_ids(IDS[texts]),
    )


@pytest.mark.parametrize("lengths", [[32], [32, 2, 31], [1], [3] * 12])
def test_lengths(parity, lengths):
    config = small()
    generator = np.random.default_rng(len(lengths))
    ids = np.zeros((len(lengths), 32), np.int64)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = generator.integers(1, 97, length)
    parity.check("sam3.VETextEncoder", reference(config), config_of(config), adapt=adapt, ids=ids)


@pytest.mark.parametrize(("width", "heads"), [(32, 4), (48, 3), (16, 1)])
@pytest.mark.parametrize("lengths", [[7], [3, 1, 12]])
def test_residual_attention_block(parity, width, heads, lengths):
    """Texts of different lengths in one call are what upstream makes of each."""
    torch = upstream.torch
    block = type(reference(small()).encoder.transformer.resblocks[0])

    def each(module, x, lengths):
        def run(part):
            mask = torch.full((len(part), len(part)), float("-inf"), dtype=x.dtype).triu(1)
            return module(part[None], attn_mask=mask)[0]

        return torch.cat([run(part) for part in torch.split(x, lengths)])

    parity.check(
        "sam3.ResidualAttentionBlock",
        block(width, heads),
        {"d_model": width, "n_head": heads},
        adapt=each,
        x=(sum(lengths), width),
        lengths=lengths,
    )


def test_from_texts(testing, parity):
    """Strings through upstream's own forward, and through our tokenizer and text encoder."""
    config = tiny_sam3.TINY
    module = upstream.randomise(reference(config), 3)
    texts = [
        "yellow school bus",
        "",
        "a \u201ccat\u201d !\u266a",
        "Caf\u00c3\u00a9 &amp; " + "dog " * 40,
    ]
    with pytest.warns(sam_rlx.TruncationWarning):
        ids = sam_rlx.Tokenizer()(texts)

    def whole(module, ids):
        mask, memory, _embeds = module(texts, device="cpu")
        rows = [(i, slice(0, length)) for i, length in enumerate(valid(ids))]
        tokens = upstream.torch.cat([memory[row, i] for i, row in rows])
        return tokens, upstream.torch.cat([mask[row] for row in rows]).to(tokens.dtype)

    layer = testing.layer("sam3.VETextEncoder", config_of(config), upstream.state_dict(module))
    found = layer.forward(ids=ids)
    exact = upstream.run64(upstream.double(module), {"ids": ids}, whole)
    single = upstream.run(module, {"ids": ids}, whole)
    parity.close(found[0], exact[0], single[0], "tokens")
    assert found[1].tolist() == exact[1].tolist()
    assert 0 < exact[1].sum() < 3  # the byte "!" and nothing else


def ours(testing, config, ids, weights=None, **kwargs):
    weights = weights or upstream.state_dict(upstream.randomise(reference(config), 0))
    return testing.layer("sam3.VETextEncoder", config_of(config), weights, **kwargs).forward(
        ids=ids
    )


def test_a_batch_equals_the_loop(testing, parity):
    ids = small_ids(IDS)
    tokens, padding = ours(testing, small(), ids)
    parts = [ours(testing, small(), ids[i : i + 1]) for i in range(len(ids))]
    parity.same_bits(tokens, np.concatenate([part[0] for part in parts]), "tokens")
    parity.same_bits(padding, np.concatenate([part[1] for part in parts]), "padding")


def test_what_follows_a_text_costs_nothing(testing, parity):
    """Zeros behind a text change no bit and take no memory."""
    config = small()
    weights = upstream.state_dict(upstream.randomise(reference(config), 0))
    short = small_ids(IDS[:1, :4])
    results, sizes = [], []
    for length in (4, 32):
        layer = testing.layer("sam3.VETextEncoder", config_of(config), weights)
        ids = np.zeros((1, length), np.int64)
        ids[:, :4] = short
        for _ in range(2):  # the second call joins the blocks
            results.append(layer.forward(ids=ids)[0])
        sizes.append(layer.workspace_bytes)
    parity.same_bits(results[0], results[-1], "zeros behind")
    assert sizes[0] == sizes[1]


def test_trace(testing, parity):
    """Every block, the final norm and the result, under upstream's names."""
    config = small(text_layers=3)
    module = upstream.randomise(reference(config), 1)
    ids = small_ids(IDS)
    layer = testing.layer("sam3.VETextEncoder", config_of(config), upstream.state_dict(module))
    found = dict(layer.trace(ids=ids))
    rows = [(i, slice(0, length)) for i, length in enumerate(valid(ids))]

    def taps(run, module):
        def call():
            run(module, {"ids": ids}, adapt)

        records = dict(upstream.record(module, call))
        chosen = {}
        for path in found:
            value = records[path]
            value = value.transpose(1, 0, 2) if path == "resizer" else value
            chosen[path] = np.concatenate([value[row] for row in rows])
        return chosen

    exact = taps(upstream.run64, upstream.double(module))
    blocks = [f"encoder.transformer.resblocks.{i}" for i in range(3)]
    required = [*blocks, "encoder.ln_final", "resizer"]
    parity.trace(found, exact, taps(upstream.run, module), required=required)


def zeroed(*names):
    def change(module):
        for name, weight in module.named_parameters():
            if any(part in name for part in names):
                weight.data.zero_()

    return change


def without_mask(module):
    module.encoder.attn_mask = None


CHANGES = {
    "causal mask": without_mask,
    "positions": zeroed("positional_embedding"),
    "tokens": zeroed("token_embedding"),
    "attention": zeroed("resblocks.1.attn.out_proj"),
    "projection bias": zeroed("resblocks.1.attn.in_proj_bias"),
    "first norm": zeroed("resblocks.1.ln_1.bias"),
    "second norm": zeroed("resblocks.1.ln_2.bias"),
    "mlp": zeroed("resblocks.1.mlp.c_proj"),
    "final norm": zeroed("ln_final.bias"),
    "resizer bias": zeroed("resizer.bias"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_step_counts(testing, parity, change):
    """A network that lacks one step is further from ours than the tolerance, by far."""
    config = small()
    module = upstream.randomise(reference(config), 0)
    inputs = {"ids": small_ids(IDS)}
    found = ours(testing, config, inputs["ids"], upstream.state_dict(module))[0]
    exact = upstream.run64(upstream.double(module), inputs, adapt)[0]
    parity.close(found, exact, upstream.run(module, inputs, adapt)[0])
    other = upstream.double(module)
    CHANGES[change](other)
    lacking = upstream.run64(other, inputs, adapt)[0]
    assert np.max(np.abs(lacking - exact)) > 1e-3 * np.max(np.abs(exact))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1, 2, 97]], "ids: expected numbers from 0 to 96, found 97"),
        ([[1, -1, 2]], "ids: expected numbers from 0 to 96, found -1"),
        ([[1, 2], [0, 0]], "ids: expected an id other than 0, found none in text 1"),
        (np.ones((1, 33), int), r"ids: expected shape \(N, L\) with 1 <= L <= 32, found \(1, 33\)"),
        (np.ones((0, 4), int), r"expected shape \(N, L\).*found \(0, 4\)"),
        (np.ones((2, 0), int), r"expected shape \(N, L\).*found \(2, 0\)"),
        ([1, 2], r"expected shape \(N, L\), found \(2,\)"),
    ],
)
def test_wrong_ids_are_refused(testing, ids, message):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=message):
        ours(testing, small(), np.asarray(ids, np.int64))


def test_steady_state_allocates_the_result_alone(testing):
    config = small()
    weights = upstream.state_dict(upstream.randomise(reference(config), 0))
    layer = testing.layer("sam3.VETextEncoder", config_of(config), weights)
    ids = small_ids(IDS)
    for _ in range(2):  # the second call joins the blocks
        layer.forward(ids=ids)
    before = testing.allocation_count()
    layer.forward(ids=ids)
    assert testing.allocation_count() - before == 1
