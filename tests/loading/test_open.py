"""Which file a path stands for, and which reader it gets."""

import json
import shutil

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files

TENSORS = {"w": files.stored(np.arange(4, dtype=np.float32))}
SAFETENSORS = files.safetensors_bytes(*files.safetensors_parts(TENSORS))


def make(folder, *names):
    for name in names:
        (folder / name).write_bytes(SAFETENSORS)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["a.safetensors"], "a.safetensors"),
        (["sam_vit_b.pth", "config.json", "README.md"], "sam_vit_b.pth"),
        (["x.pt"], "x.pt"),
        (["sam-q8_0.gguf", "config.json"], "sam-q8_0.gguf"),
        (["model.safetensors", "sam-q8_0.gguf"], "model.safetensors"),
        (["x-00001-of-00002.gguf", "x-00002-of-00002.gguf"], "x-00001-of-00002.gguf"),
        (["pytorch_model.bin"], "pytorch_model.bin"),
        (["model.safetensors", "pytorch_model.bin", "other.pth"], "model.safetensors"),
        (
            ["model.safetensors.index.json", "model-00001-of-00001.safetensors", "x.bin"],
            "model.safetensors.index.json",
        ),
    ],
)
def test_a_folder_stands_for_one_file(testing, tmp_path, names, chosen):
    make(tmp_path, *names)
    assert testing.resolve_checkpoint(tmp_path) == tmp_path / chosen
    assert testing.resolve_checkpoint(tmp_path / names[0]) == tmp_path / names[0]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([], "found none"),
        (["config.json"], "found none"),
        (["b.pth", "a.pt", "c.bin"], r"found a\.pt, b\.pth, c\.bin"),
        (["sam-q8_0.gguf", "sam-q4_k.gguf"], r"found sam-q4_k\.gguf, sam-q8_0\.gguf"),
        (["a.safetensors.index.json", "b.safetensors.index.json"], r"found a\.safe.*, b\.safe"),
    ],
)
def test_an_ambiguous_folder_lists_its_candidates(testing, tmp_path, names, found):
    make(tmp_path, *names)
    (tmp_path / "folder.pth").mkdir()
    with pytest.raises(sam_rlx.errors.CheckpointError, match=found):
        testing.open_checkpoint(tmp_path)


def test_embeddings_and_sessions_beside_a_checkpoint_are_passed_over(
    testing, tmp_path, tiny_checkpoint, sam2_checkpoint
):
    """Whatever they are called; damaged ones, and weights, make the folder ambiguous."""
    image = np.zeros((40, 50, 3), np.uint8)
    for number, source in enumerate((tiny_checkpoint, sam2_checkpoint)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(source, folder / "weights.safetensors")
        predictor = sam_rlx.ImagePredictor(sam_rlx.load_model(source))
        predictor.set_image(image)
        predictor.save_embedding(folder / "a.safetensors")
        assert testing.resolve_checkpoint(folder) == folder / "weights.safetensors"
        assert sam_rlx.load_model(folder).family == ("sam", "sam2")[number]
    video = sam_rlx.VideoPredictor(sam_rlx.load_model(sam2_checkpoint), [image] * 2)
    video.add_prompt(0, 1, box=[5, 5, 30, 30])
    video.save(folder / "model-session.safetensors")
    assert testing.resolve_checkpoint(folder) == folder / "weights.safetensors"
    (folder / "b.safetensors").write_bytes((folder / "a.safetensors").read_bytes()[:-9])
    with pytest.raises(sam_rlx.errors.CheckpointError, match=r"found b\.saf.*, weights\.saf"):
        testing.resolve_checkpoint(folder)


SEVERAL = ["sam-Q8_0.gguf", "sam-Q4_K.gguf", "model.safetensors", "x-Q2_K-00001-of-00002.gguf"]


@pytest.mark.parametrize(
    ("prefer", "chosen"),
    [("q8_0", 0), ("Q4_K.gguf", 1), ("model", 2), ("safetensors", 2), ("q2_k", 3)],
)
def test_a_text_chooses_from_a_folder(testing, tmp_path, prefer, chosen):
    make(tmp_path, *SEVERAL, "x-Q2_K-00002-of-00002.gguf", "q8_0.txt")
    assert testing.resolve_checkpoint(tmp_path, prefer) == tmp_path / SEVERAL[chosen]
    assert sam_rlx.model.find_checkpoint(tmp_path, prefer=prefer) == tmp_path / SEVERAL[chosen]


@pytest.mark.parametrize(
    ("prefer", "found"),
    [
        ("sam-q", r'"sam-q" in its name, found sam-Q4_K\.gguf, sam-Q8_0\.gguf$'),
        ("q5_k", r"found model\.safetensors, sam-Q4_K\.gguf, .*x-Q2_K-00001-of-00002\.gguf$"),
    ],
)
def test_a_text_that_fits_several_or_none_lists_them(testing, tmp_path, prefer, found):
    make(tmp_path, *SEVERAL)
    with pytest.raises(sam_rlx.errors.CheckpointError, match=found):
        sam_rlx.load_model(tmp_path, prefer=prefer)


@pytest.mark.parametrize(
    ("source", "prefer", "found"),
    [
        ("sam-nano", "q8_0", "only with a directory, found the source 'sam-nano'"),
        ("owner/name", "q8_0", "only with a directory, found the source 'owner/name'"),
        (".", "", "part of a file's name, found ''"),
        (".", 8, "part of a file's name, found 8"),
    ],
)
def test_a_text_needs_a_folder(source, prefer, found):
    with pytest.raises(sam_rlx.errors.InvalidArgumentError, match=found):
        sam_rlx.load_model(source, prefer=prefer)


@pytest.mark.parametrize("name", ["model.pth", "model.bin", "model", "model.safetensors"])
@pytest.mark.parametrize("content", [SAFETENSORS, files.torch_bytes(TENSORS)])
def test_the_content_decides_not_the_name(testing, tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    np.testing.assert_array_equal(testing.open_checkpoint(path)["w"], np.arange(4))
    np.testing.assert_array_equal(testing.open_checkpoint(str(path))["w"], np.arange(4))


def test_a_header_length_that_looks_like_a_pickle(testing, tmp_path):
    header, data = files.safetensors_parts(TENSORS)
    text = json.dumps(header).encode()
    content = files.safetensors_bytes(text + b" " * (0x0280 - len(text)), data)
    assert content.startswith(b"\x80\x02")
    path = tmp_path / "w"
    path.write_bytes(content)
    assert testing.open_checkpoint(path).keys() == ["w"]


def test_a_header_length_that_looks_like_json(testing, tmp_path):
    header = json.dumps(files.safetensors_parts(TENSORS)[0]).encode().ljust(ord("{"))
    path = tmp_path / "x"
    path.write_bytes(files.safetensors_bytes(header, bytes(16)))
    assert path.read_bytes().startswith(b"{")
    assert testing.open_checkpoint(path).keys() == ["w"]


@pytest.mark.parametrize(
    ("content", "error", "found"),
    [
        (b"GGUF\x01\0\0\0", sam_rlx.errors.UnsupportedError, "found version 1"),
        (b"version https://git-lfs.github.com/spec/v1\n", None, "a Git LFS pointer"),
        (b"<!DOCTYPE html><html>", None, r'"<!DOCTYPE html><" at its beginning, a web page'),
        (b"\x93NUMBY\x01\x00", None, r'"\\x93NUMBY\\x01\\x00" at its beginning'),
    ],
)
def test_other_files_are_named(testing, tmp_path, content, error, found):
    path = tmp_path / "x.pth"
    path.write_bytes(content)
    with pytest.raises(error or sam_rlx.errors.CheckpointError, match=found):
        testing.open_checkpoint(path)


def write_shards(folder, weight_map, **extra):
    for number, name in enumerate(("a", "b"), 1):
        tensors = {f"{name}.weight": files.stored(np.full(3, number, np.float32))}
        header, data = files.safetensors_parts(tensors, {"format": "pt"})
        path = folder / f"model-{number}.safetensors"
        path.write_bytes(files.safetensors_bytes(header, data))
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 24}, "weight_map": weight_map} | extra))
    return index


SHARDS = {"a.weight": "model-1.safetensors", "b.weight": "model-2.safetensors"}


@pytest.mark.parametrize("by_folder", [True, False])
def test_shards_are_joined(testing, tmp_path, by_folder):
    index = write_shards(tmp_path, SHARDS)
    state_dict = testing.open_checkpoint(tmp_path if by_folder else index)
    assert sorted(state_dict.keys()) == ["a.weight", "b.weight"]
    np.testing.assert_array_equal(state_dict["a.weight"], [1, 1, 1])
    np.testing.assert_array_equal(state_dict["b.weight"], [2, 2, 2])
    assert state_dict.metadata == {"format": "pt"}


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        (SHARDS | {"c.weight": "model-2.safetensors"}, "c.weight: expected the tensor in model-2"),
        (SHARDS | {"a.weight": "../model-1.safetensors"}, "plain file names"),
        (SHARDS | {"a.weight": "/etc/passwd"}, "plain file names"),
        (SHARDS | {"a.weight": "..\\x"}, "plain file names"),
        (SHARDS | {"a.weight": "C:x"}, "plain file names"),
        (SHARDS | {"a.weight": ".."}, "plain file names"),
        (SHARDS | {"a.weight": ""}, "plain file names"),
        (SHARDS | {"a.weight": "model-1.safetensors\0"}, "plain file names"),
        (SHARDS | {"a.weight": "model.safetensors.index.json"}, "plain file names"),
        (SHARDS | {"a.weight": 1}, "expected a string"),
        ([], "expected an object"),
        ({f"w{i}": f"model-{i}.safetensors" for i in range(2000)}, "at most 1000 shards"),
    ],
)
def test_a_bad_shard_index_is_refused(testing, tmp_path, weight_map, message):
    index = write_shards(tmp_path, weight_map)
    with pytest.raises(sam_rlx.errors.CheckpointError, match=message):
        testing.open_checkpoint(index)


def test_a_missing_shard_is_file_not_found(testing, tmp_path):
    index = write_shards(tmp_path, SHARDS | {"a.weight": "model-3.safetensors"})
    with pytest.raises(FileNotFoundError, match="model-3"):
        testing.open_checkpoint(index)


def test_two_shards_with_one_name_are_refused(testing, tmp_path):
    index = write_shards(tmp_path, SHARDS)
    (tmp_path / "model-2.safetensors").write_bytes((tmp_path / "model-1.safetensors").read_bytes())
    with pytest.raises(sam_rlx.errors.CheckpointError, match="expected one tensor of this name"):
        testing.open_checkpoint(index)


def test_a_json_file_that_is_no_index_is_refused(testing, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "sam"}')
    with pytest.raises(sam_rlx.errors.CheckpointError, match='a member "weight_map"'):
        testing.open_checkpoint(path)


def test_a_prefix_stays_when_one_name_lacks_it(testing, tmp_path):
    tensors = {"module.a": TENSORS["w"], "b": TENSORS["w"]}
    path = tmp_path / "x"
    path.write_bytes(files.torch_bytes(tensors))
    assert testing.open_checkpoint(path).keys() == ["module.a", "b"]
