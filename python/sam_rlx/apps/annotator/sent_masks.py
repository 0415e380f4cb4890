"""Masks as messages have them: the bits of their boxes, or run lengths where these are shorter."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.values import PackedMask

_SMALL = 256  # bytes of bits that are sent as they are


def sent(masks: Iterable[tuple[PackedMask, int]]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return heads and buffers of masks with their numbers."""
    heads, buffers = [], []
    for mask, number in masks:
        head, bits = mask.head(number), mask.bits
        if len(bits) > _SMALL:
            runs = zlib.compress(_varints(_run_lengths(bits)))
            if len(runs) < len(bits):
                head, bits = {**head, "runs": True}, runs
        heads.append(head)
        buffers.append(bits)
    return heads, buffers


def deflated(heads: Sequence[dict[str, Any]], first: int = 0) -> list[int]:
    """Return the indices of the buffers that a view inflates; `first` is that of the masks'."""
    return [first + at for at, head in enumerate(heads) if "runs" in head]


def _run_lengths(bits: bytes) -> NDArray[np.int64]:
    """Return how many bits are 0, then 1, then 0, and so on; the first may be none."""
    flat = np.unpackbits(np.frombuffer(bits, np.uint8))
    ends = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff(ends, prepend=0, append=flat.size)
    return np.insert(counts, 0, 0) if flat[0] else counts


def _varints(counts: NDArray[np.int64]) -> bytes:
    """Return numbers below 2**35 as groups of 7 bits, the lowest first; 128 says that more follow.

    These are the variable-length integers of protocol buffers, and LEB128 of DWARF and WebAssembly.
    """
    shifts = 7 * np.arange(6)
    left = counts[:, None] >> shifts
    groups = (left[:, :-1] & 127) | (left[:, 1:] > 0) << 7
    is_there = left[:, :-1] > 0
    is_there[:, 0] = True
    return groups[is_there].astype(np.uint8).tobytes()
