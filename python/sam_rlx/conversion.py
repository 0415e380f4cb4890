"""Checkpoints in other kinds of files, with other names and number formats."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from sam_rlx._internal.arrays.checks import as_num_threads, as_optional_text, as_path, as_progress
from sam_rlx._internal.files.targets import check_target
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.weights import number_formats, safetensors
from sam_rlx._internal.weights.gguf import conversion as gguf_conversion
from sam_rlx._internal.weights.sources import find_adapter, find_checkpoint
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import check_key

__all__ = ["Written", "convert"]

# Number formats of GGUF; the first three are also those of safetensors.
Dtype: TypeAlias = Literal[
    "F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
    "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K",
]  # fmt: skip


@dataclass(frozen=True)
class Written:
    """What a conversion wrote.

    Attributes
    ----------
    path : Path
        The file.
    nbytes : int
        Bytes of the tensors.
    dtypes : dict of str to int
        How many tensors have which number format.
    fell_back : list of (str, str, str)
        Name, format that was asked for, and format that the tensor got, since its rows do not fit
        the blocks of the first.
    skipped : list of str
        What the source holds and the file does not, with the reason.
    source_nbytes : int
        Bytes of the tensors in the source, 0 where their format has no known size.
    changes : dict of (str, str) to int
        How many tensors had which number format and have which: ``{("F32", "F16"): 174}``.
    """

    path: Path
    nbytes: int
    dtypes: dict[str, int]
    fell_back: list[tuple[str, str, str]]
    skipped: list[str]
    source_nbytes: int = 0
    changes: dict[tuple[str, str], int] = field(default_factory=dict)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {dtype}" for dtype, count in sorted(self.dtypes.items()))
        return f"<Written {self.path}, {self.nbytes / 1e6:,.1f} MB, tensors: {counts}>"

    @property
    def rounded(self) -> dict[tuple[str, str], int]:
        """Those of `changes` whose new format does not hold every number of the old one."""
        return {
            pair: count
            for pair, count in self.changes.items()
            if not number_formats.is_exact(*pair)
        }


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    names: Literal["meta", "transformers"] | None = None,
    dtype: Dtype | None = None,
    key: str | None = None,
    lora: str | os.PathLike[str] | None = None,
    num_threads: int | None = None,
    progress: bool | Progress = False,
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
    names : {"meta", "transformers"}, optional
        Names of the tensors. Default: a ``.safetensors`` file keeps the names of the source,
        whatever they are. A folder has transformers' names, a GGUF file short forms of Meta's.
    dtype : str, optional
        Number format. Of ``.safetensors`` and folders: ``"F32"``, ``"F16"`` or ``"BF16"`` for all
        floats; by default numbers keep their bits, and packed ones become float32, which holds
        them exactly. Of GGUF: one of `sam-rlx quantize` for the matrices, by default ``"F32"``.
    key : str, optional
        Which of several models in the source, as for `load_model`.
    lora : str or path, optional
        An adapter to merge, as for `load_model`. Weights that it changes are float32, if `dtype`
        is not given. A source with other names than the adapter's gets Meta's, if `names` says
        nothing else.
    num_threads : int, optional
        Default: all cores available.
    progress : bool or callable
        A callable gets (bytes written, bytes to write) after each tensor. True shows a bar on a
        terminal and in Jupyter if ``tqdm`` is installed, else nothing.

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
    progress = as_progress(progress)
    path = find_checkpoint(source)
    adapter = None if lora is None else find_adapter(lora)
    threads = as_num_threads(num_threads)
    if _same_file(path, target):
        raise InvalidArgumentError(f"output: expected another file than the source, found {target}")
    if target.suffix in (".gguf", ".safetensors"):
        check_target(target, ("GGUF" if target.suffix == ".gguf" else "safetensors",))
    _check_names(target, names)
    with reporter(progress, "B", scale=True, text="reading") as report:
        if target.suffix == ".gguf":
            outcome = gguf_conversion.to_gguf(
                path,
                target,
                dtype or "F32",
                may_grow=dtype is not None,
                key=key,
                lora=adapter,
                num_threads=threads,
                progress=report,
            )
        elif target.suffix == ".safetensors":
            outcome = safetensors.to_file(
                path,
                target,
                names=names,
                dtype=dtype,
                key=key,
                lora=adapter,
                num_threads=threads,
                progress=report,
            )
        else:
            outcome = safetensors.to_folder(
                path,
                target,
                dtype=dtype,
                key=key,
                lora=adapter,
                num_threads=threads,
                progress=report,
            )
    return Written(*outcome)


def _check_names(target: Path, names: str | None) -> None:
    """Refuse an output of no known kind, and names that its kind does not have."""
    if target.suffix == ".safetensors":
        return
    is_gguf = target.suffix == ".gguf"
    if not is_gguf and not is_folder_name(target):
        raise InvalidArgumentError(
            f"output: expected .safetensors, .gguf or a folder, found {target}"
        )
    only, kind = ("meta", "GGUF") if is_gguf else ("transformers", "a folder")
    if names not in (None, only):
        raise InvalidArgumentError(f"names: expected None or {only!r} for {kind}, found {names!r}")


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


__dir__ = public_names(__name__)
