"""Objects of images by clicks, boxes and texts."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from sam_rlx import viz
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clicks import preview_hw
from sam_rlx.apps.annotator.document import Document, Segment
from sam_rlx.apps.annotator.export import ExportedFile, export
from sam_rlx.apps.annotator.image_state import ImageState
from sam_rlx.apps.annotator.layer import Layer
from sam_rlx.apps.annotator.limits import MAX_POINTS, MAX_POINTS_PER_SIDE
from sam_rlx.apps.annotator.masks import PackedMask
from sam_rlx.apps.annotator.saved import OpenImages, with_saved
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.annotator.session import Answer
from sam_rlx.errors import InvalidArgumentError, MediaWarning, UnsupportedError

_TEXT_THRESHOLD = 0.5


class ImageSession(ImageState):
    """Interactive segmentation of an image, or of several, one after the other.

    Encoding begins at once, in a thread of the session's own; what comes meanwhile waits for it.

    Parameters
    ----------
    model : Model
        Of a family that takes clicks. With SAM 3 texts too.
    images : image, path, folder, or sequence of images and paths
        As for `ImageSource`, or one of them.
    send, changed
        As for `Session`.
    num_threads : int, optional
        As for `ImagePredictor`.
    encode : callable, optional
        Instead of the predictors' `set_image`: takes the image (H, W, 3) and whether it is for
        texts, returns the `image_embeddings` of an `ImagePredictor` or `ConceptPredictor`. Called
        in the thread of the session.
    during : callable, optional
        As for `Session`.
    """

    handlers: ClassVar[dict[str, str]] = {
        kind: f"do_{kind}"
        for kind in (
            *("click", "box", "undo", "redo", "delete", "commit", "cancel", "select"),
            *("candidate", "rename", "recolor", "text", "everything", "pick", "image", "export"),
            *("start", "load"),
        )
    }

    after_close: ClassVar[frozenset[str]] = frozenset(("export",))

    # ---------------------------------------------------------------- gestures

    def do_click(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Add a point to the current object, or begin one."""
        point, label = fields.position(values), fields.label(values)
        document = self._with_current()
        one = document.selected
        assert one is not None
        fields.at_most("click: points of an object", len(one.points) + 1, MAX_POINTS)
        self._answer_prompts(
            document,
            {"points": (*one.points, point), "labels": (*one.labels, label)},
            answer,
        )

    def do_box(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give the current object a box, or begin one."""
        box = fields.box(values.get("box"))
        self._answer_prompts(self._with_current(), {"box": box}, answer)

    def _with_current(self) -> Document:
        document = self.document
        if document.selected is not None:
            return document
        number = document.next_number
        return document.added(Segment(number, f"object {number}", viz.color(number)))

    def _answer_prompts(self, document: Document, prompts: dict[str, Any], answer: Answer) -> None:
        index, one = document.current, document.selected
        assert index is not None
        assert one is not None
        if not one.points and one.box is None and one.candidates:  # a text's or the layer's
            prompts["start"] = one.packed
        one = replace(one, **prompts)
        self._put(document.changed(index, **prompts, **self._clicks.answer(one)), answer)

    def do_undo(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Take back the last change."""
        with self._lock:
            self._history.undo()
        self._broadcast(answer)

    def do_redo(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Do again what was taken back."""
        with self._lock:
            self._history.redo()
        self._broadcast(answer)

    def do_delete(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Remove an object."""
        document = self.document
        index = fields.index(values, len(document.objects), document.current)
        self._put(document.without(index), answer, settle=True)

    def do_commit(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Leave the current object as it is: the next prompt begins another one."""
        self._put(self.document.select(None), answer, settle=True)

    def do_cancel(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Go back to the objects of the last commit; none is current."""
        base = self._history.base
        document = replace(self.document, objects=base.objects, current=None)
        self._put(document, answer, settle=True)

    def do_select(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Choose the object that prompts change."""
        document = self.document
        index = None
        if values.get("index") is not None:
            index = fields.index(values, len(document.objects), None)
        self._put(document.select(index), answer, settle=True)

    def do_candidate(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Choose another answer to the prompts of the current object."""
        document = self.document
        one = document.selected
        if one is None:
            raise InvalidArgumentError("candidate: expected a current object, found none")
        chosen = fields.integer({"candidate": values.get("index")}, "candidate", 0, 2)
        if chosen >= len(one.candidates):
            raise InvalidArgumentError(
                f"candidate: expected 0 to {len(one.candidates) - 1}, found {chosen}"
            )
        assert document.current is not None
        self._put(document.changed(document.current, candidate=chosen), answer)

    def do_rename(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give an object another name."""
        document = self.document
        index = fields.index(values, len(document.objects), document.current)
        self._put(document.changed(index, name=fields.name(values)), answer)

    def do_recolor(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give an object another colour."""
        document = self.document
        index = fields.index(values, len(document.objects), document.current)
        self._put(document.changed(index, color=fields.color(values)), answer)

    def do_start(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Add an object that begins with a mask; not for views."""
        if view is not None:
            raise InvalidArgumentError("start: expected a caller in Python, found a view")
        mask = as_bools("mask", values["mask"])
        if mask.shape != self.hw:
            raise InvalidArgumentError(f"mask: expected shape {self.hw}, found {mask.shape}")
        document = self.document
        number = document.next_number
        given = values.get("name")
        unnamed = given is None or (isinstance(given, str) and not given)
        name = f"object {number}" if unnamed else fields.name(values)
        packed = PackedMask.of(mask)
        one = Segment(number, name, viz.color(number), candidates=(packed,), scores=(1.0,))
        self._put(document.added(one), answer)

    # ---------------------------------------------------------------- texts, everything mode

    def do_text(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Add what a text and example boxes find; it replaces what the same text found."""
        if not self.model.supports_text:
            raise UnsupportedError(
                f"text: expected a model of SAM 3, found one of {self.model.family}"
            )
        text = fields.text(values, "text")
        boxes = fields.items(values, "boxes", fields.box)
        labels = fields.items(
            values, "box_labels", lambda one, name: fields.integer({name: one}, name, 0, 1)
        ) or [1] * len(boxes)
        if len(labels) != len(boxes):
            raise InvalidArgumentError(
                f"box_labels: expected {len(boxes)} labels, found {len(labels)}"
            )
        threshold = fields.number(values, "threshold", 0, 1, _TEXT_THRESHOLD)
        with self._working("searching"):
            found = self._clicks.find(text, threshold, boxes, labels)
        name = text or "example"
        document = self.document
        kept = tuple(one for one in document.objects if one.text != name or one.points or one.box)
        document = replace(document, objects=kept, current=None)
        number = document.next_number
        added = [
            Segment(
                number + at,
                f"{name} {at + 1}",
                viz.color(number + at),
                text=name,
                candidates=(PackedMask.of(mask),),
                scores=(float(score),),
            )
            for at, (mask, score) in enumerate(zip(found.masks, found.scores, strict=True))
        ]
        self._put(document.added(*added, current=False), answer, settle=True)

    def do_everything(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Find masks to choose from; `on` false takes them away."""
        if not values.get("on", True):
            self._set_layer(None, answer)
            return
        options = values.get("options") or {}
        if view is not None:
            options = _asked(options)
        self._stop = False

        def progress(done: int, total: int) -> None:
            if self._stop:
                raise InvalidArgumentError("everything: expected to go on, found a stop")
            self.status("finding everything", done / max(total, 1))

        with self._working("finding everything"):
            records = self._clicks.everything(dict(options), progress)
        self._set_layer(Layer.of(records, preview_hw(self.hw)), answer)

    def do_pick(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Add the mask of the layer at a position as an object."""
        if self._layer is None:
            raise InvalidArgumentError("pick: expected the masks of everything mode, found none")
        record = self._layer.at(*fields.position(values))
        if record is None:
            self._broadcast(answer)
            return
        number = self.document.next_number
        one = Segment(
            number,
            f"object {number}",
            viz.color(number),
            candidates=(PackedMask.of(record.mask()),),
            scores=(float(record.predicted_iou),),
        )
        self._put(self.document.added(one), answer, settle=True)

    def _set_layer(self, layer: Layer | None, answer: Answer) -> None:
        with self._lock:
            self._layer = layer
            self._send_layer(None, answer)
        self._broadcast(None)

    # ---------------------------------------------------------------- images and files

    def do_image(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Go to an image of the queue."""
        index = fields.integer(values, "index", 0, len(self.sources) - 1)
        image = self.sources.read(index)
        with self._lock:
            self._history.settle()
            self.index, self._image, self._layer = index, image, None
            self._sizes[index] = self.hw
            self._sent = set()
            self._send_image(None, answer)
            self._send_layer(None, None)
        self._broadcast(None)
        self._encode()

    def do_export(
        self, values: Mapping[str, Any], view: str | None, answer: Answer
    ) -> ExportedFile:
        """Write the objects as a file."""
        with self._lock:
            every = [self.annotated(at) for at in self.annotated_indices()]
            current = self.annotated(self.index)
        file = export(fields.text({"format": values.get("format")}, "format"), current, every)
        if view is not None:
            head = {"type": "file", "name": file.name, "mime": file.mime, "answer": answer}
            self.send(head, [file.contents], view)
        return file

    def do_load(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> list[str]:
        """Add the objects of a file to their images; return those of its images that are not open.

        A view that asked is told how many these are.
        """
        name = fields.text(values, "name")
        contents = values.get("contents")
        if not isinstance(contents, bytes) or not contents:
            raise InvalidArgumentError(f"{name}: expected a file, found nothing in it")
        names = [self.sources.name(at) for at in range(len(self.sources))]
        with self._working("loading"):
            images = OpenImages(names, self.index, self._size_of)
            saved = read_saved(name, contents, images)
        if saved.passed_over:
            warnings.warn(_without_masks(name, saved.passed_over), MediaWarning, stacklevel=2)
        with self._lock:
            for index, objects in saved.objects.items():
                history = self._histories[index]
                history.put(with_saved(history.document, objects))
                history.settle()
        self._broadcast(answer)
        if view is not None:
            head = {
                "type": "loaded",
                "objects": sum(map(len, saved.objects.values())),
                "absent": saved.absent,
                "passed_over": len(saved.passed_over),
                "answer": answer,
            }
            self.send(head, [], view)
        return saved.absent

    def _size_of(self, index: int) -> tuple[int, int]:
        if index not in self._sizes:
            height, width = self.sources.read(index).shape[:2]
            self._sizes[index] = (height, width)
        return self._sizes[index]


def _without_masks(name: str, passed_over: list[str]) -> str:
    some = ", ".join(passed_over[:3]) + (", ..." if len(passed_over) > 3 else "")
    return f"{name}: {len(passed_over)} annotations have no mask, and are passed over: {some}"


def _asked(options: Any) -> dict[str, Any]:
    """Return the options of everything mode that a view may choose."""
    if not isinstance(options, Mapping) or not set(options) <= {"points_per_side"}:
        raise InvalidArgumentError("options: expected points_per_side alone, found others")
    if not options:
        return {}
    name = "points_per_side"
    return {name: fields.integer(options, name, 1, MAX_POINTS_PER_SIDE)}
