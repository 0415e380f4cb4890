"""Checkpoints from the Hugging Face hub (extra ``hub``). The cache is the hub's own."""

import errno
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx._internal.packages import optional
from sam_rlx.errors import CheckpointError, HubError, SamRlxError, UnsupportedError

# Tried in this order: the first file of the repository that exists is the checkpoint. An index
# names its shards.
_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_CHECKPOINT_SUFFIXES = (".pth", ".pt", ".bin", ".safetensors", ".gguf", ".ggml")
# Names of files that are no hub ids either.
_FILE_SUFFIXES = (*_CHECKPOINT_SUFFIXES, ".ckpt", ".onnx", ".pkl", ".tar", ".zip", ".npz", ".json")
_INDEX_SUFFIX = ".index.json"
# Settings of transformers' models, which are read beside the weights.
_CONFIG = "config.json"
_PIXELS = ("preprocessor_config.json", "processor_config.json")
_ADAPTER = "adapter_config.json"
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.\w+")
_FIRST_PART = re.compile(r"(.*)-00001-of-(\d{5})\.gguf")
# What a training leaves beside the weights.
_COMPANIONS = (
    "optimizer.",
    "scheduler.",
    "scaler.",
    "training_args.",
    "rng_state",
    "random_states_",
)


def is_hub_id(name: str) -> bool:
    """Tell whether `name` has the form ``owner/name`` and does not look like a checkpoint file."""
    part = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    return bool(re.fullmatch(f"{part}/{part}", name)) and not name.lower().endswith(_FILE_SUFFIXES)


def _huggingface_hub() -> Any:
    return optional("hub", "huggingface_hub", "huggingface-hub")


@dataclass(frozen=True)
class _Repository:
    """One repository, and how it is asked for files."""

    repo_id: str
    options: dict[str, Any]

    def file(self, filename: str) -> Path | None:
        """Return the local path of a file, downloading it if needed; None: there is none.

        Raises ``HubError`` unless the repository is there, and ``_Offline`` when the file is not
        cached and the hub cannot be asked.
        """
        hub = _huggingface_hub()
        from huggingface_hub import errors

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
        """List the files of the repository."""
        hub = _huggingface_hub()
        options = {name: self.options[name] for name in ("revision", "token")}
        with self._asking():
            return list(hub.list_repo_files(self.repo_id, **options))

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
        The file of the repository to take. Default: ``model.safetensors``,
        ``pytorch_model.bin`` or an index of their shards, else the only checkpoint file.
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
        path = _usual_file(repository) if filename is None else _named_file(repository, filename)
        _fetch_parts(repository, path)
    except _OfflineError as error:
        raise HubError(
            f"{repo_id}: expected a cached file or a connection to the hub, found neither"
        ) from error
    if repository.cached_or_none(_CONFIG) is not None:
        for name in _PIXELS:
            repository.cached_or_none(name)
    return path


def _named_file(repository: _Repository, filename: str) -> Path:
    path = repository.file(filename)
    if path is None:
        found = _listed(repository.names())
        raise CheckpointError(f"{repository.repo_id}: expected {filename!r}, found {found}")
    return path


def _usual_file(repository: _Repository) -> Path:
    """Return the first of the files that transformers writes, else the only checkpoint."""
    offline: _OfflineError | None = None
    for name in _FILES:
        try:
            path = repository.file(name)
        except _OfflineError as error:
            offline = error
            continue
        if path is not None:
            return path
    names = repository.names() if offline is None else repository.cached_names()
    if offline is not None and not names:
        raise offline
    return _only_checkpoint(repository, names)


def _only_checkpoint(repository: _Repository, names: list[str]) -> Path:
    """Return the only one of the files that may be a checkpoint."""
    candidates = [name for name in names if _may_be_checkpoint(name)]
    if _ADAPTER in names and all("adapter_model" in name for name in candidates):
        raise UnsupportedError(
            f"{repository.repo_id}: expected a whole model, found an adapter (LoRA); merge it into "
            "its base model first"
        )
    path = repository.file(candidates[0]) if len(candidates) == 1 else None
    if path is None:
        hint = "one of them as filename=" if candidates else f"one of {list(_FILES)}"
        raise CheckpointError(
            f"{repository.repo_id}: expected {hint}, found {_listed(candidates or names)}"
        )
    return path


def _may_be_checkpoint(name: str) -> bool:
    last = name.rsplit("/", 1)[-1]
    return (
        last.endswith(_CHECKPOINT_SUFFIXES)
        and not last.startswith(_COMPANIONS)
        and not _LATER_PART.search(last)
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:20]) or "no files"
    return shown + (", ..." if len(names) > 20 else "")


def _fetch_parts(repository: _Repository, path: Path) -> None:
    """Bring the shards of an index, or the other parts of a GGUF checkpoint."""
    for name in _part_names(repository, path):
        if repository.file(name) is None:
            raise CheckpointError(f"{repository.repo_id}: expected the part {name!r}, found none")


def _part_names(repository: _Repository, path: Path) -> list[str]:
    if first := _FIRST_PART.fullmatch(path.name):
        count = int(first[2])
        return [f"{first[1]}-{i:05}-of-{count:05}.gguf" for i in range(2, count + 1)]
    if not path.name.endswith(_INDEX_SUFFIX):
        return []
    where = f"{repository.repo_id}: {path.name}"
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
