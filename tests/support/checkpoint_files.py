"""Checkpoint files of every kind, good and bad, as bytes. Needs neither PyTorch nor safetensors."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001


@dataclass
class Stored:
    """A tensor as a file holds it: elements as bytes, and a view of them."""

    dtype: str  # safetensors' spelling
    data: bytes
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None = None
    offset: int = 0


ITEM_SIZE = {
    **dict.fromkeys(("F64", "I64", "C64"), 8),
    **dict.fromkeys(("F32", "I32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL"), 1),
}
STORAGES = {
    "F64": "DoubleStorage",
    "F32": "FloatStorage",
    "F16": "HalfStorage",
    "BF16": "BFloat16Storage",
    "I64": "LongStorage",
    "I32": "IntStorage",
    "I16": "ShortStorage",
    "I8": "CharStorage",
    "U8": "ByteStorage",
    "BOOL": "BoolStorage",
    "C64": "ComplexFloatStorage",
}
NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2"}
NUMPY |= {"I8": "i1", "U8": "u1", "BOOL": "?", "C64": "<c8"}


def stored(array: np.ndarray) -> Stored:
    """Hold a NumPy array."""
    names = {np.dtype(value): key for key, value in NUMPY.items()}
    return Stored(names[array.dtype], array.tobytes(), array.shape)


def bfloat16(array: np.ndarray) -> Stored:
    """Hold the upper halves of float32 values."""
    bits = (np.asarray(array, np.float32).view(np.uint32) >> 16).astype("<u2")
    return Stored("BF16", bits.tobytes(), bits.shape)


def safetensors_parts(
    tensors: Mapping[str, Stored], metadata: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = bytearray()
    for name, tensor in tensors.items():
        end = len(data) + len(tensor.data)
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), end],
        }
        data += tensor.data
    return header, bytes(data)


def safetensors_bytes(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """Join a header (JSON value, or text as it is) and data. `length` may lie."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@dataclass
class Global:
    """A name that a pickle imports."""

    module: str
    name: str


@dataclass
class Call:
    """A call that a pickle makes. An empty OrderedDict() takes `items` and may carry `state`."""

    callee: Global
    arguments: tuple[Any, ...] = ()
    items: dict[Any, Any] | None = None
    state: Any = None


@dataclass
class Persistent:
    """A persistent id."""

    arguments: Any


@dataclass
class Raw:
    """Opcodes as they are."""

    code: bytes


ORDERED_DICT = Global("collections", "OrderedDict")
REBUILD = Global("torch._utils", "_rebuild_tensor_v2")


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True)


def opcodes(value: Any) -> bytes:
    """Opcodes of protocol 2 that push a value."""
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return _integer(value)
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return b"X" + struct.pack("<I", len(text)) + text
        case tuple():
            return b"(" + b"".join(map(opcodes, value)) + b"t"
        case list():
            return b"](" + b"".join(map(opcodes, value)) + b"e"
        case dict():
            return b"}" + _set_items(value)
        case Global():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            code = opcodes(value.callee) + opcodes(value.arguments) + b"R"
            code += _set_items(value.items) if value.items is not None else b""
            return code + (opcodes(value.state) + b"b" if value.state is not None else b"")
        case Persistent():
            return opcodes(value.arguments) + b"Q"
        case Raw():
            return value.code
    raise TypeError(type(value))


def _set_items(items: Mapping[Any, Any]) -> bytes:
    return b"(" + b"".join(opcodes(key) + opcodes(item) for key, item in items.items()) + b"u"


def pickle_bytes(value: Any) -> bytes:
    """Write a whole pickle of protocol 2."""
    return b"\x80\x02" + opcodes(value) + b"."


@dataclass
class Storages:
    """The storages that a PyTorch file holds, by key."""

    data: dict[str, bytes] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    legacy: bool = False

    def tensor(self, tensor: Stored) -> Call:
        """Add a storage and return the call that rebuilds the tensor on it."""
        key = str(len(self.data))
        count = len(tensor.data) // ITEM_SIZE[tensor.dtype]
        self.data[key] = tensor.data
        self.counts[key] = count
        return self.view(tensor, key, count)

    def view(self, tensor: Stored, key: str, count: int) -> Call:
        """Return the call that rebuilds a tensor on a storage that is there."""
        stride = tensor.stride
        if stride is None:
            stride = tuple(math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape)))
        kind = Global("torch", STORAGES[tensor.dtype])
        storage: tuple[object, ...] = ("storage", kind, key, "cpu", count)
        storage += (None,) if self.legacy else ()
        hooks = Call(ORDERED_DICT)
        arguments = (Persistent(storage), tensor.offset, tensor.shape, stride, False, hooks)
        return Call(REBUILD, arguments)


def state_dict_value(tensors: Mapping[str, Stored], storages: Storages) -> Call:
    """An OrderedDict of tensors, with the attribute that PyTorch adds."""
    items = {name: storages.tensor(tensor) for name, tensor in tensors.items()}
    return Call(ORDERED_DICT, (), items, {"_metadata": Call(ORDERED_DICT)})


def zip_bytes(
    entries: Sequence[tuple[str, bytes]],
    *,
    align: int = 64,
    zip64: bool = False,
    comment: bytes = b"",
) -> bytes:
    """Store entries in a zip archive, as PyTorch does: uncompressed and aligned."""
    body, central = bytearray(), bytearray()
    for name, data in entries:
        text, offset = name.encode(), len(body)
        padding = -(offset + 30 + len(text) + 4) % align
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        sizes = struct.pack("<IIII", 0, 0, len(data), len(data))
        lengths = struct.pack("<HH", len(text), len(extra))
        body += b"PK\x03\x04" + struct.pack("<HHH", 20, 0, 0) + sizes + lengths
        body += text + extra + data
        extra, shown, at = b"", len(data), offset
        if zip64:
            extra = struct.pack("<HHQQQ", 1, 24, len(data), len(data), offset)
            shown = at = 0xFFFFFFFF
        central += b"PK\x01\x02" + struct.pack("<HHHHIIII", 20, 20, 0, 0, 0, 0, shown, shown)
        central += struct.pack("<HHHHHII", len(text), len(extra), 0, 0, 0, 0, at) + text + extra
    return bytes(body + central) + _zip_end(len(entries), len(body), len(central), zip64, comment)


def _zip_end(count: int, offset: int, size: int, zip64: bool, comment: bytes) -> bytes:
    end = b""
    if zip64:
        end = b"PK\x06\x06" + struct.pack(
            "<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset
        )
        end += b"PK\x06\x07" + struct.pack("<IQI", 0, offset + size, 1)
        count, size, offset = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    end += b"PK\x05\x06" + struct.pack("<HHHHII", 0, 0, count, count, size, offset)
    return end + struct.pack("<H", len(comment)) + comment


def torch_entries(
    value: Any, storages: Storages, folder: str = "archive"
) -> list[tuple[str, bytes]]:
    """Entries of a PyTorch archive."""
    entries = [
        (f"{folder}/data.pkl", pickle_bytes(value)),
        (f"{folder}/byteorder", b"little"),
    ]
    entries += [(f"{folder}/data/{key}", data) for key, data in storages.data.items()]
    return [*entries, (f"{folder}/version", b"3\n")]


def torch_bytes(tensors: Mapping[str, Stored], wrap: str | None = None, **options: Any) -> bytes:
    """Write a PyTorch archive with a state dict, bare or under a key."""
    storages = Storages()
    value = state_dict_value(tensors, storages)
    return zip_bytes(torch_entries({wrap: value} if wrap else value, storages), **options)


def legacy_bytes(
    tensors: Mapping[str, Stored], value: Any = None, storages: Storages | None = None
) -> bytes:
    """Write a state dict, or another object, as PyTorch did before the zip format."""
    if storages is None:
        storages = Storages(legacy=True)
        value = state_dict_value(tensors, storages)
    system = {"protocol_version": LEGACY_PROTOCOL, "little_endian": True, "type_sizes": {"int": 4}}
    parts = [LEGACY_MAGIC, LEGACY_PROTOCOL, system, value, list(storages.data)]
    data = b"".join(map(pickle_bytes, parts))
    for key, content in storages.data.items():
        data += struct.pack("<q", storages.counts[key]) + content
    return data
