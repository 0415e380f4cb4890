"""Weights as torch, safetensors, and gguf write them: what those read, or refused.

The numbers that the writing library reads back are the judge of what loads.
"""

import json
import struct

import numpy as np
import pytest
import sam_rlx

NAME = "image_encoder.blocks.1.attn.qkv.weight"
POINT = {"point_coords": [[50.0, 20.0]], "point_labels": [1]}
IMAGE = np.random.default_rng(7).integers(0, 256, (90, 120, 3), dtype=np.uint8)

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("support.upstream", reason="needs PyTorch").torch


@pytest.fixture(scope="module")
def state(torch, tiny_weights):
    return {name: torch.from_numpy(value.copy()) for name, value in tiny_weights.items()}


def logits(path, **options):
    predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(path, **options))
    predictor.set_image(IMAGE)
    return predictor.predict(**POINT).low_res_masks


def expected(tmp_path, state):
    """Logits of the same numbers as float32, in a plain file."""
    from safetensors.numpy import save_file

    path = tmp_path / "plain.safetensors"
    save_file(
        {name: value.detach().float().resolve_neg().numpy() for name, value in state.items()}, path
    )
    return logits(path)


def with_note(tensor):
    tensor.note = "epoch 3"
    return tensor


# What torch makes of one matrix; its own weights_only=True reads all of them.
TORCH_FORMS = {
    "a negated view": lambda torch, x: torch._neg_view(-x),
    "imaginary part of a conjugate": lambda torch, x: torch.complex(x * 0, -x).conj().imag,
    "an attribute": lambda torch, x: with_note(x.clone()),
    "an attribute of a negated view": lambda torch, x: with_note(torch._neg_view(-x)),
    "a parameter with an attribute": lambda torch, x: with_note(torch.nn.Parameter(x.clone())),
    "a buffer": lambda torch, x: torch.nn.Buffer(x.clone()),
    "float8_e4m3fn": lambda torch, x: x.to(torch.float8_e4m3fn),
    "float8_e5m2": lambda torch, x: x.to(torch.float8_e5m2),
    "float8_e4m3fnuz": lambda torch, x: x.to(torch.float8_e4m3fnuz),
    "float8_e5m2fnuz": lambda torch, x: x.to(torch.float8_e5m2fnuz),
    "a transposed view of float8": lambda torch, x: x.T.contiguous().to(torch.float8_e5m2).T,
    "bfloat16": lambda torch, x: x.to(torch.bfloat16),
}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("form", TORCH_FORMS)
def test_a_tensor_of_torch_is_what_torch_load_reads(testing, torch, state, tmp_path, form, legacy):
    if legacy and form.count("float8"):
        pytest.skip("PyTorch does not write it")
    made = TORCH_FORMS[form](torch, state[NAME])
    path = tmp_path / "x.pth"
    torch.save({NAME: made}, path, _use_new_zipfile_serialization=not legacy)
    judge = torch.load(path, weights_only=True)[NAME].detach().float().resolve_neg().numpy()
    np.testing.assert_array_equal(testing.open_checkpoint(path)[NAME], judge)
    # convert writes the numbers that are read, in the format that they have.
    again = tmp_path / "x.safetensors"
    sam_rlx.convert(path, again)
    np.testing.assert_array_equal(testing.open_checkpoint(again)[NAME], judge)


@pytest.mark.parametrize("form", ["a negated view", "an attribute", "float8_e4m3fn"])
def test_a_model_with_such_a_tensor_gives_the_masks_of_its_numbers(torch, state, tmp_path, form):
    changed = {**state, NAME: TORCH_FORMS[form](torch, state[NAME])}
    path = tmp_path / "x.pth"
    torch.save(changed, path)
    read = torch.load(path, weights_only=True)
    np.testing.assert_array_equal(logits(path), expected(tmp_path, read))


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        *(("uint16", "U16"), ("uint32", "U32"), ("uint64", "U64"), ("int32", "I32")),
        ("float8_e8m0fnu", "F8_E8M0"),
    ],
)
@pytest.mark.parametrize("container", ["torch", "safetensors"])
def test_a_dtype_that_is_no_weight_is_named_in_both_containers(
    torch, state, tmp_path, dtype, name, container
):
    from safetensors.torch import save_file

    changed = {**state, NAME: state[NAME].abs().to(getattr(torch, dtype))}
    path = tmp_path / "x"
    (torch.save if container == "torch" else save_file)(changed, path)
    with pytest.raises(sam_rlx.CheckpointError, match=rf"{NAME}: .*found {name}$"):
        sam_rlx.load_model(path)


# What stands in a state dict beside the weights, and how it is saved.
OBJECTS = {
    "jagged": lambda torch: torch.nested.nested_tensor(
        [torch.zeros(2, 3), torch.zeros(4, 3)], layout=torch.jagged
    ),
    "nested": lambda torch: torch.nested.nested_tensor([torch.zeros(2, 3), torch.zeros(4, 3)]),
    "sparse": lambda torch: torch.eye(3).to_sparse(),
    "meta": lambda torch: torch.ones(3, device="meta"),
    "complex": lambda torch: torch.ones(3, dtype=torch.complex128).conj(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", OBJECTS)
def test_other_tensors_beside_the_weights_are_left_out(torch, state, tmp_path, kind):
    path = tmp_path / "x.pth"
    torch.save({**state, "queries": OBJECTS[kind](torch)}, path)
    model = sam_rlx.load_model(path)
    assert any(line.startswith("queries: ") for line in model.report()["skipped"])


@pytest.mark.filterwarnings("ignore")
def test_a_quantized_tensor_is_named(torch, state, tmp_path):
    path = tmp_path / "x.pth"
    packed = torch.quantize_per_tensor(state[NAME], 0.1, 0, torch.qint8)
    torch.save({**state, NAME: packed}, path)
    with pytest.raises(sam_rlx.UnsupportedError, match=r"scales of .*a quantized tensor"):
        sam_rlx.load_model(path, strict=False)


# ---------------------------------------------------------------- checksums


def hole(path, data):
    content = bytearray(path.read_bytes())
    at = content.find(data)
    assert at > 0
    content[at : at + len(data)] = bytes(len(data))
    path.write_bytes(content)


def test_a_hole_in_a_torch_file_is_found_by_its_crc32(torch, state, tmp_path):
    path = tmp_path / "x.pth"
    torch.save(state, path)
    hole(path, state[NAME].numpy().tobytes()[256:512])
    assert torch.load(path, weights_only=True)[NAME].shape == state[NAME].shape  # no word
    with pytest.raises(sam_rlx.CheckpointError, match=r"storage .*CRC-32.*damaged"):
        sam_rlx.load_model(path)
    with pytest.raises(sam_rlx.CheckpointError, match="CRC-32"):
        sam_rlx.convert(path, tmp_path / "y.safetensors")


def test_a_file_without_checksums_loads(torch, state, tmp_path):
    path = tmp_path / "x.pth"
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state, path)
    finally:
        torch.serialization.set_crc32_options(True)
    hole(path, state[NAME].numpy().tobytes()[256:512])  # nobody can tell
    assert sam_rlx.load_model(path).family == "sam"


def test_a_file_without_numbers_is_told(torch, state, tmp_path):
    path = tmp_path / "x.pth"
    with torch.serialization.skip_data():
        torch.save(state, path)
    with pytest.raises(sam_rlx.CheckpointError, match=r"storage .*skip_data"):
        sam_rlx.load_model(path)


# ---------------------------------------------------------------- safetensors


def with_metadata(path, metadata):
    """Rewrite the metadata of a file of safetensors."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def test_metadata_null_is_read_as_safetensors_reads_it(state, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    save_file(state, path)
    want = logits(path)
    with_metadata(path, None)
    with safe_open(path, "np") as file:
        assert file.metadata() is None
        np.testing.assert_array_equal(file.get_tensor(NAME), state[NAME].numpy())
    np.testing.assert_array_equal(logits(path), want)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("__encryption__", '{"a": {}}', "encrypted"),
        ("crypto.algorithm", "aes-256-gcm", "encrypted"),
        ("compression", "zstd", "compressed"),
        ("byte_order", "big", "byte order"),
        ("quantization_config", '{"bits": 4}', "scales of their own"),
    ],
)
def test_metadata_that_changes_bytes_is_refused(state, tmp_path, key, value, found):
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    save_file(state, path, {key: value})
    with pytest.raises(sam_rlx.UnsupportedError, match=rf"__metadata__: .*{found}.*{key}"):
        sam_rlx.load_model(path, strict=False)


@pytest.mark.parametrize(
    "metadata", [{"format": "pt"}, {"format": "mlx"}, {"compression": "none"}, {"endian": "little"}]
)
def test_other_metadata_changes_nothing(state, tmp_path, metadata):
    from safetensors.torch import save_file

    path = tmp_path / "x.safetensors"
    save_file(state, path, metadata)
    assert sam_rlx.load_model(path).family == "sam"


# ---------------------------------------------------------------- gguf


@pytest.mark.parametrize("name", ["sam-nano", "sam2-nano", "sam3-nano"])
def test_a_gguf_that_lost_its_outermost_sizes_of_1(tmp_path, name):
    gguf = pytest.importorskip("gguf")
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    sam_rlx.convert(name, first, dtype="F16")
    reader = gguf.GGUFReader(first)
    fields = dict(reader.fields)
    family = fields.pop("general.architecture").contents()
    writer = gguf.GGUFWriter(second, family)
    for key, field in fields.items():
        if not key.startswith("GGUF."):
            array = field.types[0] == gguf.GGUFValueType.ARRAY
            writer.add_key_value(
                key, field.contents(), field.types[0], sub_type=field.types[-1] if array else None
            )
    for tensor in reader.tensors:
        data = np.asarray(tensor.data)
        while data.ndim > 1 and data.shape[0] == 1:
            data = data[0]
        writer.add_tensor(tensor.name, data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    before, after = sam_rlx.load_model(first), sam_rlx.load_model(second)
    assert before.core.weights_hash == after.core.weights_hash
    # What is written from it has all axes again.
    whole, again = tmp_path / "whole.safetensors", tmp_path / "again.safetensors"
    sam_rlx.convert(first, whole, names="meta")
    sam_rlx.convert(second, again, names="meta")
    assert whole.read_bytes() == again.read_bytes()
