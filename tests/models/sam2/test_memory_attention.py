"""SAM 2's memory attention. Tokens are (N, C) on our side, for one object."""

import numpy as np
import pytest
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity


def rope_reference(d_model, kv_in_dim, side, repeat):
    return upstream.sam2.RoPEAttention(
        embedding_dim=d_model,
        num_heads=1,
        downsample_rate=1,
        rope_theta=10000.0,
        feat_sizes=[side, side],
        rope_k_repeat=repeat,
        kv_in_dim=kv_in_dim,
    )


def rope_adapt(module, query, value, pos, exclude, factored):
    key = value + pos
    upstream_sam2.refresh_rope(module, round(len(query) ** 0.5))
    return module(query[None], key[None], value[None], num_k_exclude_rope=exclude)[0]


@pytest.mark.parametrize(
    ("d_model", "kv_in_dim", "side", "maps", "exclude"),
    [
        (64, 64, 4, 1, 0),
        (32, 16, 5, 3, 0),
        (64, 16, 4, 2, 7),
        (256, 64, 8, 7, 64),
        (32, 8, 3, 0, 4),
        (16, 16, 1, 2, 1),
    ],
)
@pytest.mark.parametrize("factored", [False, True])
def test_rope_attention(parity, d_model, kv_in_dim, side, maps, exclude, factored):
    """Keys that are made, and keys that never are."""
    keys = maps * side * side + exclude
    parity.check(
        "sam2.RoPEAttention",
        rope_reference(d_model, kv_in_dim, side, True),
        {"d_model": d_model, "kv_in_dim": kv_in_dim, "feat_size": side},
        adapt=rope_adapt,
        query=(side * side, d_model),
        value=(keys, kv_in_dim),
        pos=(keys, kv_in_dim),
        exclude=exclude,
        factored=factored and kv_in_dim < d_model,
    )


def reference(d_model=64, kv_in_dim=16, side=8, num_layers=2, dim_feedforward=128):
    return upstream_sam2.memory_attention(
        tiny.Sam2HeadsConfig(d_model, kv_in_dim, side, num_layers, dim_feedforward)
    )


def flattened(features, pos, tpos, pointers, pointer_pos):
    """Return upstream's memory and memory_pos (M, kv)."""
    torch = upstream.torch
    memory = torch.cat([features.flatten(0, 1), pointers])
    return memory, torch.cat([(pos + tpos[:, None]).flatten(0, 1), pointer_pos])


def adapt(module, curr, curr_pos, pointers, **memory):
    upstream_sam2.refresh_rope(module, round(len(curr) ** 0.5))
    tokens, tokens_pos = flattened(pointers=pointers, **memory)
    return module(
        curr=curr[:, None],
        curr_pos=curr_pos[:, None],
        memory=tokens[:, None],
        memory_pos=tokens_pos[:, None],
        num_obj_ptr_tokens=len(pointers),
    )[:, 0]


def inputs(d_model=64, kv_in_dim=16, side=8, maps=2, pointers=8):
    positions = side * side
    return {
        "curr": (positions, d_model),
        "curr_pos": (positions, d_model),
        "features": (maps, positions, kv_in_dim),
        "pos": (maps, positions, kv_in_dim),
        "tpos": (maps, kv_in_dim),
        "pointers": (pointers, kv_in_dim),
        "pointer_pos": (pointers, kv_in_dim),
    }


def config(d_model=64, kv_in_dim=16, side=8, num_layers=2, dim_feedforward=128):
    return {
        "d_model": d_model,
        "kv_in_dim": kv_in_dim,
        "feat_size": side,
        "num_layers": num_layers,
        "dim_feedforward": dim_feedforward,
    }


@pytest.mark.parametrize(
    ("maps", "pointers"), [(1, 0), (1, 4), (2, 4), (3, 12), (4, 0), (7, 64), (20, 7), (0, 4)]
)
def test_memory_attention(parity, maps, pointers):
    arrays = inputs(maps=maps, pointers=pointers)
    parity.check("sam2.MemoryAttention", reference(), config(), adapt=adapt, **arrays)


@pytest.mark.parametrize("sizes", [{"side": 5}, {"side": 3, "kv_in_dim": 64}, {"d_model": 32}])
def test_other_sizes(parity, sizes):
    sizes = {"kv_in_dim": 16, **sizes}
    parity.check(
        "sam2.MemoryAttention",
        reference(**sizes, num_layers=1),
        config(**sizes, num_layers=1),
        adapt=adapt,
        **inputs(**sizes, maps=3, pointers=5),
    )


def test_released_widths(parity):
    sizes = {"d_model": 256, "kv_in_dim": 64, "side": 8}
    more = {"num_layers": 4, "dim_feedforward": 2048}
    parity.check(
        "sam2.MemoryAttention",
        reference(**sizes, **more),
        config(**sizes, **more),
        adapt=adapt,
        seeds=(0,),
        **inputs(**sizes, maps=7, pointers=64),
    )


def drawn(seed=0, **sizes):
    generator = np.random.default_rng(seed)
    return {k: generator.standard_normal(v, np.float32) for k, v in inputs(**sizes).items()}


def ours(testing, weights, arrays, **kwargs):
    return testing.layer("sam2.MemoryAttention", config(), weights, **kwargs).forward(**arrays)


@pytest.mark.parametrize(("maps", "pointers"), [(1, 0), (1, 8), (2, 0), (5, 8)])
def test_an_absent_memory_changes_no_bit(testing, parity, maps, pointers):
    weights = upstream.state_dict(upstream.randomise(reference(), 0))
    arrays = drawn(maps=maps, pointers=pointers)
    full = ours(testing, weights, arrays)
    parity.same_bits(full, ours(testing, weights, {**arrays, "absent": 5}), "empty slots")


@pytest.mark.parametrize("counts", [(2, 4), (5, 9)])
def test_scratch_grows_with_the_memory(testing, counts):
    """What is not there costs nothing."""
    weights = upstream.state_dict(upstream.randomise(reference(), 0))
    sizes = []
    for maps in counts:
        layer = testing.layer("sam2.MemoryAttention", config(), weights)
        for _ in range(2):  # the second call joins the blocks
            layer.forward(**drawn(maps=maps), absent=4)
        sizes.append(layer.workspace_bytes)
    assert sizes[0] < sizes[1]


def without_rope(module):
    for child in module.modules():
        if isinstance(child, upstream.sam2.RoPEAttention):
            compute = child.compute_cis
            child.compute_cis = lambda compute=compute, **k: compute(**k) * 0 + 1


def without(part):
    def change(module):
        for name, weight in module.named_parameters():
            if name.startswith("layers.1.") and part in name:
                weight.data.zero_()

    return change


CHANGES = {
    "rotation": without_rope,
    "values of the memory": without("cross_attn_image.v_proj.weight"),
    "value bias": without("cross_attn_image.v_proj.bias"),
    "key bias": without("cross_attn_image.k_proj.bias"),
    "query bias": without("cross_attn_image.q_proj.bias"),
    "cross attention": without("cross_attn_image.out_proj"),
    "self attention": without("self_attn.out_proj"),
    "feed forward": without("linear2"),
    "norm of the keys' side": without("norm2.bias"),
}
NO_INPUT = ("curr_pos", "features", "pos", "tpos", "pointers", "pointer_pos")


@pytest.mark.parametrize("maps", [1, 5])
@pytest.mark.parametrize("change", [*CHANGES, *NO_INPUT])
def test_every_step_counts(testing, parity, change, maps):
    """A network that lacks one step is further from ours than the tolerance, by far."""
    module = upstream.randomise(reference(), 0)
    arrays = drawn(maps=maps, pointers=8)
    found = ours(testing, upstream.state_dict(module), arrays)
    exact = upstream.run64(upstream.double(module), arrays, adapt)
    single = upstream.run(module, arrays, adapt)
    parity.close(found, exact, single)
    if change in CHANGES:
        other = upstream.double(module)
        CHANGES[change](other)
        lacking = upstream.run64(other, arrays, adapt)
    else:
        zeros = {**arrays, change: np.zeros_like(arrays[change])}
        lacking = upstream.run64(upstream.double(module), zeros, adapt)
    assert np.max(np.abs(lacking - exact)) > 1e-3 * np.max(np.abs(exact))


def test_last_pointers_are_not_turned(testing, parity):
    """The same tokens as a map and as pointers give other results."""
    weights = upstream.state_dict(upstream.randomise(reference(), 0))
    arrays = drawn(maps=2, pointers=0)
    as_map = ours(testing, weights, arrays)
    moved = {
        **arrays,
        **{key: arrays[key][:1] for key in ("features", "pos", "tpos")},
        "pointers": arrays["features"][1],
        "pointer_pos": arrays["pos"][1] + arrays["tpos"][1],
    }
    assert np.max(np.abs(as_map - ours(testing, weights, moved))) > 1e-3 * np.max(np.abs(as_map))


@pytest.mark.parametrize("maps", [1, 5])
def test_steady_state_allocates_the_result_alone(testing, maps):
    weights = upstream.state_dict(upstream.randomise(reference(), 0))
    layer, arrays = testing.layer("sam2.MemoryAttention", config(), weights), drawn(maps=maps)
    for _ in range(2):  # the second call joins the blocks
        layer.forward(**arrays)
    before = testing.allocation_count()
    layer.forward(**arrays)
    assert testing.allocation_count() - before == 1


def test_tokens_before_the_last_norm(testing, parity):
    weights = upstream.state_dict(upstream.randomise(reference(), 0))
    arrays = drawn()
    layer = testing.layer("sam2.MemoryAttention", config(), weights)
    before = dict(layer.trace(**arrays))["layers.1"].reshape(64, 64).astype(np.float64)
    centred = before - before.mean(axis=1, keepdims=True)
    normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    expected = normed * weights["norm.weight"] + weights["norm.bias"]
    parity.close(layer.forward(**arrays), expected, expected.astype(np.float32), "norm")
