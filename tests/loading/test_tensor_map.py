"""Names beside a file, both orders of the sides of packed matrices, and other spellings."""

import hashlib
import json

import numpy as np
import pytest
import sam_rlx
from support import checkpoint_files as files
from support import gguf_files, tiny, tiny_sam2, tiny_sam3

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)


def opaque(name):
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def packed(weights):
    """Matrices whose rows fit blocks of 32 in Q8_0, all others as they are."""
    tensors = {}
    for name, value in weights.items():
        fits = value.ndim == 2 and value.shape[1] % 32 == 0 and "embed" not in name
        tensors[name] = (
            gguf_files.Tensor("Q8_0", value.shape, q8_0(value))
            if fits
            else gguf_files.tensor(value)
        )
    assert sum(tensor.type == "Q8_0" for tensor in tensors.values()) > 10
    return tensors


def q8_0(value):
    blocks = value.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1) / 127).astype("<f2")
    divisor = np.where(scales == 0, np.float16(1), scales).astype(np.float32)[:, None]
    numbers = np.clip(np.rint(blocks / divisor), -127, 127).astype(np.int8)
    return np.concatenate([scales[:, None].view(np.int8), numbers], axis=1).tobytes()


def masks(model):
    predictor = sam_rlx.ImagePredictor(model)
    predictor.set_image(IMAGE)
    return predictor.predict(point_coords=[[20, 30]], point_labels=[1]).low_res_masks


@pytest.fixture
def weights():
    return tiny.vivid_weights()


def save(path, tensors, renamed=False, swapped=False):
    named = {}
    for name, tensor in tensors.items():
        if swapped and tensor.type == "Q8_0":
            tensor = gguf_files.Tensor(tensor.type, tensor.shape[::-1], tensor.data)
        named[opaque(name) if renamed else name] = tensor
    path.write_bytes(gguf_files.gguf_bytes(named, gguf_files.ARCHITECTURE))
    if renamed:
        side_car = path.with_name(path.name + ".tensor_map.json")
        side_car.write_text(json.dumps({opaque(name): name for name in tensors}))
    return path


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("renamed", [False, True])
def test_names_beside_the_file_and_both_orders(tmp_path, weights, renamed, swapped):
    tensors = packed(weights)
    expected = sam_rlx.load_model(save(tmp_path / "plain.gguf", tensors))
    found = sam_rlx.load_model(save(tmp_path / "other.gguf", tensors, renamed, swapped))
    assert found.config == expected.config
    np.testing.assert_array_equal(masks(found), masks(expected))


def test_names_beside_other_files(tmp_path, tiny_weights):
    path = tmp_path / "x.safetensors"
    tensors = {opaque(name): files.stored(value) for name, value in tiny_weights.items()}
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    with pytest.raises(sam_rlx.CheckpointError, match="expected the tensors of SAM"):
        sam_rlx.load_model(path)
    side_car = tmp_path / "x.safetensors.tensor_map.json"
    side_car.write_text(json.dumps({opaque(name): name for name in tiny_weights}))
    assert sam_rlx.load_model(path).family == "sam"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected an object"),
        ("{", "x.gguf.tensor_map.json"),
        ('{"a": 1}', "a: expected a string"),
        ('{"a": ""}', "a: expected a name"),
        ('{"a": "b"}', "b: expected one tensor of this name"),
    ],
)
def test_a_bad_list_of_names_is_refused(testing, tmp_path, content, message):
    tensor = gguf_files.tensor(np.ones(4, np.float32))
    (tmp_path / "x.gguf").write_bytes(gguf_files.gguf_bytes({"a": tensor, "b": tensor}))
    (tmp_path / "x.gguf.tensor_map.json").write_text(content)
    with pytest.raises(sam_rlx.CheckpointError, match=message):
        testing.open_checkpoint(tmp_path / "x.gguf")


@pytest.mark.parametrize("shape", [(33, 31), (31, 32), (32, 31)])
def test_a_matrix_whose_rows_are_no_blocks_is_refused(testing, tmp_path, shape):
    size = np.prod(shape) // 32 * 34
    tensor = gguf_files.Tensor("Q8_0", shape, bytes(int(size)))
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf_files.gguf_bytes({"w": tensor}))
    if shape[1] % 32 == 0:
        assert testing.open_checkpoint(path).keys() == ["w"]
        return
    with pytest.raises(
        sam_rlx.CheckpointError, match="rows of whole blocks of 32 numbers for Q8_0"
    ):
        testing.open_checkpoint(path)


@pytest.mark.parametrize("shape", [(64, 96), (96, 64)])
def test_one_matrix_is_enough_to_tell_the_order(testing, tmp_path, shape):
    matrix = gguf_files.Tensor("Q8_0", shape, bytes(64 * 96 // 32 * 34))
    bias = gguf_files.tensor(np.ones(64, np.float32))
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf_files.gguf_bytes({"w.weight": matrix, "w.bias": bias}))
    assert testing.open_checkpoint(path)["w.weight"].shape == (64, 96)


SAM_SPELLINGS = [("mlp.lin1.", "mlp.fc1."), ("mlp.lin2.", "mlp.fc2.")]
NUMBERED = [("mlp.lin1.", "mlp.layers.0."), ("mlp.lin2.", "mlp.layers.1.")]


def spelled(weights, rows):
    result = {}
    for name, value in weights.items():
        for old, new in rows:
            name = name.replace(old, new)
        result[name] = value
    return result


@pytest.mark.parametrize("rows", [SAM_SPELLINGS, NUMBERED])
def test_spellings_of_sam(tmp_path, weights, rows):
    renamed = spelled(weights, rows)
    assert set(renamed) != set(weights)
    found = sam_rlx.load_model(tiny.save_safetensors(tmp_path / "x.safetensors", renamed))
    expected = sam_rlx.load_model(tiny.save_safetensors(tmp_path / "y.safetensors", weights))
    np.testing.assert_array_equal(masks(found), masks(expected))


@pytest.mark.parametrize("name", ["lin", "fc"])
def test_spellings_of_sam2(tmp_path, name):
    weights = tiny_sam2.weights()
    rows = [("mlp.layers.0.", f"mlp.{name}1."), ("mlp.layers.1.", f"mlp.{name}2.")]
    renamed = spelled(weights, rows)
    assert set(renamed) != set(weights)
    paths = [tmp_path / "x.safetensors", tmp_path / "y.safetensors"]
    models = [
        sam_rlx.load_model(tiny_sam2.save_safetensors(path, tiny_sam2.TINY, values))
        for path, values in zip(paths, (renamed, weights), strict=True)
    ]
    np.testing.assert_array_equal(masks(models[0]), masks(models[1]))


TRUNK = "detector.backbone.vision_backbone.trunk."
TRUNKS = [
    TRUNK,
    "detector.backbone.visual.trunk.",
    "backbone.vision_backbone.trunk.",
    "backbone.visual.trunk.",
    "visual.trunk.",
    "trunk.",
]


@pytest.mark.parametrize(
    ("trunk", "others"),
    [*((trunk, "detector.") for trunk in TRUNKS), *((trunk, "") for trunk in TRUNKS[2:])],
)
def test_names_of_the_trunk_of_sam3(testing, tmp_path, trunk, others):
    config = tiny_sam3.TINY
    shapes = tiny_sam3.config_shapes(config) | tiny_sam3.trunk_shapes(config, TRUNK)
    weights = tiny.random_state_dict(shapes)
    renamed = {}
    for name, value in weights.items():
        if name.startswith(TRUNK):
            spelled_name = trunk + name.removeprefix(TRUNK).replace(".fc1.", ".lin1.")
            renamed[spelled_name.replace(".fc2.", ".lin2.")] = value
        else:
            renamed[others + name.removeprefix("detector.")] = value
    tensors = {name: files.stored(value) for name, value in renamed.items()}
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    found = testing.open_checkpoint(path)
    assert found.to_meta_names() == "sam3"
    assert sorted(found.keys()) == sorted(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(found[name], value)
