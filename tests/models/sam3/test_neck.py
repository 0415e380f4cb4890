"""The neck of SAM 3's image encoder, and the whole image encoder."""

from dataclasses import replace

import numpy as np
import pytest
from support import tiny_sam3

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
upstream_sam3 = pytest.importorskip("support.upstream_sam3", reason="needs sam3")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

TINY = tiny_sam3.TINY


class Trunk(torch.nn.Module):
    """Hands its input on, as a trunk does."""

    def __init__(self, dim):
        super().__init__()
        self.channel_list = [dim]

    def forward(self, x):
        return [x]


class Branches(torch.nn.Module):
    """The convolutions of a neck, and what the mask decoder does to the finest levels."""

    def __init__(self, embed_dim, d_model, scale_factors, projections=()):
        super().__init__()
        self.convs = upstream_sam3.sam3.Sam3DualViTDetNeck(
            trunk=Trunk(embed_dim),
            position_encoding=upstream_sam3.position_encoding(d_model),
            d_model=d_model,
            scale_factors=scale_factors,
        ).convs
        self.projections = torch.nn.ModuleList(
            torch.nn.Conv2d(d_model, width, 1) for width in projections
        )

    def forward(self, x):
        maps = [conv(upstream.channels_first(x)) for conv in self.convs]
        for i, conv in enumerate(self.projections):
            maps[i] = conv(maps[i])
        return tuple(map(upstream.channels_last, maps))


def check_branches(parity, shape, d_model, scale_factors, projections=(), seeds=(0, 1)):
    arguments = {
        "embed_dim": shape[-1],
        "d_model": d_model,
        "scale_factors": scale_factors,
        "projections": list(projections),
    }
    parity.check("sam3.NeckBranches", Branches(**arguments), arguments, seeds=seeds, x=shape)


@pytest.mark.parametrize("shape", [(1, 8, 8, 64), (2, 2, 6, 40), (1, 4, 2, 12)], ids=str)
@pytest.mark.parametrize("d_model", [32, 20])
def test_branches(parity, shape, d_model):
    check_branches(parity, shape, d_model, [4.0, 2.0, 1.0, 0.5])


def test_branches_of_odd_sides(parity):
    check_branches(parity, (2, 5, 3, 24), 16, [2.0, 4.0, 1.0])


@pytest.mark.parametrize("projections", [(4, 8), (33,), (16, 16, 1)], ids=str)
def test_folded_projections(parity, projections):
    check_branches(parity, (1, 4, 5, 24), 16, [4.0, 2.0, 1.0], projections)


def test_branches_of_released_width(parity):
    shape = (1, 6, 6, 1024)
    check_branches(parity, shape, 256, [4.0, 2.0, 1.0], (32, 64), seeds=(0,))


def whole(module, x):
    """Return upstream's kept maps, finest first, and the encoding of the trunk's positions."""
    upstream_sam3.refresh(module)
    backbone = upstream_sam3.sam3.SAM3VLBackbone(visual=module, text=None, scalp=module.scalp)
    output = backbone.forward_image(upstream.channels_first(x))
    sets = [output["backbone_fpn"]]
    if output["sam2_backbone_out"] is not None:
        sets.append(output["sam2_backbone_out"]["backbone_fpn"])
    maps = [upstream.channels_last(level) for levels in sets for level in levels]
    pos = output["vision_pos_enc"][module.scale_factors.index(1.0)]
    return (*maps, pos[0].permute(1, 2, 0))


@pytest.mark.parametrize("sam2", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"scalp": 0},
        {"img_size": 98, "d_model": 32},
        {"scale_factors": (1.0, 0.5), "scalp": 0},
    ],
    ids=str,
)
def test_image_encoder(parity, changes, sam2):
    config = replace(TINY, **changes)
    module = upstream_sam3.neck(config, add_sam2_neck=sam2)
    module.scalp = config.scalp
    ours = {**config.vision, "add_sam2_neck": sam2}
    shape = (1, config.img_size, config.img_size, 3)
    parity.check("sam3.Sam3DualViTDetNeck", module, ours, adapt=whole, x=shape)


@pytest.mark.parametrize("sam2", [False, True])
def test_shapes_are_those_of_upstream(sam2):
    module = upstream_sam3.neck(TINY, add_sam2_neck=sam2)
    expected = {name: value.shape for name, value in upstream.state_dict(module).items()}
    assert tiny_sam3.vision_shapes(TINY, sam2) == expected


def test_unknown_scale(testing):
    import sam_rlx

    config = {**TINY.vision, "scale_factors": [4.0, 3.0]}
    with pytest.raises(sam_rlx.UnsupportedError, match="expected 4, 2, 1 or"):
        testing.layer("sam3.Sam3DualViTDetNeck", config, {})


# ---------------------------------------------------------------- layer by layer


def upstream_taps(module, x):
    """Upstream's results by path, in our layout."""
    taps = {}

    def patches(_module, args):  # with the position table, as ours records them
        taps["trunk.patch_embed"] = args[0].numpy()

    def keep(path):
        def hook(_module, _args, output):
            last = upstream.channels_last(output) if "convs" in path else output
            taps[path] = last.numpy()

        return hook

    handles = [module.trunk.ln_pre.register_forward_pre_hook(patches)]
    for path, child in module.named_modules():
        parts = path.split(".")
        if path == "trunk.ln_pre" or (parts[-1].isdigit() and len(parts) <= 3):
            handles.append(child.register_forward_hook(keep(path)))
    try:
        with torch.no_grad():
            upstream_sam3.refresh(module)(upstream.channels_first(x))
    finally:
        for handle in handles:
            handle.remove()
    return taps


def check_trace(parity, testing, config, seed, isas):
    module = upstream.randomise(upstream_sam3.neck(config), seed)
    weights = upstream.state_dict(module)
    side = config.img_size
    image = np.random.default_rng(seed).standard_normal((1, side, side, 3), dtype=np.float32)
    ours = {**config.vision, "add_sam2_neck": True}
    traces = []
    for isa in isas:
        layer = testing.layer("sam3.Sam3DualViTDetNeck", ours, weights, isa=isa, num_threads=2)
        traces.append(dict(layer.trace(x=image)))
        del layer
    single = upstream_taps(module, upstream.tensor(image))
    module.double()
    with upstream.float64():
        exact = upstream_taps(module, upstream.tensor(image, torch.float64))
    kept = len(config.scale_factors) - config.scalp
    required = ["trunk.patch_embed", "trunk.ln_pre"]
    required += [f"trunk.blocks.{i}" for i in range(config.depth)]
    required += [f"{convs}.{i}" for convs in ("convs", "sam2_convs") for i in range(kept)]
    for trace in traces:
        parity.trace(trace, exact, single, required=required)


def test_trace(parity, testing):
    check_trace(parity, testing, TINY, 5, parity.isas)


def test_trace_of_padded_windows(parity, testing):
    config = replace(TINY, img_size=126, window_size=5, depth=4, global_att_blocks=(1, 3))
    check_trace(parity, testing, config, 6, parity.isas)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_trace_of_released_size(parity, testing):
    best = [isa for isa in parity.isas if isa != "generic"][:1] or parity.isas
    check_trace(parity, testing, tiny_sam3.RELEASED, 2, best)


def test_a_second_call_takes_no_memory(testing):
    module = upstream.randomise(upstream_sam3.neck(TINY))
    ours = {**TINY.vision, "add_sam2_neck": True}
    layer = testing.layer(
        "sam3.Sam3DualViTDetNeck", ours, upstream.state_dict(module), num_threads=2
    )
    image = np.zeros((1, TINY.img_size, TINY.img_size, 3), np.float32)
    layer.forward(x=image)
    taken = []
    for _ in range(3):
        before = testing.allocation_count()
        layer.forward(x=image)
        taken.append(testing.allocation_count() - before)
    results = 7  # twice three maps and the encoding, copied for NumPy
    assert taken[-1] == results


def test_the_dropped_level_is_not_computed(testing):
    module = upstream.randomise(upstream_sam3.neck(TINY))
    ours = {**TINY.vision, "add_sam2_neck": True}
    layer = testing.layer("sam3.Sam3DualViTDetNeck", ours, upstream.state_dict(module))
    side = TINY.img_size
    recorded = dict(layer.trace(x=np.zeros((1, side, side, 3), np.float32)))
    assert "convs.2" in recorded
    assert "convs.3" not in recorded
    assert "sam2_convs.3" not in recorded
