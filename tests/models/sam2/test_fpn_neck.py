"""The neck, and the whole image encoder."""

import pytest

upstream = pytest.importorskip("support.upstream", reason="needs the reference packages")
torch = pytest.importorskip("torch", reason="needs the reference packages")
pytestmark = pytest.mark.parity

NECK = {"d_model": 32, "backbone_channel_list": [40, 24, 12, 6], "fpn_top_down_levels": [2, 3]}
LEVELS = {"x0": (2, 16, 24, 6), "x1": (2, 8, 12, 12), "x2": (2, 4, 6, 24), "x3": (2, 2, 3, 40)}


def neck(**changes):
    """Return our config and upstream's module for it."""
    config = {**NECK, **changes}
    encoding = upstream.sam2.PositionEmbeddingSine(num_pos_feats=config["d_model"])
    module = upstream.sam2.FpnNeck(position_encoding=encoding, **config, fpn_interp_model="nearest")
    return config, module


class Projected(torch.nn.Module):
    """A neck, and what the mask decoder does to its finest levels."""

    def __init__(self, module, s0=0, s1=0):
        super().__init__()
        self.neck = module
        for level, width in enumerate((s0, s1)):
            if width:
                setattr(self, f"conv_s{level}", torch.nn.Conv2d(module.d_model, width, 1))

    def forward(self, **levels):
        self.neck.position_encoding.cache = {}
        maps, _ = self.neck([upstream.channels_first(levels[name]) for name in sorted(levels)])
        for level in range(2):
            if hasattr(self, f"conv_s{level}"):
                maps[level] = getattr(self, f"conv_s{level}")(maps[level])
        return tuple(map(upstream.channels_last, maps))


@pytest.mark.parametrize("levels", [[2, 3], [0, 1, 2, 3], [2], []], ids=str)
def test_neck(parity, levels):
    config, module = neck(fpn_top_down_levels=levels)
    parity.check("sam2.FpnNeck", Projected(module), config, **LEVELS)


@pytest.mark.parametrize(("s0", "s1"), [(4, 8), (4, 0), (0, 8), (40, 33)])
def test_folded_projections(parity, s0, s1):
    config, module = neck()
    config = {**config, "s0_dim": s0, "s1_dim": s1}
    parity.check("sam2.FpnNeck", Projected(module, s0, s1), config, **LEVELS)


def test_levels_that_others_need_are_not_folded(testing):
    import sam_rlx

    config, module = neck(fpn_top_down_levels=[0, 3])
    module = Projected(module, s1=8)
    with pytest.raises(sam_rlx.InternalError, match="cannot be folded"):
        testing.layer("sam2.FpnNeck", {**config, "s1_dim": 8}, upstream.state_dict(module))
