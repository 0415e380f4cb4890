"""Names of other dialects become Meta's, and families are told apart."""

import re

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files
from support import tiny

# From Meta's names to those of transformers' SamModel, as text replacements in this order.
TO_HUGGING_FACE = [
    (r"^image_encoder\.", "vision_encoder."),
    (r"patch_embed\.proj\.", "patch_embed.projection."),
    (r"\.blocks\.", ".layers."),
    (r"neck\.0\.", "neck.conv1."),
    (r"neck\.1\.", "neck.layer_norm1."),
    (r"neck\.2\.", "neck.conv2."),
    (r"neck\.3\.", "neck.layer_norm2."),
    (r"\.norm(\d)\.", r".layer_norm\1."),
    (r"\.norm_final_attn\.", ".layer_norm_final_attn."),
    (r"pe_layer\.positional_encoding_gaussian_matrix", "shared_embedding.positional_embedding"),
    (r"point_embeddings\.", "point_embed."),
    (r"mask_downscaling\.0\.", "mask_embed.conv1."),
    (r"mask_downscaling\.1\.", "mask_embed.layer_norm1."),
    (r"mask_downscaling\.3\.", "mask_embed.conv2."),
    (r"mask_downscaling\.4\.", "mask_embed.layer_norm2."),
    (r"mask_downscaling\.6\.", "mask_embed.conv3."),
    (r"output_upscaling\.0\.", "upscale_conv1."),
    (r"output_upscaling\.1\.", "upscale_layer_norm."),
    (r"output_upscaling\.3\.", "upscale_conv2."),
    (r"(mlps\.\d|iou_prediction_head)\.layers\.0\.", r"\1.proj_in."),
    (r"(mlps\.\d|iou_prediction_head)\.layers\.1\.", r"\1.layers.0."),
    (r"(mlps\.\d|iou_prediction_head)\.layers\.2\.", r"\1.proj_out."),
]
ENCODING = "prompt_encoder.shared_embedding.positional_embedding"
COPY = "shared_image_embedding.positional_embedding"


def to_hugging_face(name):
    for pattern, replacement in TO_HUGGING_FACE:
        name = re.sub(pattern, replacement, name)
    return name


def write(path, weights):
    tensors = {name: files.stored(np.asarray(value)) for name, value in weights.items()}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    return path


@pytest.mark.parametrize("copies", ["both", "original", "copy"])
def test_hugging_face_names_of_sam(testing, tmp_path, tiny_weights, copies):
    weights = {to_hugging_face(name): value for name, value in tiny_weights.items()}
    assert not set(weights) & {name for name in tiny_weights if name.startswith("image_encoder")}
    encoding = weights.pop(ENCODING)
    weights |= {ENCODING: encoding} if copies != "copy" else {}
    weights |= {COPY: encoding} if copies != "original" else {}
    state_dict = testing.open_checkpoint(write(tmp_path / "model.safetensors", weights))
    assert state_dict.to_meta_names() == "sam"
    assert sorted(state_dict.keys()) == sorted(tiny_weights)
    for name, value in tiny_weights.items():
        np.testing.assert_array_equal(state_dict[name], value, name)


@pytest.mark.parametrize("variant", tiny.VARIANTS)
def test_hugging_face_names_of_the_released_sizes(testing, variant):
    rows = {}
    for name in tiny.sam_shapes(tiny.VARIANTS[variant]):
        rows[to_hugging_face(name)] = name
    assert testing.sam_names(list(rows)) == list(rows.values())


def test_meta_names_stay(testing, tiny_checkpoint, tiny_weights):
    state_dict = testing.open_checkpoint(tiny_checkpoint)
    assert state_dict.to_meta_names() == "sam"
    assert sorted(state_dict.keys()) == sorted(tiny_weights)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.12.b.3.weight", "x.12.3.y.weight"),
        ("a.12.b.", None),
        ("a.x.b.3.", None),
        ("a.", None),
        ("", None),
        ("c.weight", "z.weight"),
    ],
)
def test_rows_keep_numbers_in_order(testing, name, expected):
    rows = [("a.{i}.b.{i}.", "x.{i}.{i}.y."), ("c.", "z."), ("c.weight", "never")]
    assert testing.map_key(rows, name) == expected


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("mask_decoder.hf_token.weight", "HQ-SAM"),
        ("mask_decoder.hq_token.weight", "HQ-SAM"),
        ("image_encoder.patch_embed.seq.0.c.weight", r"MobileSAM \(TinyViT\)"),
        ("tracker.model.interactive_mask_decoder.x", r"SAM 3\.1"),
        ("detector.backbone.interactive_convs.0.weight", r"SAM 3\.1"),
        (
            "vision_encoder.backbone.pos_embed_window",
            "family sam2 with transformers' names recognised",
        ),
        ("detector.backbone.vision_backbone.trunk.pos_embed", "family sam3 recognised"),
        (
            "detector_model.vision_encoder.backbone.embeddings.position_embeddings",
            "family sam3 with transformers' names recognised",
        ),
    ],
)
def test_other_families_are_named(testing, tmp_path, name, found):
    weights = {name: np.ones(1, np.float32), "x": np.ones(1, np.float32)}
    state_dict = testing.open_checkpoint(write(tmp_path / "x", weights))
    with pytest.raises(sam_rlx.errors.UnsupportedError, match=found):
        state_dict.to_meta_names()


@pytest.mark.parametrize(
    ("names", "found"),
    [([], "no tensors"), (["a"], "1 tensors: a"), (list("abcd"), r"4 tensors: a, b, c, \.\.\.")],
)
def test_unknown_tensors_are_shown(testing, tmp_path, names, found):
    weights = dict.fromkeys(names, np.ones(1, np.float32))
    state_dict = testing.open_checkpoint(write(tmp_path / "x", weights))
    with pytest.raises(sam_rlx.errors.CheckpointError, match=found):
        state_dict.to_meta_names()
