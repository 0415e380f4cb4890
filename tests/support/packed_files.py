"""GGUF files read by the package `gguf`, which knows nothing of ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sam_rlx import _core

from support import tiny

K_TYPES = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K")


def _numbers(gguf: Any, tensor: Any) -> NDArray[np.float32]:
    """Unpack one tensor. Of Q8_K the package knows the layout only: scale, 256 numbers, sums."""
    if tensor.tensor_type.name != "Q8_K":
        found: NDArray[np.float32] = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return found
    blocks = np.frombuffer(np.ascontiguousarray(tensor.data), np.uint8).reshape(-1, 292)
    scales = blocks[:, :4].copy().view(np.float32)
    return scales * blocks[:, 4:260].copy().view(np.int8).astype(np.float32)


def unpacked(path: Path, family: str, like: tiny.Weights) -> tuple[tiny.Weights, Counter[str]]:
    """Return the weights by Meta's names, in the shapes of `like`, and how many have each type."""
    import gguf

    meta = {_core.to_short_name(family, name): name for name in like}
    weights, kinds = {}, Counter[str]()
    for tensor in gguf.GGUFReader(path).tensors:
        name = meta[tensor.name]
        weights[name] = _numbers(gguf, tensor).astype(np.float32).reshape(like[name].shape)
        kinds[tensor.tensor_type.name] += 1
    return weights, kinds
