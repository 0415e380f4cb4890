"""What a batch does with each item, and the folder that its results are in."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from sam_rlx import io
from sam_rlx._internal.files.locks import lock
from sam_rlx._internal.files.marks import digest
from sam_rlx.apps.batch import examples, identity
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.parquet import utf8
from sam_rlx.errors import InvalidArgumentError, StateError

Task = Literal["everything", "prompts", "text"]
_FORMAT = "sam_rlx.batch.2"
_MANIFEST, _LOCK = "manifest.json", "lock"
_FOLDER = "folder"  # of inputs, in a manifest
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
    examples : tuple of str
        Absolute paths of files of examples, which belong to all texts.
    example_positions : bool
        Whether examples of documents tell where their boxes are.
    masks : bool
        Whether PNG files are written.
    keep_every : int
        After so many frames the session of a clip is saved.
    threads : int
        Of each worker; results do not depend on it.
    tile, overlap : int, optional
        Of images in tiles.
    memory_rule : str, optional
        Of clips.
    """

    out: str
    model: str
    task: Task
    load: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    texts: tuple[str, ...] = ()
    threshold: float = 0.5
    examples: tuple[str, ...] = ()
    example_positions: bool = True
    masks: bool = False
    keep_every: int = 100
    threads: int = 1
    tile: int | None = None
    overlap: int | None = None
    memory_rule: str | None = None

    @property
    def tiles(self) -> dict[str, Any]:
        """The arguments of predictors for images in tiles."""
        return {} if self.tile is None else {"tile": self.tile, "overlap": self.overlap}

    def to_json(self) -> dict[str, Any]:
        """Return a dict that ``json`` can write."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Job":
        """Return the job of a dict of `to_json`."""
        lists = {name: tuple(fields[name]) for name in ("texts", "examples")}
        return cls(**{**fields, **lists})


def manifest(job: Job, items: Sequence[Item], block: int, version: str) -> dict[str, Any]:
    """Return what identifies the results of a job, and the folder that its inputs are below."""
    fields = job.to_json()
    for name in ("out", "model", "threads", "keep_every"):  # change no result
        del fields[name]
    positions = fields.pop("example_positions")
    fields["examples"] = None
    if job.examples:
        files = [examples.digests(Path(path)) for path in job.examples]
        fields["examples"] = {"positions": positions, "files": files}
    if "lora" in job.load:
        fields["load"] = {**job.load, "lora": digest(Path(job.load["lora"]))}
    folder = identity.folder_of(items)
    return {
        "format": _FORMAT,
        "version": version,
        "checkpoint": digest(Path(job.model)),
        **fields,
        "texts": list(job.texts),
        "items": len(items),
        "plan": identity.plan_hash(items, folder),
        "block": block,
        _FOLDER: utf8(folder),
    }


@contextmanager
def opened(out: Path, described: Mapping[str, Any]) -> Iterator[str | None]:
    """Take the folder of a job for this process; make it, or see that it holds the same job.

    Yields
    ------
    str or None
        The folder that the inputs were below when the job began, if it is another one now.

    Raises
    ------
    StateError
        Another process works in the folder, or it holds results of another job.
    """
    out.mkdir(parents=True, exist_ok=True)
    _refuse_foreign(out)
    with (out / _LOCK).open("a") as file:
        _take(file, out)
        path = out / _MANIFEST
        before = _check(path, described) if path.exists() else None
        if before is None:
            io.write_json(path, dict(described))
        yield before


def task_of(out: Path) -> str:
    """Return the task of the batch in a folder; `StateError` if its manifest is damaged."""
    path = out / _MANIFEST
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["task"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise StateError(f"{path}: expected the manifest of a batch, found {error}") from error


def is_begun(out: Path) -> bool:
    """Tell whether a folder has a batch."""
    return (out / _MANIFEST).exists()


def keep_folder(out: Path, described: Mapping[str, Any]) -> None:
    """Note that the inputs of a job are below another folder now."""
    io.write_json(out / _MANIFEST, dict(described))


def _take(file: TextIO, out: Path) -> None:
    """Lock a file. A file system without locks gets a warning."""
    held = lock(file)
    if held is False:
        raise StateError(f"{out}: expected a folder that no other batch works in, found one in use")
    if held is None:
        warnings.warn(
            f"{out}: expected a file system with locks, found none: nothing keeps two batches from "
            "working in one folder here",
            stacklevel=2,
        )


def _refuse_foreign(out: Path) -> None:
    """Raise `InvalidArgumentError` for a folder of something else."""
    names = sorted(entry.name for entry in out.iterdir())
    others = [name for name in names if name != _LOCK and not name.startswith(".")]
    if others and _MANIFEST not in names:
        raise InvalidArgumentError(
            f"{out}: expected an empty folder or one of a batch, found {others[0]} in it"
        )
    if (out / _LOCK).is_dir():
        raise StateError(f"{out / _LOCK}: expected a file of a batch, found a folder")


def _check(path: Path, described: Mapping[str, Any]) -> str | None:
    """Return the folder of a manifest's inputs if it is another one, None if it is the same."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, IsADirectoryError) as error:
        raise StateError(f"{path}: expected the manifest of a batch, found {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path}: expected the manifest of a batch, found {_short(found)}")
    wanted = json.loads(json.dumps(described))
    folders = found.get(_FOLDER), wanted.pop(_FOLDER)
    for key, value in wanted.items():
        if found.get(key) != value:
            differ = f"{_short(found.get(key))}, found {_short(value)}"
            if key in _HASHES:
                differ = "found others"
            if key == "plan" and folders[0] != folders[1]:
                differ += f"; the paths were below {folders[0]}, now they are below {folders[1]}"
            raise StateError(
                f"{path.parent}: expected the same {_WORDS.get(key, key)} as when this batch "
                f"began, {differ}; another folder begins anew"
            )
    return None if folders[0] == folders[1] else str(folders[0])


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
