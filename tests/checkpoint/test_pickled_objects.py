"""Objects that training programs save beside the weights: none is made, and the weights load."""

import argparse
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import io
import pathlib
import types
import uuid

import numpy as np
import pytest

pytestmark = pytest.mark.parity

FORMATS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}
FORMATS |= {"protocol 4": {"pickle_protocol": 4}, "protocol 5": {"pickle_protocol": 5}}
made: list[str] = []  # what unpickling would fill


class Phase(enum.Enum):
    WARMUP = 1


class Flags(enum.IntFlag):
    A = 1
    B = 2


class Outer:
    class Inner(enum.Enum):
        X = "x"


class OldOuter:
    class Phase(enum.Enum):
        """Pickled as Python 3.11 pickled members before its fourth patch."""

        WARMUP = 1

        def __reduce_ex__(self, protocol):
            return getattr, (type(self), self.name)


@dataclasses.dataclass
class Config:
    lr: float = 1e-3
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])


class Slots:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a, self.b = 1, [2]


Pair = collections.namedtuple("Pair", "first second")


class Loud:
    """Tells when it is made or filled."""

    def __reduce__(self):
        return (Loud.make, (1,), {"x": 1})

    @staticmethod
    def make(value):
        made.append("made")
        return Loud()

    def __setstate__(self, state):
        made.append("filled")


class MyDict(dict):
    pass


class MyList(list):
    pass


def a_function():
    raise AssertionError


def plain_objects():
    rng = np.random.default_rng(0)
    return {
        "Namespace": argparse.Namespace(
            lr=1e-4, out=pathlib.Path("a/b"), nested=argparse.Namespace()
        ),
        "SimpleNamespace": types.SimpleNamespace(lr=1),
        "path": pathlib.PurePosixPath("a/b"),
        "windows path": pathlib.PureWindowsPath("c:/a"),
        "datetime": datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
        "date and delta": [datetime.date(2026, 1, 2), datetime.timedelta(1, 2, 3)],
        "Counter": collections.Counter("abca"),
        "OrderedDict": collections.OrderedDict([("a", 1), ("b", [2])]),
        "defaultdict": collections.defaultdict(list, {"loss": [0.5, 0.25]}),
        "deque": collections.deque([1, 2], maxlen=5),
        "ChainMap": collections.ChainMap({"a": 1}),
        "namedtuple": Pair(1, "b"),
        "bytes": b"\x00\xff bytes",
        "bytearray": bytearray(b"abc"),
        "set": {1, "a", (2, 3)},
        "frozenset": frozenset({1}),
        "complex": 1 + 2j,
        "big int": -(2**200),
        "range and slice": [range(3), slice(1, None)],
        "Ellipsis": ...,
        "Decimal": decimal.Decimal("1.5"),
        "Fraction": fractions.Fraction(1, 3),
        "UUID": uuid.UUID(int=5),
        "enum": [Phase.WARMUP, Flags.A | Flags.B, Outer.Inner.X],
        "enum of Python 3.11.2": OldOuter.Phase.WARMUP,
        "dataclass": Config(),
        "slots": Slots(),
        "class": Config,
        "type": [int, dict, np.float32, type(None)],
        "function": a_function,
        "partial": functools.partial(a_function, 1, b=2),
        "dict class": MyDict(a=1),
        "list class": MyList([1, 2]),
        "loud": Loud(),
        "surrogate": "file\udcff",
        "NumPy scalar": [np.float32(1.5), np.int64(3), np.bool_(True), np.str_("a")],
        "NumPy array": np.arange(6.0).reshape(2, 3)[:, ::2],
        "NumPy objects": np.array([{"a": 1}, None], dtype=object),
        "NumPy dtype": np.dtype([("a", "<f4"), ("b", "i8")]),
        "NumPy generator": rng,
        "NumPy legacy state": np.random.RandomState(0),
        "recursive": recursive(),
    }


def recursive():
    value = {"a": []}
    value["a"].append(value)
    return value


def torch_objects(torch):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return {
        "Size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "dtype": [torch.float32, torch.bfloat16],
        "layout": torch.strided,
        "memory_format": torch.channels_last,
        "optimizer": optimizer.state_dict(),
        "optimizer object": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3),
        "generator state": torch.get_rng_state(),
        "sparse": torch.eye(3).to_sparse(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "module": torch.nn.Linear(2, 3),
    }


def omega_config():
    omegaconf = pytest.importorskip("omegaconf")
    return omegaconf.OmegaConf.create({"lr": 0.1, "list": [1, "${lr}"], "nested": {"a": None}})


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("support.upstream", reason="needs PyTorch").torch


def check(testing, torch, path, value, format_name):
    weights = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2).half()}
    torch.save({"epoch": 7, "extra": value, "model": weights}, path, **FORMATS[format_name])
    made.clear()
    found = testing.open_checkpoint(path)
    assert found.keys() == list(weights)
    for name, tensor in weights.items():
        np.testing.assert_array_equal(found[name], tensor.float().numpy())
    # The same beside the tensors themselves.
    torch.save({"epoch": 7, "extra": value, **weights}, path, **FORMATS[format_name])
    found = testing.open_checkpoint(path)
    names = found.keys()
    assert [name for name in names if name != "extra"] == list(weights)
    assert made == []


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("name", plain_objects())
def test_python_objects_are_skipped(testing, torch, tmp_path, name, format_name):
    check(testing, torch, tmp_path / "x.pth", plain_objects()[name], format_name)


def can_save(torch, value, format_name):
    """Whether torch.save takes it: a memory format, for one, only in the newer protocols."""
    try:
        torch.save(value, io.BytesIO(), **FORMATS[format_name])
    except TypeError:
        return False
    return True


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's quantized tensors are deprecated
@pytest.mark.parametrize("format_name", FORMATS)
def test_objects_of_torch_are_skipped(testing, torch, tmp_path, format_name):
    for name, value in torch_objects(torch).items():
        # Of a storage of another type, an old file does not tell the size.
        if (name, format_name) == ("quantized", "legacy"):
            continue
        if name != "memory_format" or can_save(torch, value, format_name):
            check(testing, torch, tmp_path / "x.pth", value, format_name)


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_config_of_omegaconf_is_skipped(testing, torch, tmp_path, format_name):
    check(testing, torch, tmp_path / "x.pth", omega_config(), format_name)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_weights_only_takes_is_taken(testing, torch, tmp_path):
    """Everything that torch.load(weights_only=True) reads without asking is read here too."""
    path = tmp_path / "x.pth"
    taken = []
    for name, value in (plain_objects() | torch_objects(torch)).items():
        if not can_save(torch, value, "zip"):
            continue
        torch.save({"extra": value, "w": torch.ones(2)}, path)
        try:
            torch.load(path, weights_only=True)
        except Exception:
            continue
        taken.append(name)
        names = testing.open_checkpoint(path).keys()
        assert "w" in names, name
    assert len(taken) >= 12
    assert {"Size", "device", "dtype", "Counter", "OrderedDict", "bytes", "set"} <= set(taken)
