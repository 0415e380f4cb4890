"""Checkpoints of any kind become GGUF files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress
from sam_rlx._internal.weights import number_formats
from sam_rlx._internal.weights.gguf import file as gguf_file
from sam_rlx._internal.weights.gguf import metadata as gguf_metadata
from sam_rlx._internal.weights.gguf import plan as gguf_plan
from sam_rlx._internal.weights.outcome import Outcome
from sam_rlx.errors import InvalidArgumentError

DTYPES = tuple(gguf_file.FORMATS)


class PackedGrowsError(InvalidArgumentError):
    """A packed source would become larger."""


def to_gguf(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    dtype: str,
    *,
    overrides: Sequence[tuple[str, str]] = (),
    may_grow: bool = True,
    key: str | None = None,
    lora: str | None = None,
    num_threads: int = 0,
    progress: Progress | None = None,
) -> Outcome:
    """Write a model as a GGUF file with its matrices in one number format.

    Parameters
    ----------
    source : str or path
        A checkpoint file or directory of SAM, SAM 2 or SAM 3, with Meta's or transformers' names.
    output : str or path
        The file, written under another name first: a failure leaves nothing.
    dtype : str
        One of `DTYPES`. Which tensors get it is the rule of `gguf.plan.plan`.
    overrides : sequence of (str, str)
        Regular expressions and formats: a tensor of at least two axes with a name in which the
        first of these expressions is found gets that format instead.
    may_grow : bool
        Whether a packed source may become larger: numbers that are unpacked take more room and are
        not more exact.
    key : str, optional
        Which of several models in the source, as for `sam_rlx.load_model`.
    lora : str, optional
        Path of an adapter to merge.
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
    checkpoint = _core.Checkpoint(os.fspath(source), key, lora)
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
    meter = number_formats.Meter(sum(info.nbytes for info in infos), progress)
    source_nbytes = number_formats.stored_bytes(tensors)
    packed = any(number_formats.is_packed(dtype) for _, dtype, _ in tensors)
    if not may_grow and packed and meter.total > source_nbytes > 0:
        raise PackedGrowsError(
            f"dtype: expected a format in which the packed source does not grow, found {dtype}: "
            f"{source_nbytes / 1e6:,.1f} MB would become {meter.total / 1e6:,.1f} MB"
        )

    def encode(index: int) -> NDArray[np.uint8]:
        data = checkpoint.encode(choices[index].name, choices[index].dtype, num_threads)
        meter.add(data.nbytes)
        return data

    gguf_file.write(output, metadata, infos, encode)
    return Outcome(
        Path(output),
        meter.total,
        dict(Counter(choice.dtype for choice in choices)),
        [(c.name, c.wanted, c.dtype) for c in choices if c.fell_back],
        checkpoint.skipped,
        source_nbytes,
        number_formats.changes(
            (found, choice.dtype) for (_, found, _), choice in zip(tensors, choices, strict=True)
        ),
    )


def _check(dtype: str, overrides: Sequence[tuple[str, str]]) -> None:
    for found in (dtype, *(wanted for _, wanted in overrides)):
        if not isinstance(found, str) or found not in DTYPES:
            raise InvalidArgumentError(
                f"dtype: expected one of {list(DTYPES)}, found {shown(found)}"
            )
    for pattern, _ in overrides:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidArgumentError(
                f"overrides: expected regular expressions, found {pattern!r}: {error}"
            ) from error
