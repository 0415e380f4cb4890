"""Which file of a folder is the model: shards, output of a training, adapters."""

import json

import numpy as np
import pytest
import sam_rlx
from sam_rlx import CheckpointError, UnsupportedError
from support import checkpoint_files as files
from support import tiny, tiny_sam2


@pytest.fixture
def source(tiny_checkpoint):
    return tiny_checkpoint.read_bytes()


def write(folder, names, content=b"no checkpoint"):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content)
    return folder


LEFT_BY_TRAINING = (
    "optimizer.pt",
    "optimizer.bin",
    "scheduler.pt",
    "scaler.pt",
    "training_args.bin",
    "rng_state.pth",
    "rng_state_0.pth",
    "random_states_0.pt",
    "trainer_state.json",
    "zero_pp_rank_0_mp_rank_00_optim_states.pt",
)


@pytest.mark.parametrize(
    "name", ["pytorch_model.bin", "model.safetensors", "sam.pth", "mp_rank_00_model_states.pt"]
)
def test_output_of_a_training(tmp_path, source, name):
    folder = write(tmp_path / "out", LEFT_BY_TRAINING)
    (folder / name).write_bytes(source)
    write(folder / "checkpoint-500", LEFT_BY_TRAINING)
    model = sam_rlx.load_model(folder)
    assert model.family == "sam"


def test_the_usual_name_wins_over_others(tmp_path, source):
    folder = write(tmp_path / "out", ["pytorch_model.bin"], source)
    write(folder, ["other.pt"])
    assert sam_rlx.load_model(folder).family == "sam"


def test_a_folder_of_steps_alone_lists_them(tmp_path, source):
    folder = tmp_path / "out"
    folder.mkdir()
    for step in ("checkpoint-500", "checkpoint-1000"):
        write(folder / step, ["model.safetensors"], source)
    with pytest.raises(CheckpointError, match="checkpoint-1000, checkpoint-500") as error:
        sam_rlx.load_model(folder)
    assert "folders" in str(error.value)
    assert sam_rlx.load_model(folder / "checkpoint-500").family == "sam"


def test_what_training_leaves_is_no_model(tmp_path):
    folder = write(tmp_path / "out", LEFT_BY_TRAINING)
    with pytest.raises(CheckpointError, match="found none"):
        sam_rlx.load_model(folder)


@pytest.mark.parametrize("index", ["pytorch_model.bin.index.json", "model.safetensors.index.json"])
def test_shards_of_either_kind(tmp_path, tiny_weights, index):
    folder = tmp_path / "shards"
    folder.mkdir()
    names = sorted(tiny_weights)
    halves = {"a.bin": names[::2], "b.bin": names[1::2]}
    for shard, part in halves.items():
        tensors = {name: files.stored(tiny_weights[name]) for name in part}
        (folder / shard).write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    weight_map = {name: shard for shard, part in halves.items() for name in part}
    (folder / index).write_text(json.dumps({"weight_map": weight_map}))
    assert sam_rlx.load_model(folder).family == "sam"
    assert sam_rlx.load_model(folder / index).family == "sam"


def test_safetensors_shards_come_before_others(tmp_path, tiny_weights):
    folder = tmp_path / "both"
    folder.mkdir()
    tensors = {name: files.stored(value) for name, value in tiny_weights.items()}
    data = files.safetensors_bytes(*files.safetensors_parts(tensors))
    (folder / "a.safetensors").write_bytes(data)
    weight_map = dict.fromkeys(tiny_weights, "a.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (folder / "pytorch_model.bin.index.json").write_text('{"weight_map": {"x": "gone.bin"}}')
    assert sam_rlx.load_model(folder).family == "sam"


@pytest.mark.parametrize("beside", [(), ("model.safetensors",), ("sam.pth",)])
@pytest.mark.parametrize("strict", [True, False])
def test_the_folder_of_an_adapter_is_refused(tmp_path, source, beside, strict):
    folder = write(tmp_path / "lora", ["adapter_model.safetensors", *beside], source)
    text = json.dumps({"peft_type": "LORA", "base_model_name_or_path": "facebook/sam-vit-base"})
    (folder / "adapter_config.json").write_text(text)
    with pytest.raises(UnsupportedError, match=r"adapter.*sam-vit-base.*merge"):
        sam_rlx.load_model(folder, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
def test_weights_of_an_adapter_are_never_left_out(tmp_path, tiny_weights, strict):
    """Not even beside all of the model's own: masks would not be those of the file."""
    name = "image_encoder.blocks.0.attn.qkv"
    extra = {f"{name}.lora_{part}.default.weight": tiny_weights[f"{name}.weight"] for part in "AB"}
    path = tiny.save_safetensors(tmp_path / "lora.safetensors", {**tiny_weights, **extra})
    with pytest.raises(UnsupportedError, match="merge"):
        sam_rlx.load_model(path, strict=strict)


def test_gamma_under_another_name(parity, tmp_path):
    """Some programs rename every gamma to weight: layer scales of SAM 2's memory encoder."""
    weights = tiny_sam2.weights()
    renamed = {name.replace(".gamma", ".weight"): value for name, value in weights.items()}
    assert weights.keys() != renamed.keys()
    found = []
    for name, values in (("original", weights), ("renamed", renamed)):
        path = tiny_sam2.save_safetensors(tmp_path / name, tiny_sam2.TINY, values)
        model = sam_rlx.load_model(path)
        frames = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), np.uint8)
        video = sam_rlx.VideoPredictor(model, list(frames))
        video.add_prompt(frame_index=0, obj_id=1, point_coords=[(20, 30)], point_labels=[1])
        found.append([frame.masks[1] for frame in video.propagate()])
    parity.same_bits(*found, "masks")


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_files_give_the_masks_of_their_numbers(parity, tmp_path, dtype):
    """As ComfyUI's users have them: matrices in 8 bits, the rest in float16; PyTorch rounds."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    weights = tiny_sam2.weights()
    stored = {
        name: torch.from_numpy(value).to(getattr(torch, dtype) if value.ndim > 1 else torch.float16)
        for name, value in weights.items()
    }
    rounded = {name: value.float().numpy() for name, value in stored.items()}
    assert any(np.any(rounded[name] != value) for name, value in weights.items())
    save_file(stored, tmp_path / "small", tiny_sam2.metadata(tiny_sam2.TINY))
    tiny_sam2.save_safetensors(tmp_path / "wide", tiny_sam2.TINY, rounded)
    image, found = np.random.default_rng(0).integers(0, 256, (64, 80, 3), np.uint8), []
    for name in ("small", "wide"):
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(tmp_path / name))
        predictor.set_image(image)
        result = predictor.predict(point_coords=[(20, 30)], point_labels=[1])
        found.append([result.low_res_masks, result.iou_predictions])
    parity.same_bits(*found, "masks")


@pytest.mark.parametrize("missing", ["maskmem_tpos_enc", "memory_encoder.out_proj.weight"])
def test_a_part_of_the_memory_is_not_an_image_model(tmp_path, missing):
    weights = tiny_sam2.weights()
    del weights[missing]
    path = tiny_sam2.save_safetensors(tmp_path / "model", tiny_sam2.TINY, weights)
    with pytest.raises(CheckpointError, match=missing):
        sam_rlx.load_model(path)
