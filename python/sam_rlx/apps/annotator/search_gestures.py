"""Gestures that find objects: words, example boxes and everything mode."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.weights.sources import PACKAGED
from sam_rlx.apps.annotator.gestures import (
    Boxes,
    Coordinate,
    Flag,
    FromPython,
    Labels,
    OptionalIndices,
    OptionalKey,
    Options,
    Scope,
    Threshold,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.image_files import FRAME, ImageFiles
from sam_rlx.apps.annotator.layer import Layer, apart, found_masks
from sam_rlx.apps.annotator.predict import Clicks, preview_hw
from sam_rlx.apps.annotator.session import UNCOLORED, Answer, by_view, numbered
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Document,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Stroke,
    Text,
)
from sam_rlx.errors import InvalidArgumentError, SamRlxError, StateError, UnsupportedError

_TEXT_THRESHOLD = 0.5


class SearchGestures(ImageFiles):
    """Find objects on an image or on all, and choose from what was found."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._layer: Layer | None = None
        self._stop = False
        self._searching = self._stop_search = False  # a text in all images

    @property
    def image(self) -> NDArray[np.uint8]:
        """The current image, (H, W, 3)."""
        raise NotImplementedError

    @property
    def _clicks(self) -> Clicks:
        raise NotImplementedError

    def _unreadable(self, index: int, error: Exception) -> str:
        """Note that an image cannot be read, and say why."""
        raise NotImplementedError

    def _look_ahead(self) -> None:
        """Encode the next image once nobody has asked for anything for a while."""
        raise NotImplementedError

    def on_stop(self) -> None:
        """Stop everything mode, and the search in all images."""
        self._stop = self._stop_search = True

    def _layer_now(self) -> Layer | None:
        """Return the masks of everything mode that the document has."""
        found = self.document.found
        if not found:
            self._layer = None
        elif self._layer is None or self._layer.masks is not found:
            self._layer = Layer.of(found, preview_hw(self.hw))
        return self._layer

    def _send_layer(self, view: str | None, answer: Answer) -> None:
        layer = self._layer_now()
        if layer is None:
            self.send({"type": "layer", "count": 0, "answer": answer}, [], view)
        else:
            head, bits = layer.message()
            self.send({"type": "layer", **head, "answer": answer}, [bits], view)

    @gesture("find by words", key="/")
    def do_text(
        self,
        text: Words,
        threshold: Threshold = _TEXT_THRESHOLD,
        boxes: Boxes = (),  # type: ignore[assignment]
        box_labels: Labels = (),  # type: ignore[assignment]
        scope: Scope = "image",
        ended: FromPython = None,
    ) -> None:
        """Add what a text and example boxes find; it replaces what the same text found.

        With the scope "all" they are looked for in all images, one after the other, while nothing
        else waits: boxes are those of this image, and examples for the others. What was found is
        one edit at the end, or when it is stopped.
        """
        if not self.model.supports_text:
            raise UnsupportedError(
                f"text: expected a model of SAM 3, found one of {self.model.family}"
            )
        boxes, labels = list(boxes), list(box_labels) or [1] * len(boxes)
        if len(labels) != len(boxes):
            raise InvalidArgumentError(
                f"box_labels: expected {len(boxes)} labels, found {len(labels)}"
            )
        if scope == "all":
            if not boxes and not text:
                raise InvalidArgumentError(
                    "scope: expected a text or example boxes for all images, found neither"
                )
            if self._searching:
                raise StateError("text: expected no search in all images, found one that goes on")
            self._searching, self._stop_search = True, False
            steps = self._search(text, threshold, (boxes, labels), self._asks)
            self.begin_steps(steps, self._end_search, ended, *self._asks)
            return
        with self._working(f"Looking for {text or 'what is like the examples'}"):
            found = self._clicks.find(text, threshold, boxes, labels)
        added = _found_objects(text or "example", found)
        self._add_found(text, {self.key: added}, f"find {text or 'example'}", self._asks)
        self._select(None)
        if not added:
            self._say_nothing_found(text, threshold, {"boxes": boxes, "labels": labels})
        self.broadcast(self._asks[1])

    def _add_found(
        self,
        text: str,
        found: Mapping[str, list[Object]],
        title: str,
        asks: tuple[str | None, Answer],
    ) -> None:
        """Add what a text found, by keys of items, instead of what it found before."""
        name = text or "example"

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents: dict[str, Document] = {}
            number = self.class_number
            if text and any(found.values()):
                project, made = self.with_class(project, text, mean=self.mean_color())
                number = made.number
            for key, added in found.items():
                document = self.project.document(key)
                again = [o.number for o in document.objects if o.text == name and not is_touched(o)]
                document = document.without(*again)
                some = [replace(one, class_number=number) for one in added]
                documents[key] = document.with_objects(*numbered(document, some, project))
            return project, documents

        self.project.edit_all(change, self._doing or "text", title, by_view(*asks))

    def _end_search(self) -> None:
        self._searching = False
        if not self._worker.is_closed:
            self.status("")
            self._look_ahead()

    def _search(
        self,
        text: str,
        threshold: float,
        marked: tuple[list[Any], list[int]],
        asks: tuple[str | None, Answer],
    ) -> Iterator[None]:
        """Look for a text and what is like boxes on this image in all images, one at each step."""
        name = text or "example"
        found: dict[str, list[Object]] = {}
        count, unreadable = len(self.sources), 0
        examples = self._clicks.examples(*marked, self.image) if marked[0] else None
        for at in range(count):
            self.status(f"Looking for {name}, {at + 1} of {count}", at / count, stops=True)
            yield
            if self._stop_search:
                break
            try:
                image = self.image if at == self.index else self.sources.read(at)
                key = self.sources.key(at, self.project)
            except (SamRlxError, OSError) as error:
                self._unreadable(at, error)
                unreadable += 1
                continue
            item = self.project.history.project.item(key)
            if item is not None and item.state == "left out":
                continue
            self.project.change_item(key, hw=(image.shape[0], image.shape[1]))
            searched = self._clicks.find(text, threshold, [], [], image, examples)
            found[key] = _found_objects(name, searched)
        total, some = sum(map(len, found.values())), sum(map(bool, found.values()))
        self._add_found(text, found, f"find {name} in {len(found)} images", asks)
        said = f"Found {total} for '{name}' in {some} of {len(found)} images."
        if unreadable:
            said += f" {unreadable} cannot be read."
        self.send({"type": "note", "text": said, "about": "search"}, [], asks[0])
        self.send_project(None, whole=True)
        self.broadcast(asks[1])

    def _say_nothing_found(self, text: str, threshold: float, given: dict[str, Any]) -> None:
        """Say that nothing was found, why, and what the best guess is."""
        scores = self._clicks.find(text, 0.0, **given).scores if threshold > 0 else ()
        best = max((float(score) for score in scores), default=0.0)
        said = f"Nothing above {threshold:g} for '{text or 'example'}'; the best is {best:.2f}."
        if self.model.core.variant in PACKAGED and text:
            said += (
                f" {self.model.core.variant} is a small packaged model: it knows shapes and "
                "colours, such as 'red circle'."
            )
        head = {"type": "note", "text": said, "about": "text", "best": best}
        self.send({**head, "threshold": threshold}, [], self._asks[0])

    @gesture("find everything", key="G")
    def do_everything(self, on: Flag = True, options: Options = None) -> None:
        """Find masks to choose from; `on` false takes them away."""
        if not on:
            self._set_found("take away what was found", ())
            return
        self._stop = False

        def progress(done: int, total: int) -> None:
            if self._stop:
                raise InvalidArgumentError("everything: expected to go on, found a stop")
            self.status("Finding everything", done / max(total, 1), stops=True)

        with self._working("Finding everything", stops=True):
            records = self._clicks.everything(dict(options or {}), progress)
        self._set_found("find everything", found_masks(records))
        if not records:
            said = self._clicks.thresholds(dict(options or {}))
            text = f"Everything mode found 0 masks: the thresholds are {said}."
            self.send({"type": "note", "text": text, "about": "everything"}, [], self._asks[0])

    @gesture("keep what was found", key="K")
    def do_keep_found(self, indices: OptionalIndices = None) -> None:
        """Make masks of everything mode objects: all of them, or those of some indices.

        Those that an object has already are passed over. Where others stay, all of them are things
        that share no pixel: of several masks of one thing the best is kept.
        """
        found = self.document.found
        if not found:
            raise InvalidArgumentError("keep_found: expected masks to keep, found none")
        wrong = [at for at in indices or () if at >= len(found)]
        if wrong:
            raise InvalidArgumentError(f"indices: expected 0 to {len(found) - 1}, found {wrong[0]}")
        chosen = set(range(len(found)) if indices is None else indices)

        def change(document: Document) -> Document:
            if document.found is not found:
                raise StateError("keep_found: expected the masks that were shown, found others")
            known = {one.packed for one in document.objects}
            masks = [found[at] for at in sorted(chosen) if found[at].packed not in known]
            if indices is None and self.others_stay:
                taken = np.zeros(self.hw, np.bool_)
                for one in document.objects:
                    taken |= one.packed.to_mask()
                masks = apart(masks, taken)
            kept = [self.new_object(masks={FRAME: mask}) for mask in masks]
            rest = tuple(mask for at, mask in enumerate(found) if at not in chosen)
            document = replace(document, found=rest)
            return document.with_objects(*self._numbered(document, kept))

        self._edit("keep what was found", change)
        self._select(None)
        with self._lock:
            self._send_layer(None, None)
        self.broadcast(self._asks[1])

    @gesture("repeat classes and words of another image", key="R")
    def do_repeat_from(self, key: OptionalKey = None) -> None:
        """Find here what the words of another image found there, by default of the one before.

        New objects get the class that was used there last.
        """
        source = self._item_before() if key is None else key
        document = self.project.document(source)
        if not document.objects:
            raise InvalidArgumentError("key: expected an item with objects, found none on it")
        texts = dict.fromkeys(one.text for one in document.objects if one.text is not None)
        known = self.project.history.project.class_of(document.objects[-1])
        self.class_number = known.number
        if not texts:
            self.broadcast(self._asks[1])
        for text in texts:
            if text != "example":
                self.do_text(text)

    def _item_before(self) -> str:
        """Return the key of the nearest image before this one that has objects."""
        before = [at for at in self.annotated_indices() if at < self.index]
        if not before:
            raise InvalidArgumentError("key: expected an image with objects before, found none")
        return self.sources.known_key(before[-1])

    @gesture("choose a mask of what was found", key="click")
    def do_pick(self, x: Coordinate, y: Coordinate) -> None:
        """Add the mask of the layer at a position as an object."""
        layer = self._layer_now()
        if layer is None:
            raise InvalidArgumentError("pick: expected the masks of everything mode, found none")
        mask = layer.at(x, y)
        if mask is not None:
            one = self.new_object(masks={FRAME: mask})

            def change(document: Document) -> Document:
                rest = tuple(each for each in document.found if each is not mask)
                document = replace(document, found=rest)
                return document.with_objects(*self._numbered(document, [one]))

            edit = self._edit("choose a mask", change)
            if edit is not None:
                self._select(self.document.objects[-1].number)
                with self._lock:
                    self._send_layer(None, None)
        self.broadcast(self._asks[1])

    def _set_found(self, title: str, masks: tuple[Mask, ...]) -> None:
        self._edit(title, lambda document: replace(document, found=masks))
        with self._lock:
            self._send_layer(None, self._asks[1])
        self.broadcast(None)


def is_clicked(one: Object) -> bool:
    """Tell whether an object has clicks or a box."""
    return any(isinstance(prompt, (Point, BoxPrompt)) for prompt in one.prompts)


def is_touched(one: Object) -> bool:
    """Tell whether a person has worked on what was found: the same search leaves it there."""
    painted = any(isinstance(prompt, Stroke) for prompt in one.prompts)
    return is_clicked(one) or painted or one.locked


def _found_objects(name: str, found: Any) -> list[Object]:
    """Return the objects of a text, without numbers."""
    return [
        Object(
            0,
            f"{name} {at + 1}",
            UNCOLORED,
            prompts=(Text(1, FRAME, name),),
            masks={FRAME: Mask(PackedMask.of(mask), float(score), "text")},
        )
        for at, (mask, score) in enumerate(zip(found.masks, found.scores, strict=True))
    ]
