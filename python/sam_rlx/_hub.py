"""Checkpoints from the Hugging Face hub (extra ``hub``). The cache is the hub's own."""

import importlib
import os
import re
from pathlib import Path
from types import ModuleType

from sam_rlx.errors import CheckpointError, HubError, MissingExtraError

# Tried in this order: the first file of the repository that exists is the checkpoint.
_FILES = ("model.safetensors", "pytorch_model.bin")
_CHECKPOINT_SUFFIXES = (".pth", ".pt", ".bin", ".safetensors", ".gguf")


def is_hub_id(name: str) -> bool:
    """Tell whether `name` has the form ``owner/name`` and does not look like a checkpoint file."""
    part = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    return bool(re.fullmatch(f"{part}/{part}", name)) and not name.endswith(_CHECKPOINT_SUFFIXES)


def _huggingface_hub() -> ModuleType:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError as error:
        raise MissingExtraError(
            'hub: expected the package huggingface-hub (pip install "sam_rlx[hub]"), found none'
        ) from error


def download(
    repo_id: str,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    local_files_only: bool = False,
) -> Path:
    """Return the local path of the checkpoint of a hub repository, downloading it if needed.

    Parameters
    ----------
    repo_id : str
        ``owner/name``.
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
        The repository has no checkpoint file with a known name.
    """
    hub = _huggingface_hub()
    from huggingface_hub import errors

    missing: Exception | None = None
    offline = False
    for filename in _FILES:
        try:
            return Path(
                hub.hf_hub_download(
                    repo_id,
                    filename,
                    revision=revision,
                    token=token,
                    cache_dir=cache_dir,
                    local_files_only=local_files_only,
                    library_name="sam_rlx",
                )
            )
        except errors.GatedRepoError as error:
            raise HubError(
                f"{repo_id}: expected access, found a gated repository: accept its licence on the "
                "hub, then pass token= or log in with `hf auth login`"
            ) from error
        except errors.RepositoryNotFoundError as error:
            raise HubError(
                f"{repo_id}: expected a model on the hub, found no such repository (a private one "
                "needs token=)"
            ) from error
        except errors.RevisionNotFoundError as error:
            raise HubError(
                f"{repo_id}: expected revision {revision!r}, found no such revision"
            ) from error
        except errors.LocalEntryNotFoundError as error:
            missing, offline = error, True
        except errors.EntryNotFoundError as error:
            missing = error
        except errors.HfHubHTTPError as error:
            raise HubError(f"{repo_id}: expected a file from the hub, found {error}") from error
    if offline:
        raise HubError(
            f"{repo_id}: expected a cached file or a connection to the hub, found neither"
        ) from missing
    raise CheckpointError(f"{repo_id}: expected one of {list(_FILES)}, found none") from missing
