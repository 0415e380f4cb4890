"""Short names: one for each name of the largest models, none too long for ggml, and back."""

import pytest
from support import tiny, tiny_sam2, tiny_sam3_1

LONGEST = 63  # bytes of a name in ggml


@pytest.fixture
def names(testing):
    def of(family):
        if family == "sam":
            return list(tiny.sam_shapes(tiny.VIT_H))
        if family == "sam2":
            config = tiny_sam2.VARIANTS["hiera_l"]
            return [*tiny_sam2.image_encoder_shapes(config), *tiny_sam2.heads_shapes(config)]
        of_sam3 = [name for is_3_1 in (0, 1) for name, _ in testing.sam3_parameters(is_3_1)]
        return list(dict.fromkeys([*of_sam3, *tiny_sam3_1.tracker_shapes(256)]))

    return of


@pytest.mark.parametrize(("family", "count"), [("sam", 594), ("sam2", 903), ("sam3", 1900)])
def test_short_names_are_short_and_lead_back(testing, names, family, count):
    meta = names(family)
    assert len(meta) >= count
    short = [testing.to_short_name(family, name) for name in meta]
    assert max(map(len, meta)) > LONGEST
    assert max(map(len, short)) <= 58
    assert len(set(short)) == len(set(meta)) == len(meta)
    assert [testing.from_short_name(family, name) for name in short] == meta


@pytest.mark.parametrize(
    ("family", "meta", "short"),
    [
        ("sam", "image_encoder.blocks.11.attn.qkv.weight", "v.blocks.11.attn.qkv.weight"),
        (
            "sam",
            "prompt_encoder.pe_layer.positional_encoding_gaussian_matrix",
            "p.pe_layer.gauss",
        ),
        ("sam", "mask_decoder.transformer.layers.1.norm4.bias", "d.l.1.norm4.bias"),
        (
            "sam",
            "mask_decoder.transformer.norm_final_attn.bias",
            "d.transformer.norm_final_attn.bias",
        ),
        ("sam2", "image_encoder.neck.convs.3.conv.bias", "vn.3.conv.bias"),
        ("sam2", "memory_attention.layers.0.linear1.weight", "ma.layers.0.linear1.weight"),
        ("sam2", "maskmem_tpos_enc", "maskmem_tpos_enc"),
        (
            "sam3",
            "detector.backbone.language_backbone.encoder.transformer.resblocks.23.ln_1.weight",
            "t.l.23.ln_1.weight",
        ),
        ("sam3", "detector.backbone.language_backbone.resizer.bias", "t.resizer.bias"),
        (
            "sam3",
            "tracker.sam_mask_decoder.output_hypernetworks_mlps.2.layers.0.bias",
            "tr.d.hyper.2.layers.0.bias",
        ),
        ("sam3", "tracker.transformer.encoder.norm.bias", "tr.ma.norm.bias"),
        ("sam3", "tracker.no_obj_ptr", "tr.no_obj_ptr"),
        ("sam3", "detector.dot_prod_scoring.hs_proj.bias", "sc.hs_proj.bias"),
    ],
)
def test_names(testing, family, meta, short):
    assert testing.to_short_name(family, meta) == short
    assert testing.from_short_name(family, short) == meta
