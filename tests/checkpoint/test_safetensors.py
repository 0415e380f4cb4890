"""Safetensors files: what the format allows is read, everything else is refused with a reason."""

import numpy as np
import pytest
from support import checkpoint_files as files

ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def test_agrees_with_the_safetensors_package(testing, tmp_path):
    numpy_io = pytest.importorskip("safetensors.numpy")
    rng = np.random.default_rng(1)
    arrays = {
        "b.weight": rng.standard_normal((4, 3)).astype(np.float32),
        "a.bias": rng.standard_normal(7).astype(np.float16),
        "steps": np.array([5], np.int64),
    }
    path = tmp_path / "x.safetensors"
    numpy_io.save_file(arrays, path, metadata={"format": "np", "name": "größe"})
    state_dict = testing.open_checkpoint(path)
    assert state_dict.metadata == {"format": "np", "name": "größe"}
    assert set(state_dict.keys()) == set(arrays)
    for name, value in numpy_io.load_file(path).items():
        np.testing.assert_array_equal(state_dict[name], value.astype(np.float32))


def test_an_empty_header_is_a_file_without_tensors(testing, tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(files.safetensors_bytes(b"{}   "))
    assert testing.open_checkpoint(path).keys() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dtype": "F6_E2M3"}, "found F6_E2M3"),
        ({"dtype": 3}, "expected a string"),
        ({"shape": [3]}, "expected 12 bytes for shape (3,), found 8"),
        ({"shape": [-2]}, "expected a shape"),
        ({"shape": [2.0]}, "expected a whole number"),
        ({"shape": [2**62, 2**62, 0]}, "fits 63 bits"),
        ({"shape": [2**63]}, "expected a whole number"),
        ({"shape": [2**32, 2**32]}, "fits 63 bits"),
        ({"shape": 2}, "expected an array"),
        ({"data_offsets": [0, 12]}, "within 8 bytes, found (0, 12)"),
        ({"data_offsets": [8, 0]}, "within 8 bytes"),
        ({"data_offsets": [-8, 0]}, "within 8 bytes"),
        ({"data_offsets": [0]}, "expected two data offsets, found 1"),
        ({"data_offsets": [0, 2**70]}, "expected a whole number"),
        ({"data_offsets": [0, 4]}, "expected 8 bytes for shape (2,), found 4"),
    ],
)
def test_refuses_a_lying_entry(refuse, change, message):
    text = refuse(files.safetensors_bytes({"w.weight": ONE | change}, bytes(8)))
    assert "w.weight" in text
    assert message in text


@pytest.mark.parametrize("key", ["dtype", "shape", "data_offsets"])
def test_refuses_a_missing_member(refuse, key):
    entry = {name: value for name, value in ONE.items() if name != key}
    assert f'a member "{key}"' in refuse(files.safetensors_bytes({"w": entry}, bytes(8)))


def entry(begin, end):
    return {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": entry(0, 4), "b": entry(2, 8)}, "from byte 4, found data from byte 2"),
        ({"a": entry(0, 8), "b": entry(0, 8)}, "from byte 8, found data from byte 0"),
        ({"a": entry(0, 3), "b": entry(5, 8)}, "from byte 3, found data from byte 5"),
        ({"a": entry(1, 8)}, "from byte 0, found data from byte 1"),
        ({"a": entry(0, 7)}, "expected 7 bytes of tensor data, found 8"),
        ({}, "expected 0 bytes of tensor data, found 8"),
    ],
)
def test_refuses_overlaps_and_holes(refuse, header, message):
    assert message in refuse(files.safetensors_bytes(header, bytes(8)))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b'{"a":1', "JSON"),
        (b"[1]", "expected a safetensors, GGUF or PyTorch file"),
        (b'{"a":[]}', "expected an object, found an array"),
        (b'{"__metadata__":{"a":1}}', "expected a string, found a whole number"),
        (b'{"__metadata__":{},"__metadata__":{}}', '"__metadata__" twice'),
        (b'{"a":{"dtype":"F32","dtype":"F16"}}', '"dtype" twice'),
        (b'{"a":' + b"[" * 5000, "at most 32 levels"),
        (b'{"\xff":1}', "expected JSON in UTF-8"),
        (b"{}x", "the end of the JSON text"),
        (b'{"a":[' + b"0," * 1_000_001 + b"0]}", "at most 1000000 values"),
    ],
)
def test_refuses_a_bad_header(refuse, header, message):
    assert message in refuse(files.safetensors_bytes(header))


@pytest.mark.parametrize("length", [0, 1, 3, 2**32 - 1, 2**63, 2**64 - 1, 100_000_001])
def test_refuses_a_lying_header_length(refuse, length):
    refuse(files.safetensors_bytes({"w": ONE}, bytes(8), length=length))


def test_refuses_every_truncation(refuse):
    tensors = {"a": files.stored(np.ones(3, np.float32)), "b": files.stored(np.ones(2, np.int64))}
    whole = files.safetensors_bytes(*files.safetensors_parts(tensors, {"k": "v"}))
    for size in range(len(whole)):
        refuse(whole[:size])
    refuse(whole + b"\0")


def test_names_with_odd_bytes_are_escaped_in_messages(refuse):
    assert "a\\x00\\x0ab: expected" in refuse(
        files.safetensors_bytes({"a\0\nb": ONE | {"shape": [7]}}, bytes(8))
    )
