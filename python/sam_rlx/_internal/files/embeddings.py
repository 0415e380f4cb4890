"""Embeddings and examples that users give, and on disk: files of `save_embedding` and `save`."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import NamedTensors
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_hw
from sam_rlx._internal.files import saved_tensors
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


_EXAMPLES, _TOKENS = "sam_rlx.concept_examples.1", "tokens"


def save(
    path: str | os.PathLike[str],
    kind: Kind,
    embeddings: Sequence[NDArray[np.float32]],
    orig_hw: tuple[int, int],
    identity: Mapping[str, str],
) -> None:
    """Write embeddings, the size of their image, and what identifies the model."""
    saved = NamedTensors(dict(zip(kind.names, embeddings, strict=False)))
    metadata = {"format": kind.format, "orig_hw": json.dumps(orig_hw), **identity}
    saved_tensors.write(path, saved, metadata)


def load(
    path: str | os.PathLike[str], kind: Kind, identity: Mapping[str, str]
) -> tuple[list[NDArray[np.float32]], tuple[int, int]]:
    """Read what `save` wrote; raise `CheckpointError` when it is damaged or of another model."""
    saved = saved_tensors.read(path, kind.format, ("orig_hw",), identity)
    found = saved.arrays
    try:
        orig_hw = as_hw("orig_hw", json.loads(saved.metadata["orig_hw"]))
        arrays = [as_embedding(found[name]) for name in kind.names if name in found]
    except (InvalidArgumentError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: expected a complete embedding, found {error}") from error
    return arrays, orig_hw


def save_examples(
    path: str | os.PathLike[str], tokens: NDArray[np.float32], identity: Mapping[str, str]
) -> None:
    """Write tokens of examples, and what identifies the model that made them."""
    saved_tensors.write(path, NamedTensors({_TOKENS: tokens}), {"format": _EXAMPLES, **identity})


def load_examples(path: str | os.PathLike[str], identity: Mapping[str, str]) -> NDArray[np.float32]:
    """Read what `save_examples` wrote; errors as those of `load`."""
    arrays = saved_tensors.read(path, _EXAMPLES, (), identity).arrays
    try:
        return as_embedding(arrays[_TOKENS])
    except (InvalidArgumentError, KeyError) as error:
        raise CheckpointError(f"{path}: expected examples, found {error}") from error


def as_embedding(embedding: Any) -> NDArray[np.float32]:
    """Check the type and the values of a part of an embedding that a user gives."""
    array = as_array("embedding", embedding)
    if array.dtype.kind != "f" or array.dtype.itemsize > 4:
        raise InvalidArgumentError(
            f"embedding: expected dtype float32 or float16, found {array.dtype}"
        )
    if not np.isfinite(array).all():
        raise InvalidArgumentError("embedding: expected finite values, found NaN or infinity")
    return np.ascontiguousarray(array, np.float32)
