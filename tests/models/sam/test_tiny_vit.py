"""MobileSAM's trunk and its parts."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
mobile_sam = pytest.importorskip("support.upstream_mobile_sam", reason="needs mobilesam-mirror")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity


def on_maps(module, x):
    return upstream.channels_last(module(upstream.channels_first(x)))


def on_tokens(module, x):
    return module(x.flatten(1, 2)).reshape(x.shape)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "shape", "out"),
    [
        (3, 2, 1, (1, 15, 22, 3), 16),
        (3, 1, 1, (2, 5, 7, 13), 33),
        (1, 1, 0, (1, 9, 4, 3), 8),
        (5, 3, 2, (1, 11, 12, 4), 7),
        (3, 2, 1, (3, 1, 1, 5), 6),
    ],
)
def test_convolution(parity, kernel, stride, padding, shape, out):
    module = mobile_sam.Conv2d_BN(shape[3], out, kernel, stride, padding)
    config = {
        "in": shape[3],
        "out": out,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
    }
    parity.check("layers.Conv2dBN", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize(("shape", "out"), [((1, 5, 7, 13), 33), ((2, 1, 1, 64), 3)])
def test_pointwise_convolution(parity, shape, out):
    module = mobile_sam.Conv2d_BN(shape[3], out)
    config = {"in": shape[3], "out": out}
    parity.check("layers.PointwiseConvBN", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize("shape", [(1, 8, 8, 16), (2, 5, 7, 13), (1, 1, 1, 3), (3, 2, 9, 40)])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), (3, 2), (5, 2), (7, 3), (1, 2)])
def test_depthwise_convolution(parity, shape, size, stride):
    channels = shape[3]
    module = mobile_sam.Conv2d_BN(channels, channels, size, stride, size // 2, groups=channels)
    config = {"channels": channels, "size": size, "stride": stride}
    parity.check("layers.DepthwiseConvBN", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize(
    ("shape", "ratio"), [((1, 9, 14, 8), 4), ((2, 1, 1, 5), 2), ((1, 70, 37, 64), 4)]
)
def test_mb_conv(parity, shape, ratio):
    channels = shape[3]
    config = {"channels": channels, "hidden": ratio * channels}
    module = mobile_sam.mb_conv(channels, ratio)
    parity.check("trunks.MBConv", module, config, adapt=on_maps, x=shape)


@pytest.mark.parametrize(("dim", "out_dim", "stride"), [(8, 24, 2), (16, 320, 1), (5, 10, 2)])
@pytest.mark.parametrize("size", [(6, 10), (7, 5), (1, 1)])
def test_patch_merging(parity, dim, out_dim, stride, size):
    def adapt(module, x):
        height, width = ((n - 1) // stride + 1 for n in x.shape[1:3])
        return module(upstream.channels_first(x)).reshape(len(x), height, width, -1)

    config = {"dim": dim, "out_dim": out_dim, "stride": stride}
    module = mobile_sam.patch_merging(dim, out_dim)
    parity.check("trunks.PatchMerging", module, config, adapt=adapt, x=(2, *size, dim))


@pytest.mark.parametrize(("dim", "heads"), [(64, 2), (24, 3), (10, 1)])
@pytest.mark.parametrize(
    ("window", "shape"),
    [
        (7, (1, 7, 7)),  # one window that is the map
        (7, (1, 16, 15)),  # padded on both sides
        (4, (2, 8, 12)),  # nothing to pad
        (7, (1, 14, 9)),
        (7, (1, 10, 21)),
        (14, (1, 20, 17)),
        (5, (3, 3, 2)),  # one window, larger than the map
        (1, (1, 2, 3)),
        (18, (1, 18, 19)),  # more keys than a block has
    ],
)
def test_block(parity, dim, heads, window, shape):
    config = {"dim": dim, "num_heads": heads, "window_size": window}
    module = mobile_sam.block(dim, shape[1:], heads, window)
    parity.check("trunks.TinyViTBlock", module, config, adapt=on_tokens, x=(*shape, dim))


TINY = {
    "img_size": 128,
    "out_chans": 32,
    "embed_dims": [16, 24, 40, 320],
    "depths": [1, 2, 1, 1],
    "num_heads": [1, 2, 5, 10],
    "window_sizes": [7, 7, 5, 3],
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depths": [2, 1, 3, 1], "img_size": 112},
        {"patch_kernel": 1, "img_size": 36},
        {"embed_dims": [8, 16, 24, 448], "num_heads": [1, 1, 3, 14], "local_conv_size": 5},
        {"mlp_ratio": 2, "mbconv_expand_ratio": 3, "img_size": 80},
    ],
    ids=str,
)
def test_tiny_vit(parity, changes):
    config = {**TINY, **changes}
    side = config["img_size"]
    module = mobile_sam.TinyViT(**config)
    parity.check("sam.TinyViT", module, config, adapt=on_maps, x=(1, side, side, 3))
