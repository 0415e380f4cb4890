"""Checkpoints of EdgeTAM: sizes from the tensors, other kinds of files, damage."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sam_rlx
from safetensors.numpy import save_file
from sam_rlx import CheckpointError, UnsupportedError
from support import sam3cpp_files, tiny_edgetam

TINY = tiny_edgetam.TINY
SIDE = TINY.image_size


@pytest.fixture(scope="module")
def weights():
    return tiny_edgetam.weights(presence=4)


@pytest.fixture(scope="module")
def path(tmp_path_factory, weights):
    path = tmp_path_factory.mktemp("edgetam") / "x.safetensors"
    counters = {name: np.zeros((), np.int64) for name in tiny_edgetam.counters(weights)}
    save_file({**weights, **counters}, path)
    return path


def clicked(source, **options):
    """Return low-resolution logits of a click."""
    model = sam_rlx.load_model(source, image_size=SIDE, **options)
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    predictor.set_image(np.random.default_rng(3).integers(0, 256, (90, 133, 3), np.uint8))
    found = predictor.predict(point_coords=[[60, 40]], point_labels=[1])
    return found.low_res_masks


def tracked(source, **options):
    """Return low-resolution logits of three frames: a click, and two that see its memory."""
    model = sam_rlx.load_model(source, image_size=SIDE, **options)
    frames = np.random.default_rng(4).integers(0, 256, (3, 72, 96, 3), np.uint8)
    session = sam_rlx.VideoPredictor(model, frames, num_threads=1)
    session.add_prompt(0, 1, point_coords=[[40, 30]], point_labels=[1])
    found = np.stack([each.logits[1] for each in session.propagate(return_logits=True)])
    assert found.min((1, 2)).max() > -1000  # the object is there
    return found


def test_sizes_are_those_of_the_tensors(path, weights):
    model = sam_rlx.load_model(path)
    assert (model.family, model.variant, model.version) == ("sam2", "custom", "1.0")
    assert (model.img_size, model.supports_video) == (1024, True)
    config = model.config
    assert config["image_encoder"]["rep_vit"] == {
        "image_size": 1024,
        "in_chans": 3,
        "embed_dim": list(TINY.embed_dim),
        "depth": list(TINY.depth),
        "mlp_ratio": 2,
        "fused": False,
    }
    assert config["spatial_perceiver"] == {
        "dim": TINY.mem_dim,
        "depth": 2,
        "num_latents": TINY.num_latents,
        "num_latents_2d": TINY.num_latents_2d,
        "ff_mult": 4,
    }
    assert config["memory_attention"]["key_size"] == 2
    assert "trunk" not in config
    assert sorted(model.report()["ignored"]) == sorted(tiny_edgetam.counters(weights))


def test_the_released_sizes_are_edgetam(tmp_path):
    shapes = tiny_edgetam.shapes_of(tiny_edgetam.EDGETAM)
    assert len(shapes) + len(tiny_edgetam.counters(shapes)) == 982
    buffers = ("running_mean", "running_var", "gaussian_matrix")
    numbers = sum(int(np.prod(v)) for name, v in shapes.items() if not name.endswith(buffers))
    assert numbers == 13_895_794
    path = tmp_path / "x.safetensors"
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    model = sam_rlx.load_model(path, variant="edgetam")
    assert (model.variant, model.version, model.img_size) == ("edgetam", "1.0", 1024)
    with pytest.raises(CheckpointError, match=r"variant hiera_t: .*RepViT of widths"):
        sam_rlx.load_model(path, variant="hiera_t")


def test_a_model_for_images_alone(tmp_path):
    path = tmp_path / "x.safetensors"
    save_file(tiny_edgetam.weights(memory=False), path)
    model = sam_rlx.load_model(path, image_size=SIDE)
    assert not model.supports_video
    assert clicked(path).shape[-1] == SIDE // 4


def test_the_side_is_a_multiple_of_strides_and_windows(path):
    assert sam_rlx.load_model(path, image_size=96).img_size == 96
    with pytest.raises(sam_rlx.InvalidArgumentError, match="a multiple of 32"):
        sam_rlx.load_model(path, image_size=208)


@pytest.mark.parametrize("name", ["x.gguf", "x.safetensors"])
@pytest.mark.parametrize("dtype", ["F32", "F16", "Q8_0"])
def test_written_again(path, tmp_path, name, dtype):
    if name == "x.safetensors" and dtype == "Q8_0":
        pytest.skip("GGUF alone packs")
    written = tmp_path / name
    sam_rlx.conversion.convert(path, written, dtype=dtype)
    plain, found = tracked(path), tracked(written)
    bound = {"F32": 0.0, "F16": 0.02, "Q8_0": 0.2}[dtype]
    assert np.abs(plain - found).mean() <= bound * np.abs(plain).mean()


def test_gguf_tells_the_sizes(path, tmp_path):
    gguf = pytest.importorskip("gguf", reason="reads the file")
    written = tmp_path / "x.gguf"
    sam_rlx.conversion.convert(path, written, dtype="F16")
    reader = gguf.GGUFReader(written)
    assert max(len(tensor.name) for tensor in reader.tensors) < 64
    fields = {key: field.contents() for key, field in reader.fields.items()}
    assert fields["sam2.vision.rep_vit.embedding_lengths"] == list(TINY.embed_dim)
    assert fields["sam2.vision.rep_vit.block_counts"] == list(TINY.depth)
    assert fields["sam2.memory.latent_count"] == TINY.num_latents
    assert fields["sam2.memory.local_latent_count"] == TINY.num_latents_2d


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions(path, precision):
    plain, found = tracked(path), tracked(path, precision=precision)
    assert 0 < np.abs(found - plain).mean() < 0.2 * np.abs(plain).mean()


def test_threads_change_nothing(path):
    model = sam_rlx.load_model(path, image_size=SIDE)
    frames = np.random.default_rng(5).integers(0, 256, (3, 72, 96, 3), np.uint8)
    found = []
    for threads in (1, 2, 3):
        session = sam_rlx.VideoPredictor(model, frames, num_threads=threads)
        session.add_prompt(0, 1, box=[10, 15, 32, 42])
        found.append([each.logits[1] for each in session.propagate(return_logits=True)])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_sessions_are_saved_and_go_on(path, tmp_path):
    model = sam_rlx.load_model(path, image_size=SIDE)
    frames = np.random.default_rng(6).integers(0, 256, (4, 72, 96, 3), np.uint8)
    whole = sam_rlx.VideoPredictor(model, frames)
    whole.add_prompt(0, 1, box=[10, 15, 32, 42])
    expected = [each.logits[1] for each in whole.propagate(return_logits=True)]
    first = sam_rlx.VideoPredictor(model, frames)
    first.add_prompt(0, 1, box=[10, 15, 32, 42])
    list(first.propagate(max_frames=2))
    first.save(tmp_path / "session")
    again = sam_rlx.VideoPredictor.load(tmp_path / "session", model, frames)
    rest = [each.logits[1] for each in again.propagate(start_frame=2, return_logits=True)]
    np.testing.assert_array_equal(rest, expected[2:])


# ---------------------------------------------------------------- sam3.cpp and its fork


def file_of_sam3cpp(container, weights, kind="F32", quantize=None, **settings):
    stored = sam3cpp_files.packed(
        sam3cpp_files.edgetam_weights(weights), kind, quantize or (lambda value: value)
    )
    settings = sam3cpp_files.edgetam_settings(TINY, **settings)
    if container == "ggml":
        return sam3cpp_files.ggml_bytes("sam2", settings, stored)
    return sam3cpp_files.fork_bytes(
        "sam2", settings, stored, without_ones=True, architecture="edgetam"
    )


@pytest.mark.parametrize("container", ["ggml", "gguf"])
@pytest.mark.parametrize("kind", ["F32", "F16", "Q8_0", "Q4_0"])
def test_files_of_sam3cpp(tmp_path, path, weights, container, kind):
    quantize = None
    if kind.startswith("Q"):
        gguf = pytest.importorskip("gguf", reason="packs the weights")
        number = gguf.GGMLQuantizationType[kind]

        def quantize(value):
            return gguf.quants.quantize(value, number)

    written = tmp_path / "x"
    written.write_bytes(file_of_sam3cpp(container, weights, kind, quantize))
    model = sam_rlx.load_model(written)
    assert (model.variant, model.version, model.img_size) == ("custom", "1.0", SIDE)
    assert model.config["image_encoder"]["rep_vit"]["fused"]
    plain, found = tracked(path), tracked(written)
    bound = {"F32": 1e-4, "F16": 0.02, "Q8_0": 0.2, "Q4_0": 1.0}[kind]
    assert np.abs(plain - found).mean() <= bound * np.abs(plain).mean()


def test_a_file_of_sam3cpp_is_written_again(tmp_path, weights):
    source = tmp_path / "x.ggml"
    source.write_bytes(file_of_sam3cpp("ggml", weights))
    for name in ("x.gguf", "x.safetensors"):
        sam_rlx.conversion.convert(source, tmp_path / name, dtype="F32")
        np.testing.assert_array_equal(tracked(source), tracked(tmp_path / name))
    with pytest.raises(UnsupportedError, match="batch norms"):
        sam_rlx.conversion.convert(source, tmp_path / "folder")


@pytest.mark.parametrize("container", ["ggml", "gguf"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mem_attn_ca_k_size": 3}, "mem_attn_ca_k_size: expected the root of 4"),
        ({"mem_attn_ca_k_size": -2}, "mem_attn_ca_k_size"),
        ({"img_size": 0}, "image_size: expected 1 to"),
        ({"is_sam2_1": 1}, "is_sam2_1: expected 0"),
    ],
)
def test_settings_that_do_not_fit(tmp_path, weights, container, change, message):
    written = tmp_path / "x"
    written.write_bytes(file_of_sam3cpp(container, weights, **change))
    with pytest.raises(CheckpointError, match=message):
        sam_rlx.load_model(written)


# ---------------------------------------------------------------- transformers


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A file with memories of the width that transformers has written down."""
    path = tmp_path_factory.mktemp("edgetam") / "wide.safetensors"
    save_file(tiny_edgetam.weights(replace(TINY, mem_dim=64), presence=4), path)
    return path


def test_folders_of_transformers(wide, tmp_path):
    folder = tmp_path / "folder"
    sam_rlx.conversion.convert(wide, folder)
    settings = json.loads((folder / "config.json").read_text())
    assert settings["model_type"] == "edgetam_video"
    backbone = settings["vision_config"]["backbone_config"]
    assert backbone["architecture"] == "repvit_m1"
    assert backbone["model_args"]["embed_dim"] == list(TINY.embed_dim)
    assert settings["enable_occlusion_spatial_embedding"] is False
    assert settings["memory_attention_rope_k_sizes"] == [2, 2]
    np.testing.assert_array_equal(tracked(wide), tracked(folder))


def test_a_class_of_the_other_network(wide, tmp_path):
    folder = tmp_path / "folder"
    sam_rlx.conversion.convert(wide, folder)
    settings = json.loads((folder / "config.json").read_text())
    settings["model_type"] = "sam2_video"
    (folder / "config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointError, match="a class of EdgeTAM"):
        sam_rlx.load_model(folder)


# ---------------------------------------------------------------- damage

DAMAGE = {
    "no perceiver norm": ("spatial_perceiver.norm.weight", None, "norm.weight"),
    "no local latents": ("spatial_perceiver.latents_2d", None, "latents_2d"),
    "latents that are no square": (
        "spatial_perceiver.latents_2d",
        np.zeros((5, TINY.mem_dim), np.float32),
        "sizes as in SAM 2",
    ),
    "another width of latents": (
        "spatial_perceiver.latents",
        np.zeros((6, 8), np.float32),
        "latents_2d|sizes",
    ),
    "a tensor less": ("stages_2.blocks.1.channel_mixer.conv2.bn.bias", None, "conv2.bn.bias"),
    "no gate": ("stages_0.blocks.0.se.fc1.weight", None, "se.fc1.weight"),
    "no first stage": ("body.stages_0.", None, "stages_0"),
    "no third stage": ("body.stages_2.", None, "sizes|expected"),
    "a flat mixer": (
        "stages_0.blocks.0.channel_mixer.conv1.c.weight",
        np.zeros((32, 16), np.float32),
        "sizes|shape|axes",
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage_is_named(tmp_path, weights, case):
    part, value, message = DAMAGE[case]
    changed = {n: w for n, w in weights.items() if part not in n}
    if value is not None:
        changed[next(n for n in weights if part in n)] = value
    save_file(changed, tmp_path / "x.safetensors")
    with pytest.raises(CheckpointError, match=message):
        sam_rlx.load_model(tmp_path / "x.safetensors", image_size=SIDE)


def test_another_number_of_layers_at_the_released_width(tmp_path):
    config = replace(tiny_edgetam.EDGETAM, num_layers=3)
    path = tmp_path / "x.safetensors"
    shapes = tiny_edgetam.shapes_of(config)
    save_file({name: np.zeros(shape, np.float16) for name, shape in shapes.items()}, path)
    with pytest.raises(CheckpointError, match=r"memory_attention.layers: expected 2 layers"):
        sam_rlx.load_model(path)
