"""GGUF files, version 3: metadata, descriptions of the tensors, and the tensors themselves."""

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx.errors import InternalError

_ALIGNMENT = 32
_U32, _I32, _F32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9


@dataclass(frozen=True)
class Format:
    """A number format: ggml's number for it, and numbers and bytes of a block."""

    number: int
    numbers: int
    bytes: int


_TABLE = {name: Format(*facts[:3]) for name, *facts in _core.number_formats()}
# Those that are written.
FORMATS = {
    name: _TABLE[name]
    for name in (
        *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4"),
        *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"),
    )
}


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a file: its name, its number format, and its shape, outermost axis first."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        form = FORMATS[self.dtype]
        return int(np.prod(self.shape, dtype=np.int64)) // form.numbers * form.bytes


def write(
    path: str | os.PathLike[str],
    metadata: Mapping[str, Any],
    tensors: Sequence[TensorInfo],
    encode: Callable[[int], NDArray[np.uint8]],
) -> None:
    """Write a file, one tensor after the other; it appears when it is complete.

    Parameters
    ----------
    path : str or path
        The file.
    metadata : mapping
        Texts, truth values, whole numbers of 32 bits, floats (kept as float32), and lists of one
        of these.
    tensors : sequence of TensorInfo
        What the file holds, in this order.
    encode : callable
        Called with the index of each tensor, in order; gives its bytes.
    """
    with atomic_write(path) as file:
        file.write(_header(metadata, tensors))
        _pad(file)
        for index, tensor in enumerate(tensors):
            data = encode(index)
            if data.nbytes != tensor.nbytes:
                raise InternalError(
                    f"{tensor.name}: expected {tensor.nbytes} bytes, found {data.nbytes}; this is "
                    "a defect of sam_rlx, please report it"
                )
            file.write(data.data)
            _pad(file)


def _pad(file: BinaryIO) -> None:
    file.write(bytes(-file.tell() % _ALIGNMENT))


def _header(metadata: Mapping[str, Any], tensors: Sequence[TensorInfo]) -> bytes:
    parts = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        kind, data = _value(value)
        parts += [_text(key), struct.pack("<I", kind), data]
    offset = 0
    for tensor in tensors:
        sizes = tensor.shape[::-1]
        parts += [_text(tensor.name), struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)]
        parts.append(struct.pack("<IQ", FORMATS[tensor.dtype].number, offset))
        offset += tensor.nbytes + -tensor.nbytes % _ALIGNMENT
    return b"".join(parts)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Any) -> tuple[int, bytes]:
    """Return the number of the type of a value, and its bytes."""
    if isinstance(value, bool):
        return _BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return (_I32, struct.pack("<i", value)) if value < 0 else (_U32, struct.pack("<I", value))
    if isinstance(value, float):
        return _F32, struct.pack("<f", value)
    if isinstance(value, str):
        return _STRING, _text(value)
    items = [_value(item) for item in value]
    kind = items[0][0] if items else _U32
    data = b"".join(data for _, data in items)
    return _ARRAY, struct.pack("<IQ", kind, len(items)) + data
