"""Which number format each tensor of a GGUF file gets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx._internal.weights.gguf import plan as gguf_plan
from support.trained import trained


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "expected"),
    [
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 256), "Q4_K", "Q4_K"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q2_K", "Q8_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q4_K", "Q8_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q4_0", "Q4_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q6_K", "Q8_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q8_K", "Q8_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 192), "Q8_0", "Q8_0"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 48), "Q8_0", "F16"),
        ("image_encoder.blocks.0.attn.qkv.weight", (768, 48), "BF16", "BF16"),
        ("image_encoder.blocks.0.attn.qkv.bias", (768,), "Q4_0", "F32"),
        ("image_encoder.blocks.0.attn.rel_pos_h", (27, 64), "Q4_0", "F32"),
        ("image_encoder.neck.0.weight", (256, 768, 1, 1), "Q4_0", "Q4_0"),
        ("image_encoder.neck.2.weight", (256, 256, 3, 3), "Q4_0", "F16"),
        ("image_encoder.neck.2.weight", (256, 256, 3, 3), "F32", "F32"),
        ("image_encoder.pos_embed", (1, 64, 64, 768), "F16", "F32"),
        ("image_encoder.trunk.pos_embed", (1, 96, 7, 7), "F16", "F32"),
        ("maskmem_tpos_enc", (7, 1, 1, 64), "F16", "F32"),
        ("no_obj_ptr", (1, 256), "Q8_0", "F32"),
        ("mask_decoder.mask_tokens.weight", (4, 256), "Q8_0", "F32"),
        ("mask_decoder.iou_prediction_head.layers.0.weight", (256, 256), "Q8_0", "F32"),
        ("mask_decoder.output_hypernetworks_mlps.0.layers.0.weight", (256, 256), "F16", "F32"),
        ("detector.transformer.decoder.reference_points.weight", (200, 4), "F16", "F32"),
        ("detector.transformer.decoder.bbox_embed.layers.0.weight", (256, 256), "Q8_0", "F32"),
        (
            "detector.backbone.language_backbone.encoder.token_embedding.weight",
            (49408, 1024),
            "Q4_K",
            "Q4_K",
        ),
        (
            "detector.backbone.vision_backbone.trunk.blocks.2.mlp.fc2.weight",
            (1024, 4736),
            "Q4_K",
            "Q8_0",
        ),
    ],
)
def test_the_rule(name: str, shape: tuple[int, ...], dtype: str, expected: str) -> None:
    (choice,) = gguf_plan.plan([(name, "F32", shape)], dtype)
    assert choice.dtype == expected
    assert choice.fell_back == (expected not in (dtype, "F32") and shape[2:] != (3, 3))


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("mask_decoder.transformer.layers.0.mlp.lin1.weight", "Q4_K", "F16"),
        ("sam_mask_decoder.conv_s0.weight", "Q8_0", "F16"),
        ("tracker.sam_mask_decoder.transformer.layers.0.mlp.lin1.weight", "Q8_0", "F16"),
        ("tracker.sam_mask_decoder.transformer.layers.0.mlp.lin1.weight", "BF16", "BF16"),
        ("detector.transformer.decoder.layers.0.linear1.weight", "Q4_K", "F16"),
        ("detector.dot_prod_scoring.prompt_mlp.layers.0.weight", "Q8_0", "F16"),
        ("tracker.transformer.encoder.layers.0.linear1.weight", "Q8_0", "Q8_0"),
        ("detector.backbone.vision_backbone.trunk.blocks.1.mlp.fc1.weight", "Q4_0", "Q8_0"),
        ("detector.backbone.vision_backbone.trunk.blocks.1.mlp.fc1.weight", "Q6_K", "Q8_0"),
        ("detector.backbone.vision_backbone.trunk.blocks.1.mlp.fc1.weight", "Q8_K", "Q8_K"),
        ("detector.backbone.vision_backbone.trunk.blocks.1.mlp.fc1.weight", "F16", "F16"),
        ("detector.backbone.vision_backbone.trunk.blocks.2.mlp.fc1.weight", "Q4_0", "Q4_0"),
        ("detector.backbone.vision_backbone.trunk.blocks.10.mlp.fc1.weight", "Q4_0", "Q4_0"),
        ("image_encoder.trunk.blocks.1.mlp.layers.0.weight", "Q4_0", "Q4_0"),
    ],
)
def test_what_is_finer_than_asked_for(name: str, dtype: str, expected: str) -> None:
    (choice,) = gguf_plan.plan([(name, "F32", (512, 256))], dtype)
    assert choice.dtype == expected
    assert not choice.fell_back


@pytest.mark.parametrize(
    ("name", "shape", "source", "dtype", "expected"),
    [
        ("image_encoder.pos_embed", (1, 48, 48, 192), "F16", "Q8_0", "F16"),
        ("image_encoder.pos_embed", (1, 48, 48, 192), "BF16", "F16", "BF16"),
        ("image_encoder.pos_embed", (1, 48, 48, 192), "F16", "F32", "F32"),
        ("image_encoder.blocks.0.norm1.weight", (192,), "F16", "Q4_K", "F16"),
        ("image_encoder.neck.2.weight", (64, 64, 3, 3), "BF16", "Q4_K", "BF16"),
        ("image_encoder.neck.2.weight", (64, 64, 3, 3), "I8", "Q4_K", "F16"),
    ],
)
def test_nothing_gets_wider_than_its_source(
    name: str, shape: tuple[int, ...], source: str, dtype: str, expected: str
) -> None:
    (choice,) = gguf_plan.plan([(name, source, shape)], dtype)
    assert choice.dtype == expected


def test_overrides_hold_for_what_has_rows() -> None:
    tensors = [
        ("image_encoder.pos_embed", "F16", (1, 48, 48, 192)),
        ("image_encoder.neck.2.weight", "F16", (64, 32, 3, 3)),
        ("image_encoder.neck.3.weight", "F16", (64,)),
        ("image_encoder.blocks.0.attn.qkv.weight", "F16", (576, 192)),
        ("mask_decoder.iou_token.weight", "F16", (1, 24)),
    ]
    rules = [("neck", "Q4_0"), ("pos_embed|iou_token", "Q8_0"), ("image", "F32")]
    choices = gguf_plan.plan(tensors, "Q6_K", rules)
    assert [c.dtype for c in choices] == ["Q8_0", "Q4_0", "F16", "F32", "F16"]
    assert [c.packed_side for c in choices] == [0, 3, 0, 0, 0]
    assert choices[1].stored_shape == (64, 288)
    assert [c.fell_back for c in choices] == [False] * 4 + [True]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([("neck", "Q9")], "dtype: expected one of .*found 'Q9'"),
        ([("ne(ck", "Q8_0")], r"expected regular expressions, found 'ne\(ck'"),
    ],
)
def test_wrong_overrides_are_refused(
    tmp_path: Path, overrides: list[tuple[str, str]], message: str
) -> None:
    with pytest.raises(sam_rlx.InvalidArgumentError, match=message):
        gguf_conversion.to_gguf(
            trained("sam-nano"), tmp_path / "x.gguf", "Q8_0", overrides=overrides
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.source_tree
def test_packed_kernels_have_their_shape_again(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    rules = [(r"neck|output_upscaling\.\d\.weight|mask_downscaling", "Q8_0")]
    gguf_conversion.to_gguf(trained("sam-nano"), path, "F16", overrides=rules)
    source, packed = _core.Checkpoint(str(trained("sam-nano"))), _core.Checkpoint(str(path))
    shapes = {name: shape for name, _, shape in source.tensors}
    sides = set()
    for name, dtype, shape in packed.tensors:
        assert shape == shapes[name], name
        if dtype != "Q8_0" or len(shape) != 4:
            continue
        sides.add(shape[-1])
        expected = source.encode(name, "F32", 1).view(np.float32)
        found = packed.encode(name, "F32", 1).view(np.float32)
        np.testing.assert_allclose(found, expected, atol=np.abs(expected).max() / 250)
    assert sides == {1, 2, 3}
