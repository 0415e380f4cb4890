"""Gestures for classes, for what is known of an object, and for the items of a project."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sam_rlx.apps.annotator.classes import changed_class, classed, moved, with_class
from sam_rlx.apps.annotator.gestures import (
    Flag,
    Keys,
    Name,
    Note,
    Number,
    OptionalDigit,
    OptionalKey,
    OptionalName,
    OptionalNumber,
    OptionalRGB,
    gesture,
)
from sam_rlx.apps.annotator.history import Edit
from sam_rlx.apps.annotator.session import Session, by_view
from sam_rlx.apps.annotator.values import ClassDef, Color, Document, Item, Project, State
from sam_rlx.errors import InvalidArgumentError, UnsupportedError


class ClassGestures(Session):
    """What people say of objects and items, rather than where they are."""

    @property
    def classes(self) -> tuple[ClassDef, ...]:
        """The classes of the project."""
        return self.project.history.project.classes

    def _class(self, number: int) -> ClassDef:
        found = self.project.history.project.class_numbered(number)
        if found is None:
            there = ", ".join(f"{one.number} ({one.name})" for one in self.classes[:20])
            raise InvalidArgumentError(f"class_number: expected one of {there}, found {number}")
        return found

    def with_class(self, project: Project, name: str, **given: Any) -> tuple[Project, ClassDef]:
        """Return a project with a class of a name; its number is one that no object has had.

        An object whose class was taken back has its number still.
        """
        known = project.class_named(name)
        if known is not None:
            return project, known
        documents = self.project.history.documents.values()
        used = [one.class_number for document in documents for one in document.objects]
        return with_class(project, name, above=max(used, default=0), **given)

    def check_order(self) -> None:
        """Raise `UnsupportedError` where the order of the items is given, as that of a folder."""
        raise UnsupportedError("order: expected items of the page, found files or frames")

    def mean_color(self) -> Color | None:
        """Return the mean colour of what is shown, None where that would take long."""
        return None

    def _change_project(self, title: str, change: Any) -> Edit | None:
        """Make an edit of the project and its documents; then views are told."""
        edit = self.project.edit_all(change, self._doing, title, by_view(*self._asks))
        self.broadcast(self._asks[1])
        return edit

    # ---------------------------------------------------------------- classes

    @gesture("add a class")
    def do_class_add(
        self, name: Name, color: OptionalRGB = None, digit: OptionalDigit = None
    ) -> int:
        """Add a class, which new objects get from now on; return its number."""
        made: list[ClassDef] = []

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            if project.class_named(name) is not None:
                raise InvalidArgumentError(f"name: expected one that no class has, found {name!r}")
            project, new = self.with_class(
                project, name, color=color, digit=digit, mean=self.mean_color()
            )
            made.append(new)
            return project, {}

        edit = self.project.edit_all(
            change, self._doing, f"add the class {name}", by_view(*self._asks)
        )
        assert edit is not None
        self.class_number = made[0].number
        self.broadcast(self._asks[1])
        return self.class_number

    @gesture("change a class")
    def do_class_change(
        self,
        class_number: Number,
        name: OptionalName = None,
        color: OptionalRGB = None,
        digit: OptionalDigit = None,
    ) -> None:
        """Give a class another name, colour or digit; objects that nobody named follow it."""

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            before = self._class(class_number)
            after = changed_class(project, before, name, color, digit)
            now = after.class_numbered(class_number)
            assert now is not None
            documents = self.project.history.documents
            return after, moved(documents, before, now) if now.name != before.name else {}

        self._change_project(f"change the class {self._class(class_number).name}", change)

    @gesture("remove a class")
    def do_class_remove(self, class_number: Number, successor: Number) -> None:
        """Remove a class; its objects go to another one."""
        before, after = self._class(class_number), self._class(successor)
        if before.number == after.number:
            raise InvalidArgumentError("successor: expected another class, found the same one")

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            classes = tuple(one for one in project.classes if one.number != before.number)
            documents = moved(self.project.history.documents, before, after)
            return replace(project, classes=classes), documents

        if self.class_number == class_number:
            self.class_number = successor
        self._change_project(f"remove the class {before.name}", change)

    @gesture("set the class", key="1 to 9")
    def do_set_class(self, class_number: Number, object: OptionalNumber = None) -> None:
        """Give the current object a class, which the next ones get too; or a named object alone."""
        wanted = self._class(class_number)
        one = self.selected if object is None else self._object(object)
        if object is None:
            self.class_number = class_number
        if one is not None:
            before = self.project.history.project.class_of(one)
            self._put(f"class {wanted.name}", classed(one, before, wanted))
        self.broadcast(self._asks[1])

    # ---------------------------------------------------------------- objects

    @gesture("lock", key="Q")
    def do_lock(self, object: OptionalNumber = None, on: Flag = True) -> None:
        """Keep prompts, strokes and tracking from an object, or let them."""
        one = self._object(object)
        self._put(f"{'lock' if on else 'unlock'} {one.name}", replace(one, locked=on))
        self.broadcast(self._asks[1])

    @gesture("write a note")
    def do_note(self, text: Note, object: OptionalNumber = None) -> None:
        """Keep a text with an object."""
        one = self._object(object)
        self._put(f"note of {one.name}", replace(one, note=text))
        self.broadcast(self._asks[1])

    @gesture("others stay", edits=False)
    def do_others_stay(self, on: Flag = True) -> None:
        """Choose whether answers and strokes leave the pixels of other objects alone."""
        self.others_stay = on
        self.broadcast(self._asks[1])

    # ---------------------------------------------------------------- items

    @gesture("done", key="Ctrl+Enter")
    def do_done(self, key: OptionalKey = None, on: Flag = True) -> None:
        """Mark an item, by default the one that is shown, as done; or as begun again."""
        self._set_state(key, "done" if on else "begun", "done" if on else "not done")

    @gesture("leave out of exports, or take in again", key="Shift+D")
    def do_leave_out(self, key: OptionalKey = None, on: Flag = True) -> None:
        """Leave an item out of exports, and step over it; or take it in again."""
        self._set_state(key, "left out" if on else "begun", "leave out" if on else "take in")

    def _set_state(self, key: str | None, state: State, title: str) -> None:
        wanted = key or self.key
        item = self.project.history.project.item(wanted)
        if item is None:
            raise InvalidArgumentError(f"key: expected the key of an item, found {wanted!r}")

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            items = [
                replace(one, state=state, reason="") if one.key == wanted else one
                for one in project.items
            ]
            return replace(project, items=tuple(items)), {}

        self._change_project(f"{title}: {item.path}", change)

    @gesture("order the items")
    def do_order(self, keys: Keys) -> None:
        """Put items first, in this order; the others follow as they were. Of the page alone."""
        self.check_order()

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            return replace(project, items=ordered(project.items, keys)), {}

        self._change_project("order the items", change)


def ordered(items: Sequence[Item], keys: Sequence[str]) -> tuple[Item, ...]:
    """Return items, those of some keys first, in the order of the keys."""
    by_key = {one.key: one for one in items}
    wrong = next((key for key in keys if key not in by_key), None)
    if wrong is not None or len(set(keys)) != len(keys):
        raise InvalidArgumentError(
            f"keys: expected keys of items, each once, found {wrong or 'one twice'!r}"
        )
    first = [by_key[key] for key in keys]
    return (*first, *(one for one in items if one.key not in set(keys)))
