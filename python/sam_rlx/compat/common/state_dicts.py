"""Networks whose weights come later, by ``load_state_dict``."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects
from sam_rlx.compat.common.tensors import is_torch
from sam_rlx.errors import CheckpointError, StateError


class LoadResult(NamedTuple):
    """What `load_state_dict` gives."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class StateDictError(CheckpointError, RuntimeError):
    """Upstream raises `RuntimeError` about the tensors of a state dict."""


class EmptyModel:
    """A network without weights, which come by `load_state_dict`.

    Parameters
    ----------
    family, variant : str or None
        What it will be, as `sam_rlx.Model` names them; without a variant the weights tell it.
    img_size : int
        Side of the square input in pixels.
    """

    mask_threshold = 0.0

    def __init__(self, family: str, variant: str | None, img_size: int) -> None:
        self.family, self.variant, self.img_size = family, variant, img_size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise StateError(
            "load_state_dict: expected weights before the network is used, found none; "
            "the builders take a checkpoint too"
        )


@expects("a dict of names and tensors")
def write_arrays(path: Path, state_dict: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write arrays or tensors as a safetensors file of float32, and what it says of itself."""
    arrays = {}
    for name, value in state_dict.items():
        plain = value.detach().cpu().float().numpy() if is_torch(value) else value
        arrays[str(name)] = np.ascontiguousarray(plain, "<f4")
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.data)


__dir__ = public_names(__name__)
