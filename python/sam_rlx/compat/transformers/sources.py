"""Where models, settings and processors are loaded from: folders, files and the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx._internal.weights import hub
from sam_rlx._internal.weights.sources import find_checkpoint, local_path
from sam_rlx.compat.transformers.refusals import refuse
from sam_rlx.errors import CheckpointError

CONFIG = "config.json"
# Arguments that tell where to look.
_WHERE = ("cache_dir", "revision", "token", "local_files_only")
# Arguments of upstream's that change nothing here.
_IGNORED = (
    *("force_download", "proxies", "resume_download", "_from_auto", "adapter_kwargs"),
    "user_agent",
)


class NoFileError(CheckpointError, OSError):
    """Upstream raises `OSError` where a folder or repository lacks a file."""


@dataclass(frozen=True)
class Source:
    """A folder, a file, or a repository of the hub and how it is asked."""

    name: str
    path: Path | None  # of a folder or file; None: a repository
    options: Mapping[str, Any]
    subfolder: str = ""

    def files(self, names: Sequence[str]) -> dict[str, Path]:
        """Return the paths of those of the named files that there are."""
        if self.path is None:
            wanted = {f"{self.subfolder}/{name}".lstrip("/"): name for name in names}
            found = hub.download_files(self.name, list(wanted), **self.options)
            return {wanted[name]: path for name, path in found.items()}
        folder = self.path if self.path.is_dir() else self.path.parent
        return {name: folder / name for name in names if (folder / name).is_file()}

    def checkpoint(self) -> Path:
        """Return the file or folder of the weights.

        Raises
        ------
        OSError
            There is none.
        """
        if self.path is not None:
            return self.path
        names = [f"{self.subfolder}/{name}" for name in ("model.safetensors", "pytorch_model.bin")]
        chosen = None
        if self.subfolder:
            found = hub.download_files(self.name, names, **self.options)
            chosen = next((name for name in names if name in found), names[0])
        return find_checkpoint(self.name, filename=chosen, **self.options)


def source_of(source: str | os.PathLike[str], kwargs: Mapping[str, Any]) -> tuple[Source, Any]:
    """Return where a source is, and the arguments that are about something else.

    Parameters
    ----------
    source : str or path
        A folder, a file, the name of a packaged model or a hub id.
    kwargs : mapping
        Arguments of a ``from_pretrained``.

    Raises
    ------
    OSError
        There is no such folder or file, and it is no hub id.
    """
    rest = {name: value for name, value in kwargs.items() if name not in _IGNORED}
    token = rest.pop("use_auth_token", None)
    options = {name: rest.pop(name, None) for name in _WHERE}
    options["token"] = token if options["token"] is None else options["token"]
    options["local_files_only"] = bool(options["local_files_only"])
    if options["revision"] == "main":
        options["revision"] = None
    subfolder = str(rest.pop("subfolder", None) or "").strip("/")
    name = os.fspath(source)
    path = local_path(name)
    if path is not None and subfolder:
        path = path / subfolder
    if path is not None and not path.exists():
        raise NoFileError(f"from_pretrained: expected a folder or a file, found none at {path}")
    return Source(name, path, options, subfolder), rest


def take_source_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments about a source out of those of a call, and return them."""
    names = (*_WHERE, "subfolder", "use_auth_token", *_IGNORED)
    return {name: kwargs.pop(name) for name in names if name in kwargs}


def source_files(
    source: str | os.PathLike[str], names: Sequence[str], options: Mapping[str, Any]
) -> dict[str, Path]:
    """Return the paths of those of some files that a source has.

    Parameters
    ----------
    source : str or path
        As of `source_of`; of a file those beside it count.
    names : sequence of str
        Names of files.
    options : mapping
        What `take_source_options` gave.

    Raises
    ------
    OSError
        There is no such folder, or the hub has no such repository (`HubError`) or is offline.
    """
    return source_of(source, options)[0].files(names)


def read_json(path: Path) -> dict[str, Any]:
    """Return the settings of a file; `OSError` for anything but a JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise NoFileError(f"{path}: expected a JSON object, found another text") from error
    if not isinstance(found, dict):
        raise NoFileError(f"{path}: expected a JSON object, found {type(found).__name__}")
    return found


def settings_of(where: Source) -> dict[str, Any]:
    """Return the settings of a model, as ``config.json`` has them.

    A file without that beside it tells them by its tensors.

    Raises
    ------
    OSError
        There are no settings.
    RefusedError
        A folder holds an adapter alone.
    """
    adapter = _core.ADAPTER_FILES[0]
    found = where.files([CONFIG, adapter])
    if CONFIG in found:
        settings = read_json(found[CONFIG])
        if "model_type" in settings or where.path is None or where.path.is_dir():
            return settings
    if adapter in found:
        refuse("adapters", f"from_pretrained({where.name!r})")
    if where.path is None or where.path.is_dir():
        raise NoFileError(f"{where.name}: expected a file named {CONFIG}, found none")
    return settings_of_file(where.path)


def settings_of_file(path: Path) -> dict[str, Any]:
    """Return the settings of the class of transformers that holds all of a file."""
    checkpoint = _core.Checkpoint(str(path))
    checkpoint.to_meta_names()
    settings: dict[str, Any] = checkpoint.folder_config()
    return settings


def read_settings(
    source: str | os.PathLike[str], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of a source, and the arguments that are about something else."""
    where, rest = source_of(source, kwargs)
    return settings_of(where), rest


__all__ = [
    *("CONFIG", "NoFileError", "Source", "read_json", "read_settings", "source_files", "source_of"),
    "take_source_options",
]
__dir__ = public_names(__name__)
