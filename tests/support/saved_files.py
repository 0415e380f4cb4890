"""Files of embeddings and sessions with other contents, as another program may write them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

Fields = dict[str, Any]  # arrays, and the texts of the metadata


def read(path: Path) -> Fields:
    """Return the arrays and the metadata of a file, but for its checksum."""
    with safetensors.safe_open(path, "np") as file:
        fields: Fields = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        fields |= file.metadata()
    del fields["crc32"]
    return fields


def write(path: Path, fields: Mapping[str, Any]) -> None:
    """Write arrays as tensors, and texts as metadata."""
    texts = {name: value for name, value in fields.items() if isinstance(value, str)}
    arrays = {
        name: np.ascontiguousarray(value) for name, value in fields.items() if name not in texts
    }
    safetensors.numpy.save_file(arrays, path, texts)
