"""What image and video sessions share: views, messages, a worker, and the project."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core, viz
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx._internal.files.suffixes import EXPORTS
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.classes import default_name
from sam_rlx.apps.annotator.gestures import (
    RGB,
    Gesture,
    Name,
    Number,
    OptionalIndex,
    OptionalNumber,
    gesture,
    table_of,
)
from sam_rlx.apps.annotator.history import Edit, Record
from sam_rlx.apps.annotator.keys import keys_of
from sam_rlx.apps.annotator.limits import MAX_VIEWS, MAX_WAITING, MAX_WAITING_BYTES
from sam_rlx.apps.annotator.projects import OpenProject, kept_where
from sam_rlx.apps.annotator.store import FILE_SUFFIX, FOLDER_PROJECT
from sam_rlx.apps.annotator.values import Change, Document, Object, Project
from sam_rlx.apps.annotator.worker import During, Worker
from sam_rlx.errors import InvalidArgumentError, SamRlxError, StateError
from sam_rlx.model import Model

_LOG = logging.getLogger("sam_rlx")
_MAX_NAME = 100  # letters of a view's name
_POLL = 0.2  # seconds between looks at signals while a caller waits
UNCOLORED = (-1, -1, -1)  # gets the colour of its number
_PROMPTS = ("click", "box", "stroke", "lasso")  # without a current object they begin one
_HEAD = ("type", "view", "seq", "contents")

# (head, buffers, view): hands a message to one view, or to all with None.
Send = Callable[[dict[str, Any], list[bytes], "str | None"], None]
Answer = dict[str, Any] | None
_Part = TypeVar("_Part")


def still(part: _Part | None) -> _Part:
    """Return a part of a session that is open; `StateError` once it is forgotten."""
    if part is None:
        raise StateError("widget: expected an open one, found a closed one")
    return part


def mask_of_size(mask: Any, hw: tuple[int, int]) -> NDArray[np.bool_]:
    """Return a mask given by hand as bool (H, W); `InvalidArgumentError` for another size."""
    bools = as_bools("mask", mask)
    if bools.shape != hw:
        raise InvalidArgumentError(f"mask: expected shape {hw}, found {bools.shape}")
    return bools


class Session:
    """The part of a session that hosts see.

    Its views show one item at a time, `key`, and have one object selected, `current`. What is made
    belongs to the project, which other sessions may show too.

    Parameters
    ----------
    project : OpenProject
        Keeps the work.
    send : callable, optional
        ``send(head, buffers, view)``, called from any thread; it must not block for long.
    changed : callable, optional
        ``changed(revision)``, after what has changed was sent.
    during : callable, optional
        As for `Worker`.
    """

    # By type of message: what the class can do. Made from its methods.
    gestures: ClassVar[dict[str, Gesture]] = {}
    model: Model
    num_threads: int | None = None
    # Those that work after `close` too.
    after_close: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        """Make the table of a class."""
        super().__init_subclass__()
        cls.gestures = table_of(cls)

    def __init__(
        self,
        project: OpenProject,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        during: During = nullcontext,
    ) -> None:
        self.project = project
        self.class_number = 1  # of the next object
        self.others_stay = True  # whether answers and strokes leave pixels of other objects alone
        self.key = ""  # of the item that is shown
        self.current: int | None = None  # number of the object that prompts change
        self._kept: Object | None = None  # what the current object was when it became that
        self._since = 0  # the record of the history that was the last one then
        self._send_to_host = send
        self._changed = changed
        self._lock = threading.RLock()
        self._worker = Worker("widget", during)
        self._waiting_bytes = 0  # of files
        self._views: set[str] = set()
        self._status: tuple[str, float | None, bool] = ("", None, False)
        self._asks: tuple[str | None, Answer] = (None, None)  # whose gesture is being done
        self._doing = ""  # name of that gesture
        self.revision = 0
        # What views know of the objects, by number; None where some of them may know another one.
        self._described: dict[int, Object | None] = {}
        self._by_edits: set[str] = set()  # views that take what has changed alone
        self._queue: dict[int, dict[str, Any]] = {}  # what views know of the items
        self._project_known: Project | None = None
        project.watch(self._follow)

    # ---------------------------------------------------------------- the item that is shown

    @property
    def document(self) -> Document:
        """The objects of the item that is shown."""
        return self.project.document(self.key)

    @property
    def selected(self) -> Object | None:
        """The object that prompts change; None: they begin a new one."""
        return self.document.get(self.current)

    def _select(self, number: int | None) -> None:
        before = self.selected
        if before is not None and before.number != number:  # its answers are not shown any more
            shown = {id(mask.packed) for mask in before.masks.values()}
            for answer in before.candidates:
                if id(answer.packed) not in shown:
                    answer.packed.fold()
        self.current = number
        self._kept, self._since = self.document.get(number), self.project.history.n

    def _object(self, number: int | None) -> Object:
        """Return an object by its number; by default the current one."""
        if number is None:
            if self.selected is None:
                raise InvalidArgumentError("object: expected a current object, found none")
            return self.selected
        found = self.document.get(number)
        if found is None:
            there = ", ".join(str(one.number) for one in self.document.objects[:20]) or "none"
            raise InvalidArgumentError(
                f"object: expected the number of an object ({there}), found {number}"
            )
        return found

    def _free(self, number: int | None) -> Object:
        """Return an object that may be changed; `StateError` for a locked one."""
        return unlocked(self._object(number))

    def _selected_free(self) -> Object | None:
        """Return the object that prompts change, which is not locked; None for a new one."""
        return None if self.selected is None else unlocked(self.selected)

    def _put(self, title: str, *objects: Object) -> None:
        """Change objects that are there, in one edit."""

        def change(document: Document) -> Document:
            for one in objects:
                if document.get(one.number) is None:
                    raise StateError(
                        f"object {one.number}: expected it there, found that another view has "
                        "deleted it"
                    )
            return document.with_objects(*objects)

        self._edit(title, change)

    def _begin(self, title: str, *objects: Object, select: bool = True) -> None:
        """Add objects; their numbers are chosen here, and their names if they are empty."""

        def change(document: Document) -> Document:
            return document.with_objects(*self._numbered(document, objects))

        edit = self._edit(title, change)
        if edit is not None and select:
            with self._lock:
                self._kept, self._since = None, edit.n - 1
                self.current = max(
                    int(one.key)  # type: ignore[arg-type]
                    for one in edit.changes
                    if one.what == "object" and one.before is None
                )

    def new_object(self, **values: Any) -> Object:
        """Return an object without a number, of the class that is chosen for new ones."""
        known = self.project.history.project.class_numbered(self.class_number)
        if known is None:  # it was taken back
            self.class_number = self.project.history.project.classes[0].number
        return Object(0, "", UNCOLORED, class_number=self.class_number, **values)

    def _numbered(self, document: Document, objects: Sequence[Object]) -> list[Object]:
        return self.numbered_in(self.project.history.project, document, objects)

    @staticmethod
    def numbered_in(
        project: Project, document: Document, objects: Sequence[Object]
    ) -> list[Object]:
        """Return new objects with the next numbers of a document of a project."""
        return numbered(document, objects, project)

    def _edit(self, title: str, change: Callable[[Document], Document]) -> Edit | None:
        return self.project.edit(self.key, change, self._doing, title, by_view(*self._asks))

    def _follow(self, changes: Sequence[Change], record: Record) -> None:
        """Show what another session has changed, or this one."""
        if self._worker.is_closed or self._worker.is_own_thread:
            return
        is_open = isinstance(record, Edit) and record.gesture == "open"
        if is_open or (changes and not self._concerns(changes)):
            return

        def show() -> None:
            self.on_changes(changes)
            self.broadcast(None)

        with suppress(StateError):  # it is being closed
            self.run(show)

    def _concerns(self, changes: Sequence[Change]) -> bool:
        return any(one.what == "item" or one.document in ("", self.key) for one in changes)

    def broadcast(self, answer: Answer) -> None:
        """Send all views what there is."""
        raise NotImplementedError

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Take note of what has changed on the item that is shown."""

    # ---------------------------------------------------------------- gestures of all sessions

    @gesture("undo", key="Ctrl+Z")
    def do_undo(self) -> None:
        """Take back the last edit of what is shown: results of models too."""
        self._moved(self.project.undo(self.key, by_view(*self._asks)))

    @gesture("redo", key="Ctrl+Shift+Z, Ctrl+Y")
    def do_redo(self) -> None:
        """Do again what was taken back."""
        self._moved(self.project.redo(self.key, by_view(*self._asks)))

    def _moved(self, edit: Edit | None) -> None:
        if edit is not None:
            numbers = {one.key for one in edit.changes if one.what == "object"}
            with self._lock:
                one = self.document.get(numbers.pop()) if len(numbers) == 1 else None  # type: ignore[arg-type]
                if self.selected is None and edit.gesture in ("click", "box", "candidate"):
                    self.current = None if one is None else one.number
            self.on_changes(edit.changes)
        self.broadcast(self._asks[1])

    @gesture("delete this object", key="Delete, Backspace")
    def do_delete(self, object: OptionalNumber = None) -> None:
        """Delete an object; the others stay as they are."""
        one = self._free(object)
        self._edit(f"delete {one.name}", lambda document: document.without(one.number))
        self.on_changes([Change(self.key, "object", one.number, one, None)])
        if self.current == one.number:
            self._select(None)
        self.broadcast(self._asks[1])

    @gesture("keep this object, begin another", key="Enter", edits=False)
    def do_commit(self) -> None:
        """Leave the current object as it is: the next prompt begins another one."""
        self._select(None)
        self.broadcast(self._asks[1])

    @gesture("one step back: a drag, a tool, what is not kept", key="Esc")
    def do_cancel(self) -> None:
        """Take the current object back to what it was when it became current; none is then."""
        number, kept = self.current, self._kept
        if number is not None:

            def change(document: Document) -> Document:
                if document.get(number) is None:
                    return document
                return document.without(number) if kept is None else document.with_objects(kept)

            edit = self._edit("cancel", change)
            self.on_changes(() if edit is None else edit.changes)
        self._select(None)
        self.broadcast(self._asks[1])

    @gesture("choose an object", key="J, Shift+J", edits=False)
    def do_select(self, object: OptionalNumber = None, since: OptionalIndex = None) -> None:
        """Choose the object that prompts change; null: they begin a new one.

        `since`: it was chosen by a session that has ended, after that record of the history.
        """
        self._select(None if object is None else self._object(object).number)
        if since is not None and self.current is not None:
            self._kept = self.project.history.object_at(self.key, self.current, since)
            self._since = since
        self.broadcast(self._asks[1])

    @gesture("rename", key="F2, double click")
    def do_rename(self, object: Number, name: Name) -> None:
        """Give an object another name."""
        self._put(f"rename to {name}", replace(self._object(object), name=name))
        self.broadcast(self._asks[1])

    @gesture("recolor")
    def do_recolor(self, object: Number, color: RGB) -> None:
        """Give an object another colour."""
        self._put("another colour", replace(self._object(object), color=color))
        self.broadcast(self._asks[1])

    @gesture("write the project here, though another process has it open", edits=False)
    def do_take_over(self) -> None:
        """Write the project from now on; the other process turns read-only."""
        self.project.take_over()
        self.broadcast(self._asks[1])

    # ---------------------------------------------------------------- from hosts

    def receive(self, head: Any, buffers: Sequence[Any] = ()) -> None:
        """Take a message of a view. Returns at once; never raises for what a message says.

        A session that is closed says nothing.
        """
        if self._worker.is_closed:
            return
        try:
            kind, view, answer = self._checked(head)
            self._check_room(kind, buffers)
            self._take(kind, head, buffers, view, answer)
        except (InvalidArgumentError, StateError) as error:
            asks = head.get("view") if isinstance(head, Mapping) else None
            self.send({"type": "error", "text": str(error)}, [], asks or None)

    def _take(
        self, kind: str, head: Any, buffers: Sequence[Any], view: str, answer: Answer
    ) -> None:
        if kind == "bye":
            self._views.discard(view)
            self._by_edits.discard(view)
            self._worker.drop(("hover", view))
        elif kind == "leave":
            self._worker.drop(("hover", view))
        elif kind == "ready":
            if head.get("again") and view in self._views:
                return
            fields.at_most("views", len(self._views), MAX_VIEWS)
            self._views.add(view)
            if head.get("edits") is True:
                self._by_edits.add(view)
            self._guarded(lambda: self.on_ready(view, answer), view, answer)
        elif kind == "stop":
            self.on_stop()
        elif kind == "hover":
            hover = partial(self.on_hover, head, view, answer)
            self._worker.preview(("hover", view), partial(self._guarded, hover, view, answer))
        else:
            self._guarded(
                lambda: self._take_gesture(kind, head, buffers, view, answer), view, answer
            )

    def _take_gesture(
        self, kind: str, head: Any, buffers: Sequence[Any], view: str, answer: Answer
    ) -> None:
        row = self.gestures[kind]
        given = {name: value for name, value in head.items() if name not in _HEAD}
        if "contents" in row.fields:
            given["contents"] = bytes(buffers[0]) if buffers else b""
        elif "contents" in head:
            given["contents"] = head["contents"]
        self._enqueue(row, row.values(given, of_view=True), view, answer)

    def _checked(self, head: Any) -> tuple[str, str, Answer]:
        if not isinstance(head, Mapping):
            raise InvalidArgumentError(f"message: expected an object, found {shown(head)}")
        kind, view, seq = head.get("type"), head.get("view"), head.get("seq")
        if not isinstance(view, str) or not 0 < len(view) <= _MAX_NAME:
            raise InvalidArgumentError(f"view: expected a text, found {shown(view)}")
        if not isinstance(seq, int) or isinstance(seq, bool):
            raise InvalidArgumentError(f"seq: expected an integer, found {shown(seq)}")
        known = {"ready", "bye", "leave", "stop", "hover", *self.gestures}
        if not isinstance(kind, str) or kind not in known:
            raise InvalidArgumentError(
                f"type: expected one of {sorted(known)}, found {shown(kind)}"
            )
        return kind, view, {"view": view, "seq": seq}

    def _enqueue(self, row: Gesture, given: dict[str, Any], view: str, answer: Answer) -> None:
        count = len(given.get("contents", b""))
        with self._lock:
            self._waiting_bytes += count

        def taken() -> None:
            with self._lock:
                self._waiting_bytes -= count
            self._do(row, given, view, answer)

        self.run(taken, view, answer, later=row.later)

    def _do(self, row: Gesture, given: dict[str, Any], view: str | None, answer: Answer) -> Any:
        """Do a gesture; there is one at a time."""
        if row.edits:
            self.project.check(row.name)
            if self.project.history.was_done(by_view(view, answer)):  # a view that was not answered
                objects = self.document.objects
                if self.selected is None and objects and row.name in _PROMPTS:
                    self._select(objects[-1].number)  # which that prompt began
                self.broadcast(answer)
                return None
        before, self._asks, self._doing = (self._asks, self._doing), (view, answer), row.name
        try:
            return getattr(self, row.method)(**given)
        finally:
            self._asks, self._doing = before

    def _check_room(self, kind: str, buffers: Sequence[Any]) -> None:
        """Refuse what a view asks for while too much of it waits."""
        if kind not in self.gestures:
            return
        count = self._waiting_bytes + (len(buffers[0]) if buffers else 0)
        if len(self._worker) >= MAX_WAITING or count > MAX_WAITING_BYTES:
            raise InvalidArgumentError(
                f"{kind}: expected at most {MAX_WAITING} requests and {MAX_WAITING_BYTES} bytes "
                "that wait, found more"
            )

    def run(
        self,
        work: Callable[[], Any],
        view: str | None = None,
        answer: Answer = None,
        *,
        later: bool = False,
    ) -> None:
        """Do work in the thread of the session, and tell a view, or all of them, if it fails."""
        self._worker.submit(partial(self._guarded, work, view, answer), later=later)

    def _guarded(self, work: Callable[[], Any], view: str | None, answer: Answer) -> None:
        try:
            work()
        except Exception as error:  # a view asked: it is told
            self._tell(error, view, answer)

    def begin_steps(
        self,
        steps: Iterator[None],
        end: Callable[[], None],
        ended: Callable[[Any], None] | None,
        view: str | None = None,
        answer: Answer = None,
    ) -> None:
        """Begin to take steps while nothing else waits, and do `end` after them, whatever happens.

        A view, or all of them, and whoever waits for `ended` are told of an error in either.
        """
        taken = self._to_the_end(steps, end, ended, view, answer)
        next(taken)
        self._worker.start(taken)

    def _to_the_end(
        self,
        steps: Iterator[None],
        end: Callable[[], None],
        ended: Callable[[Any], None] | None,
        view: str | None,
        answer: Answer,
    ) -> Iterator[None]:
        errors: list[Exception] = []
        try:
            yield  # before any step: what is closed now ends too
            yield from steps
        except Exception as error:
            errors.append(error)
        finally:
            try:
                end()
            except Exception as error:
                errors.append(error)
            for one in errors:
                self._tell(one, view, answer)
            if ended is not None:
                ended(errors[0] if errors else None)

    def _tell(self, error: BaseException, view: str | None, answer: Answer) -> None:
        if not isinstance(error, (SamRlxError, OSError)):
            _LOG.error("sam_rlx: a request of a view failed", exc_info=error)
        text = f"{error}" if isinstance(error, SamRlxError) else f"{type(error).__name__}: {error}"
        self.send({"type": "error", "text": text, "answer": answer}, [], view)

    # ---------------------------------------------------------------- from programs

    def call(self, kind: str, **given: Any) -> Any:
        """Do what a message of this type does, and wait for it.

        Raises what the work raises; `StateError` after `close`, but for what is made of results.
        Ctrl-C ends the wait, not the work.
        """
        row = self.gestures[kind]
        values = row.values(given, of_view=False)
        if self._worker.is_own_thread or (self._worker.is_closed and kind in self.after_close):
            return self._do(row, values, None, None)
        return self.wait(self._worker.submit(lambda: self._do(row, values, None, None)))

    def wait(self, future: "Future[Any]") -> Any:
        """Wait for work, open to signals."""
        while True:
            try:
                return future.result(_POLL)
            except FutureTimeoutError:
                if future.done():  # the work itself timed out
                    raise
                if self._worker.is_closed:
                    raise StateError("widget: expected an open one, found a closed one") from None
            except CancelledError:
                raise StateError(
                    "widget: expected an open one, found one that was closed"
                ) from None

    def close(self) -> None:
        """End the work of the session; views get no more answers.

        What was made stays; images, predictors and the host's callables are let go of.
        """
        self.on_stop()
        self._send_to_host = self._changed = None
        self._worker.close(self._end)

    def _end(self) -> None:
        self.forget()
        self.project.unwatch(self._follow)

    # ---------------------------------------------------------------- to views

    def send(self, head: dict[str, Any], buffers: list[bytes], view: str | None) -> None:
        """Hand a message to the host. It says to whom, since a host may hand it to every view."""
        send_to_host = self._send_to_host
        if send_to_host is not None:
            send_to_host({**head, "to": view}, buffers, view)

    def status(self, text: str, part: float | None = None, *, stops: bool = False) -> None:
        """Say to all views what is done, and whether `stop` ends it; "" when nothing is."""
        self._status = (text, part, stops)
        self.send(self.status_head(), [], None)

    @contextmanager
    def _working(self, text: str, *, stops: bool = False) -> Iterator[None]:
        """Say to all views what is done while a block runs."""
        self.status(text, stops=stops)
        try:
            yield
        finally:
            self.status("")

    def _hand_over(self, name: str, mime: str, contents: bytes) -> None:
        """Send a file to the view that asked for it, if one did."""
        view, answer = self._asks
        if view is not None:
            head = {"type": "file", "name": name, "mime": mime, "answer": answer}
            self.send(head, [contents], view)

    def status_head(self) -> dict[str, Any]:
        """Return the message that says what is done."""
        text, part, stops = self._status
        return {"type": "status", "text": text, "part": part, "stops": stops}

    def project_head(self) -> dict[str, Any]:
        """Return what a state says of the project: what undo and redo do, and what is wrong."""
        undo, redo = (
            self.project.history.next_undo(self.key),
            self.project.history.next_redo(self.key),
        )
        objects = self.document.objects
        at = {one.number: index for index, one in enumerate(objects)}
        return {
            "current": at.get(self.current) if self.current is not None else None,
            "object": None if self.selected is None else self.current,
            "since": self._since,
            "class": self.class_number,
            "others_stay": self.others_stay,
            "can_undo": undo is not None,
            "can_redo": redo is not None,
            "undo": "" if undo is None else undo.title,
            "redo": "" if redo is None else redo.title,
            "n": self.project.history.n,
            "read_only": self.project.read_only,
            "elsewhere": self.project.elsewhere,
            "unsaved": self.project.problem,
        }

    def about_head(self) -> dict[str, Any]:
        """Return what a view is told of the work as a whole: its name, where it is kept, keys."""
        path = self.project.path
        return {
            "type": "about",
            "name": self.title,
            "kept": kept_where(path),
            "where": "" if path is None else str(path),
            "model": self.model_name,
            "keys": keys_of(self.gestures),
            "forms": self.forms(),
            "exports": "" if self.exports_folder is None else str(self.exports_folder),
        }

    @property
    def exports_folder(self) -> Path | None:
        """Where exports with a name are written: beside the project of a folder; else None."""
        path = self.project.path
        if path is None or path.name != FOLDER_PROJECT or kept_where(path) != "folder":
            return None
        return path.parent / EXPORTS

    @property
    def title(self) -> str:
        """A name of the project for people: that of its file, or of its first item."""
        path = self.project.path
        items = self.project.history.project.items
        if path is not None and kept_where(path) == "folder":
            name = path.name.removesuffix(FILE_SUFFIX)
            return path.parent.name if path.name == FOLDER_PROJECT else name
        return items[0].path.rpartition("/")[2] if items else ""

    @property
    def model_name(self) -> str:
        """What computes: the model, and its threads."""
        threads = self.num_threads or _core.build_info()["cores"]
        return f"{self.model.variant} · {threads} thread{'' if threads == 1 else 's'}"

    def forms(self) -> list[dict[str, Any]]:
        """Return what a dialog says of the forms of exports."""
        return []

    def send_project(self, view: str | None, *, whole: bool = False) -> None:
        """Send classes, and the items that changed since the last time, or all of them."""
        project = self.project.history.project
        queue = self._queue
        if whole or project is not self._project_known:
            self._queue = self.queue_rows()
        else:
            self._queue = {**queue, **self.queue_rows(shown_alone=True)}
        whole = whole or set(self._queue) != set(queue)
        rows = [row for at, row in self._queue.items() if whole or queue.get(at) != row]
        classes_changed = (
            self._project_known is None or self._project_known.classes != project.classes
        )
        self._project_known = project
        if not (whole or rows or classes_changed):
            return
        head = {
            "type": "project",
            "classes": [
                {"number": o.number, "name": o.name, "color": list(o.color), "digit": o.digit}
                for o in project.classes
            ],
            "whole": whole,
            "items": rows,
        }
        self.send(head, [], view)

    def queue_rows(self, *, shown_alone: bool = False) -> dict[int, dict[str, Any]]:
        """Return what views are told of the items, or of the shown one, by their index."""
        raise NotImplementedError

    def item_row(self, index: int, key: str, name: str) -> dict[str, Any]:
        """Return what views are told of an item."""
        item = self.project.history.project.item(key) if key else None
        return {
            "index": index,
            "key": key,
            "name": name,
            "kind": "image" if item is None else item.kind,
            "state": "new" if item is None else item.state,
            "reason": "" if item is None else item.reason,
            "objects": len(self.project.document(key).objects) if key else 0,
        }

    def objects_head(self, *, whole: bool) -> tuple[str, list[Object], list[int]]:
        """Return the type of a message on objects, those it describes, and numbers that are gone.

        A `state` has all of them, an `edit` those that differ from what was sent last.
        """
        objects = self.document.objects
        if whole:
            return "state", list(objects), []
        known = self._described
        changed = [one for one in objects if known.get(one.number) is not one]
        there = {one.number for one in objects}
        return "edit", changed, [number for number in known if number not in there]

    def note_described(self, view: str | None) -> bool:
        """Note that a view, or each for None, knows the objects; return whether all views do."""
        known_to_all = view is None or self._views == {view}
        if known_to_all:
            self._described = {}
        for one in self.document.objects:
            self._described.setdefault(one.number, one if known_to_all else None)
        return known_to_all

    def sees_edits(self, view: str | None) -> bool:
        """Tell whether a view, or each of them, takes what has changed alone."""
        if view is not None:
            return view in self._by_edits
        return bool(self._views) and self._views <= self._by_edits

    def publish(self) -> None:
        """Count a change, after what it gave was sent."""
        changed = self._changed
        if changed is not None:
            changed(self.revision)

    # ---------------------------------------------------------------- of subclasses

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view all that it shows."""
        raise NotImplementedError

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view what a click would give."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """Stop long work after its current step."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let go of what is needed for new results only."""
        raise NotImplementedError


def by_view(view: str | None, answer: Answer) -> str:
    """Return what names a gesture of a view: a repeated message is not done again."""
    return "" if view is None or answer is None else f"{view}:{answer['seq']}"


def unlocked(one: Object) -> Object:
    """Return an object; `StateError` if it is locked."""
    if one.locked:
        raise StateError(f"{one.name}: expected an object that is not locked, found a locked one")
    return one


def numbered(document: Document, objects: Sequence[Object], project: Project) -> list[Object]:
    """Return new objects with the next numbers of a document; names and colours if they lack."""
    number = document.next_number
    return [
        replace(
            one,
            number=number + at,
            name=one.name or default_name(project.class_of(one), number + at),
            color=viz.color(number + at) if one.color == UNCOLORED else one.color,
        )
        for at, one in enumerate(objects)
    ]
