"""Masks of messages, read as the protocol says."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def mask_of(head: Mapping[str, Any], buffer: bytes) -> NDArray[np.bool_]:
    """Return a mask (h, w) of a message from its head and its buffer."""
    width, height = head["size"]
    x0, y0, x1, y1 = head["box"]
    mask = np.zeros((height, width), np.bool_)
    count = (y1 - y0) * ((x1 - x0 + 7) // 8)
    bits = bits_of(zlib.decompress(buffer), count) if head.get("runs") else buffer
    if count:
        rows = np.frombuffer(bits, np.uint8).reshape(y1 - y0, -1)
        mask[y0:y1, x0:x1] = np.unpackbits(rows, axis=1, count=x1 - x0)
    return mask


def shown_mask(head: Mapping[str, Any], bits: list[int]) -> NDArray[np.bool_]:
    """Return a mask (h, w) as a page has it: what came as run lengths is bits there."""
    return mask_of({**head, "runs": False}, bytes(bits))


def bits_of(runs: bytes, count: int) -> bytes:
    """Return so many bytes of bits from numbers of bits that are 0, 1, 0 and so on."""
    numbers, shift = [0], 0
    for byte in runs:
        numbers[-1] |= (byte & 127) << shift
        shift = shift + 7 if byte > 127 else 0
        if not shift:
            numbers.append(0)
    assert numbers.pop() == 0  # the last one was complete
    flat = np.repeat(np.arange(len(numbers)) % 2, numbers).astype(np.uint8)
    assert flat.size == 8 * count
    return np.packbits(flat).tobytes()
