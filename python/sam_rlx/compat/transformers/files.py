"""Files of a source as transformers names them: in a folder, or in a repository of the hub."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sam_rlx._internal.files import hints
from sam_rlx._internal.files.inputs import home
from sam_rlx._internal.public import public_names
from sam_rlx._internal.weights import hub
from sam_rlx.errors import HubError

# Keywords of every `from_pretrained` that tell where files come from.
_HUB = ("cache_dir", "local_files_only", "revision", "token")
_OTHERS = ("force_download", "proxies", "subfolder", "use_auth_token", "user_agent")


def take_source_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the keywords about files out of those of a call, and return them for `source_files`."""
    options = {name: kwargs.pop(name) for name in (*_HUB, *_OTHERS) if name in kwargs}
    token = options.pop("use_auth_token", None)
    if options.get("token") is None and token is not None:
        options["token"] = token
    return options


def source_files(
    source: str | os.PathLike[str], names: Sequence[str], options: dict[str, Any]
) -> dict[str, Path]:
    """Return the paths of those of some files that a source has.

    Parameters
    ----------
    source : str or path
        A folder, or a hub id ``owner/name``.
    names : sequence of str
        Names of files.
    options : dict
        `subfolder` of either; `revision`, `token`, `cache_dir` and `local_files_only` of the hub.

    Raises
    ------
    OSError
        There is no such folder, or the hub has no such repository (`HubError`) or is offline.
    """
    subfolder = str(options.get("subfolder") or "")
    folder = home(os.fspath(source)) if os.fspath(source) else None
    if folder is not None and folder.is_dir():
        paths = {name: folder / subfolder / name for name in names}
        return {name: path for name, path in paths.items() if path.is_file()}
    if not hub.is_hub_id(os.fspath(source)):
        raise hints.not_found(
            "from_pretrained", source, "an existing folder or a hub id 'owner/name'"
        )
    inside = {str(Path(subfolder, name)).replace(os.sep, "/"): name for name in names}
    of_hub = {name: options[name] for name in _HUB if options.get(name) is not None}
    found = hub.download_files(os.fspath(source), list(inside), **of_hub)
    return {inside[name]: path for name, path in found.items()}


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a file; one that is no JSON object is an `OSError`."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise HubError(f"{path}: expected settings in JSON, found {error}") from error
    if not isinstance(found, dict):
        raise HubError(f"{path}: expected an object in JSON, found {type(found).__name__}")
    return found


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write settings as transformers does."""
    path.write_text(as_json(settings), encoding="utf-8")


def as_json(settings: dict[str, Any]) -> str:
    """Return settings as transformers writes them."""
    return json.dumps(settings, indent=2, sort_keys=True, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else dict(value)


__dir__ = public_names(__name__)
