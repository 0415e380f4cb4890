"""Names of other dialects become Meta's, and families are told apart."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from support import checkpoint_files as files
from support import tiny, tiny_sam2

DATA = Path(__file__).resolve().parent.parent / "data"

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


# The same to those of Sam2VideoModel.
SAM2_TO_HUGGING_FACE = [
    (r"^image_encoder\.trunk\.", "vision_encoder.backbone."),
    (r"^image_encoder\.neck\.convs\.(\d)\.conv\.", r"vision_encoder.neck.convs.\1."),
    (r"^sam_(prompt_encoder|mask_decoder)\.", r"\1."),
    (r"^(vision.*|mask.*)\.mlp\.layers\.0\.", r"\1.mlp.proj_in."),
    (r"^(vision.*|mask.*)\.mlp\.layers\.1\.", r"\1.mlp.proj_out."),
    (r"^obj_ptr_proj\.", "object_pointer_proj."),
    (r"(mlps\.\d|_head|object_pointer_proj)\.layers\.0\.", r"\1.proj_in."),
    (r"(mlps\.\d|_head|object_pointer_proj)\.layers\.1\.", r"\1.layers.0."),
    (r"(mlps\.\d|_head|object_pointer_proj)\.layers\.2\.", r"\1.proj_out."),
    (r"^obj_ptr_tpos_proj\.", "temporal_positional_encoding_projection_layer."),
    (r"^no_obj_embed_spatial$", "occlusion_spatial_embedding_parameter"),
    (r"^no_obj_ptr$", "no_object_pointer"),
    (r"^maskmem_tpos_enc$", "memory_temporal_positional_encoding"),
    (r"^no_mem_embed$", "no_memory_embedding"),
    (r"^no_mem_pos_enc$", "no_memory_positional_encoding"),
    (r"mask_downsampler\.encoder\.12\.", "mask_downsampler.final_conv."),
    *((rf"ler\.encoder\.{3 * i}\.", f"ler.layers.{i}.conv.") for i in range(4)),
    *((rf"ler\.encoder\.{3 * i + 1}\.", f"ler.layers.{i}.layer_norm.") for i in range(4)),
    (r"pix_feat_proj\.", "feature_projection."),
    (r"^memory_encoder\.out_proj\.", "memory_encoder.projection."),
    (r"\.fuser\.", ".memory_fuser."),
    (r"\.dwconv\.", ".depthwise_conv."),
    (r"\.pwconv(\d)\.", r".pointwise_conv\1."),
    (r"\.gamma$", ".scale"),
    (r"\.out_proj\.", ".o_proj."),
    (r"\.norm\.", ".layer_norm."),
    *(
        row
        for row in TO_HUGGING_FACE
        if not row[0].startswith(("^image", "neck", r"\.blocks", "("))
    ),
]
POINTS = "prompt_encoder.point_embed.weight"


def to_hugging_face(name, rows=tuple(TO_HUGGING_FACE)):
    for pattern, replacement in rows:
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
    assert testing.meta_names("sam", list(rows)) == list(rows.values())


def sam2_in_hugging_face_names(weights):
    renamed = {to_hugging_face(name, SAM2_TO_HUGGING_FACE): v for name, v in weights.items()}
    points = [renamed.pop(f"prompt_encoder.point_embed.{i}.weight") for i in range(4)]
    encoding = renamed[ENCODING]
    return {**renamed, POINTS: np.concatenate(points), COPY: encoding}


@pytest.mark.parametrize("version", ["2.1", "2.0"])
def test_hugging_face_names_of_sam2(tmp_path, version):
    weights = tiny_sam2.weights(tiny_sam2.TINY, 0, version)
    renamed = sam2_in_hugging_face_names(weights)
    assert not any(name.startswith(("image_encoder", "sam_")) for name in renamed)
    models = [
        sam_rlx.load_model(tiny_sam2.save_safetensors(tmp_path / name, tiny_sam2.TINY, values))
        for name, values in (("meta.safetensors", weights), ("hf.safetensors", renamed))
    ]
    assert models[1].version == version
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    found = []
    for model in models:
        predictor = sam_rlx.ImagePredictor(model)
        predictor.set_image(image)
        found.append(predictor.predict(point_coords=[[20, 30]], point_labels=[1]).low_res_masks)
    np.testing.assert_array_equal(found[0], found[1])


def test_hugging_face_names_of_sam2_as_recorded(testing):
    """What transformers' Sam2VideoModel holds is what a model of the tiny size needs."""
    recorded = json.loads((DATA / "hugging_face_sam2.json").read_text())
    recorded.pop(COPY)
    shape = recorded.pop(POINTS)
    names = testing.meta_names("sam2", list(recorded))
    found = dict(zip(names, map(tuple, recorded.values()), strict=True))
    for i in range(shape[0]):
        found[f"sam_prompt_encoder.point_embeddings.{i}.weight"] = (1, *shape[1:])
    config = tiny_sam2.VARIANTS["hiera_t"]
    expected = {k: v.shape for k, v in tiny_sam2.weights(config).items()}
    assert found == expected


@pytest.mark.parametrize("shape", [(3, 8), (0, 8), ()])
def test_a_table_of_points_that_cannot_be_split(testing, tmp_path, shape):
    weights = {
        "vision_encoder.backbone.pos_embed_window": np.ones(1, np.float32),
        POINTS: np.ones(shape, np.float32),
    }
    state_dict = testing.open_checkpoint(write(tmp_path / "x", weights))
    with pytest.raises(sam_rlx.errors.CheckpointError, match="multiple of 4"):
        state_dict.to_meta_names()


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
        ("image_encoder.features.0.0.c.weight", "RepViT-SAM"),
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
