"""What `load_model` takes: files, directories, names of packaged models and hub ids."""

import os
from pathlib import Path

from sam_rlx import _core
from sam_rlx import _hub as hub
from sam_rlx.errors import InvalidArgumentError, UnsupportedError

# Names of the models inside the package, which are names of variants too.
PACKAGED = ("sam-nano", "sam2-nano", "sam3-nano")
ASSETS = Path(__file__).with_name("assets")


def find_checkpoint(
    source: str | os.PathLike[str],
    *,
    prefer: str | None = None,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the file or directory of a source; parameters and errors are `load_model`'s."""
    if not isinstance(source, (str, os.PathLike)):
        found = type(source).__name__
        raise InvalidArgumentError(f"load_model.source: expected str or path, found {found}")
    name = os.fspath(source)
    path = local_path(name)
    if prefer is not None:
        return _preferred(name, path, prefer)
    if path is None:
        return hub.download(
            name,
            filename=filename,
            revision=revision,
            token=token,
            cache_dir=cache_dir,
            local_files_only=local_files_only,
        )
    given = (filename, revision, token, cache_dir, local_files_only or None)
    if any(value is not None for value in given):
        raise InvalidArgumentError(
            "load_model: expected filename, revision, token, cache_dir and local_files_only only "
            f"with a hub id, found the local source {name!r}"
        )
    return path


def _preferred(name: str, path: Path | None, prefer: str) -> Path:
    """Return the checkpoint of a directory whose name contains `prefer`."""
    if not isinstance(prefer, str) or not prefer:
        raise InvalidArgumentError(
            f"load_model.prefer: expected part of a file's name, found {prefer!r}"
        )
    if path is None or not path.is_dir():
        raise InvalidArgumentError(
            f"load_model: expected prefer only with a directory, found the source {name!r}"
        )
    return Path(_core.preferred_checkpoint(str(path), prefer))


def local_path(name: str) -> Path | None:
    """Return the file or directory behind `name`, or None if it is a hub id."""
    if name in PACKAGED:
        asset = ASSETS / f"{name}.gguf"
        if not asset.is_file():
            raise UnsupportedError(
                f"load_model: expected packaged weights {asset.name}, found a build without them"
            )
        return asset
    path = Path(name).expanduser()
    if path.exists():
        return path
    if hub.is_hub_id(name):
        return None
    raise FileNotFoundError(
        f"load_model: expected an existing file or directory, one of {list(PACKAGED)} or a hub "
        f"id 'owner/name', found {name!r}"
    )
