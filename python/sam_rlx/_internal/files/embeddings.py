"""Embeddings that users give, and on disk: NPZ files of `save_embedding`."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_hw
from sam_rlx._internal.files import saved_arrays
from sam_rlx._internal.files.saved_arrays import Field
from sam_rlx.errors import CheckpointError, InvalidArgumentError


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
    path: str | os.PathLike[str],
    kind: Kind,
    embeddings: Sequence[NDArray[np.float32]],
    orig_hw: tuple[int, int],
    identity: Mapping[str, Any],
) -> None:
    """Write embeddings, the size of their image, and what identifies the model."""
    arrays = dict(zip(kind.names, embeddings, strict=False))
    saved_arrays.write(
        path,
        {"format": kind.format, "orig_hw": np.asarray(orig_hw, np.int64), **arrays, **identity},
    )


def load(
    path: str | os.PathLike[str], kind: Kind, identity: Mapping[str, Any]
) -> tuple[list[NDArray[np.float32]], tuple[int, int]]:
    """Read what `save` wrote; raise `CheckpointError` when it is damaged or of another model."""
    schema: dict[str | re.Pattern[str], Field] = {
        "orig_hw": Field("i", 1),
        **{name: Field("f", range(1, 6), name == kind.names[0]) for name in kind.names},
        **saved_arrays.IDENTITY,
    }
    fields = saved_arrays.read(path, "an embedding file", (kind.format,), schema)
    saved_arrays.check_identity(path, fields, identity)
    try:
        orig_hw = as_hw("orig_hw", fields["orig_hw"].tolist())
        arrays = [as_embedding(fields[name]) for name in kind.names if name in fields]
    except InvalidArgumentError as error:
        raise CheckpointError(f"{path}: expected a complete embedding, found {error}") from error
    return arrays, orig_hw


def as_embedding(embedding: Any) -> NDArray[np.float32]:
    """Check the type and the values of a part of an embedding that a user gives."""
    array = as_array("embedding", embedding)
    if array.dtype != np.float32:
        raise InvalidArgumentError(f"embedding: expected dtype float32, found {array.dtype}")
    if not np.isfinite(array).all():
        raise InvalidArgumentError("embedding: expected finite values, found NaN or infinity")
    return np.ascontiguousarray(array)
