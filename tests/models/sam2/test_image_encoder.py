"""SAM 2's whole image encoder: small ones of many shapes, and the released sizes."""

from dataclasses import replace

import numpy as np
import pytest
from support import tiny_sam2

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity


def whole(module, x):
    """Return upstream's maps, finest first, and the encoding of the coarsest, in our layout."""
    module.neck.position_encoding.cache = {}
    output = module(upstream.channels_first(x))
    maps = [upstream.channels_last(level) for level in output["backbone_fpn"]]
    return (*maps, output["vision_pos_enc"][-1][0].permute(1, 2, 0))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scalp": 0},
        {"image_size": 96, "window_spec": (4, 2, 6, 3), "embed_dim": 12},
        {"stages": (2, 1, 1, 2), "global_att_blocks": (5,), "fpn_top_down_levels": (0, 1, 2, 3)},
        {"window_spec": (8, 4, 16, 8), "d_model": 32, "global_att_blocks": (0, 3)},
    ],
    ids=str,
)
def test_image_encoder(parity, changes):
    config = replace(tiny_sam2.TINY, **changes)
    module = upstream.build_sam2_image_encoder(config)
    side = config.image_size
    parity.check("sam2.ImageEncoder", module, config.layer, adapt=whole, x=(2, side, side, 3))


@pytest.mark.parametrize("name", ["tiny", *tiny_sam2.VARIANTS])
def test_shapes_are_those_of_upstream(testing, name):
    config = {"tiny": tiny_sam2.TINY, **tiny_sam2.VARIANTS}[name]
    module = upstream.build_sam2_image_encoder(config)
    expected = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    assert tiny_sam2.image_encoder_shapes(config, prefix="") == expected
    if name != "tiny":
        ours = {key: tuple(shape) for key, shape in testing.sam2_image_parameters(name)}
        assert ours == expected


# ---------------------------------------------------------------- layer by layer


def upstream_taps(module, x):
    """Upstream's results by path, in our layout: of blocks and levels only, which takes memory."""
    taps = {}

    def patches(_module, args):  # with the position table, as ours records them
        taps["trunk.patch_embed"] = args[0].numpy()

    def levels(_module, _args, output):
        for level, value in enumerate(output[0]):
            taps[f"neck.{level}"] = upstream.channels_last(value).numpy()

    handles = [module.trunk.blocks[0].register_forward_pre_hook(patches)]
    handles.append(module.neck.register_forward_hook(levels))
    for i, block in enumerate(module.trunk.blocks):

        def keep(_module, _args, output, path=f"trunk.blocks.{i}"):
            taps[path] = output.numpy()

        handles.append(block.register_forward_hook(keep))
    try:
        with torch.no_grad():
            module(upstream.channels_first(x))
    finally:
        for handle in handles:
            handle.remove()
    return taps


def check_trace(parity, testing, config, seed, isas):
    weights = {
        name.removeprefix("image_encoder."): value
        for name, value in tiny_sam2.image_encoder_weights(config, seed).items()
    }
    side = config.image_size
    image = np.random.default_rng(seed).standard_normal((1, side, side, 3), dtype=np.float32)
    traces = []
    for isa in isas:
        layer = testing.layer("sam2.ImageEncoder", config.layer, weights, isa=isa, num_threads=2)
        traces.append(dict(layer.trace(x=image)))
        del layer
    module = upstream.build_sam2_image_encoder(config)
    upstream.load_state_dict(module, weights)
    single = upstream_taps(module, upstream.tensor(image))
    module.double()
    module.neck.position_encoding.cache = {}
    with upstream.float64():
        exact = upstream_taps(module, upstream.tensor(image, torch.float64))
    blocks = [f"trunk.blocks.{i}" for i in range(sum(config.stages))]
    levels = [f"neck.{i}" for i in range(len(config.stages))]
    for ours in traces:
        parity.trace(ours, exact, single, required=["trunk.patch_embed", *blocks, *levels])


def test_trace(parity, testing):
    check_trace(parity, testing, tiny_sam2.TINY, 5, parity.isas)


full = pytest.mark.full
LARGE = [pytest.param(name, marks=full) for name in ("hiera_s", "hiera_b+", "hiera_l")]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", ["hiera_t", *LARGE])
def test_trace_of_released_size(parity, testing, variant):
    best = [isa for isa in parity.isas if isa != "generic"][:1] or parity.isas
    check_trace(parity, testing, tiny_sam2.VARIANTS[variant], 2, best)


def test_a_second_call_takes_no_memory(testing):
    config = tiny_sam2.TINY
    weights = {
        name.removeprefix("image_encoder."): value
        for name, value in tiny_sam2.image_encoder_weights(config).items()
    }
    layer = testing.layer("sam2.ImageEncoder", config.layer, weights, num_threads=2)
    image = np.zeros((1, config.image_size, config.image_size, 3), np.float32)
    layer.forward(x=image)
    taken = []
    for _ in range(3):
        before = testing.allocation_count()
        layer.forward(x=image)
        taken.append(testing.allocation_count() - before)
    results = 4  # three maps and the encoding, copied for NumPy
    assert taken[-1] == results
