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
    with pytest.raises(
        sam_rlx.errors.CheckpointError, match=r"found a pickle of collections\.OrderedDict"
    ):
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
    "nt.system": Global("nt", "system"),
    "subprocess.Popen": Call(Global("subprocess", "Popen"), (["touch", "pwned"],)),
    "os.path.join": Global("os.path", "join"),
    "sys.modules": Global("sys", "modules"),
    "importlib.import_module": Call(Global("importlib", "import_module"), ("os",)),
    "runpy.run_path": Global("runpy", "run_path"),
    "ctypes.CDLL": Global("ctypes", "CDLL"),
    "pickle.loads": Global("pickle", "loads"),
    "operator.attrgetter": Call(Global("operator", "attrgetter"), ("system",)),
    "types.FunctionType": Global("types", "FunctionType"),
    "builtins.__import__": Global("builtins", "__import__"),
    "builtins.open": Global("builtins", "open"),
    "shutil.rmtree": Global("shutil", "rmtree"),
    "socket.socket": Global("socket", "socket"),
    "numpy.testing._private.utils.runstring": Global("numpy.testing._private.utils", "runstring"),
}


@pytest.mark.parametrize("name", EVIL)
def test_refuses_globals_that_could_run_code_by_name(refuse, name):
    assert f"found the global {name}, which could run code" in refuse(archive({"w": EVIL[name]}))
    assert f"found the global {name}," in refuse(
        files.legacy_bytes({}, {"w": EVIL[name]}, files.Storages())
    )


GETATTR = Global("builtins", "getattr")
MEMBER = Call(GETATTR, (Global("train", "Phase"), "WARMUP"))


def test_getattr_is_taken_for_the_member_of_an_enumeration(read, refuse):
    assert read(archive({"phase": MEMBER})).skipped == ["phase: not a tensor"]
    for arguments in (
        (Global("train", "Phase"), "__class__"),
        (Global("train", "Phase"), "a.b"),
        (Global("train", "Phase"), "A", None),
        (Call(Global("train", "make"), ()), "A"),
        (GETATTR, "A"),
    ):
        assert "builtins.getattr" in refuse(archive({"phase": Call(GETATTR, arguments)}))
    assert "builtins.getattr, which" in refuse(archive({"a": MEMBER, "b": GETATTR}))


def test_members_of_a_class_within_a_class_are_held_to_the_rule_of_globals(read, refuse):
    nested = Call(GETATTR, (Call(GETATTR, (Global("train", "Outer"), "Phase")), "WARMUP"))
    either = Call(Global("_operator", "or_"), (nested, nested))
    assert len(read(archive({"phase": nested, "both": either})).skipped) == 2
    hidden = Call(GETATTR, (Call(GETATTR, (Global("numpy", "ma"), "core")), "loads"))
    assert "global numpy.ma.core.loads, which could run" in refuse(archive({"a": hidden}))
    long = Global("train", "Outer")
    for _ in range(40):
        long = Call(GETATTR, (long, "a" * 8))
    assert "a global's name of at most 256 bytes" in refuse(archive({"a": long}))


OPAQUE = {
    "global": Global("train", "Config"),
    "call": Call(Global("torch.optim.lr_scheduler", "StepLR"), (1, "a")),
    "object with items": Call(Global("train", "Frozen"), (), {"a": 1}),
    "object with attributes": Call(Global("train", "Config"), (), None, {"lr": 1e-3}),
    "object with slots": Call(Global("train", "Config"), (), None, (None, {"lr": 1e-3})),
    "NEWOBJ": Raw(files.opcodes(Global("train", "Config")) + b")\x81}b"),
    "NEWOBJ_EX": Raw(files.opcodes(Global("train", "Config")) + b")}\x92"),
    "call of a call": Raw(files.opcodes(Call(Global("a", "b"))) + b")R"),
    "list of a class": Raw(files.opcodes(Call(Global("a", "List"))) + b"(K\x01e"),
    "set": Raw(b"\x8f(K\x01\x90"),
    "frozenset": Raw(b"(K\x01\x91"),
    "bytes": Raw(b"C\x03\xff\x00\x80"),
    "long bytes": Raw(b"B\x03\0\0\0abc"),
    "bytearray": Raw(b"\x96\x03\0\0\0\0\0\0\0abc"),
    "text of Python 2": Raw(b"U\x03abc"),
    "text that is no UTF-8": Raw(b"X\x01\0\0\0\xff"),
    "long": Raw(b"\x8b\x09\0\0\0" + b"\x01" * 9),
    "repeated": Raw(b"N2\x86"),
    "dropped": Raw(b"NN0"),
    "dropped to a mark": Raw(b"N(NN1"),
    "many arguments": Call(Global("train", "Row"), tuple(range(40))),
    "storage of another type": Persistent(("storage", Global("torch", "QInt8Storage"), "9")),
    "escape": Global("\0\x1b[2J", "x"),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_other_objects_are_values_that_nobody_reads(testing, tmp_path, name):
    for legacy in (False, True):
        if legacy and name == "storage of another type":  # there its size must be known
            continue
        storages = files.Storages(legacy=legacy)
        value = {"w": storages.tensor(files.stored(WEIGHT)), "extra": OPAQUE[name], "n": 1}
        path = tmp_path / "x.pth"
        path.write_bytes(
            files.legacy_bytes({}, value, storages) if legacy else archive(value, storages)
        )
        state_dict = testing.open_checkpoint(path)
        np.testing.assert_array_equal(state_dict["w"], WEIGHT)
        assert state_dict.skipped == ["extra: not a tensor", "n: not a tensor"]


def test_a_class_derived_from_dict_may_hold_the_weights(read):
    storages = files.Storages()
    tensor = storages.tensor(files.stored(WEIGHT))
    weights = Call(
        Global("collections", "defaultdict"), (Global("builtins", "list"),), {"w": tensor}
    )
    assert read(archive({"weights": weights}, storages)).keys() == ["w"]


def stack_global(module, name):
    return Raw(files.opcodes(module) + files.opcodes(name) + b"\x93")


BAD_PICKLES = {
    "evil from the stack": (stack_global("os", "system"), "the global os.system"),
    "global of numbers": (Raw(b"K\x01K\x02\x93"), "the name of a global"),
    "call of a string": (Raw(files.opcodes("x") + b")R"), "a global to call"),
    "call without tuple": (Raw(files.opcodes(files.ORDERED_DICT) + b"NR"), "a tuple of arguments"),
    "keywords that are no dict": (
        Raw(files.opcodes(files.ORDERED_DICT) + b")N\x92"),
        "a dict of keyword arguments",
    ),
    "attributes of a dict": (Raw(b"}}b"), "an object to set attributes of"),
    "attributes of a number": (Raw(b"K\x01}b"), "an object to set attributes of"),
    "attributes of nothing": (Raw(b"}b"), "an object to set attributes of"),
    "items of a number": (Raw(b"K\x01(K\x01\x90"), "a set to add items to"),
    "no value": (Raw(b"0"), "a value on the stack"),
    "unmarked tuple": (Raw(b"t"), "a mark on the stack"),
    "append to a dict": (Raw(b"}Na"), "a list to append to"),
    "item of a list": (Raw(b"]NNs"), "a dict to set items of"),
    "key without value": (Raw(b"}(Nu"), "a key without a value"),
    "unknown memo": (Raw(b"h\x05"), "a remembered value"),
    "put of nothing": (Raw(b"q\x05"), "a value to remember"),
    "value below a mark": (Raw(b"N(a"), "a value on the stack"),
    "text of huge length": (Raw(b"X\xff\xff\xff\xff"), "more bytes"),
    "text of huger length": (Raw(b"\x8d" + b"\xff" * 8), "more bytes"),
    "frame of huge length": (Raw(b"\x95" + b"\xff" * 8), "a frame of at most"),
    "endless global": (Raw(b"c" + b"a" * 1000), "at most 256 bytes"),
    "protocol 1": (Raw(b"\x80\x01"), "protocol 2 to 5"),
    "instance": (Raw(b"(cos\nsystem\no"), "the global os.system"),
    "OBJ": (Raw(b"(ca\nb\no"), "opcode 111"),
    "INST": (Raw(b"(ios\nsystem\n"), "opcode 105"),
    "NEWOBJ of nothing": (Raw(b")\x81"), "a global to call"),
    "EXT1": (Raw(b"\x82\x01"), "opcode 130"),
    "PERSID": (Raw(b"Pa\n"), "opcode 80"),
    "BYTEARRAY8": (Raw(b"\x96"), "more bytes"),
    "NEXT_BUFFER": (Raw(b"\x97"), "opcode 151"),
    "deep marks": (Raw(b"(" * 5000), "at most 1000 open marks"),
    "many values": (Raw(b"N" * 1_000_001), "at most 1000000 values"),
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


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None"),
        (3, "the number 3"),
        ([], "a list"),
        ((), "a tuple"),
        ("text", 'the text "text"'),
        (Call(files.REBUILD), "an object of torch._utils._rebuild_tensor_v2"),
        (Call(Global("train", "Config")), "an object of train.Config"),
    ],
)
def test_refuses_a_pickle_of_something_else(refuse, value, found):
    assert refuse(archive(value)).endswith(f"expected a state dict, found a pickle of {found}")


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
        ({"size": (6, 7), "stride": (0, 1)}, "a view of the storage's 6 elements"),
        ({"size": (2**24, 6), "stride": (0, 1)}, "repeat at most 67108864 elements in all"),
        ({"size": (2**62, 1), "stride": (0, 0)}, "repeat at most 67108864 elements in all"),
        ({"size": (2**62, 4), "stride": (0, 0)}, "a view of the storage's 6 elements"),
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
    assert "none at position 0" in refuse(archive({"w": Call(files.REBUILD)}))


def test_keys_that_are_no_names_are_reported(read):
    storages = files.Storages()
    tensor = storages.tensor(files.stored(WEIGHT))
    state_dict = read(archive({3: tensor, "w": tensor}, storages))
    assert state_dict.keys() == ["w"]
    assert state_dict.skipped == ["the number 3: a key that is no text"]
    assert read(archive({3: 4})).skipped == ["the number 3: a key that is no text"]


def test_refuses_two_tensors_of_one_name(refuse):
    storages = files.Storages({"0": bytes(24)})
    item = files.opcodes("w") + files.opcodes(tensor_call())
    assert "expected one tensor of this name" in refuse(
        archive(Raw(b"}(" + item + item + b"u"), storages)
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([("a/weights.txt", b"")], "a zip file without"),
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
