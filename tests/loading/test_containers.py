"""Files and folders that are no checkpoint are named, with the line that makes one that loads."""

import io
import json
import tarfile
import zipfile

import numpy as np
import pytest
import sam_rlx
from support import checkpoint_files as files


def zip_of(names, compression=zipfile.ZIP_STORED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as archive:
        for name in names:
            archive.writestr(name, b"content" * 20)
    return content.getvalue()


def tar_of(*names):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 700
            archive.addfile(info, io.BytesIO(bytes(700)))
    return content.getvalue()


def numpy_file(write, **options):
    content = io.BytesIO()
    write(content, **options)
    return content.getvalue()


ARRAYS = {"image_encoder.pos_embed": np.ones(3, np.float32), "mask_decoder.x": np.ones(2)}
FORMS = {
    "npz": (numpy_file(np.savez, **ARRAYS), r"NumPy's arrays \(\.npz\): .*save_file"),
    "npz, compressed": (numpy_file(np.savez_compressed, **ARRAYS), r"NumPy's arrays \(\.npz\)"),
    "npy": (numpy_file(np.save, arr=np.ones(4)), r"one array of NumPy \(\.npy\)"),
    "pt2": (
        zip_of(["m/data/weights/weight_0", "m/models/model.json", "m/archive_format"]),
        r"an exported program \(torch\.export\): .*torch\.export\.load\(FILE\)\.state_dict",
    ),
    "pt2 before 2.8": (
        zip_of(["serialized_exported_program.json", "serialized_state_dict.pt"]),
        r"an exported program",
    ),
    "keras": (zip_of(["metadata.json", "config.json", "model.weights.h5"]), "a Keras model"),
    "mlpackage": (
        zip_of(["x/Manifest.json", "x/Data/com.apple.CoreML/model.mlmodel"]),
        "a Core ML package",
    ),
    "torch.package": (zip_of(["p/.data/extern_modules", "p/m.py"]), "a package of torch.package"),
    "zip": (
        zip_of(["readme.md", "weights/best.ckpt"], zipfile.ZIP_DEFLATED),
        r"a zip file around weights/best\.ckpt: unpack it first",
    ),
    "zip of safetensors": (
        zip_of(["a/model.safetensors"]),
        r"a zip file around a/model\.safetensors: unpack",
    ),
    "tar": (tar_of("notes.txt", "run/model.pth"), r"a tar file around run/model\.pth: unpack it"),
    "tar of nothing known": (tar_of("notes.txt"), "a tar file: unpack it first"),
    "torch 0.3": (
        tar_of("sys_info", "pickle", "tensors", "storages"),
        r"a PyTorch file from before 0\.4: save it again",
    ),
    "pte": (b"\x20\0\0\0ET12" + bytes(64), r"an ExecuTorch program \(\.pte\)"),
    "rar": (b"Rar!\x1a\x07\x01\x00" + bytes(64), "a RAR file: unpack it first"),
    "png": (b"\x89PNG\r\n\x1a\n" + bytes(64), r"an image \(PNG\)"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["model.pth", "weights"])
def test_a_file_of_another_kind_is_named_by_its_content(tmp_path, form, name):
    content, found = FORMS[form]
    path = tmp_path / name
    path.write_bytes(content)
    match = f"expected a safetensors, GGUF or PyTorch file, found {found}"
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.load_model(path)
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.convert(path, tmp_path / "out.safetensors")


PARTS = [(".001", ".002"), (".part1", ".part2"), (".aa", ".ab"), (".partaa", ".partab")]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("suffixes", PARTS)
@pytest.mark.parametrize("kind", ["x.pth", "x.safetensors"])
def test_a_part_of_a_file_is_told(tmp_path, suffixes, kind, second):
    storages = files.Storages()
    tensors = {"w": files.stored(np.ones(500, np.float32))}
    content = files.safetensors_bytes(*files.safetensors_parts(tensors))
    if kind == "x.pth":
        value = files.state_dict_value(tensors, storages)
        content = files.zip_bytes(files.torch_entries(value, storages))
    half = len(content) // 2
    for suffix, part in zip(suffixes, (content[:half], content[half:]), strict=True):
        (tmp_path / (kind + suffix)).write_bytes(part)
    path = tmp_path / (kind + suffixes[second])
    with pytest.raises(sam_rlx.UnsupportedError, match=r"one of the parts .*put them together"):
        sam_rlx.load_model(path)


def test_a_checkpoint_with_a_number_at_its_end_is_whole(tmp_path, tiny_checkpoint):
    for step in ("001", "002"):
        (tmp_path / f"model.safetensors.{step}").write_bytes(tiny_checkpoint.read_bytes())
    assert sam_rlx.load_model(tmp_path / "model.safetensors.001").family == "sam"


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("saved_model.pb", "a TensorFlow model"),
        ("Data/com.apple.CoreML/model.mlmodel", "a Core ML package"),
        ("_CHECKPOINT_METADATA", "a checkpoint of Orbax"),
        ("data.pkl", "an unpacked PyTorch file: pack it again: zip -0"),
    ],
)
def test_a_folder_of_another_kind_is_named(tmp_path, file, found):
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}")
    with pytest.raises(sam_rlx.UnsupportedError, match=f"found {found}"):
        sam_rlx.load_model(tmp_path)


# ---------------------------------------------------------------- encoders alone

ENCODERS = {
    "timm, samvit": (["pos_embed", "blocks.0.attn.rel_pos_h", "blocks.0.mlp.fc1.weight"], "SAM"),
    "Meta's ViT": (["pos_embed", "blocks.0.attn.rel_pos_h", "blocks.0.mlp.lin1.weight"], "SAM"),
    "timm, sam2_hiera": (["pos_embed", "pos_embed_window", "blocks.0.attn.qkv.weight"], "SAM 2"),
    "Meta's trunk": (["trunk.pos_embed_window", "trunk.blocks.0.norm1.weight"], "SAM 2"),
    "Cellpose-SAM": (["encoder.blocks.0.attn.rel_pos_h", "W2", "out.weight"], "SAM"),
    "in a larger model": (["vision.tower.blocks.0.attn.rel_pos_h", "lm.weight"], "SAM"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_alone_is_told(tmp_path, name):
    names, which = ENCODERS[name]
    tensors = {each: files.stored(np.ones((2, 2), np.float32)) for each in names}
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    match = (
        rf"expected a whole model, found an image encoder alone \({which}'s.*decoder are missing"
    )
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.load_model(path)


# ---------------------------------------------------------------- quantized weights

LAYER = "image_encoder.blocks.0.attn.qkv."
QUANTIZED = {
    "quanto": ["weight._data", "weight._scale", "input_scale", "output_scale"],
    "torchao": ["_weight_qdata", "_weight_scale", "_weight_zero_point"],
    "MLX": ["weight", "scales", "biases"],
    "compressed-tensors": ["weight_packed", "weight_scale", "weight_shape"],
    "modelopt or Quark": ["weight", "weight_quantizer._amax"],
    "modelopt": ["weight", "input_quantizer._pre_quant_scale"],
    "HQQ": ["W_q", "scale", "zero"],
    "AQLM": ["codes", "codebooks", "scales"],
    "PyTorch's quantization-aware training": ["weight", "weight_fake_quant.scale"],
    "PyTorch's eager quantization": ["_packed_params.dtype", "scale"],
}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("who", QUANTIZED)
def test_a_quantizer_is_named_by_its_tensors(tmp_path, tiny_weights, who, strict):
    tensors = {name: files.stored(value) for name, value in tiny_weights.items()}
    del tensors[LAYER + "weight"]
    tensors |= {LAYER + name: files.stored(np.ones(4, np.float32)) for name in QUANTIZED[who]}
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    match = rf"numbers with scales of their own \({who}.*\), tensor .*plain float16"
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.load_model(path, strict=strict)


@pytest.mark.parametrize(
    ("settings", "who"),
    [
        ({"quantization_config": {"quant_method": "bitsandbytes", "bits": 4}}, "bitsandbytes"),
        ({"quantization_config": {"quant_method": "new-method"}}, "new-method"),
        ({"compression_config": {"format": "dense"}}, "by compression_config"),
        ({"quantization": {"group_size": 64, "bits": 4}}, "MLX"),
    ],
)
def test_a_quantizer_is_named_by_the_config_beside_the_weights(
    tmp_path, tiny_checkpoint, settings, who
):
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(tiny_checkpoint.read_bytes())
    (folder / "config.json").write_text(json.dumps({"model_type": "sam", **settings}))
    match = rf"config\.json: .*scales of their own \({who}\)"
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.load_model(folder, strict=False)


@pytest.mark.parametrize("name", ["weight_strange", "adjust.weight", "mask"])
def test_what_stands_beside_a_weight_is_never_dropped(tmp_path, tiny_weights, name):
    """Whoever wrote it, and whatever it is: the layer would compute something else without it."""
    tensors = {each: files.stored(value) for each, value in tiny_weights.items()}
    tensors[LAYER + name] = files.stored(np.ones(4, np.float32))
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    with pytest.raises(sam_rlx.CheckpointError, match=f"{name}: expected nothing else in a layer"):
        sam_rlx.load_model(path, strict=False)
    tensors["head." + name] = tensors.pop(LAYER + name)
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    assert sam_rlx.load_model(path, strict=False).report()["unexpected"] == ["head." + name]


def test_convolutions_of_mlx_are_told(tmp_path, tiny_weights):
    turned = {
        name: files.stored(np.ascontiguousarray(value.transpose(0, 2, 3, 1)))
        if value.ndim == 4 and name.endswith("weight")
        else files.stored(value)
        for name, value in tiny_weights.items()
    }
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(turned)))
    match = r"found weights in MLX's layout \(image_encoder\.patch_embed\.proj\.weight is"
    with pytest.raises(sam_rlx.UnsupportedError, match=match):
        sam_rlx.load_model(path)
