"""Embeddings and sessions on disk: safetensors files of the library, read as hostile.

The core writes and reads them. Their metadata say what a file is, and by which weights it was made.
"""

import os
from collections.abc import Iterable, Mapping

from sam_rlx._core import Model, NamedTensors
from sam_rlx._internal.arrays.checks import as_path
from sam_rlx._internal.files import marks
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.printable import printable
from sam_rlx.errors import CheckpointError, InvalidArgumentError

_STRUCTURE = ("family", "variant", "img_size")


def identity(model: Model, source: str) -> dict[str, str]:
    """Return what identifies a model of a file: its kind, and a hash of its weights."""
    return {
        "family": model.family,
        "variant": model.variant,
        "img_size": str(model.img_size),
        "weights": model.weights_hash,
        "checkpoint": printable(os.path.basename(source)),  # noqa: PTH119
    }


def write(
    path: str | os.PathLike[str],
    saved: NamedTensors,
    metadata: Mapping[str, str],
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> None:
    """Write arrays and their metadata, with more of it: ``format`` and `identity` among them.

    The file appears complete or not at all, and replaces no input, and no weights.
    """
    target = as_path(path)
    check_target(target, ("safetensors",), inputs)
    if marks.safetensors_format(target) == "":
        raise InvalidArgumentError(
            f"{target}: expected a new file, or an embedding or session of sam_rlx, found weights: "
            "choose another name"
        )
    saved.metadata = {**saved.metadata, **metadata, **marks.SAFETENSORS_MARK}
    with atomic_write(target) as file:
        saved.save(file)


def read(
    path: str | os.PathLike[str], kind: str, required: Iterable[str], expected: Mapping[str, str]
) -> NamedTensors:
    """Read a file of `write`.

    Parameters
    ----------
    path : str or path
        The file.
    kind : str
        Its ``format``.
    required : iterable of str
        Other keys that its metadata must have.
    expected : mapping
        The `identity` of the model that is to use it.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    CheckpointError
        It is damaged, something else, or made with other weights.
    """
    saved = NamedTensors.read(as_path(path))
    metadata = saved.metadata
    found = metadata.get("format", "none")
    if found != kind:
        raise CheckpointError(f"{path}: expected format {kind!r}, found {printable(found)!r}")
    missing = [key for key in (*expected, *required) if key not in metadata]
    if missing:
        raise CheckpointError(f"{path}: expected {', '.join(missing)}, found none")
    if differ := difference("a file", metadata, expected):
        raise CheckpointError(f"{path}: {differ}")
    return saved


def difference(what: str, found: Mapping[str, str], expected: Mapping[str, str]) -> str | None:
    """Return in words how one `identity` differs from another; None if both are of one model."""
    for key in _STRUCTURE:
        if found[key] != expected[key]:
            return f"expected {key} {expected[key]!r}, found {printable(found[key])!r}"
    if found["weights"] != expected["weights"]:
        return (
            f"expected {what} made with the weights of {expected['checkpoint']} "
            f"({expected['weights']}), found one of the weights of "
            f"{printable(found['checkpoint'])} ({printable(found['weights'])})"
        )
    return None
