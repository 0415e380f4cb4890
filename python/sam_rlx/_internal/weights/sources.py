"""What `load_model` takes: files, directories, names of packaged models and hub ids."""

import importlib.util
import os
from pathlib import Path

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_flag, as_optional_text, as_path_text, as_text
from sam_rlx._internal.files import hints
from sam_rlx._internal.files.inputs import home
from sam_rlx._internal.nearest import did_you_mean
from sam_rlx._internal.printable import shown
from sam_rlx._internal.weights import hub
from sam_rlx.errors import CheckpointError, InvalidArgumentError, UnsupportedError

# Names of the small models, which are names of variants too.
PACKAGED = ("sam-nano", "sam2-nano", "sam3-nano")
_ASSETS = Path(__file__).parents[2] / "assets"
_PACKAGE = "sam_rlx_nano"


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
    unnamed = isinstance(source, str) and not source  # there is no such file
    name = "" if unnamed else as_path_text("load_model.source", source)
    filename = as_optional_text("filename", filename)
    revision = as_optional_text("revision", revision)
    token = token if token is None or isinstance(token, bool) else as_text("token", token)
    cache_dir = None if cache_dir is None else as_path_text("cache_dir", cache_dir)
    local_files_only = as_flag("local_files_only", local_files_only)
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


def find_adapter(
    source: str | os.PathLike[str],
    *,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> str:
    """Return the absolute path of the file or folder of an adapter; parameters: `load_model`'s."""
    name = as_path_text("load_model.lora", source)
    path = home(name)
    if name and path.exists():
        return os.path.abspath(path)  # noqa: PTH100  (no link is followed)
    if not hub.is_hub_id(name):
        expected = "an existing folder of PEFT, file of an adapter or hub id 'owner/name'"
        raise hints.not_found("load_model.lora", name, expected)
    folder = hub.download_adapter(
        name, token=token, cache_dir=cache_dir, local_files_only=local_files_only
    )
    return str(folder)


def _preferred(name: str, path: Path | None, prefer: str) -> Path:
    """Return the checkpoint of a directory whose name contains `prefer`."""
    if not isinstance(prefer, str) or not prefer:
        raise InvalidArgumentError(
            f"load_model.prefer: expected part of a file's name, found {shown(prefer)}"
        )
    if path is None or not path.is_dir():
        raise InvalidArgumentError(
            f"load_model: expected prefer only with a directory, found the source {name!r}"
        )
    return Path(_core.resolve_checkpoint(str(path), prefer))


def local_path(name: str) -> Path | None:
    """Return the file or directory behind `name`, or None if it is a hub id."""
    if name in PACKAGED:
        return _packaged_file(name)
    path = home(name)
    if name and path.exists():
        _refuse_odd(path)
        return path
    if hub.is_hub_id(name):
        return None
    expected = f"an existing file or directory, one of {list(PACKAGED)} or a hub id 'owner/name'"
    raise hints.not_found("load_model", name, expected, did_you_mean(name, PACKAGED))


def _refuse_odd(path: Path) -> None:
    """Raise `CheckpointError` for a file that no program writes weights in, such as a web page."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        odd = hints.odd_file(file.read(hints.START))
    if odd:
        raise CheckpointError(f"{path}: expected a safetensors, GGUF or PyTorch file, found {odd}")


def _packaged_folders() -> list[Path]:
    """Return where small models may lie: in this package, and in the one of the weights alone.

    An installation from a checkout has them in this package. A released wheel requires
    ``sam-rlx-nano``, which serves every platform.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    others = (spec.submodule_search_locations if spec is not None else None) or []
    return [_ASSETS, *(Path(folder) for folder in others)]


def _packaged_file(name: str) -> Path:
    for folder in _packaged_folders():
        path = folder / f"{name}.gguf"
        if path.is_file():
            return path
    raise UnsupportedError(
        f"load_model: expected the weights of {name}, found a build without them: "
        "pip install sam-rlx-nano, in a checkout pip install ./packages/sam-rlx-nano"
    )


def packaged_name(path: Path) -> str | None:
    """Return the name of the small model that an absolute path is the file of, or None."""
    if path.stem not in PACKAGED:
        return None
    return path.stem if path.parent in [f.absolute() for f in _packaged_folders()] else None
