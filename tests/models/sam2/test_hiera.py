"""The trunk of SAM 2's image encoder and its parts. Ours are channels last, upstream's mixed."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
pytestmark = pytest.mark.parity

# Windows of 14 and 7 are larger than the grids of 8 and 4: padding, pooling with padding and
# cropping all take part.
TRUNK = {
    "image_size": 128,
    "embed_dim": 16,
    "num_heads": 1,
    "q_pool": 3,
    "stages": [1, 1, 2, 1],
    "window_spec": [8, 4, 14, 7],
    "global_att_blocks": [3],
    "window_pos_embed_bkg_spatial_size": [7, 7],
}


def trunk(**changes):
    """Return our config and upstream's module for it."""
    config = {**TRUNK, **changes}
    arguments = {name: value for name, value in config.items() if name != "image_size"}
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    return config, upstream.sam2.Hiera(**arguments)


def whole(module, x):
    return tuple(map(upstream.channels_last, module(upstream.channels_first(x))))


@pytest.mark.parametrize(
    ("batch", "hw", "in_chans"), [(1, (64, 64), 3), (2, (32, 80), 3), (1, (12, 4), 1)]
)
def test_patch_embed(parity, batch, hw, in_chans):
    def adapt(module, x):
        return module(upstream.channels_first(x))

    module = upstream.sam2.PatchEmbed(in_chans=in_chans, embed_dim=48)
    config = {"in_chans": in_chans, "embed_dim": 48}
    parity.check("sam2.PatchEmbed", module, config, adapt=adapt, x=(batch, *hw, in_chans))


def block(dim, dim_out, heads, window, pool):
    """Return our config and upstream's module for one block; window 0 is global."""
    config = {"dim": dim, "dim_out": dim_out, "num_heads": heads, "window_size": window}
    module = upstream.sam2.MultiScaleBlock(**config, q_stride=(2, 2) if pool else None)
    return {**config, "q_pool": pool}, module


@pytest.mark.parametrize(("dim", "heads"), [(48, 1), (56, 2), (72, 3)])
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (0, (1, 8, 8)),
        (0, (3, 5, 7)),
        (8, (1, 16, 16)),
        (4, (2, 8, 12)),
        (7, (1, 4, 4)),  # one window, larger than the map
        (14, (1, 16, 20)),  # 16 -> 28: padded positions are live keys
        (3, (2, 7, 10)),
        (1, (1, 3, 3)),
        (5, (2, 40, 37)),  # groups of seven windows, each for one thread
        (13, (1, 100, 15)),  # one window in a group, most of the second column is padding
    ],
)
def test_block(parity, dim, heads, window, shape):
    config, module = block(dim, dim, heads, window, False)
    parity.check("sam2.MultiScaleBlock", module, config, x=(*shape, dim))


@pytest.mark.parametrize(("dim", "heads"), [(24, 1), (28, 4)])
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (8, (1, 16, 16)),
        (4, (2, 8, 12)),
        (14, (1, 8, 8)),  # pooled from a window that is mostly padding
        (14, (1, 16, 28)),
        (2, (3, 2, 4)),
        (4, (2, 36, 52)),  # groups of windows, see above
        (14, (1, 114, 30)),
    ],
)
def test_pooling_block(parity, dim, heads, window, shape):
    config, module = block(dim, 2 * dim, heads, window, True)
    parity.check("sam2.MultiScaleBlock", module, config, x=(*shape, dim))


@pytest.mark.parametrize(("window", "shape"), [(0, (2, 5, 7)), (3, (2, 5, 7)), (3, (1, 47, 64))])
def test_block_that_only_widens(parity, window, shape):
    config, module = block(24, 48, 2, window, False)
    parity.check("sam2.MultiScaleBlock", module, config, x=(*shape, 24))


@pytest.mark.parametrize(
    ("dim", "dim_out", "heads", "window", "grid"),
    [
        (96, 96, 1, 8, 64),
        (96, 192, 2, 8, 32),
        (384, 384, 4, 14, 15),
        (384, 384, 4, 0, 12),
        (448, 896, 16, 14, 16),
        (576, 576, 8, 16, 17),
    ],
)
def test_block_of_released_width(parity, dim, dim_out, heads, window, grid):
    config, module = block(dim, dim_out, heads, window, dim != dim_out)
    parity.check("sam2.MultiScaleBlock", module, config, seeds=(0,), x=(1, grid, grid, dim))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stages": [2, 3, 1, 2], "global_att_blocks": [1, 4], "num_heads": 2},
        {"global_att_blocks": []},
        {"window_spec": [8, 4, 16, 8], "embed_dim": 24, "num_heads": 2},
        {"window_spec": [4, 2, 6, 3], "image_size": 96, "embed_dim": 12},
        {"window_pos_embed_bkg_spatial_size": [14, 5]},
        {"image_size": 160, "window_pos_embed_bkg_spatial_size": [14, 14]},
        {"q_pool": 1},
        {"stages": [2, 2], "window_spec": [8, 4], "global_att_blocks": [3], "q_pool": 1},
    ],
    ids=str,
)
def test_hiera(parity, changes):
    config, module = trunk(**changes)
    side = config["image_size"]
    parity.check("sam2.Hiera", module, config, adapt=whole, x=(1, side, side, 3))
