"""Folders that transformers' classes write load, and compute what transformers computes."""

from __future__ import annotations

import json

import pytest
import sam_rlx
from sam_rlx import CheckpointError, UnsupportedError, _core

pytest.importorskip("transformers", reason="needs transformers")
pytestmark = pytest.mark.parity

from support import hugging_face_models as hf  # noqa: E402
from support import upstream  # noqa: E402
from support.cases import quick  # noqa: E402
from support.parity import FEW, NUDGES  # noqa: E402

upstream.prepare()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models and their folders by class, made when a test asks for one."""
    return hf.folders(tmp_path_factory.mktemp("transformers"))


def compare(parity, testing, name, model, folder):
    exact, single = hf.reference(model, "float64"), hf.reference(model, "float32")
    # How wrong float32 is on few numbers is a matter of luck.
    nudged = [hf.reference(model, "float32", seed) for seed in range(NUDGES)]
    found = hf.ours(testing, name, folder)
    assert found.keys() == exact.keys()
    for key, value in exact.items():
        more = [each[key] for each in nudged] if value.size < FEW else []
        parity.close(found[key], value, single[key], f"{name}: {key}", more)


def test_every_class_of_the_table_is_tried():
    names = [name for name, _, _ in _core.transformers_classes().values()]
    # The padding of LiteText is not that of its processor: tests/models/sam3/test_mobile_clip.py.
    assert sorted(names) == sorted([*hf.CLASSES, "Sam3LiteTextModel"])


@pytest.mark.parametrize("name", hf.CLASSES)
def test_results_are_those_of_transformers(parity, testing, folders, name):
    model, folder = folders(name)
    compare(parity, testing, name, model, folder)


@pytest.mark.parametrize("name", quick(hf.CLASSES, 0, 2, 4))
def test_another_image_size_comes_from_the_config(parity, testing, tmp_path, name):
    size = hf.side(name, other=True)
    # With seed 1 the last bits of EdgeTAM's weights move its masks by 3e-4.
    model = hf.make(name, size, seed=2)
    folder = hf.save(model, tmp_path / "folder")
    assert sam_rlx.load_model(folder).img_size == size
    compare(parity, testing, name, model, folder)


@pytest.mark.parametrize("name", ["SamModel", "Sam2VideoModel", "Sam3TrackerVideoModel"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_reduced_dtypes_are_widened(parity, testing, folders, tmp_path, name, dtype):
    """The same bits as a float32 folder with the rounded weights."""
    model, _ = folders(name)
    reduced = hf.save(model, tmp_path / dtype, dtype=dtype)
    with hf.rounded(model, dtype):
        widened = hf.save(model, tmp_path / "float32")
    found = [list(hf.ours(testing, name, folder).values()) for folder in (reduced, widened)]
    parity.same_bits(*found, name)


@pytest.mark.parametrize("name", ["SamModel", "Sam2Model", "Sam3VideoModel"])
@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_shards(parity, testing, folders, tmp_path, name, form):
    import safetensors.torch
    import torch

    model, whole = folders(name)
    folder = hf.save(model, tmp_path / "shards", shard="300KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    if form == "bin":
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        weights = {key: f"{value}.bin" for key, value in index["weight_map"].items()}
        for shard in shards:
            torch.save(safetensors.torch.load_file(shard), folder / f"{shard.name}.bin")
            shard.unlink()
        (folder / "model.safetensors.index.json").unlink()
        text = json.dumps({"metadata": {}, "weight_map": weights})
        (folder / "pytorch_model.bin.index.json").write_text(text)
    found = [list(hf.ours(testing, name, each).values()) for each in (folder, whole)]
    parity.same_bits(*found, name)


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("Sam3TrackerModel", hf.HUB_LAYOUT),
        ("Sam3TrackerModel", hf.BARE_LAYOUT),
        ("Sam3TrackerVideoModel", hf.HUB_LAYOUT),
        ("Sam3TrackerVideoModel", hf.BARE_LAYOUT),
        ("Sam3VideoModel", hf.HUB_LAYOUT),
    ],
)
def test_layouts_of_the_tracker(parity, testing, folders, tmp_path, name, layout):
    _, nested = folders(name)
    renamed = hf.rename(nested, tmp_path / "renamed", layout)
    names = [{t[0] for t in sam_rlx.model.list_tensors(folder)} for folder in (nested, renamed)]
    assert names[0] != names[1]
    found = [list(hf.ours(testing, name, folder).values()) for folder in (nested, renamed)]
    parity.same_bits(*found, name)


def test_the_double_prefix_is_what_transformers_writes(folders):
    _, folder = folders("Sam3VideoModel")
    names = {name for name, _, _ in sam_rlx.model.list_tensors(folder)}
    assert any(name.startswith("tracker_model.tracker_model.") for name in names)
    _, folder = folders("Sam3TrackerModel")
    names = {name for name, _, _ in sam_rlx.model.list_tensors(folder)}
    assert any(name.startswith("tracker_model.detector_model.") for name in names)


@pytest.mark.parametrize("name", ["Sam2Model", "Sam3TrackerModel"])
def test_image_models_have_no_memory(folders, name):
    model = sam_rlx.load_model(folders(name)[1])
    assert not model.supports_video
    assert model.config.get("memory", True) is False or not model.config["tracker"]["memory"]
    frames = [hf.image(model.img_size)] * 2
    with pytest.raises(UnsupportedError, match="memory weights"):
        sam_rlx.VideoPredictor(model, frames)


@pytest.mark.parametrize("name", ["Sam2VideoModel", "Sam3TrackerVideoModel", "Sam3VideoModel"])
def test_video_models_follow_objects(folders, name):
    model = sam_rlx.load_model(folders(name)[1])
    assert model.supports_video
    frames = [hf.image(model.img_size)] * 2
    video = sam_rlx.VideoPredictor(model, frames)
    video.add_prompt(frame_index=0, obj_id=1, point_coords=[hf.POINT], point_labels=[1])
    assert [frame.frame_index for frame in video.propagate()] == [0, 1]


@pytest.mark.parametrize("name", ["Sam3TrackerModel", "Sam3TrackerVideoModel"])
def test_trackers_find_no_texts(folders, name):
    model = sam_rlx.load_model(folders(name)[1])
    assert not model.supports_text
    with pytest.raises(UnsupportedError, match="ConceptPredictor"):
        sam_rlx.ConceptPredictor(model)


@pytest.mark.parametrize("name", hf.VISION_CLASSES)
def test_image_encoders_alone_are_refused(folders, name):
    with pytest.raises(UnsupportedError, match=r"expected a whole model.*image encoder alone"):
        sam_rlx.load_model(folders(name)[1])


def test_settings_reach_the_config(folders):
    found = sam_rlx.load_model(folders("Sam2VideoModel")[1]).config
    assert found["memory_bank"]["max_cond_frames_in_attn"] == 3
    assert found["memory_bank"]["max_obj_ptrs_in_encoder"] == 8
    assert found["num_maskmem"] == 5
    assert found["base"]["sigmoid_scale_for_mem_enc"] == 10.0
    assert found["base"]["sigmoid_bias_for_mem_enc"] == -5.0
    assert found["base"]["multimask_max_pt_num"] == 2
    assert found["mask_decoder"]["dynamic_multimask_stability_delta"] == 0.25
    assert found["mask_decoder"]["num_heads"] == 4


def test_a_gguf_file_keeps_the_settings(parity, testing, folders, tmp_path):
    from sam_rlx._internal.weights.gguf import conversion

    _, folder = folders("Sam2VideoModel")
    conversion.to_gguf(folder, tmp_path / "model.gguf", dtype="F32")
    found = [
        list(hf.ours(testing, "Sam2VideoModel", source).values())
        for source in (folder, tmp_path / "model.gguf")
    ]
    parity.same_bits(*found, "GGUF")
    loaded = sam_rlx.load_model(tmp_path / "model.gguf")
    assert loaded.config == sam_rlx.load_model(folder).config


def edit(folder, target, **changes):
    """Copy a folder with other values at paths such as ``a.b`` of its config."""
    target.mkdir()
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    config = json.loads((target / "config.json").read_text())
    for path, value in changes.items():
        *parents, last = path.split("__")
        inner = config
        for name in parents:
            inner = inner[name]
        inner[last] = value
    (target / "config.json").write_text(json.dumps(config))
    return target


@pytest.mark.parametrize(
    ("name", "changes", "error", "text"),
    [
        (
            "SamModel",
            {"vision_config__hidden_size": 768},
            CheckpointError,
            r"config.json: vision_config.hidden_size: expected 64, which "
            r"image_encoder.patch_embed.proj.weight tells, found 768",
        ),
        ("SamModel", {"vision_config__image_size": 64}, CheckpointError, "pos_embed tells"),
        ("SamModel", {"model_type": "sam2"}, CheckpointError, 'model_type.*found "sam2"'),
        ("SamModel", {"vision_config__use_rel_pos": False}, UnsupportedError, "use_rel_pos"),
        ("SamModel", {"vision_config__layer_norm_eps": 0.1}, UnsupportedError, "layer_norm_eps"),
        ("SamModel", {"vision_config__image_size": [128, 96]}, CheckpointError, r"\[128, 96\]"),
        ("SamModel", {"mask_decoder_config": 3}, None, ""),
        (
            "Sam2VideoModel",
            {"vision_config__backbone_config__blocks_per_stage": [1, 2, 7, 2]},
            CheckpointError,
            r"expected \[1, 1, 2, 1\], which image_encoder.trunk.blocks tells",
        ),
        ("Sam2VideoModel", {"image_size": 96}, UnsupportedError, "image_size"),
        ("Sam2VideoModel", {"num_maskmem": 7}, CheckpointError, "maskmem_tpos_enc tells"),
        ("Sam2VideoModel", {"memory_fuser_kernel_size": 3}, UnsupportedError, "kernel_size"),
        (
            "Sam2VideoModel",
            {"vision_config__backbone_config__window_size_per_stage": [8, 4, 14]},
            CheckpointError,
            "divide each other",
        ),
        ("Sam2VideoModel", {"max_cond_frame_num": "many"}, CheckpointError, "max_cond_frame_num"),
        ("Sam2VideoModel", {"max_cond_frame_num": -7}, CheckpointError, "max_cond_frame_num"),
        ("Sam2Model", {"model_type": "sam2_video"}, CheckpointError, "without memory"),
        (
            "Sam3TrackerModel",
            {"vision_config__backbone_config__num_hidden_layers": 3},
            CheckpointError,
            "trunk.blocks tells",
        ),
        (
            "Sam3TrackerModel",
            {"prompt_encoder_config__image_size": 1008},
            UnsupportedError,
            "prompt_encoder_config.image_size: expected 112, found 1008",
        ),
    ],
)
def test_what_contradicts_the_tensors_or_cannot_run(folders, tmp_path, name, changes, error, text):
    folder = edit(folders(name)[1], tmp_path / "edited", **changes)
    if error is None:  # a part that is no object is as one that is not there
        sam_rlx.load_model(folder)
        return
    with pytest.raises(error, match=text) as found:
        sam_rlx.load_model(folder)
    assert len(str(found.value).splitlines()) == 1


def test_settings_without_a_tensor_win(folders, tmp_path):
    changes = {"vision_config__backbone_config__window_size_per_stage": [8, 4, 14, 14]}
    folder = edit(folders("Sam2Model")[1], tmp_path / "edited", **changes)
    assert sam_rlx.load_model(folder).config["trunk"]["window_spec"] == [8, 4, 14, 14]


def test_a_foreign_config_is_not_read(folders, tmp_path):
    """A config.json without a model type is another program's."""
    source = folders("SamModel")[1]
    folder = edit(source, tmp_path / "edited")
    (folder / "config.json").write_text('{"hidden_size": 3}')
    loaded = sam_rlx.load_model(folder)
    assert loaded.config["image_encoder"]["embed_dim"] == 64
    (folder / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        sam_rlx.load_model(folder)
