"""Checkpoints in other kinds of files, with other names and number formats."""

import os
import re
from pathlib import Path

from sam_rlx import _safetensors as safetensors
from sam_rlx._arrays import as_num_threads
from sam_rlx._gguf import conversion as gguf_conversion
from sam_rlx._gguf.conversion import Written
from sam_rlx._internal.checks import as_optional_text
from sam_rlx._internal.files.atomic import as_path
from sam_rlx._printable import shown
from sam_rlx._progress import Progress
from sam_rlx._sources import find_checkpoint
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import check_key

__all__ = ["Written", "convert"]


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    names: str | None = None,
    dtype: str | None = None,
    key: str | None = None,
    num_threads: int | None = None,
    progress: Progress | None = None,
) -> Written:
    """Write a checkpoint as another kind of file.

    Parameters
    ----------
    source : str or path
        What `load_model` takes: a file, a folder, a packaged model or a hub id.
    output : str or path
        What its name ends in tells the kind: ``.safetensors``, ``.gguf``, or nothing for a folder
        that ``from_pretrained`` of transformers loads (``config.json``, ``model.safetensors`` and
        ``preprocessor_config.json``). Each file appears when it is complete.
    names : str, optional
        Names of the tensors: ``"meta"`` or ``"transformers"``. Default: a ``.safetensors`` file
        keeps the names of the source, whatever they are. A folder has transformers' names, a GGUF
        file short forms of Meta's.
    dtype : str, optional
        Number format. Of ``.safetensors`` and folders: ``"F32"``, ``"F16"`` or ``"BF16"`` for all
        floats; by default numbers keep their bits, and packed ones become float32, which holds
        them exactly. Of GGUF: one of `sam-rlx quantize` for the matrices, by default ``"F32"``.
    key : str, optional
        Which of several models in the source, as for `load_model`.
    num_threads : int, optional
        Default: all cores available.
    progress : callable, optional
        Called with bytes written and bytes to write after each tensor.

    Returns
    -------
    Written
        `path`, `nbytes`, `dtypes`, `changes` (from which format to which), `rounded` (those of
        them that lose bits), `skipped` (what the new file has not, with the reason).

    Raises
    ------
    FileNotFoundError
        There is no such source.
    CheckpointError
        The source is damaged, or has numbers that the format cannot hold.
    InvalidArgumentError
        An argument is none of those above; a packed source would grow as GGUF without `dtype`; or
        the output is the source.
    UnsupportedError
        transformers has no class or no setting for this network, such as for memories that are not
        64 wide.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp() + "/sam"
    >>> written = convert("sam-nano", folder, dtype="F16")
    >>> written.path.name, sorted(written.dtypes)
    ('model.safetensors', ['F16'])
    """
    target = as_path(output)
    names, dtype = as_optional_text("names", names), as_optional_text("dtype", dtype)
    check_key(key)
    if progress is not None and not callable(progress):
        raise InvalidArgumentError(f"progress: expected a callable, found {shown(progress)}")
    path = find_checkpoint(source)
    threads = as_num_threads(num_threads)
    if _same_file(path, target):
        raise InvalidArgumentError(f"output: expected another file than the source, found {target}")
    if target.suffix == ".gguf":
        if names not in (None, "meta"):
            raise InvalidArgumentError(f"names: expected None or 'meta' for GGUF, found {names!r}")
        return gguf_conversion.to_gguf(
            path,
            target,
            dtype or "F32",
            may_grow=dtype is not None,
            key=key,
            num_threads=threads,
            progress=progress,
        )
    if target.suffix == ".safetensors":
        return safetensors.to_file(
            path,
            target,
            names=names,
            dtype=dtype,
            key=key,
            num_threads=threads,
            progress=progress,
        )
    if not is_folder_name(target):
        raise InvalidArgumentError(
            f"output: expected .safetensors, .gguf or a folder, found {target}"
        )
    if names not in (None, "transformers"):
        raise InvalidArgumentError(
            f"names: expected None or 'transformers' for a folder, found {names!r}"
        )
    return safetensors.to_folder(
        path, target, dtype=dtype, key=key, num_threads=threads, progress=progress
    )


def is_folder_name(path: Path) -> bool:
    """Tell whether an output is a folder: it is one, or its name ends in no kind of file.

    The last part of ``sam2.1-hiera-tiny`` is none.
    """
    return path.is_dir() or not path.suffix or bool(re.match(r"\.\d", path.suffix))


def _same_file(source: Path, output: Path) -> bool:
    """Tell whether writing the output would replace the source, also through links."""
    if output.is_dir():
        output = output / "model.safetensors"
    if source.is_dir():
        source = source / "model.safetensors"
    return output.exists() and source.exists() and source.samefile(output)
