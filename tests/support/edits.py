"""Random work on the history of a project: what gestures and results do to it, without a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sam_rlx.apps.annotator.history import History, Record
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    ClassDef,
    Document,
    Gone,
    Item,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Start,
    Stroke,
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
        repairs = (self.paint, self.lock, self.merge, self.split, self.set_class, self.remove_class)
        rest = (self.state_of_item, self.order, self.change_class, self.gone, self.keep_found)
        every = (*kinds, *others, *repairs, *rest)
        return every[int(self.random.integers(len(every)))]()

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
        return None if document is None else self.history.extend(*self.open, document, "more")

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
        number = max(one.number for one in known.classes) + 1
        classes = (*known.classes, ClassDef(number, f"class {number}", (9, 9, 9)))
        done = replace(known, classes=classes)
        if self.random.uniform() < 0.5:
            first, *rest = known.items
            done = replace(known, items=(replace(first, state="done"), *rest))
        return self.history.record({}, "class", "class", "v", project=done)

    def paint(self) -> Record | None:
        key = self.key()
        document, frame = self.history.document(key), self.frame(key)
        one = self.one(document)
        if one is None:
            return None
        add, take = self.mask().packed, self.mask().packed
        stroke = Stroke(one.next_prompt, frame, "stroke", add, take)
        masks = {**one.masks, frame: self.mask("hand")}
        one = replace(one, prompts=(*one.prompts, stroke), masks=masks)
        return self.put(key, document.with_objects(one), "stroke")

    def lock(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        one = self.one(document)
        if one is None:
            return None
        return self.put(key, document.with_objects(replace(one, locked=not one.locked)), "lock")

    def gone(self) -> Record | None:
        document = self.history.document(KEYS[2])
        one, frame = self.one(document), self.frame(KEYS[2])
        if one is None:
            return None
        masks = {at: mask for at, mask in one.masks.items() if at < frame}
        one = replace(one, prompts=(*one.prompts, Gone(one.next_prompt, frame)), masks=masks)
        return self.put(KEYS[2], document.with_objects(one), "gone")

    def merge(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        if len(document.objects) < 2:
            return None
        first, other, *_ = document.objects
        merged = replace(first, masks={**other.masks, **first.masks})
        return self.put(key, document.without(other.number).with_objects(merged), "merge")

    def split(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        one = self.one(document)
        if one is None:
            return None
        frame = self.frame(key)
        piece = replace(one, number=document.next_number, prompts=(), masks={frame: self.mask()})
        rest = replace(one, masks={**one.masks, frame: self.mask("hand")})
        return self.put(key, document.with_objects(rest, piece), "split")

    def keep_found(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        number = document.next_number
        kept = [
            Object(number + at, "kept", (5, 5, 5), masks={0: mask})
            for at, mask in enumerate(document.found)
        ]
        return self.put(key, replace(document.with_objects(*kept), found=()), "keep_found")

    def set_class(self) -> Record | None:
        key = self.key()
        document = self.history.document(key)
        one = self.one(document)
        if one is None:
            return None
        classes = self.history.project.classes
        number = classes[int(self.random.integers(len(classes)))].number
        return self.put(key, document.with_objects(replace(one, class_number=number)), "class")

    def change_class(self) -> Record | None:
        first, *rest = self.history.project.classes
        digit = str(int(self.random.integers(10)))
        changed = replace(self.history.project, classes=(replace(first, digit=digit), *rest))
        return self.history.record({}, "class_change", "class", "v", project=changed)

    def remove_class(self) -> Record | None:
        first, *rest = self.history.project.classes
        if not rest:
            return None
        gone = rest[int(self.random.integers(len(rest)))]
        documents = {
            key: document.with_objects(
                *(
                    replace(one, class_number=first.number)
                    for one in document.objects
                    if one.class_number == gone.number
                )
            )
            for key, document in self.history.documents.items()
        }
        classes = tuple(one for one in (first, *rest) if one is not gone)
        done = replace(self.history.project, classes=classes)
        return self.history.record(documents, "class_remove", "class", "v", project=done)

    def state_of_item(self) -> Record | None:
        known, wanted = self.history.project, int(self.random.integers(3))
        state = ("done", "begun", "left out")[int(self.random.integers(3))]
        items = tuple(
            replace(item, state=state) if at == wanted else item  # type: ignore[arg-type]
            for at, item in enumerate(known.items)
        )
        return self.history.record({}, "done", "done", "v", project=replace(known, items=items))

    def order(self) -> Record | None:
        known = self.history.project
        items = tuple(known.items[at] for at in self.random.permutation(len(known.items)))
        return self.history.record({}, "order", "order", "v", project=replace(known, items=items))

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
