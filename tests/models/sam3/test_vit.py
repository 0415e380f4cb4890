"""The trunk of SAM 3's image encoder. Ours is channels last, upstream's blocks too."""

from dataclasses import replace
from functools import partial

import pytest
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

TINY = tiny_sam3.TINY


def whole(module, x):
    (output,) = upstream_sam3.refresh(module)(upstream.channels_first(x))
    return upstream.channels_last(output)


def block(config, is_global):
    """Return our config and upstream's module for one block."""
    module = upstream_sam3.sam3.vitdet.Block(
        dim=config.embed_dim,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_ratio,
        qkv_bias=True,
        norm_layer=partial(torch.nn.LayerNorm, eps=1e-5),
        window_size=0 if is_global else config.window_size,
        input_size=(config.grid, config.grid),
        use_rope=True,
        rope_pt_size=(config.window_size, config.window_size),
        rope_interp=True,
    )
    return {**config.vision, "global": is_global}, module


def refreshed(module, x):
    return upstream_sam3.refresh(module)(x)


@pytest.mark.parametrize(("dim", "heads"), [(64, 2), (48, 3), (40, 1)])
@pytest.mark.parametrize(
    ("grid", "window", "batch"),
    [
        (8, 4, 1),
        (6, 3, 2),
        (4, 4, 1),  # one window
        (5, 1, 1),
        (7, 3, 2),  # 7 -> 9: padded positions are keys, each turned by its own position
        (5, 4, 1),
        (3, 8, 1),  # a window larger than the map
    ],
)
def test_window_block(parity, dim, heads, grid, window, batch):
    config = replace(
        TINY, img_size=14 * grid, window_size=window, embed_dim=dim, num_heads=heads, mlp_ratio=4.6
    )
    ours, module = block(config, False)
    shape = (batch, grid, grid, dim)
    parity.check("sam3.Block", module, ours, adapt=refreshed, x=shape)


@pytest.mark.parametrize(("dim", "heads"), [(64, 2), (48, 3)])
@pytest.mark.parametrize(("grid", "window"), [(8, 4), (6, 6), (7, 3), (1, 2), (4, 8)])
def test_global_block(parity, dim, heads, grid, window):
    config = replace(TINY, img_size=14 * grid, window_size=window, embed_dim=dim, num_heads=heads)
    ours, module = block(config, True)
    parity.check("sam3.Block", module, ours, adapt=refreshed, x=(2, grid, grid, dim))


@pytest.mark.parametrize(
    ("is_global", "grid", "width", "window"),
    [
        (False, 48, 128, 24),
        (False, 26, 128, 24),  # windows that are mostly padding
        (True, 27, 128, 24),
        (False, 7, 1024, 3),
        (True, 5, 1024, 24),
    ],
)
def test_block_of_released_sizes(parity, is_global, grid, width, window):
    """Heads of 64, several windows of 24 and bands of them; the released width on a small map."""
    config = replace(
        tiny_sam3.RELEASED,
        img_size=14 * grid,
        embed_dim=width,
        num_heads=width // 64,
        window_size=window,
    )
    ours, module = block(config, is_global)
    shape = (1, grid, grid, width)
    parity.check("sam3.Block", module, ours, adapt=refreshed, seeds=(0,), x=shape)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"img_size": 98},  # 7 x 7: tiles and windows are cut
        {"img_size": 56},  # the table's own grid
        {"img_size": 42, "window_size": 2},  # smaller than the table
        {"pretrain_img_size": 42, "img_size": 140, "window_size": 5},
        {"depth": 5, "global_att_blocks": (0, 3)},  # the last block takes no part
        {"depth": 3, "global_att_blocks": (0, 1, 2)},
        {"patch_size": 7, "img_size": 63, "pretrain_img_size": 28, "num_heads": 4},
    ],
    ids=str,
)
def test_vit(parity, changes):
    config = replace(TINY, **changes)
    module = upstream_sam3.vit(config)
    shape = (1, config.img_size, config.img_size, 3)
    parity.check("sam3.ViT", module, config.vision, adapt=whole, x=shape)
