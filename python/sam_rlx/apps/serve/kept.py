"""Projects of the page: the images that were dropped on it, and the work on them.

Each has a folder in the state folder of this user: a snapshot, its log, and the files by the keys
of their contents. No request names a path: projects have ids, and items keys.
"""

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.suffixes import is_image
from sam_rlx.apps.annotator.identity import free_key, key_of_bytes
from sam_rlx.apps.annotator.projects import (
    Location,
    OpenProject,
    is_open,
    open_project,
    state_folder,
)
from sam_rlx.apps.annotator.store import FOLDER_PROJECT, load, log_of
from sam_rlx.apps.annotator.values import Item, Kind, State
from sam_rlx.errors import InvalidArgumentError, SamRlxError

MAX_BYTES = 4_000_000_000  # of all projects
_MAX_READ = 8_000_000  # bytes of a project whose items are counted
_ID = re.compile(r"[0-9a-f]{16}")
_KEY = re.compile(r"[0-9a-f]{16}(?:-[0-9]{1,9})?")
_FILES = "files"
_OUT: State = "left out"


def kept_folder() -> Path:
    """Return the folder of all projects of pages."""
    return state_folder() / "pages"


def new_id() -> str:
    """Return an id that no project has."""
    return secrets.token_hex(8)


def folder_of(identity: Any) -> Path:
    """Return the folder of a project; `InvalidArgumentError` for what is no id."""
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        raise InvalidArgumentError("project: expected its id, found another text")
    return kept_folder() / identity


def open_kept(identity: Any, address: str = "", *, new: bool = False) -> OpenProject:
    """Open a project; `InvalidArgumentError` if there is none of this id."""
    snapshot = folder_of(identity) / FOLDER_PROJECT
    if not new and not snapshot.exists():
        raise InvalidArgumentError(
            "project: expected one that is kept on this machine, found none of this address: it "
            "was removed, or nothing was done in it"
        )
    return open_project(Location(snapshot), address)


def is_shown(identity: Any) -> bool:
    """Tell whether a tab shows a project."""
    return is_open(folder_of(identity) / FOLDER_PROJECT)


def remove(identity: Any) -> None:
    """Remove a project with its images; `InvalidArgumentError` while a tab shows it."""
    if is_shown(identity):
        raise InvalidArgumentError("remove: expected a project that no tab shows, found one")
    folder = folder_of(identity)
    if folder.is_dir():
        shutil.rmtree(folder)


def listed() -> list[dict[str, Any]]:
    """Return what is known of each project, the newest first.

    Each has its `id`, the number of `images`, how many of these are `done` (None where that cannot
    be told at once: its files are large or damaged), and the time at which it `changed`.
    """
    found = []
    folder = kept_folder()
    for path in folder.iterdir() if folder.is_dir() else ():
        snapshot = path / FOLDER_PROJECT
        if _ID.fullmatch(path.name) and snapshot.is_file():
            files = path / _FILES
            count = sum(1 for _ in files.iterdir()) if files.is_dir() else 0
            changed = max(one.stat().st_mtime for one in path.iterdir() if one.is_file())
            found.append(
                {
                    "id": path.name,
                    "images": count,
                    "done": _done(snapshot),
                    "changed": changed,
                }
            )
    return sorted(found, key=lambda one: -one["changed"])


def _done(snapshot: Path) -> int | None:
    """Return how many items of a project are done."""
    stats = [one.stat() for one in (snapshot, log_of(snapshot)) if one.is_file()]
    if sum(one.st_size for one in stats) > _MAX_READ:
        return None
    return _done_of(snapshot, tuple((one.st_size, one.st_mtime_ns) for one in stats))


@lru_cache(maxsize=256)
def _done_of(snapshot: Path, _stats: tuple[tuple[int, int], ...]) -> int | None:
    try:
        items = load(snapshot).history.project.items
    except (SamRlxError, OSError):  # opening it says why
        return None
    return sum(one.state == "done" for one in items)


def is_replaced(item: Item) -> bool:
    """Tell whether another file stands for an item, which could not be read.

    What a person left out has no reason; it stays among the images, and can be taken in again.
    """
    return item.state == _OUT and bool(item.reason)


class KeptFiles:
    """The files of one project, by key.

    Where the state folder cannot be written they are kept in memory alone, and `note` says so.
    """

    def __init__(self, identity: str, note: Callable[[str], None]) -> None:
        self._folder = folder_of(identity) / _FILES
        self._memory: dict[str, bytes] = {}
        self._note = note

    def add(
        self,
        names: Sequence[str],
        files: Sequence[bytes],
        known: Sequence[Item],
        wrong: Callable[[bytes], str],
        kind_of: Callable[[bytes], Kind],
    ) -> list[Item]:
        """Keep files; return their items, also of those that were there, and items that changed.

        A file of a name that is there and cannot be read is left out: the one that is there stays.
        One that can be read replaces one that could not.

        Parameters
        ----------
        names, files : sequences of str and bytes
        known : sequence of Item
            Of the project.
        wrong : callable
            Says why an image cannot be read, "" if it can.
        kind_of : callable
            Says of contents whether they are an image or a clip.
        """
        _check_room(sum(map(len, files)))
        items = {one.key: one for one in known}
        found = []
        for name, contents in zip(names, files, strict=True):
            content = key_of_bytes(contents)
            path = plain_name(name)
            same = [one for one in items.values() if one.path == path and not is_replaced(one)]
            item = next((one for one in same if one.key.partition("-")[0] == content), None)
            if item is None:
                reason = wrong(contents)
                if reason and same:
                    self._note(f"{path} cannot be read: {reason}; the one that is here stays")
                    continue
                broken = [one for one in same if one.state == "unreadable"]
                found += [replace(one, state=_OUT) for one in broken]
                item = Item(free_key(content, items), path, kind_of(contents))
                items[item.key] = item
            self._write(item.key, contents)
            found.append(item)
        return found

    def add_clip(
        self,
        names: Sequence[str],
        files: Sequence[bytes],
        known: Sequence[Item],
        wrong: Callable[[bytes], str],
        kind_of: Callable[[bytes], Kind],
    ) -> Item:
        """Keep the images of a folder as the frames of a clip, in this order; return its item.

        The other parameters are those of `add`. The clip is called as the folder.
        """
        _check_room(sum(map(len, files)))
        for name, contents in zip(names, files, strict=True):
            reason = "a clip" if kind_of(contents) == "clip" else wrong(contents)
            if reason:
                raise InvalidArgumentError(
                    f"open: expected images alone for the frames of a clip, found {name}: {reason}"
                )
        content = key_of_bytes("".join(map(key_of_bytes, files)).encode())
        folder, slash, _ = names[0].replace("\\", "/").partition("/")
        path = plain_name(folder) if slash else "clip"
        there = next((one for one in known if one.key.partition("-")[0] == content), None)
        item = there or Item(free_key(content, (one.key for one in known)), path, "clip")
        target = self._path(item.key)
        if not target.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder, prefix=".") as made:
                frames = Path(made) / "frames"
                frames.mkdir()
                for at, (name, contents) in enumerate(zip(names, files, strict=True)):
                    suffix = Path(plain_name(name)).suffix.lower()
                    shown = suffix if is_image(f"a{suffix}") else ".png"
                    (frames / f"{at:06d}{shown}").write_bytes(contents)
                frames.rename(target)
        return item

    def _write(self, key: str, contents: bytes) -> None:
        path = self._path(key)
        if key in self._memory or path.exists():
            return
        try:
            with atomic_write(path) as file:
                file.write(contents)
        except OSError as error:
            self._memory[key] = contents
            self._note(f"kept in memory alone, until the server ends: {error.strerror or error}")

    def read(self, key: str) -> bytes:
        """Return the contents of a file."""
        return self._memory[key] if key in self._memory else self._path(key).read_bytes()

    def frames(self, key: str) -> Path | bytes:
        """Return the file of a clip, or its contents where it has none."""
        return self._memory[key] if key in self._memory else self._path(key)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise InvalidArgumentError("item: expected the key of a file, found another text")
        return self._folder / key


def plain_name(name: str) -> str:
    """Return the name of a file without folders."""
    plain = re.sub(r"[\0\\/]+", "/", name).rpartition("/")[2]
    return plain if plain not in ("", ".", "..") else "image"


def _check_room(total: int) -> None:
    """Refuse files for which there is no room beside those of all projects."""
    used = _used(kept_folder())
    if used + total > MAX_BYTES:
        raise InvalidArgumentError(
            f"open: expected at most {MAX_BYTES // 10**9} GB of all projects, found "
            f"{(used + total) / 1e9:.1f} GB: remove projects that are done"
        )


def _used(folder: Path) -> int:
    if not folder.is_dir():
        return 0
    files = folder.glob(f"*/{_FILES}/**/*")
    return sum(path.stat().st_size for path in files if path.is_file())
