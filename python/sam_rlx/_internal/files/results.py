"""Writing documents and arrays: complete or not at all, and nothing of another kind replaced."""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from sam_rlx._internal.arrays.checks import as_path
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.marks import mark_npz
from sam_rlx._internal.files.targets import check_target
from sam_rlx.errors import InvalidArgumentError


def write_text(path: str | os.PathLike[str], text: str, kind: str) -> None:
    """Write UTF-8 text; `kind` is a key of `suffixes.WRITTEN`."""
    target = as_path(path)
    check_target(target, (kind,))
    with atomic_write(target) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def write_document(path: str | os.PathLike[str], document: Any, kind: str = "JSON") -> None:
    """Write UTF-8 JSON; parameters and errors are those of `io.write_json`."""
    target = as_path(path)
    check_target(target, (kind,))
    try:
        text = json.dumps(document, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"document: expected what JSON can hold, found {error}"
        ) from error
    with atomic_write(target) as file:
        file.write((text + "\n").encode("utf-8"))


def write_arrays(
    path: str | os.PathLike[str], arrays: Mapping[str, Any], *, origin: str = ""
) -> None:
    """Write a compressed NPZ file; parameters and errors are those of `io.write_npz`.

    Its mark has the `marks.origin`, if there is one.
    """
    target = as_path(path)
    check_target(target, ("NPZ",))
    values: dict[str, Any] = {name: as_array(name, array) for name, array in arrays.items()}
    for name, array in values.items():
        if array.dtype.hasobject:  # NumPy would pickle it
            raise InvalidArgumentError(f"{name}: expected numbers or text, found {array.dtype}")
    with atomic_write(target) as file:
        np.savez_compressed(file, **values)
        mark_npz(file, origin)
