"""Checkpoints from the Hugging Face hub (extra ``hub``). The cache is the hub's own."""

import errno
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.packages import optional
from sam_rlx.errors import CheckpointError, HubError, SamRlxError

# Names of files that are no hub ids either.
_FILE_SUFFIXES = (
    *_core.CHECKPOINT_SUFFIXES,
    *(".ckpt", ".onnx", ".pkl", ".tar", ".zip", ".npz", ".json"),
)
_INDEX_SUFFIX = ".index.json"
_FIRST_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf")


def is_hub_id(name: str) -> bool:
    """Tell whether `name` has the form ``owner/name`` and does not look like a checkpoint file."""
    part = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    return bool(re.fullmatch(f"{part}/{part}", name)) and not name.lower().endswith(_FILE_SUFFIXES)


def _huggingface_hub() -> Any:
    return optional("hub", "huggingface_hub", "huggingface-hub")


@dataclass
class _Repository:
    """One repository, and how it is asked for files. Names that are known are not asked for."""

    repo_id: str
    options: dict[str, Any]
    known: list[str] | None = None

    def file(self, filename: str) -> Path | None:
        """Return the local path of a file, downloading it if needed; None: there is none.

        Raises ``HubError`` unless the repository is there, and ``_Offline`` when the file is not
        cached and the hub cannot be asked.
        """
        hub = _huggingface_hub()
        from huggingface_hub import errors

        if self.known is not None and filename not in self.known:
            return None
        options = {"library_name": "sam_rlx", **self.options}
        with self._asking():
            try:
                return self._inside(Path(hub.hf_hub_download(self.repo_id, filename, **options)))
            except errors.LocalEntryNotFoundError as error:
                # The hub's package tries for half a minute, which no other file needs to repeat.
                self.options["local_files_only"] = True
                raise _OfflineError from error
            except errors.EntryNotFoundError:
                return None

    def _inside(self, path: Path) -> Path:
        """Return a file of the cache, if it is one of its repository.

        The names of blobs are what a server says (its ETag), and may lead elsewhere.
        """
        if path.is_symlink() and "snapshots" in path.parts:
            end = len(path.parts) - path.parts[::-1].index("snapshots") - 1
            target = Path(os.path.normpath(path.parent / path.readlink()))
            if not target.is_relative_to(Path(*path.parts[:end])):
                raise HubError(
                    f"{self.repo_id}: expected a file inside of the cache, found {path} that leads "
                    f"to {target}"
                )
        return path

    def cached_or_none(self, filename: str) -> Path | None:
        """Return a file, or None if there is none or it cannot be asked for."""
        try:
            return self.file(filename)
        except _OfflineError:
            return None

    def names(self) -> list[str]:
        """List the files of the repository, or those in the cache where it cannot be asked."""
        hub = _huggingface_hub()
        from huggingface_hub import errors

        failure: Exception = _OfflineError()
        if not self.options["local_files_only"]:
            options = {name: self.options[name] for name in ("revision", "token")}
            try:
                with self._asking():
                    self.known = list(hub.list_repo_files(self.repo_id, **options))
                    return self.known
            except HubError as error:
                refused = (errors.RepositoryNotFoundError, errors.RevisionNotFoundError)
                if isinstance(error.__cause__, refused):
                    raise
                failure = error
        self.options["local_files_only"] = True
        cached = self.cached_names()
        if not cached:
            raise failure
        return cached

    def cached_names(self) -> list[str]:
        """List the files of the revision that are in the cache."""
        hub = _huggingface_hub()
        from huggingface_hub import errors

        revision = self.options["revision"] or "main"
        with self._asking():
            try:
                cache = hub.scan_cache_dir(self.options["cache_dir"])
            except errors.CacheNotFound:
                return []
        return sorted(
            file.file_path.relative_to(found.snapshot_path).as_posix()
            for repository in cache.repos
            if (repository.repo_type, repository.repo_id) == ("model", self.repo_id)
            for found in repository.revisions
            if revision in found.refs or found.commit_hash.startswith(revision)
            for file in found.files
        )

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Tell what a request ends in as `HubError`.

        That is whatever the hub's package, the one below it and their parsers stumble on when a
        server or a proxy misbehaves: classes of their own, OSError, ValueError and others. An error
        of this machine's disk or memory stays what it is.
        """
        try:
            yield
        except (_OfflineError, SamRlxError, MemoryError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _OF_MACHINE:
                raise
            raise self._error(error) from error

    def _error(self, error: Exception) -> HubError:
        """Return our error for one of the hub's."""
        from huggingface_hub import errors

        revision = self.options["revision"]
        if isinstance(error, errors.GatedRepoError):
            text = (
                "expected access, found a gated repository: accept its licence on the hub, then "
                "pass token= or log in with `hf auth login`"
            )
        elif isinstance(error, errors.RepositoryNotFoundError):
            text = (
                "expected a model on the hub, found no such repository (a private one needs token=)"
            )
        elif isinstance(error, errors.RevisionNotFoundError):
            text = f"expected revision {revision!r}, found no such revision"
        else:
            words = str(error).strip() or type(error).__name__
            text = f"expected a file from the hub, found {words}"
        return HubError(f"{self.repo_id}: {text}")


# Errors of a disk, which a file of the cache is written to.
_OF_MACHINE = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EACCES", "EPERM", "EROFS", "EIO", "EMFILE", "ENFILE")
    if hasattr(errno, name)
}


class _OfflineError(Exception):
    """A file is not cached, and the hub cannot be asked for it."""


def download(
    repo_id: str,
    *,
    filename: str | None = None,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the local path of the checkpoint of a hub repository, downloading it if needed.

    Shards of an index, the parts of a GGUF checkpoint, and ``config.json`` and the settings of
    images of transformers come with it.

    Parameters
    ----------
    repo_id : str
        ``owner/name``.
    filename : str, optional
        The file of the repository to take. Default: the one that a folder with these files
        stands for.
    revision : str, optional
        Branch, tag or commit. Default: the main branch.
    token : str or bool, optional
        Access token; True takes the one that is stored on this machine.
    cache_dir : path, optional
        Cache directory. Default: the hub's own.
    local_files_only : bool
        Use the cache alone. ``HF_HUB_OFFLINE=1`` has the same effect.

    Raises
    ------
    MissingExtraError
        ``huggingface-hub`` is not installed.
    HubError
        The repository is gated or unknown, or the file is neither cached nor reachable.
    CheckpointError
        The repository has no such file, or none or several that may be the checkpoint.
    UnsupportedError
        The repository holds an adapter (LoRA) alone.
    """
    options = {
        "revision": revision,
        "token": token,
        "cache_dir": cache_dir,
        "local_files_only": local_files_only,
    }
    repository = _Repository(repo_id, options)
    try:
        name = filename or _core.choose_checkpoint(repository.names(), repo_id, "filename=")
        path = repository.file(name)
        if path is None:
            found = _listed(repository.names())
            raise CheckpointError(f"{repo_id}: expected {name!r}, found {found}")
        folder = PurePosixPath(name).parent
        for part in _part_names(repo_id, path):
            if repository.file(str(folder / part)) is None:
                raise CheckpointError(f"{repo_id}: expected the part {part!r}, found none")
    except _OfflineError as error:
        raise HubError(
            f"{repo_id}: expected a cached file or a connection to the hub, found neither"
        ) from error
    config, *pixels = _core.FOLDER_FILES
    if repository.cached_or_none(str(folder / config)) is not None:
        for settings in pixels:
            repository.cached_or_none(str(folder / settings))
    return path


def download_files(
    repo_id: str,
    names: Sequence[str],
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> dict[str, Path]:
    """Return the local paths of those of some files that a hub repository has.

    Parameters and errors are `download`'s; a repository of which none of the files is cached, and
    which cannot be asked, is a `HubError`.
    """
    options = {
        "revision": revision,
        "token": token,
        "cache_dir": cache_dir,
        "local_files_only": local_files_only,
    }
    repository = _Repository(repo_id, options)
    found: dict[str, Path] = {}
    failure = None
    for name in names:
        try:
            path = repository.file(name)
        except _OfflineError as error:
            failure = error
        else:
            found |= {} if path is None else {name: path}
    if failure is not None and not found:
        raise HubError(
            f"{repo_id}: expected a cached file or a connection to the hub, found neither"
        ) from failure
    return found


def download_adapter(
    repo_id: str,
    *,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the local folder of an adapter of PEFT; parameters and errors are `download`'s."""
    options = {
        "revision": None,
        "token": token,
        "cache_dir": cache_dir,
        "local_files_only": local_files_only,
    }
    repository = _Repository(repo_id, options)
    config, *weights = _core.ADAPTER_FILES
    try:
        names = repository.names()
        chosen = next((name for name in weights if name in names), None)
        path = repository.file(config)
        if chosen is None or path is None or repository.file(chosen) is None:
            raise CheckpointError(
                f"{repo_id}: expected {config} and {weights[0]}, found {_listed(names)}"
            )
    except _OfflineError as error:
        raise HubError(
            f"{repo_id}: expected a cached file or a connection to the hub, found neither"
        ) from error
    return path.parent


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20]) or "no files"
    return shown + (", ..." if len(names) > 20 else "")


def _part_names(repo_id: str, path: Path) -> list[str]:
    """Return the shards of an index, or the other parts of a GGUF checkpoint."""
    if first := _FIRST_PART.fullmatch(path.name):
        count = int(first[2])
        return [f"{first[1]}-{i:05}-of-{count:05}.gguf" for i in range(2, count + 1)]
    if not path.name.endswith(_INDEX_SUFFIX):
        return []
    where = f"{repo_id}: {path.name}"
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        names = sorted(set(index["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        found = "another file"
        if isinstance(error, KeyError) and index.get("error"):
            found = f"an error of a server: {str(index['error'])[:200]}"
        raise CheckpointError(f"{where}: expected an index of shards, found {found}") from error
    if not all(isinstance(name, str) and "/" not in name and "\\" not in name for name in names):
        raise CheckpointError(f"{where}: expected plain file names of shards, found {names[:3]}")
    return names
