"""GGUF files, good and bad, as bytes. Needs no package."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# ggml's number, numbers and bytes of a block.
TYPES = {
    "F32": (0, 1, 4),
    "F16": (1, 1, 2),
    "Q4_0": (2, 32, 18),
    "Q4_1": (3, 32, 20),
    "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24),
    "Q8_0": (8, 32, 34),
    "Q2_K": (10, 256, 84),
    "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144),
    "Q5_K": (13, 256, 176),
    "Q6_K": (14, 256, 210),
    "Q8_K": (15, 256, 292),
    "I8": (24, 1, 1),
    "I16": (25, 1, 2),
    "I32": (26, 1, 4),
    "I64": (27, 1, 8),
    "F64": (28, 1, 8),
    "BF16": (30, 1, 2),
    "MXFP4": (39, 32, 17),
}
PACKED = [name for name, (_, numbers, _) in TYPES.items() if numbers > 1]
# Where the blocks have their scales: float16, but for Q8_K's float32.
SCALES = {"Q4_0": [0], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2]}
SCALES |= {"Q5_K": [0, 2], "Q6_K": [208], "Q8_K": [0]}
SCALES |= {"Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "MXFP4": []}
ARCHITECTURE = {"general.architecture": "sam"}


@dataclass
class Value:
    """A metadata value with its type number: what Python's types do not tell."""

    type: int
    data: bytes


def text(value: str | bytes) -> bytes:
    """A length and the text."""
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> Value:
    if isinstance(value, Value):
        return value
    if isinstance(value, bool):
        return Value(7, struct.pack("<?", value))
    if isinstance(value, int):
        return Value(4, struct.pack("<I", value))
    if isinstance(value, float):
        return Value(6, struct.pack("<f", value))
    if isinstance(value, str):
        return Value(8, text(value))
    items = [_value(item) for item in value]
    head = struct.pack("<IQ", items[0].type if items else 4, len(items))
    return Value(9, head + b"".join(item.data for item in items))


@dataclass
class Tensor:
    """A tensor as a file describes it; `offset` and `rank` may lie."""

    type: str | int
    shape: Sequence[int]
    data: bytes
    offset: int | None = None
    rank: int | None = None


def tensor(array: NDArray[Any], kind: str = "F32") -> Tensor:
    """Hold an array of plain numbers."""
    return Tensor(kind, array.shape, array.tobytes())


def gguf_bytes(
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any] | None = None,
    *,
    version: int = 3,
    alignment: int = 32,
    counts: tuple[int, int] | None = None,
) -> bytes:
    """Write a file; `counts` of tensors and keys may lie."""
    pairs = {**ARCHITECTURE, **(metadata or {})}
    head = bytearray(b"GGUF" + struct.pack("<I", version))
    head += struct.pack("<QQ", *(counts or (len(tensors), len(pairs))))
    for key, value in pairs.items():
        converted = _value(value)
        head += text(key) + struct.pack("<I", converted.type) + converted.data
    data = bytearray()
    for name, item in tensors.items():
        data += bytes(-len(data) % alignment)
        number = TYPES[item.type][0] if isinstance(item.type, str) else item.type
        rank = len(item.shape) if item.rank is None else item.rank
        sizes = struct.pack(f"<{len(item.shape)}Q", *reversed(item.shape))
        offset = len(data) if item.offset is None else item.offset
        head += text(name) + struct.pack("<I", rank) + sizes + struct.pack("<IQ", number, offset)
        data += item.data
    return bytes(head + bytes(-len(head) % alignment) + data)


def random_blocks(kind: str, rows: int, cols: int, seed: int = 0) -> NDArray[np.uint8]:
    """Blocks of any bits but for the scales, which make finite numbers: (rows, bytes of a row)."""
    _, numbers, size = TYPES[kind]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows * cols // numbers, size), np.uint8)
    for position in SCALES[kind]:
        width = 4 if kind == "Q8_K" else 2
        scales = rng.standard_normal(len(blocks)) * 10.0 ** rng.integers(-7, 3, len(blocks))
        kinds = np.float32 if kind == "Q8_K" else np.float16
        blocks[:, position : position + width] = scales.astype(kinds)[:, None].view(np.uint8)
    if kind == "MXFP4":  # an exponent: the largest ones overflow
        blocks[:, 0] %= 251
    return blocks.reshape(rows, -1)
