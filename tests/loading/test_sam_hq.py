"""Checkpoints of SAM-HQ: sizes from the tensors, other kinds of files, damage, embeddings."""

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from sam_rlx import CheckpointError, InvalidArgumentError, UnsupportedError, _core
from support import tiny, tiny_mobile_sam, tiny_sam_hq

HEADS = tiny_mobile_sam.TINY_HEADS
IMAGE = np.random.default_rng(3).integers(0, 256, (90, 133, 3), np.uint8)
CLICK = {"point_coords": [[60, 40]], "point_labels": [1]}


@pytest.fixture(scope="module")
def weights():
    return tiny_sam_hq.weights()


@pytest.fixture(scope="module")
def path(tmp_path_factory, weights):
    path = tmp_path_factory.mktemp("sam_hq") / "x.safetensors"
    save_file(weights, path)
    return path


@pytest.fixture(scope="module")
def tiny_vit_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("sam_hq") / "tiny.safetensors"
    save_file(tiny_sam_hq.weights(HEADS, tiny_mobile_sam.TINY), path)
    return path


def predictor_of(source, **options):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source, **options))
    predictor.set_image(IMAGE)
    return predictor


def results(source, **options):
    predictor = predictor_of(source, **options)
    both = [predictor.predict(**CLICK, hq_token_only=alone).low_res_masks for alone in (0, 1)]
    return [*predictor.image_embeddings, *both]


def save_zeros(path, shapes):
    """Write a file of half-precision zeros: the sizes alone count."""
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    return path


# Parameters of the released models, and the decoder's without SAM's: sections of the README.
@pytest.mark.parametrize(
    ("variant", "config", "trunk", "extra"),
    [
        ("hq_vit_tiny", tiny.VIT_B, tiny_mobile_sam.VIT_T, 448_512),
        ("hq_vit_b", tiny.VIT_B, None, 1_071_104),
        pytest.param("hq_vit_l", tiny.VIT_L, None, 1_333_248, marks=pytest.mark.slow),
        pytest.param("hq_vit_h", tiny.VIT_H, None, 1_595_392, marks=pytest.mark.slow),
    ],
)
def test_released_sizes(tmp_path, variant, config, trunk, extra):
    shapes = tiny_sam_hq.shapes_of(config, trunk)
    added = tiny_sam_hq.head_shapes(256, shapes["mask_decoder.compress_vit_feat.0.weight"][0])
    assert sum(int(np.prod(shape)) for shape in added.values()) == extra
    path = save_zeros(tmp_path / "x.safetensors", shapes)
    model = sam_rlx.load_model(path, variant=variant)
    assert (model.family, model.variant, model.img_size) == ("sam", variant, 1024)
    plain = {"hq_vit_tiny": "vit_t"}.get(variant, variant.removeprefix("hq_"))
    with pytest.raises(CheckpointError) as caught:
        sam_rlx.load_model(path, variant=plain)
    assert str(caught.value) == (
        f"variant {plain}: mask_decoder: expected SAM's, without the HQ token, found SAM-HQ's (the "
        f"file is {variant})"
    )
    save_zeros(path, {name: shape for name, shape in shapes.items() if name not in added})
    assert sam_rlx.load_model(path).variant == plain
    with pytest.raises(CheckpointError, match="expected SAM-HQ's, found SAM's, without the HQ"):
        sam_rlx.load_model(path, variant=variant)


def test_the_released_files_are_those_of_the_tensors():
    """Files of PyTorch hold float32 numbers and little else."""
    rows = {row["variant"]: row["bytes"] for row in _core.releases()}
    for variant, config, trunk in (
        ("hq_vit_tiny", tiny.VIT_B, tiny_mobile_sam.VIT_T),
        ("hq_vit_b", tiny.VIT_B, None),
        ("hq_vit_l", tiny.VIT_L, None),
        ("hq_vit_h", tiny.VIT_H, None),
    ):
        shapes = tiny_sam_hq.shapes_of(config, trunk)
        numbers = sum(int(np.prod(shape)) for shape in shapes.values())
        numbers += 321_640 if trunk else 0  # the classifier
        assert 0 < rows[variant] - 4 * numbers < 300_000


def test_the_config_tells(path, tiny_vit_path, tiny_checkpoint):
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam", "custom", "1.0")
    assert model.config["mask_decoder"]["hq"] == {"vit_dim": 64}
    trunk = sam_rlx.load_model(tiny_vit_path).config["mask_decoder"]["hq"]
    assert trunk == {"vit_dim": tiny_mobile_sam.TINY.embed_dims[2]}
    assert sam_rlx.load_model(tiny_checkpoint).config["mask_decoder"]["hq"] is None


def test_sizes_of_metadata(tmp_path, weights):
    """A file of this project's training: its metadata does not speak of SAM-HQ."""
    path = tiny.save_safetensors(tmp_path / "x.safetensors", weights)
    model = sam_rlx.load_model(path)
    assert (model.variant, model.config["mask_decoder"]["hq"]) == ("tiny", {"vit_dim": 64})


def test_hq_token_only_is_asked_of_sam_hq_alone(tiny_checkpoint):
    message = "hq_token_only: expected false, or a model of SAM-HQ or HQ-SAM 2, found sam tiny"
    predictor = predictor_of(tiny_checkpoint)
    before = predictor.predict(**CLICK).low_res_masks
    with pytest.raises(InvalidArgumentError, match=message):
        predictor.predict(**CLICK, hq_token_only=True)
    with pytest.raises(InvalidArgumentError, match="hq_token_only: expected True or False"):
        predictor.predict(**CLICK, hq_token_only=2)
    np.testing.assert_array_equal(predictor.predict(**CLICK).low_res_masks, before)
    with pytest.raises(InvalidArgumentError, match=message):
        sam_rlx.MaskGenerator(predictor.model, hq_token_only=True)


def test_the_mask_is_the_sum(path):
    predictor = predictor_of(path)
    found = {
        (many, alone): predictor.predict(**CLICK, multimask_output=many, hq_token_only=alone)
        for many in (True, False)
        for alone in (True, False)
    }
    for result in found.values():
        assert result.masks.shape == (1, 90, 133)
        assert result.iou_predictions.shape == (1,)
    # The HQ token's own mask does not depend on which of SAM's is chosen.
    np.testing.assert_array_equal(found[True, True].low_res_masks, found[False, True].low_res_masks)
    parts = [
        found[many, False].low_res_masks - found[True, True].low_res_masks for many in (True, False)
    ]
    assert np.abs(parts[0] - parts[1]).max() > 0.1
    for alone in (True, False):
        assert found[True, alone].iou_predictions != found[False, alone].iou_predictions


def test_results_are_the_same_by_any_number_of_threads(path):
    model = sam_rlx.load_model(path)
    boxes = np.array([[5.0, 5, 60, 60], [30, 20, 120, 80], [2, 40, 50, 88]])
    found = []
    for threads in (1, 2, 3):
        predictor = sam_rlx.ImagePredictor(model, num_threads=threads)
        predictor.set_image(IMAGE)
        found.append(predictor.predict(box=boxes).low_res_masks)
        found.append(np.stack([predictor.predict(box=box).low_res_masks for box in boxes]))
    for each in found[1:]:
        np.testing.assert_array_equal(found[0], each)


@pytest.mark.parametrize("kind", ["ViT", "TinyViT"])
def test_embeddings_bring_everything_back(path, tiny_vit_path, tmp_path, kind):
    source, options = (path, {}) if kind == "ViT" else (tiny_vit_path, {"image_size": 128})
    predictor = predictor_of(source, **options)
    width = 64 if kind == "ViT" else 32
    shapes = [part.shape for part in predictor.image_embeddings]
    assert shapes == [(1, width, 8, 8), (1, width // 8, 32, 32)]
    truth = predictor.predict(**CLICK).low_res_masks
    predictor.save_embedding(tmp_path / "x.safetensors")
    other = sam_rlx.ImagePredictor(predictor.model)
    other.load_embedding(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(other.predict(**CLICK).low_res_masks, truth)
    other.set_images([IMAGE[::-1], IMAGE])
    other.select(1)
    np.testing.assert_array_equal(other.predict(**CLICK).low_res_masks, truth)
    with pytest.raises(InvalidArgumentError, match="image_embedding: expected 2 arrays, found 1"):
        other.set_image_embedding(predictor.image_embedding, (90, 133))
    generator = sam_rlx.MaskGenerator(predictor.model, points_per_side=3, pred_iou_thresh=0.0)
    encoded = generator.generate(embedding=predictor.image_embeddings, orig_hw=(90, 133))
    assert [m.area for m in encoded] == [m.area for m in generator.generate(IMAGE)]


def test_tiles(path):
    predictor = predictor_of(path)
    box = [[5.0, 5, 60, 60], [30, 20, 120, 80]]
    found = predictor.predict(image=IMAGE, tile=64, box=box, hq_token_only=True)
    assert np.asarray(found.masks).shape == (2, 1, 90, 133)
    assert found.iou_predictions.shape == (2, 1)


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
@pytest.mark.parametrize("kind", ["ViT", "TinyViT"])
def test_written_again(path, tiny_vit_path, tmp_path, name, dtype, kind):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    source, options = (path, {}) if kind == "ViT" else (tiny_vit_path, {"image_size": 128})
    written = tmp_path / name
    sam_rlx.conversion.convert(source, written, dtype=dtype)
    assert sam_rlx.load_model(written).config["mask_decoder"]["hq"]
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.1}[dtype]
    for a, b in zip(results(source, **options), results(written, **options), strict=True):
        assert np.abs(a - b).max() <= bound * np.abs(a).max()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(path, precision):
    for a, b in zip(results(path), results(path, precision=precision), strict=True):
        assert 0 < np.abs(a - b).max() < 0.1 * np.abs(a).max()


def test_folders_of_transformers(path, tmp_path):
    """Both ways: the class is that of SAM-HQ, and the numbers are the same."""
    folder = tmp_path / "folder"
    sam_rlx.conversion.convert(path, folder)
    names = {name for name, _, _ in sam_rlx.model.list_tensors(folder)}
    assert {"mask_decoder.hq_token.weight", "mask_decoder.hq_mask_mlp.proj_out.bias"} <= names
    assert {"mask_decoder.compress_vit_conv1.weight", "mask_decoder.mask_norm.bias"} <= names
    back = tmp_path / "y.safetensors"
    sam_rlx.conversion.convert(folder, back, names="meta")
    for source in (folder, back):
        for a, b in zip(results(path), results(source), strict=True):
            np.testing.assert_array_equal(a, b)


def test_transformers_has_no_tiny_vit(tiny_vit_path, tmp_path):
    with pytest.raises(UnsupportedError, match="TinyViT"):
        sam_rlx.conversion.convert(tiny_vit_path, tmp_path / "folder")


def test_the_class_of_a_folder_is_that_of_its_tensors(path, tiny_checkpoint, tmp_path):
    for source, told, other in ((path, "sam_hq", "sam"), (tiny_checkpoint, "sam", "sam_hq")):
        folder = tmp_path / told
        sam_rlx.conversion.convert(source, folder)
        config = folder / "config.json"
        text = config.read_text()
        assert f'"model_type": "{told}"' in text
        config.write_text(text.replace(f'"model_type": "{told}"', f'"model_type": "{other}"'))
        with pytest.raises(CheckpointError) as caught:
            sam_rlx.load_model(folder)
        assert f'model_type: expected "{told}", which mask_decoder tells, found "{other}"' in str(
            caught.value
        )


DAMAGE = {
    "no token": ("hf_token.", None, "mask_decoder.hf_token.weight"),
    "no MLP": ("hf_mlp.", None, "mask_decoder.hf_mlp.layers.0.weight"),
    "no early features": ("compress_vit_feat.", None, "mask_decoder.compress_vit_feat.0.weight"),
    "no late features": ("embedding_encoder.", None, "mask_decoder.embedding_encoder.0.weight"),
    "no mask features": ("maskfeature.", None, "mask_decoder.embedding_maskfeature.0.weight"),
    "no tokens of masks": ("mask_tokens.", None, "mask_decoder.mask_tokens.weight"),
    "one bias less": ("maskfeature.3.bias", None, "mask_decoder.embedding_maskfeature.3.bias"),
    "another width": (
        "compress_vit_feat.0.weight",
        np.zeros((48, 64, 2, 2), np.float32),
        "expected 64 channels, as the trunk's early map has",
    ),
    "another kernel": (
        "embedding_maskfeature.3.weight",
        np.zeros((8, 16, 1, 1), np.float32),
        "embedding_maskfeature.3.weight",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(tmp_path, weights, case):
    part, value, message = DAMAGE[case]
    changed = {n: w for n, w in weights.items() if part not in n}
    if value is not None:
        changed[next(n for n in weights if part in n)] = value
    save_file(changed, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=message.replace("(", r"\(")):
        sam_rlx.load_model(tmp_path / "x.safetensors")


def test_the_head_alone_is_one_error(tmp_path, weights):
    """What HQ's own training saves beside SAM's file."""
    part = {n: w for n, w in weights.items() if any(p in n for p in tiny_sam_hq.PARTS)}
    save_file(part, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=r"expected the tensors of SAM, SAM 2 or SAM 3"):
        sam_rlx.load_model(tmp_path / "x.safetensors")


def test_a_trunk_without_an_early_map(tmp_path):
    """All blocks have windows: there is none with global attention."""
    config = tiny.SamConfig(
        img_size=128, embed_dim=64, depth=2, num_heads=4, window_size=3, global_attn_indexes=(),
        out_chans=64, mlp_dim=128, iou_head_hidden_dim=64,
    )  # fmt: skip
    save_file(tiny_sam_hq.weights(config), tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=r"expected 0 channels, .*found 64"):
        sam_rlx.load_model(tmp_path / "x.safetensors")
