"""Embeddings that users give, and on disk: NPZ files of `save_embedding`."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx.arrays import as_integer
from sam_rlx.errors import CheckpointError, InvalidArgumentError
from sam_rlx.files import atomic_write


class Kind(NamedTuple):
    """What a file says that it holds, and the names of its arrays, in order."""

    format: str
    names: tuple[str, ...]


IMAGE = Kind(
    "sam_rlx.image_embedding.1", ("image_embedding", "high_res_feature_0", "high_res_feature_1")
)
CONCEPT = Kind(
    "sam_rlx.concept_embedding.1",
    ("map", "fusion_encoder", "geometry_token", "pixel_level_1", "pixel_level_0"),
)


def save(
    path: str,
    kind: Kind,
    embeddings: Sequence[NDArray[np.float32]],
    orig_hw: tuple[int, int],
    identity: Mapping[str, Any],
) -> None:
    """Write embeddings, the size of their picture, and what identifies the model."""
    fields: dict[str, Any] = {**dict(zip(kind.names, embeddings, strict=False)), **identity}
    with atomic_write(path) as file:
        np.savez(file, format=kind.format, orig_hw=np.asarray(orig_hw, np.int64), **fields)


def load(
    path: str, kind: Kind, identity: Mapping[str, Any]
) -> tuple[list[NDArray[np.float32]], tuple[int, ...]]:
    """Read what `save` wrote; raise `CheckpointError` when it is damaged or of another model."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            fields = {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path}: expected an embedding file, found {error}") from error
    for key, value in {"format": kind.format, **identity}.items():
        found = fields[key].item() if key in fields and fields[key].ndim == 0 else None
        if found != value:
            raise CheckpointError(f"{path}: expected {key} {value!r}, found {found!r}")
    try:
        orig_hw = tuple(int(side) for side in fields["orig_hw"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: expected a complete embedding, found {error}") from error
    return [fields[name] for name in kind.names if name in fields], orig_hw


def as_embedding(embedding: Any) -> NDArray[np.float32]:
    """Check the type and the values of a part of an embedding that a user gives."""
    array = np.asarray(embedding)
    if array.dtype != np.float32:
        raise InvalidArgumentError(f"embedding: expected dtype float32, found {array.dtype}")
    if not np.isfinite(array).all():
        raise InvalidArgumentError("embedding: expected finite values, found NaN or infinity")
    return np.ascontiguousarray(array)


def as_hw(orig_hw: Any) -> tuple[int, int]:
    """Check the size of a picture that a user gives."""
    sides = tuple(orig_hw) if isinstance(orig_hw, (tuple, list, np.ndarray)) else ()
    if len(sides) != 2:
        raise InvalidArgumentError(f"orig_hw: expected (H, W), found {orig_hw!r}")
    return as_integer("orig_hw[0]", sides[0], 1), as_integer("orig_hw[1]", sides[1], 1)
