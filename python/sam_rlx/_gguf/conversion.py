"""Checkpoints of any kind become GGUF or safetensors files."""

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._files import atomic_write
from sam_rlx._gguf import file as gguf_file
from sam_rlx._gguf import metadata as gguf_metadata
from sam_rlx._gguf import plan as gguf_plan
from sam_rlx._progress import Progress
from sam_rlx.errors import CheckpointError, InvalidArgumentError, UnsupportedError

DTYPES = tuple(gguf_file.FORMATS)


class PackedGrowsError(InvalidArgumentError):
    """A packed source would become larger."""


@dataclass(frozen=True)
class Written:
    """What a conversion wrote.

    Attributes
    ----------
    path : Path
        The file.
    nbytes : int
        Bytes of the tensors.
    dtypes : dict of str to int
        How many tensors have which number format.
    fell_back : list of (str, str, str)
        Name, format that was asked for, and format that the tensor got, since its rows do not fit
        the blocks of the first.
    skipped : list of str
        What the source holds and the file does not, with the reason.
    source_nbytes : int
        Bytes of the tensors in the source, 0 where their format has no known size.
    """

    path: Path
    nbytes: int
    dtypes: dict[str, int]
    fell_back: list[tuple[str, str, str]]
    skipped: list[str]
    source_nbytes: int = 0


def to_gguf(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    dtype: str,
    *,
    overrides: Sequence[tuple[str, str]] = (),
    may_grow: bool = True,
    key: str | None = None,
    num_threads: int = 0,
    progress: Progress | None = None,
) -> Written:
    """Write a model as a GGUF file with its matrices in one number format.

    Parameters
    ----------
    source : str or path
        A checkpoint file or directory of SAM, SAM 2 or SAM 3, with Meta's or transformers' names.
    output : str or path
        The file, written under another name first: a failure leaves nothing.
    dtype : str
        One of `DTYPES`. Which tensors get it is the rule of `sam_rlx._gguf.plan.plan`.
    overrides : sequence of (str, str)
        Regular expressions and formats: a tensor of at least two axes with a name in which the
        first of these expressions is found gets that format instead.
    may_grow : bool
        Whether a packed source may become larger: numbers that are unpacked take more room and are
        not more exact.
    key : str, optional
        Which of several models in the source, as for `sam_rlx.load_model`.
    num_threads : int
        0 takes all cores available.
    progress : callable, optional
        Called with bytes written and bytes to write after each tensor.

    Raises
    ------
    FileNotFoundError
        There is no such source.
    CheckpointError
        The source is damaged, no model of these families, or has numbers that the format cannot
        hold.
    InvalidArgumentError
        No such format, or no regular expression.
    PackedGrowsError
        The source is packed and would become larger, without `may_grow`.
    """
    _check(dtype, overrides)
    checkpoint = _core.Checkpoint(os.fspath(source), key)
    family = checkpoint.to_meta_names()
    metadata = gguf_metadata.build(family, checkpoint.describe(), checkpoint.metadata, dtype)
    tensors = checkpoint.tensors
    choices = gguf_plan.plan(tensors, dtype, overrides)
    infos = [
        gguf_file.TensorInfo(
            _core.to_short_name(family, choice.name), choice.dtype, choice.stored_shape
        )
        for choice in choices
    ]
    for info, choice in zip(infos, choices, strict=True):
        if side := choice.packed_side:
            metadata.setdefault(f"{family}.conv_{side}x{side}", []).append(info.name)
    meter = _Meter(sum(info.nbytes for info in infos), progress)
    source_nbytes = _stored_bytes(tensors)
    if not may_grow and _is_packed(tensors) and meter.total > source_nbytes > 0:
        raise PackedGrowsError(
            f"dtype: expected a format in which the packed source does not grow, found {dtype}: "
            f"{source_nbytes / 1e6:,.1f} MB would become {meter.total / 1e6:,.1f} MB"
        )

    def encode(index: int) -> NDArray[np.uint8]:
        data = checkpoint.encode(choices[index].name, choices[index].dtype, num_threads)
        meter.add(data.nbytes)
        return data

    gguf_file.write(output, metadata, infos, encode)
    return Written(
        Path(output),
        meter.total,
        dict(Counter(choice.dtype for choice in choices)),
        [(c.name, c.wanted, c.dtype) for c in choices if c.fell_back],
        checkpoint.skipped,
        source_nbytes,
    )


def _check(dtype: str, overrides: Sequence[tuple[str, str]]) -> None:
    for found in (dtype, *(wanted for _, wanted in overrides)):
        if found not in DTYPES:
            raise InvalidArgumentError(f"dtype: expected one of {list(DTYPES)}, found {found!r}")
    for pattern, _ in overrides:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidArgumentError(
                f"overrides: expected regular expressions, found {pattern!r}: {error}"
            ) from error


def to_safetensors(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    key: str | None = None,
    progress: Progress | None = None,
) -> Written:
    """Write the tensors of a checkpoint as a safetensors file: same names, dtypes and bits.

    What wraps the tensors in a PyTorch file (``"model"``, ``module.``) is taken off. Parameters
    and errors are those of `to_gguf`, but that any tensors will do, and that packed formats raise
    ``UnsupportedError``: the file format has none.
    """
    checkpoint = _core.Checkpoint(os.fspath(source), key)
    if not checkpoint.tensors:
        others = f", but {checkpoint.skipped[0]}" if checkpoint.skipped else ""
        raise CheckpointError(f"{os.fspath(source)}: expected tensors, found none{others}")
    tensors = sorted(checkpoint.tensors, key=lambda tensor: (-_item_bytes(tensor[1]), tensor[0]))
    header: dict[str, object] = {}
    if checkpoint.metadata:
        header["__metadata__"] = checkpoint.metadata
    end = 0
    for name, dtype, shape in tensors:
        begin, end = end, end + _item_bytes(dtype) * _count(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    meter = _Meter(end, progress)
    with atomic_write(output) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, _, _ in tensors:
            data = checkpoint.raw(name)
            file.write(data.data)
            meter.add(data.nbytes)
    dtypes = dict(Counter(dtype for _, dtype, _ in tensors))
    return Written(Path(output), end, dtypes, [], checkpoint.skipped)


_ITEM_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
_ITEM_BYTES |= {"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}


def _item_bytes(dtype: str) -> int:
    if dtype not in _ITEM_BYTES:
        raise UnsupportedError(f"safetensors: expected plain numbers, found {dtype}")
    return _ITEM_BYTES[dtype]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _is_packed(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> bool:
    formats = gguf_file.FORMATS
    return any(dtype in formats and formats[dtype].numbers > 1 for _, dtype, _ in tensors)


def _stored_bytes(tensors: Sequence[tuple[str, str, tuple[int, ...]]]) -> int:
    """Return the bytes of tensors as they are stored, 0 if a format has no known size."""
    total = 0
    for _, dtype, shape in tensors:
        if dtype in gguf_file.FORMATS:
            form = gguf_file.FORMATS[dtype]
            total += _count(shape) // form.numbers * form.bytes
        elif dtype in _ITEM_BYTES:
            total += _count(shape) * _ITEM_BYTES[dtype]
        else:
            return 0
    return total


class _Meter:
    """Counts bytes and tells about them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self._done, self._progress = total, 0, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self.total)
