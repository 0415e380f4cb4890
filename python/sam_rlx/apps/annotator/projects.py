"""Projects that this process has open: their history, their files, and the sessions that show them.

All sessions of one process that show a project share it; of several processes one writes it.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sam_rlx
from sam_rlx.apps.annotator.history import Edit, History, Record
from sam_rlx.apps.annotator.lock import Holder, ProjectLock
from sam_rlx.apps.annotator.servers import address_of
from sam_rlx.apps.annotator.store import (
    FILE_SUFFIX,
    FOLDER_PROJECT,
    Loaded,
    Store,
    TakenOverError,
    load,
    log_of,
)
from sam_rlx.apps.annotator.values import Change, Document, Item, Project
from sam_rlx.errors import InvalidArgumentError, StateError

_DIGITS = 16
_MAX_NAME = 100

# What changed, and the record of it; called in the thread of whoever changed it.
Watcher = Callable[[Sequence[Change], Record], None]


def state_folder() -> Path:
    """Return the folder in which work is kept that has no folder of its own."""
    if os.name == "nt":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "sam_rlx"
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "sam_rlx"


@dataclass(frozen=True)
class Location:
    """Where a project is: its snapshot, and whether each session of this process gets its own.

    A project of files is shared by all that show them. Of arrays, which have no path, nobody knows
    whether they are meant to be the same work: while one is open, the next one begins anew.
    """

    snapshot: Path
    shared: bool = True


def location_of_files(files: Sequence[Path], folder: Path | None) -> Location:
    """Return where the project of images or a clip is: beside them, if that can be written."""
    if folder is not None:
        beside = folder / FOLDER_PROJECT
    elif len(files) == 1:
        beside = files[0].with_name(files[0].name + FILE_SUFFIX)
    else:
        text = "\n".join(str(path.resolve()) for path in files)
        return Location(_kept(text), shared=False)
    if beside.exists() or _can_write(beside.parent):
        return Location(beside)
    return Location(_kept(str(beside.resolve())))


def location_of_arrays(keys: Sequence[str]) -> Location:
    """Return where the project of arrays is: in the state folder, by their contents."""
    return Location(_kept("\n".join(keys)), shared=False)


def location_of_name(name: str) -> Location:
    """Return where the project of a name is: in the current folder."""
    plain = name not in ("", ".", "..") and not set(name) & set('/\\:*?"<>|\0')
    if not plain or len(name) > _MAX_NAME or not name.isprintable():
        raise InvalidArgumentError(
            f"project: expected a name of at most {_MAX_NAME} letters, without those that paths "
            f"have, found {name[:_MAX_NAME]!r}"
        )
    return Location(Path.cwd() / (name + FILE_SUFFIX))


def _kept(text: str) -> Path:
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
    return state_folder() / "projects" / f"{digest}.json"


def kept_where(path: Path | None) -> str:
    """Tell where a snapshot is: in "memory" alone, in the "state" folder, or in a "folder"."""
    if path is None:
        return "memory"
    return "state" if path.is_relative_to(state_folder()) else "folder"


def _can_write(folder: Path) -> bool:
    """Tell whether a folder can be written, and is none of this package."""
    package = Path(sam_rlx.__file__).parent.resolve()
    return os.access(folder, os.W_OK) and not folder.resolve().is_relative_to(package)


class OpenProject:
    """A project that this process has open. Safe for several threads.

    Attributes
    ----------
    history : History
    path : Path or None
        Of the snapshot; None for work that is kept in memory alone.
    notes : list of str
        What a person should be told of the opening.
    """

    def __init__(self, path: Path | None = None, address: str = "") -> None:
        self.path = path
        self.notes: list[str] = []
        self.history = History()
        self._store: Store | None = None
        self._lock: ProjectLock | None = None
        self._holder: Holder | None = None  # another process that writes
        self._replaced: Holder | None = None  # one whose project was taken over
        self._aside: Path | None = None  # what was made here when another took it over
        self._address = address
        self._watchers: list[Watcher] = []
        self._users = 0
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        loaded = load(path)
        if log_of(path).exists() or path.exists():
            try:
                self._hold(path)
            except OSError as error:
                self.notes.append(f"{path}: {error.strerror or error}: nothing is kept")
            else:
                if self._holder is None:
                    loaded = load(path)  # what its last writer wrote meanwhile
        self._take(path, loaded)

    def _take(self, path: Path, loaded: Loaded) -> None:
        self.history = loaded.history
        self._store = Store(path, loaded)
        if loaded.cut and self._holder is None:
            self.notes.append(
                f"{log_of(path).name}: the last {loaded.cut} bytes were not whole, and are left out"
            )

    def _hold(self, path: Path) -> None:
        """Take the lock of a project, or know who has it; `OSError` where none can be made."""
        self._lock = ProjectLock(path, self._address)
        self._holder = self._lock.acquire()
        if self._holder not in (None, Holder(), self._replaced):
            self.notes.append(f"{path.name}: {self._holder} has it open: it can only be read here")

    # ---------------------------------------------------------------- what there is

    @property
    def read_only(self) -> str:
        """Why nothing can be changed here, and where work is that was set aside; "" if it can."""
        if self._holder is None:
            return ""
        aside = f"; what was made here is in {self._aside.name}" if self._aside else ""
        return f"it is open in {self._holder}{aside}"

    @property
    def elsewhere(self) -> str:
        """Where a server of this user has it open to be written; "" if that is not known."""
        return "" if self._holder is None else address_of(state_folder(), self._holder)

    @property
    def problem(self) -> str:
        """Why the last edits are not on the disk; "" when they are."""
        return "" if self._store is None else self._store.problem

    def document(self, key: str) -> Document:
        """Return the document of an item."""
        return self.history.document(key)

    def watch(self, watcher: Watcher) -> None:
        """Call a watcher after each change."""
        with self.history.lock:
            self._watchers.append(watcher)
            self._users += 1

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling a watcher; the last one that goes closes the files."""
        with self.history.lock:
            if watcher not in self._watchers:
                return
            self._watchers.remove(watcher)
            self._users -= 1
        self.close_unused()

    def close_unused(self) -> None:
        """Close the files if nobody shows the project."""
        with self.history.lock:
            unused = self._users == 0
        if unused:
            close(self)

    # ---------------------------------------------------------------- changes

    def check(self, what: str) -> None:
        """Raise `StateError` where nothing can be changed."""
        if self._holder is not None:
            raise StateError(f"{what}: expected a project to write, found that {self.read_only}")

    def edit(
        self,
        key: str,
        change: Callable[[Document], Document],
        gesture: str,
        title: str,
        by: str = "",
    ) -> Edit | None:
        """Change the document of an item as it is now; None if nothing differs."""
        return self.edit_all(
            lambda project: (project, {key: change(self.document(key))}), gesture, title, by
        )

    def edit_all(
        self,
        change: Callable[[Project], tuple[Project, dict[str, Document]]],
        gesture: str,
        title: str,
        by: str = "",
    ) -> Edit | None:
        """Change the project and documents as they are now, in one edit; None if nothing differs.

        `change` is called with the lock of the history; it returns the project, and the documents
        that differ by the keys of their items.
        """
        self.check(gesture)
        with self.history.lock:
            project, documents = change(self.history.project)
            edit = self.history.record(documents, gesture, title, by, project=project)
            self._put(edit)
        return self._done(edit)

    def extend(self, of: int, change: Callable[[Document], Document], key: str, title: str) -> bool:
        """Add to an edit that is open; False if it was taken back. It is written later."""
        with self.history.lock:
            edit = self.history.edit(of)
            if edit is None or of in self.history.undone:
                return False
            more = self.history.extend(of, key, change(self.document(key)), title)
            if more is not None:
                self._put(more)
        if more is not None:
            self._tell(more.changes, more)
        return True

    def undo(self, key: str, by: str = "") -> Edit | None:
        """Take back what `History.next_undo` says, and return it."""
        return self._moved(key, by, back=True)

    def redo(self, key: str, by: str = "") -> Edit | None:
        """Do again what `History.next_redo` says, and return it."""
        return self._moved(key, by, back=False)

    def _moved(self, key: str, by: str, back: bool) -> Edit | None:
        self.check("undo" if back else "redo")
        with self.history.lock:
            edit = self.history.next_undo(key) if back else self.history.next_redo(key)
            move = self.history.undo(key, by) if back else self.history.redo(key, by)
            self._put(move)
        if edit is not None and move is not None:
            self.write()
            self._tell(edit.changes, move)
        return edit

    def add_items(self, items: Sequence[Item]) -> None:
        """Add items, or change what is known of them. It is written with the next edit."""
        if self._holder is not None:
            return
        with self.history.lock:
            known = {one.key: one for one in self.history.project.items}
            known.update({one.key: one for one in items})
            project = Project(self.history.project.classes, tuple(known.values()))
            edit = self.history.record({}, "open", "open", project=project, can_undo=False)
            self._put(edit)
        if edit is not None:
            self._tell(edit.changes, edit)

    def change_item(self, key: str, **values: object) -> None:
        """Change what is known of an item, such as its size."""
        with self.history.lock:
            item = self.history.project.item(key)
            if item is not None:
                changed = replace(item, **values)  # type: ignore[arg-type]
                if changed != item:
                    self.add_items([changed])

    def _put(self, record: Record | None) -> None:
        if record is not None and self._store is not None:
            self._store.put(record)

    def _done(self, edit: Edit | None) -> Edit | None:
        if edit is not None:
            self.write()
            self._tell(edit.changes, edit)
        return edit

    def _tell(self, changes: Sequence[Change], record: Record) -> None:
        for watcher in list(self._watchers):
            watcher(changes, record)

    def write(self) -> bool:
        """Bring all edits to the disk; `problem` says why that failed."""
        if self._store is None or self._holder is not None:
            return False
        try:
            if self._lock is None or not self._lock.is_held:
                assert self.path is not None
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._hold(self.path)
                if self._holder is not None and self._holder == self._replaced:
                    self._holder = None  # it gives the lock up at its next edit
                if self._holder is not None:
                    return False
            return self._store.write()
        except TakenOverError:
            self._aside = self._store.set_aside()
            self._holder = Holder()
            if self._lock is not None:
                self._lock.release()
            self.notes.append(
                "another process has taken the project over: what was made here is in "
                f"{self._aside}"
            )
            return False
        except OSError as error:
            self._store.problem = f"{error.strerror or error}"
            return False

    def take_over(self) -> None:
        """Write the project from now on, though another process has it open.

        That one turns read-only at its next edit. What it wrote is read before.
        """
        if self._holder is None or self.path is None:
            return
        with self.history.lock:
            loaded = load(self.path)
            self._take(self.path, loaded)
            assert self._store is not None
            self._store.take_over()
            self._replaced, self._holder, self._aside = self._holder, None, None
        self._tell((), Edit(self.history.n, "", "take_over", "take over", ()))

    def close_files(self) -> None:
        """Close the files, after a last write."""
        if self._store is not None:
            begun = self.history.documents or self._store.path.exists()
            if not self._store.is_saved and begun:
                self.write()
            self._store.close()
        if self._lock is not None:
            self._lock.release()


_OPEN: dict[str, OpenProject] = {}
_OPEN_LOCK = threading.Lock()


def open_project(location: Location, address: str = "") -> OpenProject:
    """Return the project of a location, which is opened if this process has not done so.

    Raises
    ------
    InvalidArgumentError, UnsupportedError
        Its files are damaged, or of a newer version.
    OSError
        They cannot be read.
    """
    with _OPEN_LOCK:
        path = location.snapshot
        if not location.shared:
            path = _free(path)
        known = _OPEN.get(str(path))
        if known is None:
            known = _OPEN[str(path)] = OpenProject(path, address)
        return known


def is_open(snapshot: Path) -> bool:
    """Tell whether this process has a project open."""
    with _OPEN_LOCK:
        return str(snapshot) in _OPEN


def _free(path: Path) -> Path:
    """Return a snapshot that no session of this process has: the newest one, or a new one."""
    numbered = sorted(path.parent.glob(f"{path.stem}-*.json")) if path.parent.is_dir() else []
    there = [one for one in (path, *numbered) if one.exists()]
    family = [one for one in _OPEN if Path(one).parent == path.parent]
    if any(Path(one).stem.partition("-")[0] == path.stem for one in family):
        taken = {*map(str, there), *_OPEN}
        return next(
            one
            for k in range(2, 1 << 30)
            if str(one := path.with_name(f"{path.stem}-{k}.json")) not in taken
        )
    return max(there, key=lambda one: one.stat().st_mtime_ns, default=path)


def close(project: OpenProject) -> None:
    """Close a project that nobody shows any more."""
    with _OPEN_LOCK:
        if project.path is not None and _OPEN.get(str(project.path)) is project:
            del _OPEN[str(project.path)]
        project.close_files()
