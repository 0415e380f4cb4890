"""PyTorch archives: a state dict in any of its forms is read, every other pickle is refused."""

import struct

import numpy as np
import pytest
import sam_rlx.errors
from support import checkpoint_files as files
from support.checkpoint_files import Call, Global, Persistent, Raw

WEIGHT = np.arange(6, dtype=np.float32).reshape(2, 3)


def archive(value, storages=None, **options):
    return files.zip_bytes(files.torch_entries(value, storages or files.Storages(), **options))


@pytest.fixture
def read(testing, tmp_path):
    def open_bytes(content):
        path = tmp_path / "x.pth"
        path.write_bytes(content)
        return testing.open_checkpoint(path)

    return open_bytes


@pytest.mark.parametrize("wrap", [None, "model", "state_dict"])
@pytest.mark.parametrize("folder", ["archive", "sam_vit_b_01ec64", "a/b", "ü"])
def test_reads_a_state_dict_in_its_forms(read, wrap, folder):
    storages = files.Storages()
    value = files.state_dict_value({"w": files.stored(WEIGHT)}, storages)
    extra = {"epoch": 3, "lr": 1e-4, "best": None, "betas": (0.9, [1, True]), "big": 2**80}
    state_dict = read(archive({wrap: value} | extra if wrap else value, storages, folder=folder))
    np.testing.assert_array_equal(state_dict["w"], WEIGHT)


def test_values_that_are_no_tensors_are_reported(read):
    storages = files.Storages()
    value = {"w": storages.tensor(files.stored(WEIGHT)), "version": 2, "model": "vit_b"}
    state_dict = read(archive(value, storages))
    assert state_dict.keys() == ["w"]
    assert state_dict.skipped == ["version: not a tensor", "model: not a tensor"]


def test_parameters_are_unwrapped(read):
    storages = files.Storages()
    tensor = storages.tensor(files.stored(WEIGHT))
    parameter = Call(Global("torch._utils", "_rebuild_parameter"), (tensor, True, None))
    np.testing.assert_array_equal(read(archive({"w": parameter}, storages))["w"], WEIGHT)


def test_storages_may_be_shared(read):
    storages = files.Storages()
    value = {"a": storages.tensor(files.stored(WEIGHT))}
    value["b"] = storages.view(files.Stored("F32", b"", (3,), (2,)), "0", 6)
    value["c"] = storages.view(files.stored(WEIGHT), "0", 6)
    state_dict = read(archive(value, storages))
    np.testing.assert_array_equal(state_dict["b"], [0, 2, 4])
    np.testing.assert_array_equal(state_dict["c"], WEIGHT)


def test_newer_protocols_are_read(read):
    """Protocol 4: frames, short strings, the memo by position, globals from the stack."""
    text = lambda value: b"\x8c" + bytes([len(value)]) + value.encode() + b"\x94"  # noqa: E731
    items = b"(" + text("version") + b"K\x01u"
    body = text("collections") + text("OrderedDict") + b"\x93\x94)R\x94" + items + b"h\x02."
    frame = b"\x80\x04\x95" + struct.pack("<Q", len(body)) + body
    with pytest.raises(sam_rlx.errors.CheckpointError, match="expected a state dict"):
        read(files.zip_bytes([("a/data.pkl", frame)]))
    body = body.replace(b"h\x02.", b".")
    frame = b"\x80\x04\x95" + struct.pack("<Q", len(body)) + body
    assert read(files.zip_bytes([("a/data.pkl", frame)])).skipped == ["version: not a tensor"]


EVIL = {
    "os.system": Call(Global("os", "system"), ("touch pwned",)),
    "posix.system": Call(Global("posix", "system"), ("touch pwned",)),
    "builtins.eval": Call(Global("builtins", "eval"), ("1",)),
    "builtins.getattr": Call(Global("builtins", "getattr"), ("a", "b")),
    "__builtin__.exec": Call(Global("__builtin__", "exec"), ("1",)),
    "torch.load": Call(Global("torch", "load"), ("x",)),
    "torch.hub.load": Global("torch.hub", "load"),
    "torch._utils._rebuild_tensor_v2.__globals__": Global(
        "torch._utils", "_rebuild_tensor_v2.__globals__"
    ),
    "argparse.Namespace": Call(Global("argparse", "Namespace")),
    "numpy.core.multiarray.scalar": Global("numpy.core.multiarray", "scalar"),
    "torch.QInt8Storage": Global("torch", "QInt8Storage"),
    "\\x00\\x1b[2J.x": Global("\0\x1b[2J", "x"),
}


@pytest.mark.parametrize("name", EVIL)
def test_refuses_every_other_global_by_name(refuse, name):
    assert f"found the global {name}" in refuse(archive({"w": EVIL[name]}))
    assert "found the global" in refuse(files.legacy_bytes({}, {"w": EVIL[name]}, files.Storages()))


def stack_global(module, name):
    return Raw(files.opcodes(module) + files.opcodes(name) + b"\x93")


BAD_PICKLES = {
    "evil from the stack": (stack_global("os", "system"), "the global os.system"),
    "global of numbers": (Raw(b"K\x01K\x02\x93"), "the name of a global"),
    "call of a string": (Raw(files.opcodes("x") + b")R"), "a global to call"),
    "call without tuple": (Raw(files.opcodes(files.ORDERED_DICT) + b"NR"), "a tuple of arguments"),
    "attributes of a dict": (Raw(b"}}b"), "attributes for an OrderedDict only"),
    "attributes of a tensor": (
        Raw(files.opcodes(Call(files.REBUILD)) + b"}b"),
        "attributes for an OrderedDict only",
    ),
    "state that is no dict": (Raw(files.opcodes(Call(files.ORDERED_DICT)) + b"Nb"), "a dict of"),
    "arguments of an OrderedDict": (Call(files.ORDERED_DICT, ([],)), "without arguments"),
    "no value": (Raw(b"0"), "opcode 48"),
    "unmarked tuple": (Raw(b"t"), "a mark on the stack"),
    "append to a dict": (Raw(b"}Na"), "a list to append to"),
    "item of a list": (Raw(b"]NNs"), "a dict to set items of"),
    "key without value": (Raw(b"}(Nu"), "a key without a value"),
    "unknown memo": (Raw(b"h\x05"), "a remembered value"),
    "put of nothing": (Raw(b"q\x05"), "a value to remember"),
    "value below a mark": (Raw(b"N(a"), "a value on the stack"),
    "text that is no text": (Raw(b"X\x01\0\0\0\xff"), "text in UTF-8"),
    "text of huge length": (Raw(b"X\xff\xff\xff\xff"), "more bytes"),
    "text of huger length": (Raw(b"\x8d" + b"\xff" * 8), "more bytes"),
    "frame of huge length": (Raw(b"\x95" + b"\xff" * 8), "a frame of at most"),
    "endless global": (Raw(b"c" + b"a" * 1000), "at most 256 bytes"),
    "protocol 1": (Raw(b"\x80\x01"), "protocol 2 to 5"),
    "instance": (Raw(b"(cos\nsystem\no"), "the global os.system"),
    "INST": (Raw(b"(ios\nsystem\n"), "opcode 105"),
    "NEWOBJ": (Raw(b")\x81"), "opcode 129"),
    "EXT1": (Raw(b"\x82\x01"), "opcode 130"),
    "PERSID": (Raw(b"Pa\n"), "opcode 80"),
    "BYTEARRAY8": (Raw(b"\x96"), "opcode 150"),
    "deep marks": (Raw(b"(" * 5000), "at most 1000 open marks"),
    "many values": (Raw(b"N" * 1_000_001), "at most 1000000 values"),
    "long arguments": (Persistent(tuple(range(40))), "at most 16 arguments"),
}


@pytest.mark.parametrize("name", BAD_PICKLES)
def test_refuses_a_bad_pickle(refuse, name):
    value, message = BAD_PICKLES[name]
    assert message in refuse(archive(value))


def test_deep_nesting_is_no_recursion(read):
    value = Raw(b"]" * 500_000 + b"a" * 499_999)
    assert read(archive({"deep": value})).skipped == ["deep: not a tensor"]


def test_containers_that_hold_themselves(read):
    value = Raw(b"}q\x01" + files.opcodes("me") + b"h\x01s")
    assert read(archive(value)).skipped == ["me: not a tensor"]


@pytest.mark.parametrize("value", [None, 3, [], (), "text", Call(files.REBUILD)])
def test_refuses_a_pickle_of_something_else(refuse, value):
    assert "expected a state dict" in refuse(archive(value))


def tensor_call(**change):
    fields = {"kind": "storage", "type": Global("torch", "FloatStorage"), "key": "0"}
    fields |= {"location": "cpu", "numel": 6, "offset": 0, "size": (2, 3), "stride": (3, 1)}
    fields |= change
    storage = tuple(fields[name] for name in ("kind", "type", "key", "location", "numel"))
    return Call(
        files.REBUILD,
        (Persistent(storage), fields["offset"], fields["size"], fields["stride"], False, None),
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "module"}, "the persistent id of a storage"),
        ({"kind": 1}, "the arguments that torch.save writes"),
        ({"type": files.ORDERED_DICT}, "a storage type"),
        ({"type": "FloatStorage"}, "the arguments that torch.save writes"),
        ({"key": "1"}, "an entry in the archive"),
        ({"key": "../data.pkl"}, "an entry in the archive"),
        ({"key": 0}, "the arguments that torch.save writes"),
        ({"numel": 7}, "expected 28 bytes, found 24"),
        ({"numel": -1}, "fits 63 bits"),
        ({"numel": 2**62}, "fits 63 bits"),
        ({"numel": 2**80}, "the arguments that torch.save writes"),
        ({"type": Global("torch", "HalfStorage")}, "expected 12 bytes, found 24"),
        ({"offset": 1}, "a view of the storage's 6 elements"),
        ({"offset": -1}, "a view of the storage's 6 elements"),
        ({"offset": 2**62}, "a view of the storage's 6 elements"),
        ({"size": (2, 4)}, "a view of the storage's 6 elements"),
        ({"size": (-2, 3)}, "sizes or strides of at least 0"),
        ({"size": (2, 0), "offset": 7}, "a view of the storage's 6 elements"),
        ({"size": (2**62, 4)}, "a view of the storage's 6 elements"),
        ({"size": (2, 3, 1)}, "a view of the storage's 6 elements"),
        ({"size": (6, 6), "stride": (0, 1)}, "a view of the storage's 6 elements"),
        ({"stride": (4, 1)}, "a view of the storage's 6 elements"),
        ({"stride": (2**62, 2**62)}, "a view of the storage's 6 elements"),
        ({"stride": (-3, 1)}, "sizes or strides of at least 0"),
        ({"size": (1,) * 17, "stride": (1,) * 17}, "up to 16 sizes"),
        ({"key": "0" * 257}, "a storage key of at most 256 bytes"),
        ({"size": 6}, "the arguments that torch.save writes"),
    ],
)
def test_refuses_a_lying_tensor(refuse, change, message):
    storages = files.Storages({"0": bytes(24)})
    text = refuse(archive({"w": tensor_call(**change)}, storages))
    assert message in text


def test_refuses_a_tensor_without_arguments(refuse):
    assert "in place 0" in refuse(archive({"w": Call(files.REBUILD)}))


def test_refuses_keys_that_are_no_names(refuse):
    assert "a key that is no string" in refuse(archive({3: 4}))


def test_refuses_two_tensors_of_one_name(refuse):
    storages = files.Storages({"0": bytes(24)})
    item = files.opcodes("w") + files.opcodes(tensor_call())
    assert "expected one tensor of this name" in refuse(
        archive(Raw(b"}(" + item + item + b"u"), storages)
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("a/weights.bin", b"")], "a zip file without"),
        ([("data.pkl", b"N.")], "a zip file without"),
        ([("a/data.pkl", b"N."), ("b/data.pkl", b"N.")], "one data.pkl in the archive"),
        ([("a/data.pkl", b"")], "more bytes"),
    ],
)
def test_refuses_other_zip_files(refuse, entries, message):
    assert message in refuse(files.zip_bytes(entries))


@pytest.mark.parametrize(
    ("entry", "message"),
    [(("a/byteorder", b"big"), "found big"), (("a/constants.pkl", b"N."), "TorchScript")],
)
def test_other_kinds_of_archive_are_unsupported(read, entry, message):
    with pytest.raises(sam_rlx.errors.UnsupportedError, match=message):
        read(files.zip_bytes([("a/data.pkl", b"}."), entry]))
