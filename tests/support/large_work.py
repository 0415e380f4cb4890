"""Small files that ask for much work: repeated names, colliding names, long lists.

Each maker takes a size in bytes and returns a file of about that size. Reading it may fail, but its
time and memory are linear in the size.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from support import checkpoint_files as files
from support import gguf_files
from support.checkpoint_files import Global, Persistent, Raw

Maker = Callable[[int], bytes]
NAME = files.opcodes("n" * 16_000)
ONE_NUMBER = files.Storages({"0": bytes(4), "1": bytes(8)})  # a float, a complex number


def _torch(code: bytes, folder: str = "a") -> bytes:
    return files.zip_bytes(files.torch_entries(Raw(code), ONE_NUMBER, folder), align=1)


def _legacy(code: bytes) -> bytes:
    return files.legacy_bytes({}, Raw(code), files.Storages())


def _tensor(key: object = "0", shape: object = (), kind: str = "FloatStorage") -> bytes:
    storage = Persistent(("storage", Global("torch", kind), key, "cpu", 1))
    call = files.Call(files.REBUILD, (storage, 0, shape, shape, False, None))
    return files.opcodes(call)


def _names(room: int, width: int) -> Iterator[str]:
    """Yield different names of five characters, one for every `width` bytes of `room`."""
    return (f"{index:05x}" for index in range(room // width))


def _short(name: str) -> bytes:
    return b"\x8c" + bytes([len(name)]) + name.encode()


def _one_name(code: Callable[[bytes], bytes], item: bytes) -> Maker:
    """Remember one long name and use it as the key of every item."""
    pairs = b"h\x00" + item
    return lambda size: code(NAME + b"q\x00}(" + pairs * ((size - 16_000) // len(pairs)) + b"u")


def _one_tensor(tensor: bytes, folder: str = "a") -> Maker:
    """Remember one tensor and give it many names."""

    def make(size: int) -> bytes:
        pairs = b"".join(_short(name) + b"h\x01" for name in _names(size, 9))
        return _torch(tensor + b"q\x01}(" + pairs + b"u", folder)

    return make


def _storages_of_one_key(size: int) -> bytes:
    """Remember the parts of a storage, and its long key among them, and put them together anew."""
    parts = ["storage", Global("torch", "FloatStorage"), Raw(NAME), "cpu", 1]
    code = b"".join(files.opcodes(part) + b"q" + bytes([i]) for i, part in enumerate(parts))
    storage = b"(" + b"".join(b"h" + bytes([i]) for i in range(5)) + b"tQ"
    return _legacy(code + b"](" + storage * ((size - 16_000) // len(storage)) + b"e")


def _colliding_memo(size: int) -> bytes:
    """Numbers that a table with a prime number of positions keeps at one position."""
    prime, count = 85_229, 42_100
    puts = b"".join(b"r" + struct.pack("<I", i) for i in range(count))
    numbers = [prime * i % 2**32 for i in range(1, min(count, 2**32 // prime))]
    puts += b"".join(b"r" + struct.pack("<I", number) for number in numbers)
    get = b"j" + struct.pack("<I", numbers[0])
    return _torch(b"N" + puts + get * max(0, (size - len(puts)) // len(get)))


@functools.cache
def colliding_names(count: int) -> list[str]:
    """Names of 16 ASCII characters that all have one hash in libstdc++ (Murmur, 64 bits)."""
    factor, seed = np.uint64(0xC6A4A7935BD1E995), np.uint64(0xC70F6907)
    inverse = np.uint64(pow(int(factor), -1, 2**64))

    def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return value ^ (value >> np.uint64(47))  # its own inverse

    rng = np.random.default_rng(0)
    found: list[str] = []
    with np.errstate(over="ignore"):
        start = seed ^ (np.uint64(16) * factor)
        while len(found) < count:
            first = rng.integers(ord("a"), ord("z") + 1, (1 << 20, 8), np.uint8)
            halves = first.view("<u8").ravel()
            state = (start ^ (mix(halves * factor) * factor)) * factor
            second = mix((state ^ np.uint64(12345)) * inverse) * inverse
            ascii_only = (second & np.uint64(0x8080808080808080)) == 0
            pairs = np.stack([halves[ascii_only], second[ascii_only]], axis=1)
            found += [pair.tobytes().decode() for pair in pairs]
    return sorted(set(found))[:count]


def _in_safetensors(names: Iterator[str] | list[str]) -> bytes:
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return files.safetensors_bytes(dict.fromkeys(names, entry))


def _in_torch(names: list[str]) -> bytes:
    pairs = b"".join(_short(name) + b"h\x01" for name in names)
    return _torch(_tensor() + b"q\x01}(" + pairs + b"u")


def _in_zip(names: list[str]) -> bytes:
    entries = [("a/data.pkl", files.pickle_bytes({})), *((name, b"") for name in names)]
    return files.zip_bytes(entries, align=1, zip64=True)


def _in_gguf(names: Iterator[str] | list[str]) -> bytes:
    empty = gguf_files.Tensor("F32", (0,), b"")
    return gguf_files.gguf_bytes(dict.fromkeys(names, empty))


def _attention(size: int) -> bytes:
    """Queries, keys and values of many layers, as transformers names SAM 3's."""
    layers = range(size // 400)
    begin = "detector_model.detr_encoder.layers."
    return _in_safetensors(
        f"{begin}{layer}.self_attn.{part}_proj.weight" for layer in layers for part in "qkv"
    )


def _gguf_value(kind: int, data: bytes) -> bytes:
    return gguf_files.gguf_bytes({}, {"sam.list": gguf_files.Value(kind, data)})


def _gguf_list(item: int, count: int, data: bytes) -> bytes:
    return _gguf_value(9, struct.pack("<IQ", item, count) + data)


def _json_header(value: Callable[[int], bytes]) -> Maker:
    return lambda size: files.safetensors_bytes(b'{"w": ' + value(size) + b"}")


def _shard_index(size: int) -> bytes:
    names = _names(size, 40)
    return json.dumps({"weight_map": dict.fromkeys(names, "shard.safetensors")}).encode()


MAKERS: dict[str, Maker] = {
    "one name, no tensors": _one_name(_torch, b"N"),
    "one name, old format": _one_name(_legacy, b"N"),
    "one name, complex tensors": lambda size: _torch(
        _tensor("1", kind="ComplexFloatStorage")
        + b"q\x01"
        + NAME
        + b"q\x00}("
        + b"h\x00h\x01" * ((size - 16_000) // 4)
        + b"u"
    ),
    "one tensor, many names": _one_tensor(_tensor()),
    "one tensor of many axes": _one_tensor(_tensor(shape=(1,) * 16)),
    "one tensor below a long folder": _one_tensor(_tensor(), folder="f" * 60_000),
    "storages of one key, old format": _storages_of_one_key,
    "remembered numbers that collide": _colliding_memo,
    "tuples in tuples": lambda size: _torch(b"N" + b"\x85" * size),
    "dicts in a dict": lambda size: _torch(
        b"}(" + b"".join(_short(name) + b"}NNs" for name in _names(min(size, 4_000_000), 11)) + b"u"
    ),
    "dicts with one tensor": lambda size: _torch(
        _tensor()
        + b"q\x01"
        + _short("w")
        + b"q\x02}("
        + b"".join(_short(name) + b"}h\x02h\x01s" for name in _names(size, 13))
        + b"u"
    ),
    "objects of one class": lambda size: _torch(
        files.opcodes(Global("a", "B")) + b"q\x01](" + b"h\x01)\x81" * (size // 4) + b"e"
    ),
    "calls with one long tuple": lambda size: _torch(
        files.opcodes(Global("a", "B"))
        + b"q\x01"
        + files.opcodes(tuple(range(size // 8)))
        + b"q\x02]("
        + b"h\x01h\x02R" * (size // 16)
        + b"e"
    ),
    "one name of a usual length, complex tensors": lambda size: _torch(
        _tensor("1", kind="ComplexFloatStorage")
        + b"q\x01"
        + files.opcodes("m" * 250)
        + b"q\x00}("
        + b"h\x00h\x01" * (size // 4)
        + b"u"
    ),
    "lists": lambda size: _torch(b"]" * min(size, 900_000)),
    "remembered again and again": lambda size: _torch(b"N" + b"\x94" * min(size, 900_000)),
    "persistent ids": lambda size: _torch(
        files.opcodes(tuple(range(15))) + b"q\x00](" + b"h\x00Q" * (size // 3) + b"e"
    ),
    "colliding names in pickles": lambda size: _in_torch(colliding_names(size // 100)),
    "colliding names in zip files": lambda size: _in_zip(colliding_names(size // 100)),
    "colliding names in safetensors": lambda size: _in_safetensors(colliding_names(size // 100)),
    "colliding names in GGUF": lambda size: _in_gguf(colliding_names(size // 100)),
    "tensors in safetensors": lambda size: _in_safetensors(_names(size, 65)),
    "tensors in GGUF": lambda size: _in_gguf(_names(size, 37)),
    "attention of many layers": _attention,
    "texts in GGUF": lambda size: _gguf_list(8, size // 8, bytes(size // 8 * 8)),
    "lists in GGUF": lambda size: _gguf_list(
        9, size // 12, struct.pack("<IQ", 0, 0) * (size // 12)
    ),
    "numbers in GGUF": lambda size: _gguf_list(0, size, bytes(size)),
    "keys in GGUF": lambda size: gguf_files.gguf_bytes({}, dict.fromkeys(_names(size, 21), 1)),
    "numbers in JSON": _json_header(lambda size: b"[0" + b",0" * (size // 2) + b"]"),
    "arrays in JSON": _json_header(lambda size: b"[[]" + b",[]" * (size // 3) + b"]"),
    "objects in JSON": _json_header(lambda size: b'[{"":0}' + b',{"":0}' * (size // 7) + b"]"),
    "escapes in JSON": _json_header(lambda size: b'"' + rb"\u00e9" * (size // 6) + b'"'),
    "levels in JSON": _json_header(lambda size: b"[" * size),
    "axes in JSON": lambda size: files.safetensors_bytes(
        {"w": {"dtype": "F32", "shape": [0] * (size // 3), "data_offsets": [0, 4]}}, bytes(4)
    ),
    "names of a shard index": _shard_index,
}
