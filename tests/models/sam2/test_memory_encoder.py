"""SAM 2's memory encoder. Maps are channels last on our side."""

import pytest
from support import tiny

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam2 = pytest.importorskip("support.upstream_sam2", reason="needs sam2")
pytestmark = pytest.mark.parity


def channels_last_adapt(module, x):
    return upstream.channels_last(module(upstream.channels_first(x)))


@pytest.mark.parametrize("shape", [(1, 8, 8, 64), (1, 5, 11, 24), (2, 3, 2, 16)])
def test_cx_block(parity, shape):
    module = upstream.sam2.CXBlock(shape[-1])
    parity.check("sam2.CXBlock", module, {"dim": shape[-1]}, adapt=channels_last_adapt, x=shape)


@pytest.mark.parametrize(
    ("side", "embed_dim", "stride"), [((32, 32), 64, 16), ((48, 16), 20, 8), ((6, 10), 8, 2)]
)
def test_mask_downsampler(parity, side, embed_dim, stride):
    config = {"embed_dim": embed_dim, "total_stride": stride}
    module = upstream.sam2.MaskDownSampler(kernel_size=3, stride=2, padding=1, **config)
    shape = (1, *side, 1)
    parity.check("sam2.MaskDownSampler", module, config, adapt=channels_last_adapt, x=shape)


def reference(in_dim, out_dim, layers):
    return upstream_sam2.memory_encoder(
        tiny.Sam2HeadsConfig(d_model=in_dim, mem_dim=out_dim, fuser_layers=layers)
    )


def adapt(module, pix_feat, masks):
    out = module(upstream.channels_first(pix_feat[None]), masks[None, None], skip_mask_sigmoid=True)
    return upstream.channels_last(out["vision_features"])[0]


@pytest.mark.parametrize(("in_dim", "out_dim", "layers"), [(64, 16, 2), (48, 32, 1)])
@pytest.mark.parametrize("grid", [4, 7])
def test_memory_encoder(parity, in_dim, out_dim, layers, grid):
    config = {"in_dim": in_dim, "out_dim": out_dim, "fuser_layers": layers}
    parity.check(
        "sam2.MemoryEncoder",
        reference(in_dim, out_dim, layers),
        config,
        adapt=adapt,
        pix_feat=(grid, grid, in_dim),
        masks=(16 * grid, 16 * grid),
    )


def test_memory_encoder_of_released_width(parity):
    parity.check(
        "sam2.MemoryEncoder",
        reference(256, 64, 2),
        {},
        adapt=adapt,
        seeds=(0,),
        pix_feat=(8, 8, 256),
        masks=(128, 128),
    )
