"""Values and records of a history as JSON, and back: what is read is checked, whoever wrote it.

Masks stand in one table, ``{"size": [H, W], "counts": "..."}``, COCO's compressed run lengths,
which pycocotools decodes; all else names them by their index.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, get_args

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator.history import Edit, History, More, Move, Record
from sam_rlx.apps.annotator.limits import (
    MAX_CLASSES,
    MAX_FRAMES,
    MAX_ITEMS,
    MAX_OBJECTS,
    MAX_RECENT,
    MAX_SIDE,
)
from sam_rlx.apps.annotator.values import (
    PROJECT,
    BoxPrompt,
    Change,
    ClassDef,
    Color,
    Document,
    Gone,
    How,
    Item,
    Kind,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Prompt,
    Start,
    State,
    Stroke,
    Text,
    What,
)
from sam_rlx.errors import InvalidArgumentError, SamRlxError

_MAX_NUMBER = 1 << 53  # that JSON of every program holds
_MAX_TEXT = 4000
_MAX_LIST = 1 << 20
_FAR = 1e9  # of a position or score
_MAX_PIXELS = 1 << 30

_PROMPTS = ("point", "box", "text", "start", "stroke", "gone")

_Value = TypeVar("_Value")


class MaskTable:
    """The masks of one line or file, each once."""

    def __init__(self) -> None:
        self.masks: list[dict[str, Any]] = []
        self._indices: dict[PackedMask, int] = {}

    def index(self, mask: PackedMask) -> int:
        """Return the index of a mask in the table."""
        if mask not in self._indices:
            counts = _core.rle_to_string(mask.run_lengths()).decode("ascii")
            self._indices[mask] = len(self.masks)
            self.masks.append({"size": list(mask.hw), "counts": counts})
        return self._indices[mask]


# ------------------------------------------------------------------ to JSON


def _mask(mask: Mask, table: MaskTable) -> dict[str, Any]:
    said = {"mask": table.index(mask.packed), "score": mask.score, "how": mask.how}
    return {**said, "since": mask.since} if mask.since else said


def _prompt(one: Prompt, table: MaskTable) -> dict[str, Any]:
    head: dict[str, Any] = {"number": one.number, "frame": one.frame}
    if isinstance(one, Point):
        return {"kind": "point", **head, "x": one.x, "y": one.y, "label": one.label}
    if isinstance(one, BoxPrompt):
        return {"kind": "box", **head, "box": list(one.box)}
    if isinstance(one, Text):
        return {"kind": "text", **head, "text": one.text}
    if isinstance(one, Stroke):
        painted = {"add": table.index(one.add), "take": table.index(one.take)}
        return {"kind": "stroke", **head, "by": one.kind, **painted}
    if isinstance(one, Gone):
        return {"kind": "gone", **head}
    return {"kind": "start", **head, "mask": table.index(one.mask)}


def _object(one: Object, table: MaskTable) -> dict[str, Any]:
    said = {
        "number": one.number,
        "name": one.name,
        "color": list(one.color),
        "class": one.class_number,
        "note": one.note,
        "prompts": [_prompt(each, table) for each in one.prompts],
        "masks": {str(frame): _mask(mask, table) for frame, mask in one.masks.items()},
        "candidates": [_mask(each, table) for each in one.candidates],
        "candidate": one.candidate,
        "locked": one.locked,
    }
    return {**said, "asked": [list(pair) for pair in one.asked]} if one.asked else said


def _class(one: ClassDef) -> dict[str, Any]:
    said = {"number": one.number, "name": one.name, "color": list(one.color)}
    return {**said, "digit": one.digit}


def _item(one: Item) -> dict[str, Any]:
    return {
        "key": one.key,
        "path": one.path,
        "kind": one.kind,
        "size": None if one.hw is None else list(one.hw),
        "frames": one.frames,
        "state": one.state,
        "reason": one.reason,
        "stat": list(one.stat),
    }


def _part(what: What, part: Any, table: MaskTable) -> Any:
    if part is None:
        return None
    if what == "object":
        return _object(part, table)
    if what == "mask":
        return _mask(part, table)
    if what == "found":
        return [_mask(each, table) for each in part]
    if what == "order":
        return list(part)
    return _class(part) if what == "class" else _item(part)


def _change(change: Change, table: MaskTable, before: bool) -> dict[str, Any]:
    key = list(change.key) if isinstance(change.key, tuple) else change.key
    said = {"document": change.document, "what": change.what, "key": key}
    said["after"] = _part(change.what, change.after, table)
    if before:
        said["before"] = _part(change.what, change.before, table)
    return said


def record_to_json(record: Record, table: MaskTable, *, before: bool = False) -> dict[str, Any]:
    """Return a record; `before` with what was there before, which a log need not say."""
    head = {"n": record.n, "by": record.by}
    if isinstance(record, Move):
        return {**head, "of": record.of, "back": record.back}
    changes = [_change(change, table, before) for change in record.changes]
    if isinstance(record, More):
        return {**head, "of": record.of, "title": record.title, "changes": changes}
    named = {"gesture": record.gesture, "title": record.title, "undo": record.can_undo}
    return {**head, **named, "changes": changes}


def history_to_json(history: History) -> dict[str, Any]:
    """Return the present state and the edits of a history."""
    table = MaskTable()
    with history.lock:
        project = history.project
        documents = {
            key: {
                "next_number": document.next_number,
                "objects": [_object(one, table) for one in document.objects],
                "found": [_mask(one, table) for one in document.found],
            }
            for key, document in history.documents.items()
        }
        edits = history.edits
        return {
            "n": history.n,
            "classes": [_class(one) for one in project.classes],
            "items": [_item(one) for one in project.items],
            "documents": documents,
            "history": [record_to_json(edit, table, before=True) for edit in edits],
            "undone": history.undone,
            "recent": history.recent,
            "masks": table.masks,
        }


# ------------------------------------------------------------------ from JSON


def migrated(found: Any, version: int) -> Any:
    """Return what a file of an earlier version says as one of the present version says it."""
    if version == 1:
        _from_version_1(found)
    return found


def _from_version_1(found: Any) -> None:
    """Complete objects, which had no lock, and classes, which had no digit, in place."""
    inner: list[Any] = []
    if isinstance(found, list):
        inner = found
    elif isinstance(found, dict):
        inner = [*found.values()]
        if {"number", "name", "color"} <= set(found):
            digit = str(found["number"]) if found["number"] in range(1, 10) else ""
            found.update({"locked": False} if "prompts" in found else {"digit": digit})
    for one in inner:
        _from_version_1(one)


class _Entry:
    """One object of JSON, whose values are asked for by name, kind and range."""

    def __init__(self, where: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object of JSON", value)
        self.where = where
        self.values = value

    def at(self, name: str) -> str:
        return f"{self.where}.{name}"

    def integer(self, name: str, low: int = 0, high: int = _MAX_NUMBER) -> int:
        return _integer(self.at(name), self.values.get(name), low, high)

    def number(self, name: str) -> float:
        return _number(self.at(name), self.values.get(name))

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            raise _wrong(self.at(name), f"a text of at most {_MAX_TEXT} letters", value)
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _wrong(self.at(name), "a text of UTF-8", value) from None
        return value

    def flag(self, name: str) -> bool:
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise _wrong(self.at(name), "true or false", value)
        return value

    def choice(self, name: str, choices: tuple[Any, ...]) -> Any:
        value = self.values.get(name)
        if not isinstance(value, str) or value not in choices:
            raise _wrong(self.at(name), f"one of {', '.join(choices)}", value)
        return value

    def list(self, name: str, most: int = _MAX_LIST) -> list[Any]:
        value = self.values.get(name)
        if not isinstance(value, list) or len(value) > most:
            raise _wrong(self.at(name), f"a list of at most {most}", value)
        return value

    def each(
        self, name: str, read: Callable[["_Entry"], _Value], most: int = _MAX_LIST
    ) -> tuple[_Value, ...]:
        found = self.list(name, most)
        return tuple(read(_Entry(f"{self.at(name)}[{k}]", one)) for k, one in enumerate(found))

    def integers(self, name: str, count: int, low: int, high: int) -> tuple[int, ...]:
        found = self.list(name)
        if len(found) != count:
            raise _wrong(self.at(name), f"{count} numbers", found)
        return tuple(_integer(self.at(name), value, low, high) for value in found)

    def texts(self, name: str) -> tuple[str, ...]:
        found = self.list(name, MAX_ITEMS)
        if not all(isinstance(one, str) and len(one) <= _MAX_TEXT for one in found):
            raise _wrong(self.at(name), "texts", found)
        return tuple(found)

    def color(self) -> Color:
        red, green, blue = self.integers("color", 3, 0, 255)
        return red, green, blue


def _wrong(where: str, expected: str, found: Any) -> InvalidArgumentError:
    return InvalidArgumentError(f"{where}: expected {expected}, found {shown(found)[:80]}")


def _integer(where: str, value: Any, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _wrong(where, f"an integer from {low} to {high}", value)
    return value


def _number(where: str, value: Any) -> float:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits or not -_FAR <= value <= _FAR or not math.isfinite(value):
        raise _wrong(where, "a finite number", value)
    return float(value)


class Reader:
    """Reads what one line or file says, whose masks are in its table."""

    def __init__(self, where: str, document: Any) -> None:
        self._top = _Entry(where, document)
        self._masks = self._top.each("masks", _packed) if "masks" in self._top.values else ()

    def _packed(self, entry: _Entry, name: str = "mask") -> PackedMask:
        if not self._masks:
            raise _wrong(entry.at(name), "a mask of the table, which is empty", None)
        return self._masks[entry.integer(name, 0, len(self._masks) - 1)]

    def _mask(self, entry: _Entry) -> Mask:
        how: How = entry.choice("how", get_args(How))
        since = entry.integer("since") if "since" in entry.values else 0
        return Mask(self._packed(entry), entry.number("score"), how, since)

    def _prompt(self, entry: _Entry) -> Prompt:
        kind = entry.choice("kind", _PROMPTS)
        number, frame = entry.integer("number", 1), entry.integer("frame", 0, MAX_FRAMES)
        if kind == "point":
            label = entry.integer("label", 0, 1)
            return Point(number, frame, entry.number("x"), entry.number("y"), label)
        if kind == "box":
            corners = entry.list("box", 4)
            if len(corners) != 4:
                raise _wrong(entry.at("box"), "4 numbers", corners)
            x0, y0, x1, y1 = (_number(entry.at("box"), value) for value in corners)
            return BoxPrompt(number, frame, (x0, y0, x1, y1))
        if kind == "text":
            return Text(number, frame, entry.text("text"))
        if kind == "gone":
            return Gone(number, frame)
        if kind == "stroke":
            add, take = self._packed(entry, "add"), self._packed(entry, "take")
            if add.hw != take.hw:
                raise _wrong(entry.at("take"), f"a mask of {add.hw} as add", take.hw)
            return Stroke(number, frame, entry.text("by"), add, take)
        return Start(number, frame, self._packed(entry))

    def _object(self, entry: _Entry) -> Object:
        candidates = entry.each("candidates", self._mask, 3)
        return Object(
            entry.integer("number", 1),
            entry.text("name"),
            entry.color(),
            entry.integer("class", 1),
            entry.text("note"),
            entry.each("prompts", self._prompt),
            self._masks_by_frame(entry),
            candidates,
            entry.integer("candidate", 0, max(len(candidates) - 1, 0)),
            entry.flag("locked"),
            _asked(entry),
        )

    def _masks_by_frame(self, entry: _Entry) -> dict[int, Mask]:
        found = _Entry(entry.at("masks"), entry.values.get("masks"))
        masks = {}
        for text, mask in found.values.items():
            if not (text.isascii() and text.isdigit() and len(text) < 9):
                raise _wrong(found.where, "numbers of frames", text)
            masks[int(text)] = self._mask(_Entry(f"{found.where}.{text}", mask))
        return masks

    def _part(self, entry: _Entry, name: str, what: What) -> Any:
        value = entry.values.get(name)
        if value is None:
            return None
        if what == "found":
            return entry.each(name, self._mask)
        if what == "order":
            return entry.texts(name)
        inner = _Entry(entry.at(name), value)
        readers: Mapping[str, Callable[[_Entry], Any]] = {
            "object": self._object,
            "mask": self._mask,
            "class": _read_class,
            "item": _read_item,
        }
        return readers[what](inner)

    def _change(self, entry: _Entry) -> Change:
        what: What = entry.choice("what", get_args(What))
        document = entry.text("document")
        key: Any
        if what in ("object", "class"):
            key = entry.integer("key", 1)
        elif what == "mask":
            number, frame = entry.integers("key", 2, 0, MAX_FRAMES)
            key = (number, frame)
        else:
            key = entry.text("key")
        after = self._part(entry, "after", what)
        before = self._part(entry, "before", what)
        for part in (before, after):
            own = getattr(part, "number", getattr(part, "key", key)) if part is not None else key
            if own != key:
                raise _wrong(entry.where, f"the part {key}", own)
            if isinstance(part, Object) and part.masks:
                raise _wrong(entry.where, "an object without masks", part)
        return Change(document, what, key, before, after)

    def record(self, value: Any = None) -> Record:
        """Return the record of a line, or one of a list."""
        entry = self._top if value is None else _Entry(f"{self._top.where}: history", value)
        n, by = entry.integer("n", 1), entry.text("by", "")
        if "back" in entry.values:
            return Move(n, by, entry.integer("of", 1), entry.flag("back"))
        changes = entry.each("changes", self._change)
        if "of" in entry.values:
            return More(n, by, entry.integer("of", 1), entry.text("title"), changes)
        title, gesture = entry.text("title"), entry.text("gesture")
        return Edit(n, by, gesture, title, changes, entry.flag("undo"))

    def history(self) -> History:
        """Return the history of a snapshot."""
        entry = self._top
        project = Project(self._classes(), self._items())
        found = _Entry(entry.at("documents"), entry.values.get("documents"))
        documents = {
            key: self._document(_Entry(f"{found.where}.{key[:40]}", value))
            for key, value in found.values.items()
        }
        history = History(project, documents, entry.integer("n"))
        edits = [self.record(value) for value in entry.list("history")]
        if not all(isinstance(edit, Edit) for edit in edits):
            raise _wrong(entry.at("history"), "edits", "other records")
        if [one.n for one in edits] != sorted({one.n for one in edits}):
            raise _wrong(entry.at("history"), "edits in their order", [one.n for one in edits])
        undone = [_integer(entry.at("undone"), n, 1, _MAX_NUMBER) for n in entry.list("undone")]
        if len(set(undone)) != len(undone):
            raise _wrong(entry.at("undone"), "each edit once", undone)
        recent = entry.texts("recent")[-MAX_RECENT:]
        history.restore((edit for edit in edits if isinstance(edit, Edit)), undone, recent)
        return history

    def _classes(self) -> tuple[ClassDef, ...]:
        classes = self._top.each("classes", _read_class, MAX_CLASSES)
        numbers = [one.number for one in classes]
        if not classes or numbers != sorted(set(numbers)):
            raise _wrong(self._top.at("classes"), "classes in the order of their numbers", numbers)
        return classes

    def _items(self) -> tuple[Item, ...]:
        items = self._top.each("items", _read_item, MAX_ITEMS)
        if len({one.key for one in items}) != len(items):
            raise _wrong(self._top.at("items"), "each key once", "a key twice")
        return items

    def _document(self, entry: _Entry) -> Document:
        objects = entry.each("objects", self._object, MAX_OBJECTS)
        numbers = [one.number for one in objects]
        if numbers != sorted(set(numbers)):
            raise _wrong(entry.at("objects"), "objects in the order of their numbers", numbers)
        following = entry.integer("next_number", max(numbers, default=0) + 1)
        return Document(objects, entry.each("found", self._mask), following)


def _packed(entry: _Entry) -> PackedMask:
    height, width = entry.integers("size", 2, 1, MAX_SIDE)
    counts = entry.values.get("counts")
    if not isinstance(counts, str) or height * width > _MAX_PIXELS:
        raise _wrong(entry.where, f"run lengths of at most {_MAX_PIXELS} pixels", counts)
    try:
        codes = _core.rle_from_string(counts.encode("ascii"))
        if int(codes.sum(dtype=np.uint64)) != height * width:
            raise _wrong(entry.where, f"run lengths of {height} x {width} pixels", "others")
        return PackedMask.of(_core.rle_decode(codes, (height, width)))
    except (UnicodeEncodeError, SamRlxError) as error:
        raise InvalidArgumentError(f"{entry.where}: expected run lengths, found {error}") from error


def _asked(entry: _Entry) -> tuple[tuple[int, int], ...]:
    """Return the frames whose prompts changed, with their versions; none where nothing is said."""
    found = entry.list("asked") if "asked" in entry.values else []
    pairs = []
    for pair in found:
        if not isinstance(pair, list) or len(pair) != 2:
            raise _wrong(entry.at("asked"), "frames with versions", pair)
        frame = _integer(entry.at("asked"), pair[0], 0, MAX_FRAMES)
        pairs.append((frame, _integer(entry.at("asked"), pair[1], 1, _MAX_NUMBER)))
    return tuple(pairs)


def _read_class(entry: _Entry) -> ClassDef:
    number, name = entry.integer("number", 1), entry.text("name")
    digit = entry.text("digit")
    if len(digit) > 1:
        raise _wrong(entry.at("digit"), "one letter", digit)
    return ClassDef(number, name, entry.color(), digit)


def _read_item(entry: _Entry) -> Item:
    size = entry.values.get("size")
    hw = None if size is None else entry.integers("size", 2, 1, MAX_SIDE)
    kind: Kind = entry.choice("kind", get_args(Kind))
    state: State = entry.choice("state", get_args(State))
    length, changed = entry.integers("stat", 2, -(1 << 63), 1 << 63)
    key, path = entry.text("key"), entry.text("path")
    if not key:
        raise _wrong(entry.at("key"), "a key", key)
    if path.startswith("/") or ".." in path.split("/") or "\\" in path or "\0" in path:
        raise _wrong(entry.at("path"), "a path inside the project", path)
    return Item(
        key,
        path,
        kind,
        None if hw is None else (hw[0], hw[1]),
        entry.integer("frames", 1, MAX_FRAMES),
        state,
        entry.text("reason"),
        (length, changed),
    )


def completed(record: Record, history: History) -> Record:
    """Return a record of a log with what is there before it."""
    if isinstance(record, Move):
        return record
    changes = tuple(replace(change, before=_present(change, history)) for change in record.changes)
    return replace(record, changes=changes)


def _present(change: Change, history: History) -> Any:
    if change.what == "class":
        return next((o for o in history.project.classes if o.number == change.key), None)
    if change.what == "item":
        return history.project.item(str(change.key))
    if change.what == "order":
        return tuple(one.key for one in history.project.items)
    document = history.document(change.document)
    if change.what == "found":
        return document.found or None
    if isinstance(change.key, tuple):
        number, frame = change.key
        one = document.get(number)
        return None if one is None else one.masks.get(frame)
    assert change.document != PROJECT
    one = document.get(int(change.key))
    return None if one is None else replace(one, masks={})
