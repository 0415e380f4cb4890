"""Files of sam3.cpp: what the format allows is read, everything else is refused."""

import struct

import numpy as np
import pytest
import sam_rlx.errors
from support import gguf_files
from support import sam3cpp_files as files
from support.gguf_files import Tensor
from support.sam3cpp_files import ggml_bytes

W = np.arange(6, dtype=np.float32).reshape(2, 3)
TENSORS = {"w": gguf_files.tensor(W), "größe": gguf_files.tensor(W[0])}
VISUAL = {"visual_only": 1, "text_vocab_size": 3, "n_global_attn": 4}
TEXT = VISUAL | {"visual_only": 0}
WORDS = files.tokenizer_bytes(["a", "b</w>", "ö"], [("a", "b</w>")])


@pytest.fixture
def opened(testing, tmp_path):
    def read(content):
        path = tmp_path / "x"
        path.write_bytes(content)
        return testing.open_checkpoint(path)

    return read


@pytest.mark.parametrize(
    ("family", "settings", "tail"),
    [("sam2", {}, b""), ("sam3", VISUAL, b""), ("sam3", TEXT, WORDS)],
)
def test_tensors_and_settings(opened, family, settings, tail):
    state_dict = opened(ggml_bytes(family, settings, TENSORS, tail=tail))
    assert state_dict.keys() == ["w", "größe"]
    np.testing.assert_array_equal(state_dict["w"], W)
    np.testing.assert_array_equal(state_dict["größe"], W[0])
    found = {"family": family, "sam3.version": str(files.VERSION[family]), "sam3.ftype": "0"}
    assert found.items() <= state_dict.metadata.items()


def test_every_setting_has_its_position(opened):
    for family in ("sam2", "sam3"):
        settings, number = {}, 100
        for name, count in files.layout(family, {}):
            settings[name] = list(range(number, number + count)) if count > 1 else number
            number += count
        settings |= {"n_global_attn": 4, "visual_only": 1, "backbone_type": -1}
        found = opened(ggml_bytes(family, settings, TENSORS)).metadata
        for name, _ in files.layout(family, settings):
            assert found[f"sam3.hparams.{name}"] == str(settings[name]), name


@pytest.mark.parametrize("kind", ["F16", *gguf_files.PACKED])
def test_every_type(opened, kind):
    cols = max(gguf_files.TYPES[kind][1], 32)
    if kind == "F16":
        data = np.arange(2 * cols, dtype=np.float16).tobytes()
    else:
        data = gguf_files.random_blocks(kind, 2, cols).tobytes()
    tensors = {"w": Tensor(kind, (2, cols), data)}
    state_dict = opened(ggml_bytes("sam2", {}, tensors))
    assert state_dict.dtypes() == {"w": kind}
    found = state_dict["w"]
    expected = opened(gguf_files.gguf_bytes(tensors))["w"]
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("family", ["sam2", "sam3"])
def test_refuses_every_truncation(refuse, family):
    tail = WORDS if family == "sam3" else b""
    whole = ggml_bytes(family, TEXT, TENSORS, tail=tail)
    for size in range(4, len(whole)):
        refuse(whole[:size])
    refuse(whole + b"\0")


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (Tensor("F32", (1,), bytes(4), rank=5), "a number of axes of 0 to 4, found 5"),
        (Tensor("F32", (1,), bytes(4), rank=-1), "a number of axes of 0 to 4, found -1"),
        (Tensor("F32", (-1,), bytes(4)), "w: expected sizes of axes, found (-1,)"),
        (Tensor("F32", (2**31 - 1,) * 4, bytes(4)), "w: expected a shape whose size fits 63 bits"),
        (Tensor("F32", (2**31 - 1,), bytes(4)), "more bytes"),
        (Tensor("Q4_0", (33,), bytes(36)), "w: expected rows of whole blocks of 32 numbers"),
        (Tensor("Q4_0", (), bytes(36)), "w: expected rows of whole blocks of 32 numbers"),
    ],
)
def test_refuses_a_lying_tensor(refuse, tensor, message):
    assert message in refuse(ggml_bytes("sam2", {}, {"w": tensor}))


def test_refuses_bad_names(refuse):
    content = ggml_bytes("sam2", {}, {"w" * 8: gguf_files.tensor(W)})
    start = content.index(b"w" * 8)
    assert "names in UTF-8" in refuse(content.replace(b"w" * 8, b"\xff" * 8))
    for length in (-1, 1025, 2**31 - 1):
        lying = bytearray(content)
        struct.pack_into("<i", lying, start - 16, length)
        assert "the length of a name of 0 to 1024" in refuse(bytes(lying))


@pytest.mark.parametrize("count", [-1, 3, 2**31 - 1])
def test_refuses_a_lying_count(refuse, count):
    refuse(ggml_bytes("sam2", {}, TENSORS, count=count))


def test_refuses_a_second_tensor_of_a_name(refuse):
    content = ggml_bytes("sam2", {}, {"aa": TENSORS["w"], "bb": TENSORS["w"]})
    assert "one tensor of this name, found two" in refuse(content.replace(b"bb", b"aa"))


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (files.tokenizer_bytes(["a", "b", "c"], magic=7), "at its beginning"),
        (files.tokenizer_bytes(["a", "b"]), "tokenizer: expected 3 words, found 2"),
        (struct.pack("<Ii", files.TOKENIZER, -1), "a number of texts of 0 to 1048576, found -1"),
        (struct.pack("<Ii", files.TOKENIZER, 2**31 - 1), "a number of texts"),
        (struct.pack("<Iii", files.TOKENIZER, 1, 2**31 - 1), "the length of a text"),
        (WORDS + b"x", "1 more bytes"),
    ],
)
def test_refuses_a_lying_tokenizer(refuse, tail, message):
    assert message in refuse(ggml_bytes("sam3", TEXT, TENSORS, tail=tail))


@pytest.mark.parametrize(("family", "name"), [("sam2", "SAM 2"), ("sam3", "SAM 3")])
def test_other_versions_are_unsupported(opened, family, name):
    content = ggml_bytes(family, VISUAL, TENSORS, version=2)
    with pytest.raises(
        sam_rlx.errors.UnsupportedError, match=f"file of {name} of version ., found version 2"
    ):
        opened(content)
    tensors = {"w": Tensor(4, (32,), bytes(64))}
    with pytest.raises(
        sam_rlx.errors.UnsupportedError, match=r"w: expected type F64, F32, .*type 4$"
    ):
        opened(ggml_bytes(family, VISUAL, tensors))
