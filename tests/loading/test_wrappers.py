"""Dicts around a state dict and beginnings before its names are found by what is inside."""

import numpy as np
import pytest
import sam_rlx
from support import checkpoint_files as files
from support.checkpoint_files import Call, Global

OTHER = {"fc.weight": np.ones((2, 2), np.float32), "fc.bias": np.ones(2, np.float32)}


def save(path, value, legacy=False):
    """Write nested dicts of arrays as a PyTorch file."""
    storages = files.Storages(legacy=legacy)

    def convert(value):
        if isinstance(value, dict):
            return {key: convert(item) for key, item in value.items()}
        if isinstance(value, np.ndarray):
            return storages.tensor(files.stored(value))
        return value

    content = convert(value)
    path.write_bytes(
        files.legacy_bytes({}, content, storages)
        if legacy
        else files.zip_bytes(files.torch_entries(content, storages))
    )
    return path


def prefixed(weights, prefix):
    return {prefix + name: value for name, value in weights.items()}


def check(path, weights, key=None):
    model = sam_rlx.load_model(path, key=key)
    assert model.family == "sam"
    assert model.num_parameters == sum(value.size for value in weights.values())
    return model


KEYS = ["model", "state_dict", "model_state_dict", "model_state", "net", "module", "ema", "params"]
KEYS += ["weights", "sam", "network", "state_dict_ema"]


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_a_dict_around_the_weights(tmp_path, tiny_weights, key, legacy):
    optimizer = {"state": {0: {"exp_avg": np.ones(3, np.float32)}}, "param_groups": [{"lr": 0.1}]}
    value = {"epoch": 3, "optimizer": optimizer, key: tiny_weights, "head": OTHER}
    path = save(tmp_path / "x.pth", value, legacy)
    check(path, tiny_weights)
    check(path, tiny_weights, key)


@pytest.mark.parametrize("keys", [("state", "model"), ("a", "b", "c"), ("ema", "module")])
def test_dicts_in_dicts(testing, tmp_path, tiny_weights, keys):
    value = tiny_weights
    for key in reversed(keys):
        value = {key: value, "other": OTHER, "version": 1}
    path = save(tmp_path / "x.pth", value)
    check(path, tiny_weights, ".".join(keys))
    check(path, tiny_weights)
    container, key, found, prefix = testing.open_checkpoint(path).origin
    assert (container, key, prefix) == ("PyTorch archive", ".".join(keys), "")
    assert set(found) >= {".".join(keys), "other"}


PREFIXES = ["module.", "net.", "sam_model.", "sam2_model.", "backbone.", "base_model.model."]
PREFIXES += ["_orig_mod.", "module._orig_mod.", "model.sam.", "segmenter.encoder2.whatever."]


@pytest.mark.parametrize("container", ["pth", "safetensors"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_beginning_before_every_name(testing, tmp_path, tiny_weights, prefix, container):
    weights = prefixed(tiny_weights, prefix)
    path = tmp_path / f"x.{container}"
    if container == "pth":
        save(path, {"state_dict": weights})
    else:
        tensors = {name: files.stored(value) for name, value in weights.items()}
        path.write_bytes(files.safetensors_bytes(*files.safetensors_parts(tensors)))
    check(path, tiny_weights)
    assert testing.open_checkpoint(path).origin[3] == prefix


INNER = {
    "torch.compile": ("image_encoder.", "image_encoder._orig_mod."),
    "FSDP": (".blocks.", ".blocks._fsdp_wrapped_module."),
    "recomputed activations": (".mlp.", "._checkpoint_wrapped_module.mlp."),
}


@pytest.mark.parametrize("prefix", ["", "model.", "_fsdp_wrapped_module.", "module._orig_mod."])
@pytest.mark.parametrize("wrapper", INNER)
def test_wrappers_of_parts_are_taken_off(testing, tmp_path, tiny_weights, wrapper, prefix):
    renamed = {prefix + name.replace(*INNER[wrapper]): w for name, w in tiny_weights.items()}
    assert set(renamed) != set(prefixed(tiny_weights, prefix))
    value = {"model": renamed, "optimizer": {"state": {0: {"exp_avg": np.ones(3, np.float32)}}}}
    path = save(tmp_path / "x.pth", value)
    check(path, tiny_weights)
    found = testing.open_checkpoint(path)
    for name, value in tiny_weights.items():
        np.testing.assert_array_equal(found[name], value, name)


def test_a_part_with_and_without_its_wrapper_is_two(tmp_path, tiny_weights):
    name = "image_encoder.pos_embed"
    twice = {**tiny_weights, "image_encoder._orig_mod.pos_embed": tiny_weights[name]}
    path = save(tmp_path / "x.pth", twice)
    with pytest.raises(sam_rlx.CheckpointError, match="pos_embed: expected one tensor of this na"):
        sam_rlx.load_model(path)


@pytest.mark.parametrize("prefix", ["module.", "lit_module.sam."])
def test_tensors_that_lack_the_beginning_are_left_out(tmp_path, tiny_weights, prefix):
    weights = {"criterion.weight": np.ones(3, np.float32), **prefixed(tiny_weights, prefix)}
    weights["steps"] = np.array([3], np.int64)
    model = check(save(tmp_path / "x.pth", weights), tiny_weights)
    assert model.report()["skipped"] == [
        f'criterion.weight: not below "{prefix}"',
        f'steps: not below "{prefix}"',
    ]


def test_a_foreign_tensor_beside_plain_names_is_unexpected(tmp_path, tiny_weights):
    path = save(tmp_path / "x.pth", {**tiny_weights, "criterion.weight": np.ones(3, np.float32)})
    with pytest.raises(sam_rlx.CheckpointError, match=r"criterion\.weight: expected no tensor"):
        sam_rlx.load_model(path)
    assert sam_rlx.load_model(path, strict=False).report()["unexpected"] == ["criterion.weight"]


def test_several_models_are_listed_and_a_key_chooses(tmp_path, tiny_weights):
    average = {name: value + np.float32(0.5) for name, value in tiny_weights.items()}
    value = {"model": tiny_weights, "ema": {"module": average, "decay": 0.9}, "head": OTHER}
    path = save(tmp_path / "x.pth", value)
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        sam_rlx.load_model(path)
    assert str(caught.value) == (
        f"{path}: expected one model, or key= (on the command line --key) for one of several, "
        'found models under "model", "ema.module"'
    )
    check(path, tiny_weights, "model")
    check(path, average, "ema.module")
    with pytest.raises(sam_rlx.CheckpointError) as caught:
        sam_rlx.load_model(path, key="emo")
    assert str(caught.value) == (
        f'{path}: key "emo": expected one of the keys "model", "ema.module", found none of them'
    )


def test_a_key_takes_the_weights_under_it(testing, tmp_path, tiny_weights):
    average = {name: value + np.float32(0.5) for name, value in tiny_weights.items()}
    path = save(tmp_path / "x.pth", {"a": tiny_weights, "b": average})
    for key, weights in (("a", tiny_weights), ("b", average)):
        found = testing.open_checkpoint(path, key=key)
        for name, value in weights.items():
            np.testing.assert_array_equal(found[name], value)


def test_several_beginnings_are_several_models(testing, tmp_path, tiny_weights):
    student = {name: value * 2 for name, value in tiny_weights.items()}
    weights = prefixed(tiny_weights, "teacher.sam.") | prefixed(student, "student.")
    path = save(tmp_path / "x.pth", {"state_dict": weights})
    with pytest.raises(
        sam_rlx.CheckpointError, match=r'"state_dict\.student", "state_dict\.teacher\.sam"$'
    ):
        sam_rlx.load_model(path)
    for key, expected in (
        ("state_dict.student", student),
        ("state_dict.teacher.sam", tiny_weights),
    ):
        check(path, expected, key)
        found = testing.open_checkpoint(path, key=key)
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


def test_one_dict_under_two_keys_is_one(tmp_path, tiny_weights):
    storages = files.Storages()
    inner = files.state_dict_value(
        {name: files.stored(value) for name, value in tiny_weights.items()}, storages
    )
    code = files.opcodes(inner) + b"q\x05"
    pairs = files.opcodes("a") + b"h\x05" + files.opcodes("b") + b"h\x05"
    value = files.Raw(code + b"0}(" + pairs + b"u")
    path = tmp_path / "x.pth"
    path.write_bytes(files.zip_bytes(files.torch_entries(value, storages)))
    check(path, tiny_weights)


@pytest.mark.parametrize("key", [3, b"model", ["model"]])
def test_a_key_is_a_text(tiny_pth, key):
    with pytest.raises(sam_rlx.InvalidArgumentError, match=r"load_model\.key: expected"):
        sam_rlx.load_model(tiny_pth, key=key)


def test_no_tensors_is_said_only_where_there_are_none(tmp_path):
    path = save(tmp_path / "x.pth", {"model": {"a": 1}, "epoch": 3})
    with pytest.raises(sam_rlx.CheckpointError, match="found no tensors, but model: not a tensor"):
        sam_rlx.load_model(path)
    with pytest.raises(sam_rlx.CheckpointError, match="expected no key: the file holds no tensors"):
        sam_rlx.load_model(path, key="model")
    path = save(tmp_path / "y.pth", {"net": {"deep": {"head": OTHER}}})
    with pytest.raises(sam_rlx.CheckpointError, match=r"found 2 tensors: fc\.weight, fc\.bias"):
        sam_rlx.load_model(path)
    empty = Call(Global("collections", "OrderedDict"))
    path.write_bytes(files.zip_bytes(files.torch_entries(empty, files.Storages())))
    with pytest.raises(sam_rlx.CheckpointError, match=r"found no tensors$"):
        sam_rlx.load_model(path)
