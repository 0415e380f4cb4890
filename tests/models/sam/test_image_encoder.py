"""The image encoder and its parts. Ours are channels last, upstream's are mixed."""

from functools import partial

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

ENCODER = {
    "img_size": 128,
    "table_size": 128,
    "patch_size": 16,
    "in_chans": 3,
    "embed_dim": 64,
    "depth": 2,
    "num_heads": 4,
    "mlp_ratio": 4.0,
    "out_chans": 32,
    "window_size": 3,
    "global_attn_indexes": [1],
}
NORM = partial(torch.nn.LayerNorm, eps=1e-6)


def encoder(**changes):
    """Return our config and upstream's module for it."""
    config = {**ENCODER, **changes}
    module = upstream.sam.ImageEncoderViT(
        img_size=config["table_size"],
        patch_size=config["patch_size"],
        in_chans=config["in_chans"],
        embed_dim=config["embed_dim"],
        depth=config["depth"],
        num_heads=config["num_heads"],
        mlp_ratio=config["mlp_ratio"],
        out_chans=config["out_chans"],
        norm_layer=NORM,
        use_rel_pos=True,
        window_size=config["window_size"],
        global_attn_indexes=tuple(config["global_attn_indexes"]),
    )
    return config, module


def block(dim, heads, window, grid):
    """Return our config and upstream's module for one block; window 0 is global."""
    config = {
        "dim": dim,
        "num_heads": heads,
        "mlp_ratio": 4.0,
        "window_size": window,
        "input_size": grid,
    }
    module = upstream.sam.Block(
        **{**config, "input_size": (grid, grid)}, norm_layer=NORM, use_rel_pos=True
    )
    return config, module


@pytest.mark.parametrize(
    ("batch", "patch", "in_chans", "hw"),
    [(1, 16, 3, (128, 128)), (3, 16, 3, (32, 80)), (1, 4, 1, (12, 4)), (2, 7, 5, (7, 21))],
)
def test_patch_embed(parity, batch, patch, in_chans, hw):
    def adapt(module, x):
        return module(upstream.channels_first(x))

    module = upstream.sam.PatchEmbed(
        kernel_size=(patch, patch), stride=(patch, patch), in_chans=in_chans, embed_dim=48
    )
    config = {"patch_size": patch, "in_chans": in_chans, "embed_dim": 48}
    parity.check("sam.PatchEmbed", module, config, adapt=adapt, x=(batch, *hw, in_chans))


@pytest.mark.parametrize(("dim", "heads"), [(64, 4), (64, 1), (160, 2), (24, 3)])
@pytest.mark.parametrize(
    ("window", "grid", "shape"),
    [
        (0, 8, (1, 8, 8)),
        (0, 5, (3, 5, 5)),
        (0, 1, (1, 1, 1)),
        (3, 8, (1, 8, 8)),  # 8 -> 9: padded positions are live keys
        (3, 6, (2, 6, 6)),  # nothing to pad
        (3, 8, (3, 7, 10)),  # windows do not ask for a square
        (7, 4, (1, 4, 4)),  # one window, larger than the map
        (1, 3, (1, 3, 3)),
    ],
)
def test_block(parity, dim, heads, window, grid, shape):
    config, module = block(dim, heads, window, grid)
    parity.check("sam.Block", module, config, x=(*shape, dim))


@pytest.mark.parametrize(("window", "shape"), [(0, (1, 9, 9)), (14, (1, 15, 5))])
@pytest.mark.parametrize(("dim", "heads"), [(768, 12), (1280, 16)])
def test_block_of_released_width(parity, dim, heads, window, shape):
    """The width is what counts: more tokens are more of the same."""
    config, module = block(dim, heads, window, 9)
    parity.check("sam.Block", module, config, seeds=(0,), x=(*shape, dim))


@pytest.mark.parametrize(
    ("in_dim", "out_chans", "shape"), [(64, 32, (1, 8, 8)), (24, 64, (2, 1, 5)), (40, 8, (1, 7, 3))]
)
def test_neck(parity, in_dim, out_chans, shape):
    def adapt(module, x):
        return upstream.channels_last(module(upstream.channels_first(x)))

    config, module = encoder(embed_dim=in_dim, num_heads=1, out_chans=out_chans, depth=1)
    parity.check("sam.Neck", module.neck, config, adapt=adapt, x=(*shape, in_dim))


def whole(module, x):
    return upstream.channels_last(module(upstream.channels_first(x)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depth": 4, "global_attn_indexes": [0, 3]},
        {"depth": 3, "global_attn_indexes": []},
        {"img_size": 80, "table_size": 80, "window_size": 14},
        {"patch_size": 8, "img_size": 72, "table_size": 72, "window_size": 4},
        {"num_heads": 1, "out_chans": 16},
    ],
    ids=str,
)
def test_image_encoder(parity, changes):
    config, module = encoder(**changes)
    side = config["img_size"]
    parity.check("sam.ImageEncoderViT", module, config, adapt=whole, x=(1, side, side, 3))


def at_other_side(module, x):
    """Run upstream with tables for another grid.

    Upstream interpolates its relative tables itself. Its absolute table has no rule; ours is
    ViTDet's, a bicubic interpolation.
    """
    grid = x.shape[1] // 16
    table = module.pos_embed
    resized = torch.nn.functional.interpolate(
        upstream.channels_first(table), size=(grid, grid), mode="bicubic", align_corners=False
    )
    module.pos_embed = torch.nn.Parameter(upstream.channels_last(resized))
    try:
        return whole(module, x)
    finally:
        module.pos_embed = table


@pytest.mark.parametrize("side", [64, 112, 192, 256])
def test_image_encoder_at_other_sides(parity, side):
    config, module = encoder(img_size=side)
    parity.check("sam.ImageEncoderViT", module, config, adapt=at_other_side, x=(1, side, side, 3))
