"""GGUF files: what the format allows is read as ggml reads it, everything else is refused."""

import struct

import numpy as np
import pytest
import sam_rlx.errors
from support import gguf_files as files
from support.gguf_files import Tensor, Value, gguf_bytes

W = np.arange(6, dtype=np.float32).reshape(2, 3)
ONE = {"w.weight": files.tensor(W)}


@pytest.fixture
def opened(testing, tmp_path):
    def read(content):
        path = tmp_path / "x.gguf"
        path.write_bytes(content)
        return testing.open_checkpoint(path)

    return read


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("kind", [kind for kind in files.PACKED if kind != "Q8_K"])
def test_blocks_are_unpacked_as_ggml_does(opened, kind):
    gguf = pytest.importorskip("gguf")
    blocks = files.random_blocks(kind, 7, 768)
    state_dict = opened(gguf_bytes({"w": Tensor(kind, (7, 768), blocks.tobytes())}))
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    assert state_dict.dtypes() == {"w": kind}
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(state_dict["w"].view(np.uint32), expected.view(np.uint32))


def test_blocks_of_q8_k_are_a_scale_times_bytes(opened):
    blocks = files.random_blocks("Q8_K", 3, 512)
    state_dict = opened(gguf_bytes({"w": Tensor("Q8_K", (3, 512), blocks.tobytes())}))
    parts = blocks.reshape(6, 292)
    scales = np.ascontiguousarray(parts[:, :4]).view(np.float32)
    expected = scales * parts[:, 4:260].view(np.int8).astype(np.float32)
    np.testing.assert_array_equal(state_dict["w"], expected.reshape(3, 512))


def test_agrees_with_the_gguf_package(testing, tmp_path):
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(1)
    path = tmp_path / "x.gguf"
    writer = gguf.GGUFWriter(path, "sam2")
    writer.add_string("sam2.variant", "größe")
    writer.add_uint64("sam2.image_size", 1024)
    writer.add_array("sam2.image_mean", [0.5, 0.25, 0.125])
    writer.add_array("tokenizer.ggml.tokens", ["a", "bc"])
    expected = {}
    for kind in ("F32", "F16", "BF16", "Q4_0", "Q8_0"):
        array = rng.standard_normal((3, 2, 64)).astype(np.float32)
        type_ = gguf.GGMLQuantizationType[kind]
        packed = gguf.quants.quantize(array, type_)
        expected[kind] = gguf.quants.dequantize(packed, type_).reshape(array.shape)
        writer.add_tensor(kind, packed, raw_dtype=None if kind in ("F32", "F16") else type_)
    expected["steps"] = np.array([5, -7], np.int64)
    writer.add_tensor("steps", expected["steps"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    state_dict = testing.open_checkpoint(path)
    assert state_dict.keys() == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(state_dict[name], value.astype(np.float32))
    assert state_dict.metadata == {
        "general.architecture": "sam2",
        "family": "sam2",
        "sam2.variant": "größe",
        "variant": "größe",
        "sam2.image_size": "1024",
    }


# ---------------------------------------------------------------- metadata


def test_every_type_of_value_is_read(opened):
    numbers = [
        (0, "<B", 255),
        (1, "<b", -128),
        (2, "<H", 65535),
        (3, "<h", -32768),
        (4, "<I", 2**32 - 1),
        (5, "<i", -(2**31)),
        (6, "<f", 0.5),
        (10, "<Q", 2**64 - 1),
        (11, "<q", -(2**63)),
        (12, "<d", 0.1),
    ]
    metadata = {f"k{kind}": Value(kind, struct.pack(form, x)) for kind, form, x in numbers}
    lists = {
        f"l{kind}": Value(9, struct.pack("<IQ", kind, 3) + metadata[f"k{kind}"].data * 3)
        for kind, _, _ in numbers
    }
    nested = Value(9, struct.pack("<IQ", 9, 2) + lists["l0"].data + lists["l12"].data)
    content = gguf_bytes({}, {**metadata, **lists, "n": nested, "yes": True, "no": False})
    found = opened(content).metadata
    for kind, _, x in numbers:
        assert found[f"k{kind}"] == str(x)
    assert (found["yes"], found["no"]) == ("true", "false")
    whole = {f"l{kind}": f"[{x}, {x}, {x}]" for kind, _, x in numbers if kind not in (6, 12)}
    assert {key: value for key, value in found.items() if key.startswith("l")} == whole
    assert "n" not in found


def test_long_lists_are_read_over(opened):
    values = {str(n): list(range(n)) for n in (0, 64, 65)}
    found = opened(gguf_bytes({}, values)).metadata
    assert found["0"] == "[]"
    assert found["64"] == str(list(range(64)))
    assert "65" not in found


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("alignment", [None, 1, 8, 64, 4096])
def test_versions_and_alignments(opened, version, alignment):
    metadata = {} if alignment is None else {"general.alignment": alignment}
    tensors = {"a": files.tensor(W[0]), "empty": files.tensor(W[:0]), "b": files.tensor(W)}
    content = gguf_bytes(tensors, metadata, version=version, alignment=alignment or 32)
    for tail in {b"", bytes(-len(content) % (alignment or 32))}:
        state_dict = opened(content + tail)
        assert state_dict.keys() == ["a", "empty", "b"]
        np.testing.assert_array_equal(state_dict["a"], W[0])
        np.testing.assert_array_equal(state_dict["b"], W)
        assert state_dict["empty"].shape == (0, 3)


def test_tensors_may_lie_in_another_order(opened):
    tensors = {
        "a": Tensor("F32", (3,), bytes(32), offset=32),
        "b": Tensor("F32", (2, 3), W.tobytes(), offset=0),
    }
    content = gguf_bytes(tensors)
    np.testing.assert_array_equal(opened(content)["a"], np.frombuffer(content[-24:-12], "f4"))


def test_a_foreign_model_is_refused_by_name(testing, tmp_path):
    for found in ("llama", "mobile-sam2"):
        path = tmp_path / "x.gguf"
        path.write_bytes(gguf_bytes(ONE, {"general.architecture": found}))
        with pytest.raises(
            sam_rlx.errors.UnsupportedError,
            match=f"general.architecture: expected sam, sam2 or sam3, found {found}",
        ):
            testing.open_checkpoint(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 1}, "expected GGUF of version 2 or 3, little-endian, found version 1"),
        ({"version": 4}, "found version 4"),
        ({"version": 3 << 24}, "found a big-endian file"),
        (
            {"tensors": {"q": Tensor(4, (32,), bytes(20))}},
            "q: expected type F64, F32, .* ggml type 4$",
        ),
        ({"tensors": {"q": Tensor(20, (32,), bytes(18))}}, r"found ggml type 20 \(IQ4_NL\)$"),
        (
            {"metadata": {"sam.naming": "short-2"}},
            "naming: expected meta or short-1, found short-2",
        ),
    ],
)
def test_other_kinds_of_gguf_are_unsupported(testing, tmp_path, change, message):
    path = tmp_path / "x.gguf"
    path.write_bytes(gguf_bytes(**{"tensors": ONE, **change}))
    with pytest.raises(sam_rlx.errors.UnsupportedError, match=message):
        testing.open_checkpoint(path)


# ---------------------------------------------------------------- hostile files


def test_refuses_every_truncation(refuse):
    tensors = {**ONE, "q": Tensor("Q8_0", (1, 32), bytes(34))}
    metadata = {"sam.list": ["a", "b"], "sam.flag": True, "sam.sizes": [1, 2]}
    whole = gguf_bytes(tensors, metadata)
    for size in range(4, len(whole)):
        refuse(whole[:size])
    refuse(whole + bytes(31))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Value(13, b""), "a type of value from 0 to 12, found 13"),
        (Value(7, b"\2"), "0 or 1 as a truth value, found 2"),
        (Value(8, struct.pack("<Q", 2**63)), "at most 67108864 bytes of text"),
        (Value(8, struct.pack("<Q", 1000)), "1000 more bytes"),
        (Value(8, files.text(b"\xff")), "text in UTF-8"),
        (Value(9, struct.pack("<IQ", 0, 2**64 - 1)), "a list that fits the file"),
        (Value(9, struct.pack("<IQ", 12, 2**61)), "a list that fits the file"),
        (Value(9, struct.pack("<IQ", 8, 1) + struct.pack("<Q", 2**64 - 1)), "text"),
        (Value(9, struct.pack("<IQ", 99, 1)), "a type of value"),
        (Value(9, struct.pack("<IQ", 9, 1) * 6), "at most 4 levels of lists"),
    ],
)
def test_refuses_a_lying_value(refuse, value, message):
    assert message in refuse(gguf_bytes({}, {"sam.bad": value}) + bytes(40))


@pytest.mark.parametrize("alignment", [0, 3, 2**17, 2**31, True, "32"])
def test_refuses_a_bad_alignment(refuse, alignment):
    assert "a power of two" in refuse(gguf_bytes(ONE, {"general.alignment": alignment}))


def test_refuses_keys_and_names_that_are_there_twice(refuse):
    content = gguf_bytes(ONE, {"sam.k": 1, "sam.l": 2}).replace(b"sam.l", b"sam.k")
    assert "sam.k: expected one value of this key, found two" in refuse(content)
    content = gguf_bytes({"a": files.tensor(W), "b": files.tensor(W)})
    content = content.replace(files.text("b"), files.text("a"))
    assert "a: expected one tensor of this name, found two" in refuse(content)


@pytest.mark.parametrize("counts", [(2**63, 1), (1, 2**63), (2, 1), (1, 3), (2**64 - 1, 2**64 - 1)])
def test_refuses_lying_counts(refuse, counts):
    refuse(gguf_bytes(ONE, counts=counts))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (3, 3)}, "expected 36 bytes from byte 0, found 24 bytes"),
        ({"shape": (2**62,)}, "fits 63 bits"),
        ({"shape": (2**32, 2**32)}, "fits 63 bits"),
        ({"shape": (2**63,)}, "sizes that fit 63 bits"),
        ({"shape": (0, 2**63)}, "sizes that fit 63 bits"),
        ({"shape": (2**62, 2**62, 0)}, "fits 63 bits"),
        ({"shape": (1, 1, 1, 2, 3)}, "expected at most 4 axes, found 5"),
        ({"rank": 2**32 - 1}, "expected at most 4 axes"),
        ({"type": "Q8_0"}, "rows of whole blocks of 32 numbers for Q8_0, found shape (2, 3)"),
        ({"type": "Q4_K", "shape": ()}, "rows of whole blocks of 256"),
        ({"offset": 32}, "expected data from byte 0, found data from byte 32"),
        ({"offset": 2**64 - 32}, "expected data from byte 0"),
        ({"offset": 4}, "expected data from byte 0"),
    ],
)
def test_refuses_a_lying_tensor(refuse, change, message):
    fields = {"type": "F32", "shape": (2, 3), "data": W.tobytes()}
    text = refuse(gguf_bytes({"w.weight": Tensor(**{**fields, **change})}))
    assert "w.weight" in text
    assert message in text


@pytest.mark.parametrize("offset", [0, 4, 24, 64])
def test_refuses_overlaps_and_holes(refuse, offset):
    tensors = {**ONE, "b": Tensor("F32", (2, 3), bytes(100), offset=offset)}
    assert "expected data from byte 32" in refuse(gguf_bytes(tensors))


def test_refuses_data_without_a_tensor(refuse):
    assert "bytes of tensor data, found" in refuse(gguf_bytes(ONE) + bytes(64))


def test_refuses_a_name_that_is_no_text(refuse):
    assert "text in UTF-8" in refuse(gguf_bytes(ONE).replace(b"w.weight", b"w.\xffeight"))
    assert "at most 1024 bytes" in refuse(gguf_bytes({"w" * 1025: files.tensor(W)}))


def test_refuses_a_file_without_an_architecture(refuse):
    content = gguf_bytes(ONE).replace(b"general.arch", b"general.hcra")
    assert "general.architecture: expected sam, sam2 or sam3, found none" in refuse(content)


# ---------------------------------------------------------------- shapes and names


@pytest.mark.parametrize("side", [1, 2, 3, 16])
def test_listed_convolutions_get_their_axes_back(opened, refuse, side):
    shape = (5, 64, side, side)
    blocks = files.random_blocks("Q8_0", 5, 64 * side**2)
    tensors = {"v.neck.0.weight": Tensor("Q8_0", (5, 64 * side**2), blocks.tobytes()), **ONE}
    metadata = {f"sam.conv_{side}x{side}": ["v.neck.0.weight"], "sam.naming": "short-1"}
    state_dict = opened(gguf_bytes(tensors, metadata))
    kernel = state_dict["image_encoder.neck.0.weight"]
    assert kernel.shape == shape
    assert state_dict["w.weight"].shape == (2, 3)
    del metadata[f"sam.conv_{side}x{side}"]
    matrix = opened(gguf_bytes(tensors, metadata))["image_encoder.neck.0.weight"]
    np.testing.assert_array_equal(kernel, matrix.reshape(shape))


@pytest.mark.parametrize(
    ("shape", "side"), [((3,), 1), ((2, 3, 4), 1), ((2, 10), 3), ((2, 3, 1, 1), 1)]
)
def test_refuses_convolutions_that_are_no_matrices_of_kernels(refuse, shape, side):
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    content = gguf_bytes(
        {"neck.weight": files.tensor(values)}, {f"sam.conv_{side}x{side}": ["neck.weight"]}
    )
    expected = f"neck.weight: expected a matrix of kernels of {side**2} numbers, found shape"
    assert expected in refuse(content)


def test_parts_of_packed_tensors_are_whole_blocks(testing, tmp_path):
    """The table of points of transformers' SAM 2 is cut into four."""
    path = tmp_path / "x.gguf"
    for shape, fits in (((4, 64), True), ((4 * 8,), False)):
        blocks = files.random_blocks("Q8_0", 1, int(np.prod(shape)))
        tensors = {
            "vision_encoder.backbone.pos_embed_window": files.tensor(W),
            "prompt_encoder.point_embed.weight": Tensor("Q8_0", shape, blocks.tobytes()),
        }
        path.write_bytes(gguf_bytes(tensors, {"general.architecture": "sam2"}))
        state_dict = testing.open_checkpoint(path)
        if not fits:
            with pytest.raises(sam_rlx.errors.CheckpointError, match="parts of whole blocks"):
                state_dict.to_meta_names()
            continue
        whole = state_dict["prompt_encoder.point_embed.weight"]
        state_dict.to_meta_names()
        for i in range(4):
            part = state_dict[f"sam_prompt_encoder.point_embeddings.{i}.weight"]
            np.testing.assert_array_equal(part, whole[i : i + 1])


# ---------------------------------------------------------------- several files


def split(number, count, **more):
    pairs = {"split.no": Value(2, struct.pack("<H", number))}
    pairs["split.count"] = Value(2, struct.pack("<H", count))
    return pairs | {f"split.{key}": value for key, value in more.items()}


def write_parts(folder, *metadata):
    for i, pairs in enumerate(metadata):
        path = folder / f"x-{i + 1:05}-of-{len(metadata):05}.gguf"
        path.write_bytes(gguf_bytes({f"part{i}.weight": files.tensor(W + i)}, pairs))
    return folder / f"x-00001-of-{len(metadata):05}.gguf"


def test_the_first_of_several_files_stands_for_all(testing, tmp_path):
    tensors = {"tensors.count": Value(5, struct.pack("<i", 3))}
    first = write_parts(tmp_path, split(0, 3, **tensors), split(1, 3), split(2, 3))
    for source in (first, tmp_path):
        state_dict = testing.open_checkpoint(source)
        assert state_dict.keys() == ["part0.weight", "part1.weight", "part2.weight"]
        for i in range(3):
            np.testing.assert_array_equal(state_dict[f"part{i}.weight"], W + i)


def test_files_that_the_gguf_package_splits(testing, tmp_path):
    """Only the first of them has metadata, and in this case no tensors."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(
        tmp_path / "x.gguf", "sam2", split_max_tensors=2, small_first_shard=True
    )
    writer.add_string("sam2.naming", "short-1")
    writer.add_array("sam2.conv_1x1", ["vn.0.conv.weight"])
    blocks = files.random_blocks("Q8_0", 3, 64)
    arrays = {f"v.blocks.{i}.norm1.weight": W[0] + i for i in range(4)}
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.add_tensor("vn.0.conv.weight", blocks, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert len(list(tmp_path.glob("x-*-of-00004.gguf"))) == 4
    state_dict = testing.open_checkpoint(tmp_path)
    assert len(state_dict.keys()) == 5
    for i in range(4):
        found = state_dict[f"image_encoder.trunk.blocks.{i}.norm1.weight"]
        np.testing.assert_array_equal(found, W[0] + i)
    assert state_dict["image_encoder.neck.convs.0.conv.weight"].shape == (3, 64, 1, 1)


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ([split(1, 2), split(0, 2)], r"split\.no: expected 0 of 2 files, found 1"),
        ([split(0, 2), split(0, 2)], r"split\.no: expected 1 of 2 files, found 0"),
        ([split(0, 2), split(1, 3)], r"split\.count: expected 2, found 3"),
        ([split(0, 2), {}], r"split\.no: expected 1 of 1 files, found 0"),
        ([split(0, 3), split(1, 3)], "expected a name that ends in -00001-of-00003.gguf"),
        ([split(0, 2, **{"tensors.count": 3}), split(1, 2)], "expected 3 tensors in all files"),
        ([split(0, 1001), split(1, 1001)], "expected at most 1000 files, found 1001"),
        ([{"split.count": "two"}, {}], r"split\.count: expected a whole number, found two"),
        ([{"split.count": Value(5, struct.pack("<i", -1))}, {}], "a whole number, found -1"),
    ],
)
def test_files_that_do_not_belong_together(testing, tmp_path, metadata, found):
    with pytest.raises(sam_rlx.errors.CheckpointError, match=found):
        testing.open_checkpoint(write_parts(tmp_path, *metadata))


def test_a_part_that_is_not_there(testing, tmp_path):
    first = write_parts(tmp_path, split(0, 2), split(1, 2))
    (tmp_path / "x-00002-of-00002.gguf").unlink()
    with pytest.raises(FileNotFoundError, match="x-00002-of-00002"):
        testing.open_checkpoint(first)
