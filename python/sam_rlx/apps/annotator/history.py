"""One history over everything that changes in a project: results of models too.

An edit is what differs, before and after. Undo takes back an edit as a whole and computes nothing;
it is a record of the same list, so that a history that is read again ends in the same state.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from sam_rlx.apps.annotator.limits import MAX_EDITS, MAX_RECENT, MAX_UNDO_BYTES
from sam_rlx.apps.annotator.shelf import Shelf
from sam_rlx.apps.annotator.values import (
    PROJECT,
    Change,
    Document,
    Object,
    Project,
    changed_document,
    changed_project,
    changes_between,
    masks_of,
    project_changes,
)


@dataclass(frozen=True)
class Edit:
    """What a gesture changed.

    Attributes
    ----------
    n : int
        Its number in the history of the project, from 1.
    by : str
        The view and the number of its message, or "" for Python.
    gesture : str
        Its name in the table.
    title : str
        What it did, for the buttons of undo and redo.
    changes : tuple of Change
    can_undo : bool
        Whether undo takes it back; what only adds items stays.
    """

    n: int
    by: str
    gesture: str
    title: str
    changes: tuple[Change, ...]
    can_undo: bool = True

    @property
    def documents(self) -> frozenset[str]:
        """The keys of the documents that it touches."""
        return frozenset(change.document for change in self.changes)


@dataclass(frozen=True)
class Move:
    """An edit that was taken back (`back`), or done again: `of` is its `n`."""

    n: int
    by: str
    of: int
    back: bool


@dataclass(frozen=True)
class More:
    """What came later to an edit that stays open, `of`, such as frames of a tracking."""

    n: int
    by: str
    of: int
    title: str
    changes: tuple[Change, ...]


Record: TypeAlias = Edit | Move | More


class History:
    """A project, its documents, and the edits that led to them. Safe for several threads.

    Attributes
    ----------
    project : Project
    documents : dict of str to Document
        By the key of the item. Items without objects may be absent.
    n : int
        Of the last record.
    """

    def __init__(
        self,
        project: Project | None = None,
        documents: dict[str, Document] | None = None,
        n: int = 0,
    ) -> None:
        self.project = project or Project()
        self.documents = dict(documents or {})
        self.n = n
        self.lock = threading.RLock()
        self._edits: dict[int, Edit] = {}  # that can be undone, or done again
        self._undone: list[int] = []  # in the order in which they were taken back
        self._bytes: dict[int, int] = {}  # of each edit
        self._recent: dict[str, None] = {}  # messages of views that were done
        self._total = 0
        self._shelf = Shelf()

    def document(self, key: str) -> Document:
        """Return the document of an item."""
        return self.documents.get(key) or Document()

    @property
    def edits(self) -> list[Edit]:
        """The edits that are known, in their order."""
        return list(self._edits.values())

    @property
    def undone(self) -> list[int]:
        """The edits that were taken back and can be done again, in the order of that."""
        return list(self._undone)

    # ---------------------------------------------------------------- forward

    def record(
        self,
        documents: dict[str, Document],
        gesture: str,
        title: str,
        by: str = "",
        *,
        project: Project | None = None,
        can_undo: bool = True,
    ) -> Edit | None:
        """Go on to other documents, or another project; None if nothing differs."""
        with self.lock:
            changes: list[Change] = []
            if project is not None and project is not self.project:
                changes += project_changes(self.project, project)
            for key, document in documents.items():
                changes += changes_between(key, self.document(key), document)
            if not changes:
                return None
            edit = Edit(self.n + 1, by, gesture, title, tuple(changes), can_undo)
            self.add(edit)
            for key, document in documents.items():  # numbers that were given stay given
                known = self.document(key)
                following = max(known.next_number, document.next_number)
                self.documents[key] = replace(known, next_number=following)
            return edit

    def add(self, record: Record) -> None:
        """Take a record that follows the last one: the next of this history, or one of a file."""
        with self.lock:
            if isinstance(record, Move):
                self._move(record)
            elif isinstance(record, More):
                self._extend(record)
            else:
                self._apply(record.changes)
                _fold(record.changes)
                self._block(record.documents)
                self._edits[record.n] = record
                self._measure(record)
            self.n = record.n
            if record.by:
                self._recent[record.by] = None
                while len(self._recent) > MAX_RECENT:
                    del self._recent[next(iter(self._recent))]

    def was_done(self, by: str) -> bool:
        """Tell whether a message of a view was done."""
        return bool(by) and by in self._recent

    @property
    def recent(self) -> list[str]:
        """The last messages of views that were done."""
        return list(self._recent)

    def extend(
        self, of: int, key: str, document: Document, title: str, by: str = ""
    ) -> More | None:
        """Add to an edit what differs in the document of an item; parts of later edits stay.

        None if nothing differs, or the edit was taken back.
        """
        with self.lock:
            edit = self._edits.get(of)
            if edit is None or of in self._undone:
                return None
            later = [
                change for n, other in self._edits.items() if n > of for change in other.changes
            ]
            taken = {(change.document, change.what, change.key) for change in later}
            # Objects that came or went later.
            others = {
                change.key
                for change in later
                if change.what == "object" and None in (change.before, change.after)
            }
            changes = tuple(
                change
                for change in changes_between(key, self.document(key), document)
                if (change.document, change.what, change.key) not in taken
                and not (isinstance(change.key, tuple) and change.key[0] in others)
            )
            if not changes:
                return None
            more = More(self.n + 1, by, of, title, changes)
            self.add(more)
            return more

    def _extend(self, more: More) -> None:
        edit = self._edits.get(more.of)
        self._apply(more.changes)
        _fold(more.changes)
        if edit is not None:
            changes = _joined((*edit.changes, *more.changes))
            self._edits[more.of] = replace(edit, changes=changes, title=more.title)
            self._measure(self._edits[more.of])

    def _block(self, touched: frozenset[str]) -> None:
        """Forget what was taken back in documents that went on, and what builds on that."""
        for n in [*reversed(self._undone)]:
            documents = self._edits[n].documents
            if documents & touched:
                touched |= documents
                self._forget(n)

    def _measure(self, edit: Edit) -> None:
        """Count the bytes of an edit, and forget the oldest ones if they are too many."""
        count = _size(edit.changes)
        self._total += count - self._bytes.get(edit.n, 0)
        self._bytes[edit.n] = count
        if self._total > MAX_UNDO_BYTES:
            self._shelve_oldest()
        while len(self._edits) > MAX_EDITS or self._total > MAX_UNDO_BYTES:
            if next(iter(self._edits)) == edit.n:
                break
            self._forget_oldest()

    def _shelve_oldest(self) -> None:
        """Put the masks of the oldest edits into a file, until the others take half of the most."""
        for n, edit in self._edits.items():
            if 2 * self._total <= MAX_UNDO_BYTES:
                return
            try:
                for change in edit.changes:
                    for mask in masks_of(change.before):
                        mask.shelve(self._shelf)
            except OSError:  # the oldest edits are forgotten instead
                return
            count = _size(edit.changes)
            self._total += count - self._bytes[n]
            self._bytes[n] = count

    def keep_last(self, count: int) -> None:
        """Forget all edits but the last ones: the others cannot be undone then."""
        with self.lock:
            while len(self._edits) > count:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._edits))
        if oldest in self._undone:
            self._block(self._edits[oldest].documents)
        else:
            self._forget(oldest)

    def _forget(self, n: int) -> None:
        del self._edits[n]
        self._total -= self._bytes.pop(n)
        if n in self._undone:
            self._undone.remove(n)

    def _apply(self, changes: Iterable[Change]) -> None:
        by_document: dict[str, list[Change]] = {}
        of_project = []
        for change in changes:
            if change.what in ("class", "item", "order"):
                of_project.append(change)
            else:
                by_document.setdefault(change.document, []).append(change)
        if of_project:
            self.project = changed_project(self.project, of_project)
        for key, some in by_document.items():
            self.documents[key] = changed_document(self.document(key), some)

    # ---------------------------------------------------------------- back, and forward again

    def next_undo(self, key: str) -> Edit | None:
        """Return what undo of a view of an item takes back.

        It is the newest edit that touches the item or the project. Where that edit touches other
        items too, what came after it there goes first.
        """
        with self.lock:
            back = set(self._undone)
            done = [one for n, one in self._edits.items() if n not in back and one.can_undo]
            return _last_of(done, key)

    def next_redo(self, key: str) -> Edit | None:
        """Return what redo of a view of an item does again: what was taken back last."""
        with self.lock:
            return _last_of([self._edits[n] for n in self._undone], key)

    def undo(self, key: str, by: str = "") -> Move | None:
        """Take back an edit, `next_undo`; None if there is none."""
        with self.lock:
            return self._moved(self.next_undo(key), by, back=True)

    def redo(self, key: str, by: str = "") -> Move | None:
        """Do an edit again, `next_redo`; None if there is none."""
        with self.lock:
            return self._moved(self.next_redo(key), by, back=False)

    def _moved(self, edit: Edit | None, by: str, back: bool) -> Move | None:
        if edit is None:
            return None
        move = Move(self.n + 1, by, edit.n, back)
        self.add(move)
        return move

    def _move(self, move: Move) -> None:
        edit = self.edit(move.of)
        if edit is None or (move.of in self._undone) == move.back:
            raise ValueError(f"edit {move.of}: expected one that can be moved, found none")
        changes = edit.changes
        if move.back:
            self._apply(change.reversed for change in reversed(changes))
            self._undone.append(move.of)
        else:
            self._apply(changes)
            self._undone.remove(move.of)
        _fold(changes, back=move.back)

    def object_at(self, key: str, number: int, n: int) -> Object | None:
        """Return an object as it was after the record `n`; None if it was not there.

        What was taken back since then counts as never done.
        """
        with self.lock:
            later = [one for one in self._edits.values() if one.n > n and one.n not in self._undone]
            changes = (change for one in reversed(later) for change in reversed(one.changes))
            back = [one.reversed for one in changes if one.document == key and one.what != "item"]
            return changed_document(self.document(key), back).get(number)

    def edit(self, n: int) -> Edit | None:
        """Return an edit by its number, None for one that is not known."""
        return self._edits.get(n)

    def restore(
        self, edits: Iterable[Edit], undone: Iterable[int], recent: Iterable[str] = ()
    ) -> None:
        """Take edits that led to the present state, and those of them that were taken back."""
        with self.lock:
            self._recent = dict.fromkeys(recent)
            self._edits = {edit.n: edit for edit in edits}
            self._bytes = {n: _size(edit.changes) for n, edit in self._edits.items()}
            self._total = sum(self._bytes.values())
            self._undone = [n for n in undone if n in self._edits]


def _last_of(edits: list[Edit], key: str) -> Edit | None:
    """Return the last edit that touches an item, or one that has to move before it."""
    touched, found = {key, PROJECT}, None
    while True:
        last = next((one for one in reversed(edits) if one.documents & touched), None)
        if last is found:
            return found
        assert last is not None
        found = last
        touched |= last.documents


def _joined(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return one change for each part: the first `before` and the last `after`."""
    found: dict[object, Change] = {}
    for change in changes:
        part = (change.document, change.what, change.key)
        first = found.get(part)
        found[part] = change if first is None else replace(change, before=first.before)
    return tuple(found.values())


def _size(changes: Iterable[Change]) -> int:
    """Return about how many bytes the masks of changes take that these alone have."""
    masks = {id(one): one for change in changes for one in masks_of(change.before)}
    return sum(one.nbytes for one in masks.values()) + 200


def _fold(changes: Iterable[Change], *, back: bool = False) -> None:
    """Keep the masks deflated that changes, or taking them back, replace: undo alone needs them."""
    parts = [(one.before, one.after) for one in changes]
    gone, there = ([pair[at] for pair in parts] for at in ((1, 0) if back else (0, 1)))
    shown = {id(mask) for part in there for mask in masks_of(part)}
    for part in gone:
        for mask in masks_of(part):
            if id(mask) not in shown:
                mask.fold()
