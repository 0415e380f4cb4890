"""What a batch does with each item, and the folder that its results are in."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from sam_rlx import io
from sam_rlx._batch.items import Item
from sam_rlx._internal.files.locks import lock
from sam_rlx.errors import InvalidArgumentError, StateError

Task = Literal["everything", "prompts", "text"]
_FORMAT = "sam_rlx.batch.1"
_MANIFEST, _LOCK = "manifest.json", "lock"
# Fields of a manifest in the words of a caller.
_WORDS = {
    "version": "version of sam_rlx",
    "checkpoint": "checkpoint",
    "plan": "inputs or prompts",
    "block": "images in a block",
}
_HASHES = ("checkpoint", "plan")


@dataclass(frozen=True)
class Job:
    """Everything that the results of an item depend on, and where they go.

    Attributes
    ----------
    out : str
        Absolute path of the folder.
    model : str
        Absolute path of the checkpoint.
    task : {"everything", "prompts", "text"}
        What is done with each item.
    load : dict
        Further arguments of `load_model`.
    options : dict
        Of `MaskGenerator`, for everything mode.
    texts : tuple of str
        For items without texts of their own.
    threshold : float
        Of texts.
    masks : bool
        Whether PNG files are written.
    keep_every : int
        After so many frames the session of a clip is saved.
    threads : int
        Of each worker; results do not depend on it.
    """

    out: str
    model: str
    task: Task
    load: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    threshold: float = 0.5
    masks: bool = False
    keep_every: int = 100
    threads: int = 1

    def to_json(self) -> dict[str, Any]:
        """Return a dict that ``json`` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Job":
        """Return the job of a dict of `to_json`."""
        return cls(**{**fields, "texts": tuple(fields["texts"])})


def manifest(job: Job, items: Sequence[Item], block: int, version: str) -> dict[str, Any]:
    """Return what identifies the results of a job."""
    plan = hashlib.sha256()
    for item in items:
        plan.update(json.dumps(item.to_json(), sort_keys=True).encode())
    fields = job.to_json()
    for name in ("out", "model", "threads", "keep_every"):  # change no result
        del fields[name]
    return {
        "format": _FORMAT,
        "version": version,
        "checkpoint": _digest(Path(job.model)),
        **fields,
        "texts": list(job.texts),
        "items": len(items),
        "plan": plan.hexdigest(),
        "block": block,
    }


def _digest(path: Path) -> str:
    """Return the hash of a checkpoint: of a file, or of the files in a folder."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(entry for entry in path.iterdir() if entry.is_file()):
            digest.update(f"{file.name} {_digest(file)}\n".encode())
        return digest.hexdigest()
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def opened(out: Path, described: Mapping[str, Any]) -> Iterator[None]:
    """Take the folder of a job for this process; make it, or see that it holds the same job.

    Raises
    ------
    StateError
        Another process works in the folder, or it holds results of another job.
    """
    out.mkdir(parents=True, exist_ok=True)
    _refuse_foreign(out)
    with (out / _LOCK).open("a") as file:
        if lock(file) is False:
            raise StateError(
                f"{out}: expected a folder that no other batch works in, found one in use"
            )
        _check(out, described)
        yield


def _refuse_foreign(out: Path) -> None:
    """Raise `InvalidArgumentError` for a folder of something else."""
    names = sorted(entry.name for entry in out.iterdir())
    others = [name for name in names if name != _LOCK and not name.startswith(".")]
    if others and _MANIFEST not in names:
        raise InvalidArgumentError(
            f"{out}: expected an empty folder or one of a batch, found {others[0]} in it"
        )


def _check(out: Path, described: Mapping[str, Any]) -> None:
    path = out / _MANIFEST
    if not path.exists():
        io.write_json(path, dict(described))
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StateError(f"{path}: expected the manifest of a batch, found {error}") from error
    wanted = json.loads(json.dumps(described))
    for key in wanted:
        if not isinstance(found, dict) or found.get(key) != wanted[key]:
            before = found.get(key) if isinstance(found, dict) else found
            differ = f"{_short(before)}, found {_short(wanted[key])}"
            if key in _HASHES:
                differ = "found others"
            raise StateError(
                f"{out}: expected the same {_WORDS.get(key, key)} as when this batch began, "
                f"{differ}; another folder begins anew"
            )


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
