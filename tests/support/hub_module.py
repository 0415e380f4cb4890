"""A stand-in for the package of the hub."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any


def stand_in(files: dict[str, object]) -> tuple[types.ModuleType, types.ModuleType, list[Any]]:
    """A stand-in for huggingface_hub with its error classes, which needs no network."""
    errors = types.ModuleType("huggingface_hub.errors")

    class HfHubHTTPError(OSError):
        pass

    class RepositoryNotFoundError(HfHubHTTPError):
        pass

    class GatedRepoError(RepositoryNotFoundError):
        pass

    class RevisionNotFoundError(HfHubHTTPError):
        pass

    class EntryNotFoundError(HfHubHTTPError):
        pass

    class LocalEntryNotFoundError(EntryNotFoundError):
        pass

    class CacheNotFound(Exception):
        pass

    for kind in list(locals().values()):
        if isinstance(kind, type):
            setattr(errors, kind.__name__, kind)
    calls: list[Any] = []

    def hf_hub_download(repo_id: str, filename: str, **options: Any) -> str:
        calls.append((repo_id, filename, options))
        found = files.get(filename, "EntryNotFoundError")
        if isinstance(found, Path):
            return str(found)
        if isinstance(found, Exception):
            raise found
        raise getattr(errors, str(found))(f"{found} for {filename}")

    def list_repo_files(repo_id: str, **options: Any) -> list[str]:
        return [name for name, found in files.items() if found != "EntryNotFoundError"]

    def scan_cache_dir(cache_dir: Any) -> Any:
        raise errors.CacheNotFound("no cache")

    module = types.ModuleType("huggingface_hub")
    module.list_repo_files = list_repo_files  # type: ignore[attr-defined]
    module.scan_cache_dir = scan_cache_dir  # type: ignore[attr-defined]
    module.hf_hub_download = hf_hub_download  # type: ignore[attr-defined]
    module.errors = errors  # type: ignore[attr-defined]
    return module, errors, calls
