"""Random work on the history of a project: what gestures and results do to it, without a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sam_rlx.apps.annotator.history import History, Record
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    ClassDef,
    Document,
    Item,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Start,
    Text,
)

KEYS = ("aaaa", "bbbb", "cccc")
FRAMES = 6
HW = (23, 37)


def project() -> Project:
    """Return two images and a clip."""
    items = [Item(key, f"{key}.png", "image", HW) for key in KEYS[:2]]
    return Project(items=(*items, Item(KEYS[2], "c.mp4", "clip", HW, FRAMES)))


class Worker:
    """Does one random thing after the other to a history."""

    def __init__(self, history: History, seed: int) -> None:
        self.history = history
        self.random = np.random.default_rng(seed)
        self.open: tuple[int, str] | None = None

    def mask(self, how: str = "click") -> Mask:
        """Return a random mask."""
        density = self.random.choice([0.0, 0.1, 0.5])
        pixels = self.random.uniform(size=HW) < density
        return Mask(PackedMask.of(pixels), float(self.random.integers(100)) / 100, how)  # type: ignore[arg-type]

    def do(self) -> Record | None:
        """Do something; None if nothing came of it."""
        kinds = (self.click, self.click, self.delete, self.rename, self.found, self.track)
        others = (self.more, self.add_class, self.everywhere, self.undo, self.undo, self.redo)
        return (*kinds, *others)[int(self.random.integers(12))]()

    def key(self) -> str:
        return KEYS[int(self.random.integers(3))]

    def frame(self, key: str) -> int:
        return int(self.random.integers(FRAMES)) if key == KEYS[2] else 0

    def one(self, document: Document) -> Object | None:
        if not document.objects:
            return None
        return document.objects[int(self.random.integers(len(document.objects)))]

    def put(self, key: str, document: Document, gesture: str) -> Record | None:
        return self.history.record({key: document}, gesture, gesture, "v")

    def click(self) -> Record | None:
        key = self.key()
        document, frame = self.history.document(key), self.frame(key)
        one = self.one(document) if self.random.uniform() < 0.5 else None
        if one is None:
            number = document.next_number
            one = Object(number, f"object {number}", (1, 2, 3))
        x, y = (float(value) for value in self.random.uniform(0, 30, 2))
        number = one.next_prompt
        prompt = (
            Point(number, frame, x, y, 1),
            BoxPrompt(number, frame, (x, y, x + 1, y + 2)),
            Start(number, frame, self.mask().packed),
            Text(number, frame, "größte \u2028 Münze"),
        )[int(self.random.integers(4))]
        candidates = tuple(self.mask() for _ in range(3))
        masks = {**one.masks, frame: candidates[1]}
        one = replace(
            one, prompts=(*one.prompts, prompt), masks=masks, candidates=candidates, candidate=1
        )
        return self.put(key, document.with_objects(one), "click")

    def delete(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        one = self.one(document)
        return None if one is None else self.put(key, document.without(one.number), "delete")

    def rename(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        one = self.one(document)
        if one is None:
            return None
        renamed = replace(one, name=f"name {int(self.random.integers(9))}", note="\0")
        return self.put(key, document.with_objects(renamed), "rename")

    def found(self) -> Record | None:
        key = self.key()
        masks = tuple(self.mask("everything") for _ in range(int(self.random.integers(4))))
        return self.put(key, replace(self.history.document(key), found=masks), "everything")

    def track(self) -> Record | None:
        record = self.tracked(KEYS[2], range(3))
        if record is None:
            return None
        edit = self.history.record({KEYS[2]: record}, "track", "tracking", "v")
        self.open = None if edit is None else (edit.n, KEYS[2])
        return edit

    def more(self) -> Record | None:
        if self.open is None:
            return None
        document = self.tracked(KEYS[2], range(3, FRAMES))
        return None if document is None else self.history.extend(self.open[0], document, "more")

    def tracked(self, key: str, frames: range) -> Document | None:
        document = self.history.document(key)
        if not document.objects:
            return None
        more = {frame: self.mask("tracked") for frame in frames}
        return document.with_objects(
            *(replace(one, masks={**one.masks, **more}) for one in document.objects)
        )

    def add_class(self) -> Record | None:
        known = self.history.project
        number = len(known.classes) + 1
        classes = (*known.classes, ClassDef(number, f"class {number}", (9, 9, 9)))
        done = replace(known, classes=classes)
        if self.random.uniform() < 0.5:
            first, *rest = known.items
            done = replace(known, items=(replace(first, state="done"), *rest))
        return self.history.record({}, "class", "class", "v", project=done)

    def everywhere(self) -> Record | None:
        """Find a text on two images: one edit."""
        documents = {}
        for key in KEYS[:2]:
            document = self.history.document(key)
            number = document.next_number
            mask = {0: self.mask("text")}
            documents[key] = document.with_objects(Object(number, "dog", (0, 0, 9), masks=mask))
        return self.history.record(documents, "text", "text", "v")

    def undo(self) -> Record | None:
        return self.history.undo(self.key(), "v")

    def redo(self) -> Record | None:
        return self.history.redo(self.key(), "v")


def state(history: History) -> object:
    """Return all that undo brings back: numbers that were given stay given."""
    documents = {
        key: (document.objects, document.found)
        for key, document in history.documents.items()
        if document.objects or document.found
    }
    return history.project, documents
