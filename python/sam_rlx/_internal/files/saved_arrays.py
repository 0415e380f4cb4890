"""Arrays of masks on disk: NPZ and NPY files of anybody, read as hostile.

A reader says what it expects; whatever the bytes are, the result is arrays that fit it or an
`InvalidArgumentError`. Nothing is allocated for a size that a file states and does not hold, and
nothing in a file is parsed as Python source.
"""

import errno
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx.errors import InvalidArgumentError

_MAX_RANK = 5
_MAX_HEADER = 4096  # bytes, of an array
_CHUNK = 1 << 20
_MAX_WORDS = 300  # letters of an error of zipfile, which may show parts of the file
# Bytes of all arrays of a file of masks, which compress to less than a hundredth.
MAX_UNPACKED = 1 << 31
# What `numpy.save` writes before the values of a plain array.
_HEADER = re.compile(
    rb"\{'descr': '([<|][biuf][1248]|<U[1-9]\d{0,5})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), ?\} *\n"
)


@dataclass(frozen=True)
class Field:
    """What an array of a file may be.

    Attributes
    ----------
    kinds : str
        NumPy's letters: ``"f"`` float, ``"i"`` integers, ``"b"`` bool, ``"U"`` text.
    rank : int or range
        Number of axes.
    required : bool
        The file is damaged without it.
    """

    kinds: str
    rank: int | range
    required: bool = True

    def fits(self, dtype: np.dtype[Any], rank: int) -> bool:
        """Tell whether an array of this type and rank is one."""
        ranks = self.rank if isinstance(self.rank, range) else (self.rank,)
        return dtype.kind in self.kinds and rank in ranks


# Names, and what is under them.
Schema = Mapping[str, Field]


def read_masks(file: BinaryIO, name: str, what: str, schema: Schema) -> dict[str, NDArray[Any]]:
    """Read an NPZ archive of anybody that is open, `name` and `what` it is being for errors.

    Its arrays may take `MAX_UNPACKED` bytes. Those that are not in the schema are not read.
    `InvalidArgumentError` if it is damaged or something else.
    """
    with _telling(name, what):
        arrays = _read(file, schema)
        missing = [key for key, field in schema.items() if field.required and key not in arrays]
        if missing:
            raise ValueError(f"no {', '.join(missing)}")
    return arrays


def read_array(file: BinaryIO, name: str, what: str, field: Field) -> NDArray[Any]:
    """Read one array as `numpy.save` writes it; as `read_masks` otherwise."""
    with _telling(name, what):
        return _read_array("array", field, file, _size(file))


@contextmanager
def _telling(name: str, what: str) -> Iterator[None]:
    """Tell whatever fails on damaged bytes as an `InvalidArgumentError`."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        # A disk that fails is no damaged file; a position outside of the file is EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        words = str(error)[:_MAX_WORDS] or type(error).__name__
        raise InvalidArgumentError(f"{name}: expected {what}, found {words}") from error


def _size(file: BinaryIO) -> int:
    """Return the bytes of a file, which is then at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _read(file: BinaryIO, schema: Schema) -> dict[str, NDArray[Any]]:
    size = _size(file)
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_sizes(members, size)
        for member in members:
            name = member.filename.removesuffix(".npy")
            field = schema.get(name)
            if field is None:
                continue
            if name in arrays:
                raise ValueError(f"{name} twice")
            with archive.open(member) as stream:
                arrays[name] = _read_array(name, field, stream, member.file_size)
    return arrays


def _check_sizes(members: list[zipfile.ZipInfo], size: int) -> None:
    """Check what the directory states of all members."""
    if sum(member.compress_size for member in members) > size:
        raise ValueError("members that are larger than the file")
    total = sum(member.file_size for member in members)
    if total > MAX_UNPACKED:
        raise ValueError(f"arrays of {total} bytes, of which at most {MAX_UNPACKED} are taken")
    for member in members:
        is_stored = member.compress_type == zipfile.ZIP_STORED
        if is_stored and member.compress_size != member.file_size:
            raise ValueError(f"two sizes of {member.filename}")


def _read_array(name: str, field: Field, stream: Any, size: int) -> NDArray[Any]:
    """Read one array of a member of `size` bytes."""
    dtype, shape, fortran, used = _read_header(name, stream)
    if not field.fits(dtype, len(shape)):
        raise ValueError(f"{name} of {dtype} with {len(shape)} axes")
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes != size - used:
        raise ValueError(f"{name} of shape {shape} in {size - used} bytes")
    values = np.empty(nbytes, np.uint8)
    begin = 0
    while begin < nbytes:
        chunk = stream.read(min(_CHUNK, nbytes - begin))
        if not chunk:
            raise ValueError(f"{name} cut off")
        values[begin : begin + len(chunk)] = np.frombuffer(chunk, np.uint8)
        begin += len(chunk)
    if stream.read(1):  # reading to the end compares the checksum
        raise ValueError(f"more bytes than {name} has")
    array = values.view(dtype)
    if dtype.kind == "U":
        values.tobytes().decode("utf-32-le")  # ValueError for what is no Unicode
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _read_header(name: str, stream: Any) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Return dtype, shape, order of axes, and bytes of the header."""
    start = stream.read(8)
    width = {b"\x93NUMPY\x01\x00": 2, b"\x93NUMPY\x02\x00": 4}.get(start)
    if width is None:
        raise ValueError(f"{name} that is no array")
    length = int.from_bytes(stream.read(width), "little")
    if length > _MAX_HEADER:
        raise ValueError(f"{name} with a header of {length} bytes")
    header = _HEADER.fullmatch(stream.read(length))
    if header is None:
        raise ValueError(f"{name} that is no array of plain values")
    descr, order, sizes = header.groups()
    shape = tuple(int(part) for part in sizes.split(b",") if part.strip())
    if len(shape) > _MAX_RANK:
        raise ValueError(f"{name} with {len(shape)} axes")
    return np.dtype(descr.decode()), shape, order == b"True", 8 + width + length
