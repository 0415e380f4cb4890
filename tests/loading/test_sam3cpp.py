"""Files of sam3.cpp and its forks load, with the masks of the file that they were made from."""

import json
from dataclasses import fields

import numpy as np
import pytest
import sam_rlx
from safetensors import safe_open
from sam_rlx import _core
from sam_rlx.errors import CheckpointError, UnsupportedError
from support import sam3cpp_files as files
from support import tiny_sam2, tiny_sam3
from support.cases import quick
from support.gguf_files import Tensor
from support.trained import trained

TINY2, TINY3 = tiny_sam2.TINY, tiny_sam3.TINY
CONFIG2 = json.loads(tiny_sam2.metadata(TINY2)["config"])
WORDS = [f"w{i}" for i in range(49408)]
CONTAINERS = ["ggml", "gguf", "gguf-without-ones"]
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]


def written(container, family, settings, tensors, words=()):
    if container == "ggml":
        whole = family == "sam3" and settings["visual_only"] == 0
        tail = files.tokenizer_bytes(words, [("a", "b")]) if whole else b""
        return files.ggml_bytes(family, settings, tensors, tail=tail)
    without_ones = container == "gguf-without-ones"
    return files.fork_bytes(family, settings, tensors, words=words, without_ones=without_ones)


def load(path, content, **options):
    path.write_bytes(content)
    return sam_rlx.load_model(path, **options)


def plain(weights):
    return files.packed(weights, "F32", lambda value: value)


def clicked(model, seed=0):
    side = model.img_size
    image = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(image)
    return predictor.predict(point_coords=[[side / 3, side / 2]], point_labels=[1]).low_res_masks


# ---------------------------------------------------------------- SAM 2


@pytest.fixture(scope="module", params=["2.0", "2.1"])
def sam2(request, tmp_path_factory):
    """Version, weights, and the masks of the file with Meta's names."""
    weights = tiny_sam2.weights(TINY2, version=request.param)
    path = tmp_path_factory.mktemp("sam2") / "meta.safetensors"
    model = sam_rlx.load_model(tiny_sam2.save_safetensors(path, TINY2, weights))
    return request.param, weights, clicked(model)


@pytest.mark.parametrize("container", CONTAINERS)
def test_sam2_gives_the_bits_of_metas_file(tmp_path, sam2, container):
    version, weights, expected = sam2
    settings = files.sam2_settings(CONFIG2, version)
    content = written(container, "sam2", settings, plain(files.sam2_weights(weights)))
    model = load(tmp_path / "x", content)
    assert (model.family, model.variant, model.version) == ("sam2", "custom", version)
    np.testing.assert_array_equal(clicked(model), expected)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", quick(["F16", *BLOCKS], 0, 1, -1))
def test_packed_sam2_gives_the_bits_of_its_numbers(tmp_path, container, kind):
    """Wide enough for rows of whole blocks; matrices stay packed and lose nothing."""
    gguf = pytest.importorskip("gguf")
    config = tiny_sam2.ImageEncoderConfig(
        image_size=128, embed_dim=32, stages=(1, 1, 2, 1), global_att_blocks=(3,), d_model=64
    )
    numbers = gguf.GGMLQuantizationType[kind]
    weights = tiny_sam2.weights(config)
    stored = files.packed(
        files.sam2_weights(weights), kind, lambda value: gguf.quants.quantize(value, numbers)
    )
    rounded = {}
    for name in weights:
        tensor = stored[files.sam2_name(name)]
        if tensor.type == "F32":
            data = np.frombuffer(tensor.data, np.float32)
        else:
            data = np.frombuffer(tensor.data, np.uint8)
            data = gguf.quants.dequantize(data.reshape(1, -1), numbers)
        rounded[name] = np.ascontiguousarray(data.reshape(weights[name].shape), np.float32)
    meta = tiny_sam2.save_safetensors(tmp_path / "meta.safetensors", config, rounded)
    settings = files.sam2_settings(json.loads(tiny_sam2.metadata(config)["config"]))
    model = load(tmp_path / "x", written(container, "sam2", settings, stored))
    np.testing.assert_array_equal(clicked(model), clicked(sam_rlx.load_model(meta)))
    assert model.precision == ("float32" if kind == "F16" else kind)


@pytest.mark.parametrize("container", CONTAINERS)
def test_names_and_axes_of_sam2(testing, tmp_path, container):
    weights = tiny_sam2.weights(TINY2)
    content = written(
        container, "sam2", files.sam2_settings(CONFIG2), plain(files.sam2_weights(weights))
    )
    path = tmp_path / "x"
    path.write_bytes(content)
    state_dict = testing.open_checkpoint(path)
    assert state_dict.to_meta_names() == "sam2"
    assert sorted(state_dict.keys()) == sorted(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(state_dict[name], value, name)


@pytest.mark.parametrize("container", ["ggml", "gguf"])
def test_settings_become_the_config(tmp_path, container):
    weights = plain(files.sam2_weights(tiny_sam2.weights(TINY2)))
    settings = files.sam2_settings(
        CONFIG2,
        img_size=256,
        max_obj_ptrs=5,
        sigmoid_scale_x100=150,
        sigmoid_bias_x100=-25,
        multimask_output_for_tracking=0,
        multimask_min_pt_num=2,
        multimask_max_pt_num=3,
    )
    model = load(tmp_path / "x", written(container, "sam2", settings, weights))
    assert model.img_size == 256
    found = json.dumps(model.config)
    for text in (
        '"max_obj_ptrs_in_encoder": 5',
        '"sigmoid_scale_for_mem_enc": 1.5',
        '"sigmoid_bias_for_mem_enc": -0.25',
        '"multimask_output_for_tracking": false',
        '"multimask_min_pt_num": 2',
        '"multimask_max_pt_num": 3',
    ):
        assert text in found


@pytest.mark.parametrize("container", ["ggml", "gguf"])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"use_high_res_features": 0}, UnsupportedError, "use_high_res_features: expected 1"),
        ({"fixed_no_obj_ptr": 0}, UnsupportedError, "fixed_no_obj_ptr: expected 1, found 0"),
        ({"backbone_type": 7}, UnsupportedError, "expected 1, .*, or 2, .*, found type 7"),
        ({"is_sam2_1": 0}, CheckpointError, "is_sam2_1: expected 1, since .*, found 0"),
        ({"hiera_num_stages": 5}, CheckpointError, "hiera_stages: expected a list of at least 5"),
        ({"hiera_num_stages": -1}, CheckpointError, "hiera_stages: expected a list"),
        ({"hiera_num_heads": 0}, CheckpointError, "num_heads: expected 1 to"),
        ({"hiera_embed_dim": 32}, CheckpointError, "expected shape"),
        ({"img_size": -1024}, CheckpointError, "image_size: expected"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, container, change, error, message):
    weights = plain(files.sam2_weights(tiny_sam2.weights(TINY2)))
    settings = files.sam2_settings(CONFIG2, **change)
    with pytest.raises(error, match=message):
        load(tmp_path / "x", written(container, "sam2", settings, weights))


def test_a_missing_setting_is_named(tmp_path):
    settings = files.sam2_settings(CONFIG2)
    del settings["hiera_q_pool"]
    weights = plain(files.sam2_weights(tiny_sam2.weights(TINY2)))
    with pytest.raises(CheckpointError, match="hiera_q_pool: expected a whole number"):
        load(tmp_path / "x", files.fork_bytes("sam2", settings, weights))


@pytest.mark.parametrize("variant", ["hiera_t", "hiera_s"])
def test_a_released_size_has_its_name(tmp_path, variant):
    config = tiny_sam2.VARIANTS[variant]
    content = json.loads(tiny_sam2.metadata(config)["config"])
    shapes = {**tiny_sam2.image_encoder_shapes(config), **tiny_sam2.heads_shapes(config)}
    zeros = {name: np.broadcast_to(np.float16(0), shape) for name, shape in shapes.items()}
    tensors = {
        name: Tensor("F16", value.shape, bytes(2 * value.size))
        for name, value in files.sam2_weights(zeros).items()
    }
    path = tmp_path / "x"
    path.write_bytes(files.ggml_bytes("sam2", files.sam2_settings(content), tensors))
    checkpoint = _core.Checkpoint(str(path))
    assert checkpoint.to_meta_names() == "sam2"
    assert checkpoint.describe()["variant"] == variant


# ---------------------------------------------------------------- SAM 3


@pytest.fixture(scope="module")
def nano():
    """Weights and config of the trained small SAM 3."""
    with safe_open(trained("sam3-nano"), "np") as file:
        config = json.loads(file.metadata()["config"])
        weights = {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118
    return config, weights


@pytest.fixture(scope="module")
def nano_model():
    return sam_rlx.load_model(trained("sam3-nano"))


@pytest.mark.source_tree
@pytest.mark.parametrize("container", CONTAINERS)
def test_sam3_gives_the_bits_of_metas_file(tmp_path, images, nano, nano_model, container):
    config, weights = nano
    tensors = plain(files.sam3_weights(weights))
    content = written(container, "sam3", files.sam3_settings(config), tensors, WORDS)
    model = load(tmp_path / "x", content)
    assert (model.family, model.supports_text, model.supports_video) == ("sam3", True, True)
    np.testing.assert_array_equal(clicked(model), clicked(nano_model))
    image = images["odd 303x384"]
    ours = sam_rlx.ConceptPredictor(model, num_threads=2).predict(image, text="coin")
    theirs = sam_rlx.ConceptPredictor(nano_model, num_threads=2).predict(image, text="coin")
    for field in fields(ours):
        one, other = getattr(ours, field.name), getattr(theirs, field.name)
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other, field.name)


@pytest.mark.source_tree
@pytest.mark.parametrize("container", CONTAINERS)
def test_files_for_clicks_and_videos_alone(tmp_path, nano, nano_model, container):
    config, weights = nano
    settings = files.sam3_settings(config, visual_only=1)
    tensors = plain(files.sam3_weights(weights, visual_only=True))
    model = load(tmp_path / "x", written(container, "sam3", settings, tensors))
    assert (model.supports_text, model.supports_video) == (False, True)
    assert model.config["text"] is model.config["detector"] is None
    np.testing.assert_array_equal(clicked(model), clicked(nano_model))
    lacks = "expected a SAM 3 checkpoint with all parts, found .* lacks the text encoder, the geom"
    with pytest.raises(UnsupportedError, match=f"ConceptPredictor: {lacks}"):
        sam_rlx.ConceptPredictor(model)
    frames = np.random.default_rng(1).integers(0, 256, (3, 90, 120, 3), np.uint8)
    masks = []
    for each in (model, nano_model):
        video = sam_rlx.VideoPredictor(each, list(frames), num_threads=2)
        video.add_prompt(0, obj_id=1, box=[10, 10, 60, 50])
        masks.append([frame.masks[1] for frame in video.propagate()])
        if each is model:
            with pytest.raises(UnsupportedError, match="add_text"):
                video.add_text("coin")
    np.testing.assert_array_equal(*masks)


@pytest.mark.source_tree
def test_a_part_of_the_detector_is_not_enough(tmp_path, nano):
    config, weights = nano
    settings = files.sam3_settings(config, visual_only=1)
    names = files.sam3_weights(weights, visual_only=True)
    names["seg.semantic_seg_head.bias"] = np.zeros(1, np.float32)
    with pytest.raises(CheckpointError, match="missing"):
        load(tmp_path / "x", written("ggml", "sam3", settings, plain(names)))


def test_a_table_with_the_row_of_the_class_token(testing, tmp_path):
    config = json.loads(tiny_sam3.metadata(TINY3)["config"])
    for rows, kept in ((16, 16), (17, 17)):
        table = np.arange(rows * 64, dtype=np.float32).reshape(1, rows, 64)
        tensors = {
            "vit.pos_embed": table if rows == 17 else table.reshape(4, 4, 64),
            "vit.patch_embed.proj.weight": np.zeros((64, 3, 14, 14), np.float32),
        }
        path = tmp_path / "x"
        path.write_bytes(
            written("gguf", "sam3", files.sam3_settings(config), plain(tensors), WORDS[:3])
        )
        state_dict = testing.open_checkpoint(path)
        state_dict.to_meta_names()
        found = state_dict["detector.backbone.vision_backbone.trunk.pos_embed"]
        assert found.shape == (1, kept, 64)
        np.testing.assert_array_equal(found, table)
        assert json.loads(state_dict.metadata["config"])["pretrain_img_size"] == 56
