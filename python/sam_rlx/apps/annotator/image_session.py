"""Objects of images by clicks, boxes and texts."""

import itertools
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import viz
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clicks import Clicks, Encode, preview_hw, prompts_of
from sam_rlx.apps.annotator.document import Document, History, PackedMask, Segment
from sam_rlx.apps.annotator.export import Annotated, ExportedFile, export
from sam_rlx.apps.annotator.layer import Layer
from sam_rlx.apps.annotator.limits import MAX_POINTS, MAX_POINTS_PER_SIDE
from sam_rlx.apps.annotator.saved import OpenImages, with_saved
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.annotator.session import Answer, Send, Session, still
from sam_rlx.apps.annotator.sources import ImageSource, encoded
from sam_rlx.apps.annotator.worker import During
from sam_rlx.errors import InvalidArgumentError, MediaWarning, StateError, UnsupportedError
from sam_rlx.model import Model

_TEXT_THRESHOLD = 0.5
_MAX_GRID = 1 << 22  # pixels of the masks that views get; a larger image's are sampled


class ImageSession(Session):
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

    def __init__(
        self,
        model: Model,
        images: Any,
        *,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
        encode: Encode | None = None,
        during: During = nullcontext,
    ) -> None:
        super().__init__(send, changed, during)
        self.model = model
        self.sources = images if isinstance(images, ImageSource) else ImageSource(images)
        self._clicks_or_none: Clicks | None = Clicks(model, num_threads, encode)
        self._histories = [History() for _ in range(len(self.sources))]
        self._sizes: dict[int, tuple[int, int]] = {}
        self._layer: Layer | None = None
        self._stop = False
        self._sent: set[int] = set()
        self._numbers: dict[PackedMask, int] = {}
        self._counter = itertools.count(1)
        self._shown: tuple[int, bytes] | None = None  # index and file of the image that views see
        self.index = 0
        self._image: NDArray[np.uint8] | None = self.sources.read(0)
        self._sizes[0] = self.hw
        self.run(self._encode)

    # ---------------------------------------------------------------- what there is

    @property
    def image(self) -> NDArray[np.uint8]:
        """The current image, (H, W, 3); `StateError` after `close`."""
        return still(self._image)

    @property
    def hw(self) -> tuple[int, int]:
        """Height and width of the current image."""
        return self.image.shape[0], self.image.shape[1]

    @property
    def _clicks(self) -> Clicks:
        return still(self._clicks_or_none)

    def forget(self) -> None:
        """Let go of images, predictors and the layer; objects and names stay."""
        with self._lock:
            self._image = self._clicks_or_none = self._layer = self._shown = None
            self.sources.close()

    @property
    def document(self) -> Document:
        """The objects of the current image."""
        return self._history.document

    @property
    def _history(self) -> History:
        return self._histories[self.index]

    def annotated_indices(self) -> list[int]:
        """Return the numbers of the images with objects."""
        return [at for at in sorted(self._sizes) if self._histories[at].document.objects]

    def annotated(self, index: int) -> Annotated:
        """Return an image that was shown with its objects."""
        objects = self._histories[index].document.objects
        return Annotated(self.sources.name(index), self._sizes[index], objects)

    # ---------------------------------------------------------------- views

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the image, all objects and the layer."""
        with self._lock:
            self._send_image(view, answer)
            self._send_state(view, None, known=set())
            self._send_layer(view, None)
            self.send(self.status_head(), [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click would give, at the size of a preview."""
        point, label = fields.position(head), fields.label(head)
        if self._clicks.image is not self.image:
            raise StateError("hover: expected an encoded image, found none")
        one = self.document.selected or Segment(0, "", (0, 0, 0))
        start = one.start
        if not one.points and one.box is None and one.candidates:
            start = one.packed
        points, labels = (*one.points, point), (*one.labels, label)
        prompts = prompts_of(points, labels, one.box, self._clicks.logits(start))
        mask, score = self._clicks.hover(prompts)
        message = {"type": "hover", "mask": mask.head(0), "score": score, "answer": answer}
        self.send(message, [mask.bits.tobytes()], view)

    def on_stop(self) -> None:
        """Stop everything mode."""
        self._stop = True

    def _send_image(self, view: str | None, answer: Answer) -> None:
        if self._shown is None or self._shown[0] != self.index:
            self._shown = (self.index, encoded(self.image))
        height, width = self.hw
        small = preview_hw(self.hw)
        grid = (-(-height // self._step), -(-width // self._step))
        head = {
            "type": "image",
            "kind": "image",
            "index": self.index,
            "count": len(self.sources),
            "name": self.sources.name(self.index),
            "width": width,
            "height": height,
            "preview": [small[1], small[0]],
            "grid": [grid[1], grid[0]],
            "step": self._step,
            "texts": self.model.supports_text,
            "answer": answer,
        }
        self.send(head, [self._shown[1]], view)

    @property
    def _step(self) -> int:
        height, width = self.hw
        step = 1
        while (height // step) * (width // step) > _MAX_GRID:
            step += 1
        return step

    def _broadcast(self, answer: Answer) -> None:
        """Send all views what there is, with the masks that they do not have yet."""
        with self._lock:
            self.revision += 1
            self._sent = self._send_state(None, answer, known=self._sent)
        self.publish()

    def _send_state(self, view: str | None, answer: Answer, known: set[int]) -> set[int]:
        history, document = self._history, self.document
        # A mask that an undo brings back has another number, and is sent again.
        self._numbers = {
            one.packed: self._numbers.get(one.packed) or next(self._counter)
            for one in document.objects
        }
        numbers = [self._numbers[one.packed] for one in document.objects]
        changed = {
            number: one.packed
            for number, one in zip(numbers, document.objects, strict=True)
            if number not in known
        }
        sampled = [(number, mask.every(self._step)) for number, mask in changed.items()]
        head = {
            "type": "state",
            "revision": self.revision,
            "current": document.current,
            "can_undo": history.can_undo,
            "can_redo": history.can_redo,
            "objects": [
                _described(one, number)
                for one, number in zip(document.objects, numbers, strict=True)
            ],
            "masks": [mask.head(number) for number, mask in sampled],
            "answer": answer,
        }
        self.send(head, [mask.bits.tobytes() for _, mask in sampled], view)
        return set(numbers)

    # ---------------------------------------------------------------- work

    def _put(self, document: Document, answer: Answer, settle: bool = False) -> None:
        with self._lock:
            self._history.put(document)
            if settle:
                self._history.settle()
        self._broadcast(answer)

    def _encode(self) -> None:
        with self._working("encoding"):
            self._clicks.set_image(self.image)

    def _working(self, text: str) -> "_Working":
        return _Working(self, text)

    def _send_layer(self, view: str | None, answer: Answer) -> None:
        if self._layer is None:
            self.send({"type": "layer", "count": 0, "answer": answer}, [], view)
        else:
            head, bits = self._layer.message()
            self.send({"type": "layer", **head, "answer": answer}, [bits], view)

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


class _Working:
    """Says to views what is done while a block runs."""

    def __init__(self, session: Session, text: str) -> None:
        self._session = session
        self._text = text

    def __enter__(self) -> None:
        self._session.status(self._text)

    def __exit__(self, *error: object) -> None:
        self._session.status("")


def _described(one: Segment, mask: int) -> dict[str, Any]:
    return {
        "id": one.number,
        "name": one.name,
        "color": list(one.color),
        "points": [[x, y, label] for (x, y), label in zip(one.points, one.labels, strict=True)],
        "boxes": [] if one.box is None else [list(one.box)],
        "candidate": one.candidate,
        "candidates": len(one.candidates),
        "score": one.score,
        "text": one.text,
        "mask": mask,
    }
