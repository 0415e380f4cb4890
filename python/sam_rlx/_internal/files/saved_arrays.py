"""Named arrays on disk: NPZ files of the library, read as hostile.

A reader says what it expects by a schema; whatever the bytes are, the result is arrays that fit it
or a `CheckpointError`. Nothing is allocated for a size that a file states and does not hold, and
nothing in a file is parsed as Python source.
"""

import errno
import math
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import Model
from sam_rlx._internal.files.atomic import as_path, atomic_write
from sam_rlx._internal.files.marks import mark_npz
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.printable import printable
from sam_rlx.errors import CheckpointError, InvalidArgumentError, SamRlxError

_MAX_RANK = 5
_MAX_HEADER = 4096  # bytes, of an array
_CHUNK = 1 << 20
_MAX_WORDS = 300  # letters of an error of zipfile, which may show parts of the file
# Members that another program has compressed may be so much larger than the file.
_MAX_INFLATION = 100
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


# Names, or regular expressions for names, and what is under them. Those of regular expressions are
# never required.
Schema = Mapping[str | re.Pattern[str], Field]

# What identifies a model: its kind, and a hash of its weights with the name of their file. Files of
# the first versions have no hash.
IDENTITY: Schema = {
    "family": Field("U", 0),
    "variant": Field("U", 0),
    "img_size": Field("i", 0),
    "weights": Field("U", 0, required=False),
    "checkpoint": Field("U", 0, required=False),
}


def write(
    path: str | os.PathLike[str],
    arrays: Mapping[str, Any],
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Write arrays as NPZ. The file appears complete or not at all, and replaces no input."""
    target = as_path(path)
    check_target(target, ("NPZ",), inputs)
    with atomic_write(target) as file:
        np.savez(file, **arrays)
        mark_npz(file)


def read(
    path: str | os.PathLike[str], what: str, formats: tuple[str, ...], schema: Schema
) -> dict[str, NDArray[Any]]:
    """Read a file of `write`.

    Parameters
    ----------
    path : str or path
        The file.
    what : str
        What the file is, for the error.
    formats : tuple of str
        What its array ``format`` may say, the newest first.
    schema : mapping
        What it holds besides. Arrays that are not in it are not read.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CheckpointError
        It is damaged or something else.
    """
    name = as_path(path)
    with name.open("rb") as file, _telling(str(name), what):
        arrays = _read(file, {"format": Field("U", 0), **schema})
        if "format" not in arrays:
            raise ValueError("no format")
        found = scalar(arrays["format"])
        if found not in formats:
            raise CheckpointError(f"expected format {formats[0]!r}, found {found!r}")
        _check_complete(arrays, schema)
    return arrays


def read_masks(file: BinaryIO, name: str, what: str, schema: Schema) -> dict[str, NDArray[Any]]:
    """Read an NPZ archive of anybody that is open, `name` and `what` it is being for errors.

    Its arrays may take `MAX_UNPACKED` bytes. Those that are not in the schema are not read.
    `InvalidArgumentError` if it is damaged or something else.
    """
    with _telling(name, what, InvalidArgumentError):
        arrays = _read(file, schema, MAX_UNPACKED)
        _check_complete(arrays, schema)
    return arrays


def read_array(file: BinaryIO, name: str, what: str, field: Field) -> NDArray[Any]:
    """Read one array as `numpy.save` writes it; as `read_masks` otherwise."""
    with _telling(name, what, InvalidArgumentError):
        return _read_array("array", field, file, _size(file))


@contextmanager
def _telling(name: str, what: str, kind: type[SamRlxError] = CheckpointError) -> Iterator[None]:
    """Tell whatever fails on damaged bytes as an error of a kind."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None
    except MemoryError:
        raise
    except Exception as error:
        # A disk that fails is no damaged file; a position outside of the file is EINVAL.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        words = str(error)[:_MAX_WORDS] or type(error).__name__
        raise kind(f"{name}: expected {what}, found {words}") from error


def _size(file: BinaryIO) -> int:
    """Return the bytes of a file, which is then at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _check_complete(arrays: Mapping[str, NDArray[Any]], schema: Schema) -> None:
    names = [key for key, field in schema.items() if isinstance(key, str) and field.required]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"no {', '.join(missing)}")


def _read(file: BinaryIO, schema: Schema, most: int | None = None) -> dict[str, NDArray[Any]]:
    size = _size(file)
    arrays: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        _check_sizes(members, size, most)
        for member in members:
            name = member.filename.removesuffix(".npy")
            field = _field(name, schema)
            if field is None:
                continue
            if name in arrays:
                raise ValueError(f"{name} twice")
            with archive.open(member) as stream:
                arrays[name] = _read_array(name, field, stream, member.file_size)
    return arrays


def _field(name: str, schema: Schema) -> Field | None:
    if name in schema:
        return schema[name]
    patterns = (key for key in schema if isinstance(key, re.Pattern))
    return next((schema[pattern] for pattern in patterns if pattern.fullmatch(name)), None)


def _check_sizes(members: list[zipfile.ZipInfo], size: int, most: int | None) -> None:
    """Check what the directory states of all members against the size of the file, or `most`."""
    if sum(member.compress_size for member in members) > size:
        raise ValueError("members that are larger than the file")
    total = sum(member.file_size for member in members)
    if most is not None and total > most:
        raise ValueError(f"arrays of {total} bytes, of which at most {most} are taken")
    if most is None and total > _MAX_INFLATION * size:
        raise ValueError(f"members that are over {_MAX_INFLATION} times as large as the file")
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
        texts(array)
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


def texts(array: NDArray[np.str_]) -> list[str]:
    """Return the texts of an array; `ValueError` for what is no Unicode."""
    width = array.dtype.itemsize
    data = np.ascontiguousarray(array).tobytes()
    return [
        data[begin : begin + width].decode("utf-32-le").rstrip("\0")
        for begin in range(0, len(data), width or 1)
    ]


def scalar(array: NDArray[Any]) -> str | int | float:
    """Return the one value of an array without axes."""
    value: str | int | float = texts(array)[0] if array.dtype.kind == "U" else array.item()
    return value


def identity(model: Model, source: str) -> dict[str, Any]:
    """Return what identifies a model of a file, for `write`: the fields of `IDENTITY`."""
    return {
        "family": model.family,
        "variant": model.variant,
        "img_size": model.img_size,
        "weights": model.weights_hash,
        "checkpoint": printable(os.path.basename(source)),  # noqa: PTH119
    }


def check_identity(
    path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], expected: Mapping[str, Any]
) -> None:
    """Raise `CheckpointError` when a file is of another model."""
    for key in ("family", "variant", "img_size"):
        found = scalar(arrays[key])
        if found != expected[key]:
            raise CheckpointError(f"{path}: expected {key} {expected[key]!r}, found {found!r}")
    if "weights" not in arrays:
        return
    weights = scalar(arrays["weights"])
    if weights != expected["weights"]:
        source = scalar(arrays["checkpoint"]) if "checkpoint" in arrays else "another file"
        raise CheckpointError(
            f"{path}: expected a file made with the weights of {expected['checkpoint']} "
            f"({expected['weights']}), found one of the weights of {source} ({weights})"
        )
