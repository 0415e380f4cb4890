"""EdgeTAM's trunk, RepViT, and its parts."""

from dataclasses import replace

import numpy as np
import pytest
from support import tiny_edgetam

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_timm = pytest.importorskip("support.upstream_timm", reason="needs timm")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity


def on_maps(module, x):
    return upstream.channels_last(module(upstream.channels_first(x)))


def on_images(module, x):
    return tuple(upstream.channels_last(level) for level in module(upstream.channels_first(x)))


@pytest.mark.parametrize(
    ("shape", "squeezed"), [((1, 5, 7, 13), 8), ((2, 9, 4, 48), 16), ((3, 1, 1, 5), 3)]
)
def test_squeeze_and_excite(parity, shape, squeezed):
    module = upstream_timm.SqueezeExcite(shape[3], rd_channels=squeezed)
    config = {"channels": shape[3], "squeezed": squeezed}
    parity.check("layers.SqueezeExcite", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize("use_se", [True, False])
@pytest.mark.parametrize(
    ("shape", "ratio"), [((1, 9, 14, 16), 2), ((2, 1, 1, 5), 3), ((1, 40, 37, 48), 2)]
)
def test_block(parity, shape, ratio, use_se):
    config = {"dim": shape[3], "mlp_ratio": ratio, "use_se": use_se}
    module = upstream_timm.block(shape[3], ratio, use_se)
    parity.check("trunks.RepVitBlock", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize(("dim", "out_dim"), [(8, 24), (16, 16), (48, 96)])
@pytest.mark.parametrize("size", [(6, 10), (7, 5), (1, 1)])
def test_downsample(parity, dim, out_dim, size):
    config = {"dim": dim, "out_dim": out_dim}
    module = upstream_timm.downsample(dim, out_dim, 2)
    parity.check("trunks.RepVitDownsample", module, config, adapt=on_maps, x=(2, *size, dim))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depth": (2, 1, 2, 1), "image_size": 96},
        {"embed_dim": (10, 20, 36, 72), "mlp_ratio": 3, "image_size": 64},
        {"embed_dim": (8, 16), "depth": (3, 2), "image_size": 40},
    ],
    ids=str,
)
def test_trunk(parity, changes):
    config = replace(tiny_edgetam.TINY, **changes)
    side = config.image_size
    module = upstream_timm.Body(config)
    parity.check("trunks.RepVit", module, config.trunk, adapt=on_images, x=(2, side, side, 3))


def test_names_and_shapes_are_those_of_timm():
    for config in (tiny_edgetam.TINY, tiny_edgetam.EDGETAM):
        module = upstream_timm.trunk(config)
        expected = {name: value.shape for name, value in upstream.state_dict(module).items()}
        assert tiny_edgetam.trunk_shapes(config, "") == expected
    parameters = sum(value.numel() for value in module.parameters())
    assert parameters == 4_713_712


def test_fused(parity):
    """Batch norms that are a part of the convolutions already, by the names that timm gives."""
    config = tiny_edgetam.TINY
    module = upstream.randomise(upstream_timm.Body(config), 3)
    whole, side = upstream_timm.fused(module), config.image_size
    x = np.random.default_rng(3).standard_normal((1, side, side, 3), np.float32)
    exact = upstream.run64(upstream.double(module), {"x": x}, on_images)
    single = upstream.run(whole, {"x": x}, on_images)
    sizes = {**config.trunk, "fused": True}
    for isa in parity.isas:
        layer = parity.testing.layer("trunks.RepVit", sizes, upstream.state_dict(whole), isa=isa)
        for i, found in enumerate(layer.forward(x=x)):
            parity.close(found, exact[i], single[i], f"stage {i}")


@pytest.mark.slow
def test_released_size(parity):
    config = tiny_edgetam.EDGETAM
    module, side = upstream_timm.Body(config), config.image_size
    parity.check("trunks.RepVit", module, config.trunk, adapt=on_images, x=(1, side, side, 3))


def test_a_second_call_takes_no_memory(testing):
    config = tiny_edgetam.TINY
    weights = tiny_edgetam.tiny.random_state_dict(tiny_edgetam.trunk_shapes(config, "body."), 0)
    layer = testing.layer("trunks.RepVit", config.trunk, weights, num_threads=2)
    image = np.zeros((1, config.image_size, config.image_size, 3), np.float32)
    layer.forward(x=image)
    taken = []
    for _ in range(3):
        before = testing.allocation_count()
        layer.forward(x=image)
        taken.append(testing.allocation_count() - before)
    assert taken[-1] == len(config.depth)  # the maps, copied for NumPy
