"""No file, however wrong, does more than raise the library's own errors."""

import json
import struct
from pathlib import Path

import hypothesis
import pytest
import sam_rlx.errors
from hypothesis import strategies as st
from support import checkpoint_files as files
from support import gguf_files, sam3cpp_files
from support.cases import share

CORPUS = {
    path.stem: path.read_bytes() for path in Path(__file__).parents[1].glob("data/corpus/*.bin")
}
NUMBERS = st.sampled_from(
    [0, 1, 2, 7, 8, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63]
) | st.integers(0, 2**64 - 1)
SETTINGS = {"suppress_health_check": list(hypothesis.HealthCheck), "deadline": None}


@pytest.fixture(scope="module")
def attempt(testing, tmp_path_factory):
    """Open a file and use all that it yields: only errors of the library may come."""
    path = tmp_path_factory.mktemp("fuzz") / "file"

    def use(content):
        path.write_bytes(content)
        try:
            state_dict = testing.open_checkpoint(path)
            names = state_dict.keys()
            sizes = [state_dict[name].nbytes for name in names]
            state_dict.load([("weight", [2, 3]), ("w", [1])], strict=False)
        except (sam_rlx.errors.CheckpointError, sam_rlx.errors.UnsupportedError) as error:
            return str(error)
        except OSError:  # a shard index names files that are not there
            return str(path)
        # Two bits become 32.
        return str(path) if all(size <= 16 * len(content) for size in sizes) else ""

    def check(content):
        assert str(path) in use(content)

    return check


@pytest.mark.parametrize("name", CORPUS)
def test_the_seeds_are_what_they_say(testing, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(CORPUS[name])
    if name.startswith("good"):
        assert testing.open_checkpoint(path).keys()
        return
    with pytest.raises((sam_rlx.errors.CheckpointError, sam_rlx.errors.UnsupportedError)):
        testing.open_checkpoint(path)


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "number", "cut", "repeat", "insert", "truncate"]),
        st.floats(0, 1, exclude_max=True),
        NUMBERS,
        st.sampled_from([1, 2, 4, 8]),
    ),
    min_size=1,
    max_size=6,
)


def mutate(content, mutations):
    data = bytearray(content)
    for kind, position, number, width in mutations:
        at = int(position * len(data))
        part = number.to_bytes(8, "little")[:width]
        if kind == "flip" and data:
            data[at] ^= 1 << number % 8
        elif kind == "number":
            data[at : at + width] = part
        elif kind == "cut":
            del data[at : at + number % 64]
        elif kind == "repeat":
            data[at:at] = data[at : at + number % 256]
        elif kind == "insert":
            data[at:at] = part
        elif kind == "truncate":
            del data[at:]
    return bytes(data)


@hypothesis.given(st.sampled_from(sorted(CORPUS)), MUTATIONS)
@hypothesis.settings(max_examples=share(2500), **SETTINGS)
def test_mutated_files(attempt, seed, mutations):
    attempt(mutate(CORPUS[seed], mutations))


SIZES = st.lists(st.integers(0, 4) | st.integers(-(2**64), 2**64), max_size=3)
JSON_VALUES = st.none() | st.booleans() | SIZES | st.text(max_size=3) | st.floats()
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "dtype": st.sampled_from([*files.ITEM_SIZE, "F8_E4M3"]) | JSON_VALUES,
        "shape": SIZES | JSON_VALUES,
        "data_offsets": st.tuples(st.integers(0, 16), st.integers(0, 16)) | SIZES | JSON_VALUES,
        "more": JSON_VALUES,
    },
)
HEADERS = st.dictionaries(st.sampled_from(["w", "module.w", "__metadata__"]), ENTRIES)


@hypothesis.given(HEADERS, st.binary(max_size=16), st.none() | NUMBERS)
@hypothesis.settings(max_examples=share(1000), **SETTINGS)
def test_structured_safetensors(attempt, header, data, length):
    attempt(files.safetensors_bytes(json.dumps(header).encode(), data, length))


GGUF_VALUES = st.recursive(
    st.booleans() | st.integers(0, 9) | st.text(max_size=3) | st.floats(width=32),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
) | st.builds(gguf_files.Value, st.integers(0, 14), st.binary(max_size=24))
GGUF_TENSORS = st.builds(
    gguf_files.Tensor,
    st.sampled_from([*gguf_files.TYPES, 4, 99]),
    st.lists(st.sampled_from([0, 1, 2, 3, 32, 256, 512]) | NUMBERS, max_size=5),
    st.binary(max_size=64) | st.sampled_from([bytes(84), bytes(210), bytes(292)]),
    st.none() | st.integers(0, 256) | NUMBERS,
)
GGUF_KEYS = st.sampled_from(["sam.naming", "sam.conv_1x1", "sam.config", "general.alignment"])


@hypothesis.given(
    st.dictionaries(st.sampled_from(["w", "v.w", "p."]), GGUF_TENSORS, max_size=2),
    st.dictionaries(GGUF_KEYS, GGUF_VALUES, max_size=3),
    st.none() | st.tuples(NUMBERS, NUMBERS),
)
@hypothesis.settings(max_examples=share(1500), **SETTINGS)
def test_structured_gguf(attempt, tensors, metadata, counts):
    attempt(gguf_files.gguf_bytes(tensors, metadata, counts=counts))


SETTING_NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 8, 64, -1, 2**31 - 1, -(2**31)])
SETTINGS_CHANGES = st.dictionaries(
    st.sampled_from(
        ["visual_only", "n_global_attn", "text_vocab_size", "img_size", "backbone_type"]
    ),
    SETTING_NUMBERS,
)
GGML_TENSORS = st.builds(
    gguf_files.Tensor,
    st.sampled_from([*gguf_files.TYPES, 4]),
    st.lists(st.sampled_from([0, 1, 2, 3, 32, 256, -1, 2**31 - 1]), max_size=5),
    st.binary(max_size=64) | st.sampled_from([bytes(84), bytes(210), bytes(292)]),
    st.none(),
    st.none() | SETTING_NUMBERS,
)


@hypothesis.given(
    st.sampled_from(["sam2", "sam3"]),
    SETTINGS_CHANGES,
    st.dictionaries(st.sampled_from(["w", "hiera.patch_embed.weight"]), GGML_TENSORS, max_size=2),
    st.binary(max_size=24) | st.just(sam3cpp_files.tokenizer_bytes(["a"], [("a", "a")])),
)
@hypothesis.settings(max_examples=share(1000), **SETTINGS)
def test_structured_ggml(attempt, family, settings, tensors, tail):
    attempt(sam3cpp_files.ggml_bytes(family, settings, tensors, tail=tail))


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([2**31, 2**62, 2**70])
GLOBALS = st.sampled_from(
    [
        files.ORDERED_DICT,
        files.REBUILD,
        files.Global("torch._utils", "_rebuild_parameter"),
        files.Global("torch", "FloatStorage"),
        files.Global("torch", "HalfStorage"),
        files.Global("torch", "ComplexFloatStorage"),
        files.Global("os", "system"),
    ]
)
TEXTS = st.sampled_from(["storage", "0", "cpu", "w", "model", "state_dict"])
OPCODES = st.sampled_from(
    [bytes([code]) for code in b"N.()]}tuseaRbQ\x85\x86\x87\x88\x89\x93\x94"]
    + [b"q\x00", b"q\x01", b"h\x00", b"h\x01", b"r\xff\xff\xff\xff", b"j\xff\xff\xff\xff"]
).map(files.Raw)
SHAPES = st.lists(st.integers(0, 3) | NUMBERS, max_size=3).map(tuple)
STORAGE_IDS = st.builds(
    lambda kind, count: files.Persistent(("storage", kind, "0", "cpu", count)),
    GLOBALS,
    st.sampled_from([0, 3, 6, 12]) | NUMBERS,
)
TENSOR_CALLS = st.builds(
    lambda storage, offset, shape, stride: files.Call(
        files.REBUILD, (storage, offset, shape, stride, False, None)
    ),
    STORAGE_IDS,
    st.integers(0, 6) | NUMBERS,
    SHAPES,
    SHAPES,
)
LEAVES = SCALARS | GLOBALS | TEXTS | OPCODES | TENSOR_CALLS
PICKLES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=6).map(tuple),
        st.dictionaries(TEXTS, inner, max_size=4),
        st.builds(files.Call, GLOBALS, st.lists(inner, max_size=6).map(tuple)),
        st.builds(files.Persistent, st.lists(inner, max_size=6).map(tuple)),
    ),
    max_leaves=8,
)
DICTS = st.dictionaries(TEXTS, TENSOR_CALLS | PICKLES, max_size=3)


@hypothesis.given(DICTS | PICKLES, st.booleans())
@hypothesis.settings(max_examples=share(1500), **SETTINGS)
def test_structured_pickles(attempt, value, legacy):
    storages = files.Storages({"0": bytes(24)}, {"0": 6})
    if legacy:
        attempt(files.legacy_bytes({}, value, storages))
    else:
        attempt(files.zip_bytes(files.torch_entries(value, storages), align=1))


FIELDS = st.lists(st.tuples(st.integers(0, 120), st.sampled_from("HIQ"), NUMBERS), max_size=4)


@hypothesis.given(
    st.booleans(), st.sampled_from([b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"]), FIELDS
)
@hypothesis.settings(max_examples=share(1000), **SETTINGS)
def test_structured_zip_records(attempt, zip64, record, fields):
    storages = files.Storages()
    entries = files.torch_entries({"w": 1}, storages, folder="a")
    data = bytearray(files.zip_bytes(entries, align=1, zip64=zip64))
    start = data.index(record) if record != b"PK\x05\x06" or not zip64 else len(data) - 98
    for offset, layout, number in fields:
        at = start + offset
        if at + 8 <= len(data):
            struct.pack_into(f"<{layout}", data, at, number % 2 ** (8 * struct.calcsize(layout)))
    attempt(bytes(data))
