"""Objects of images by clicks, boxes and texts."""

import itertools
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.export import Annotated, ExportedFile, export
from sam_rlx.apps.annotator.gestures import (
    Boxes,
    BoxField,
    Choice,
    Contents,
    Coordinate,
    Flag,
    FromPython,
    Index,
    Label,
    Labels,
    Options,
    Threshold,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.layer import Layer, found_masks
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.apps.annotator.predict import Clicks, Encode, preview_hw, prompts_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.saved import OpenImages, from_saved
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.annotator.session import (
    UNCOLORED,
    Answer,
    Send,
    Session,
    mask_of_size,
    numbered,
    still,
)
from sam_rlx.apps.annotator.sources import ImageSource, encoded
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Document,
    Mask,
    Object,
    PackedMask,
    Point,
    Prompt,
    Start,
    Text,
    next_number,
)
from sam_rlx.apps.annotator.worker import During
from sam_rlx.errors import (
    InvalidArgumentError,
    MediaWarning,
    SamRlxError,
    StateError,
    UnsupportedError,
)
from sam_rlx.model import Model

_TEXT_THRESHOLD = 0.5
_MAX_GRID = 1 << 22  # pixels of the masks that views get; a larger image's are sampled
FRAME = 0  # of an image


class ImageSession(Session):
    """Interactive segmentation of an image, or of several, one after the other.

    Encoding begins at once, in a thread of the session's own; what comes meanwhile waits for it.

    Parameters
    ----------
    model : Model
        Of a family that takes clicks. With SAM 3 texts too.
    images : image, path, folder, or sequence of images and paths
        As for `ImageSource`, or one of them.
    project : OpenProject, optional
        Keeps the work; by default in memory alone.
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
    first : str
        The key of the item to begin with; by default the first image that can be read.

    Raises
    ------
    InvalidArgumentError, OSError
        None of the images can be read.
    """

    after_close: ClassVar[frozenset[str]] = frozenset(("export",))

    def __init__(
        self,
        model: Model,
        images: Any,
        *,
        project: OpenProject | None = None,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
        encode: Encode | None = None,
        during: During = nullcontext,
        first: str = "",
    ) -> None:
        self.sources = images if isinstance(images, ImageSource) else ImageSource(images)
        super().__init__(project or OpenProject(), send, changed, during)
        self.model, self.num_threads = model, num_threads
        self.notes = [*self.project.notes]
        clicks = Clicks(model, num_threads, encode)
        self._clicks_or_none: Clicks | None = clicks
        self._layer: Layer | None = None
        self._stop = False
        self._sent: set[int] = set()
        self._numbers: dict[PackedMask, int] = {}
        self._counter = itertools.count(1)
        self._shown: tuple[str, bytes] | None = None  # key and file of the image that views see
        self.index = 0
        self._image: NDArray[np.uint8] | None = None
        self.notes += self.sources.meet(self.project)
        try:
            self._show_first(first)
        except BaseException:
            self.close()
            raise
        self.run(self._encode)

    def _show_first(self, first: str) -> None:
        """Show an image: the wished one, or the first one that can be read."""
        count = len(self.sources)
        begin = self.sources.index_of(first)
        errors: list[Exception] = []
        for at in range(begin or 0, (begin or 0) + count):
            try:
                self._show(at % count)
            except (SamRlxError, OSError) as error:
                self.notes.append(self._unreadable(at % count, error))
                errors.append(error)
            else:
                return
        raise errors[0]

    def _show(self, index: int) -> None:
        """Show another image, once it is read."""
        image = self.sources.read(index)
        key = self.sources.key(index, self.project)
        with self._lock:
            self.index, self.key, self._image = index, key, image
            self._select(None)
            self._layer, self._sent = None, set()
        self.project.change_item(key, hw=self.hw, state=self._state_of(key), reason="")

    def _state_of(self, key: str) -> str:
        item = self.project.history.project.item(key)
        return "begun" if item is None or item.state in ("new", "unreadable") else item.state

    def _unreadable(self, index: int, error: Exception) -> str:
        """Note that an image cannot be read, and say why."""
        name = self.sources.name(index)
        reason = f"{error}"
        said = reason if reason.startswith(name) else f"{name} cannot be read: {reason}"
        key = self.sources.known_key(index)
        if key:
            self.project.change_item(key, state="unreadable", reason=reason[:500])
        return said

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

    def annotated_indices(self) -> list[int]:
        """Return the numbers of the images with objects."""
        keys = [self.sources.known_key(at) for at in range(len(self.sources))]
        return [at for at, key in enumerate(keys) if key and self.project.document(key).objects]

    def annotated(self, index: int) -> Annotated:
        """Return an image with its objects."""
        key = self.sources.known_key(index)
        objects = self.project.document(key).objects
        item = self.project.history.project.item(key)
        hw = objects[0].packed.hw if objects else item.hw if item and item.hw else self.hw
        return Annotated(self.sources.path(index), hw, objects, self.sources.file_key(index))

    # ---------------------------------------------------------------- views

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the image, all objects and the layer."""
        with self._lock:
            self.send(self.about_head(), [], view)
            self._send_image(view, answer)
            self._send_state(view, None, known=set())
            self._send_layer(view, None)
            self.send(self.status_head(), [], view)
            if self.notes:
                self.send({"type": "note", "text": "; ".join(self.notes[:5])}, [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click would give, at the size of a preview."""
        point, label = fields.position(head), fields.label(head)
        if self._clicks.image is not self.image:
            raise StateError("hover: expected an encoded image, found none")
        one = self.selected or Object(0, "", (0, 0, 0))
        given = [*_with_start(one), Point(0, FRAME, *point, label)]
        mask, score = self._clicks.hover(_arguments(given, self._clicks))
        message = {"type": "hover", "mask": mask.head(0), "score": score, "answer": answer}
        self.send(message, [mask.bits], view)

    def on_stop(self) -> None:
        """Stop everything mode."""
        self._stop = True

    def on_changes(self, changes: Any) -> None:
        """Show the masks of everything mode that there are now."""
        if any(change.what == "found" and change.document == self.key for change in changes):
            with self._lock:
                self._send_layer(None, None)

    def _send_image(self, view: str | None, answer: Answer) -> None:
        if self._shown is None or self._shown[0] != self.key:
            self._shown = (self.key, encoded(self.image))
        height, width = self.hw
        small = preview_hw(self.hw)
        grid = (-(-height // self._step), -(-width // self._step))
        head = {
            "type": "image",
            "kind": "image",
            "index": self.index,
            "count": len(self.sources),
            "key": self.key,
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

    def broadcast(self, answer: Answer) -> None:
        """Send all views what there is, with the masks that they do not have yet."""
        with self._lock:
            if self._image is None:
                return
            self.revision += 1
            self._sent = self._send_state(None, answer, known=self._sent)
        self.publish()

    def _send_state(self, view: str | None, answer: Answer, known: set[int]) -> set[int]:
        objects = self.document.objects
        # A mask that an undo brings back has another number, and is sent again.
        self._numbers = {
            one.packed: self._numbers.get(one.packed) or next(self._counter) for one in objects
        }
        numbers = [self._numbers[one.packed] for one in objects]
        changed = {
            number: one.packed
            for number, one in zip(numbers, objects, strict=True)
            if number not in known
        }
        sampled = [(number, mask.every(self._step)) for number, mask in changed.items()]
        head = {
            "type": "state",
            "revision": self.revision,
            **self.project_head(),
            "objects": [
                _described(one, number) for one, number in zip(objects, numbers, strict=True)
            ],
            "masks": [mask.head(number) for number, mask in sampled],
            "answer": answer,
        }
        self.send(head, [mask.bits for _, mask in sampled], view)
        return set(numbers)

    # ---------------------------------------------------------------- work

    def _encode(self) -> None:
        with self._working("Reading the image"):
            self._clicks.set_image(self.image)

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

    # ---------------------------------------------------------------- gestures

    @gesture("click", key="click")
    def do_click(self, x: Coordinate, y: Coordinate, label: Label = 1) -> None:
        """Add a point to the current object, or begin one."""
        one = self.selected
        given = () if one is None else _with_start(one)
        count = sum(isinstance(prompt, Point) for prompt in given)
        fields.at_most("click: points of an object", count + 1, MAX_POINTS)
        self._answer("click", one, (*given, Point(next_number(given), FRAME, x, y, label)))

    @gesture("box", key="drag")
    def do_box(self, box: BoxField) -> None:
        """Give the current object a box, or begin one."""
        one = self.selected
        given = () if one is None else _with_start(one)
        others = tuple(prompt for prompt in given if not isinstance(prompt, BoxPrompt))
        self._answer("box", one, (*others, BoxPrompt(next_number(given), FRAME, box)))

    def _answer(self, title: str, one: Object | None, given: tuple[Prompt, ...]) -> None:
        found = self._clicks.predict(_arguments(given, self._clicks))
        scores = found.iou_predictions
        answers = tuple(
            Mask(PackedMask.of(mask), float(score), "click")
            for mask, score in zip(found.masks, scores, strict=True)
        )
        choice = found.best().index
        values: dict[str, Any] = {
            "prompts": given,
            "masks": {FRAME: answers[choice]},
            "candidates": answers if len(answers) > 1 else (),
            "candidate": choice if len(answers) > 1 else 0,
        }
        if one is None:
            self._begin(title, replace(Object(0, "", UNCOLORED), **values))
        else:
            self._put(title, replace(one, **values))
        self.broadcast(self._asks[1])

    @gesture("another answer", key="C, Shift+1 to 3")
    def do_candidate(self, index: Choice) -> None:
        """Choose another answer to the prompts of the current object."""
        one = self.selected
        if one is None:
            raise InvalidArgumentError("candidate: expected a current object, found none")
        most = max(len(one.candidates), 1) - 1
        if index > most:
            raise InvalidArgumentError(f"candidate: expected 0 to {most}, found {index}")
        if one.candidates:
            masks = {FRAME: one.candidates[index]}
            self._put("another answer", replace(one, masks=masks, candidate=index))
        self.broadcast(self._asks[1])

    @gesture("begin with a mask", of_views=False)
    def do_start(self, mask: FromPython, name: FromPython = None) -> None:
        """Add an object that begins with a mask."""
        mask = mask_of_size(mask, self.hw)
        unnamed = name is None or (isinstance(name, str) and not name)
        named = "" if unnamed else fields.name({"name": name})
        packed = PackedMask.of(mask)
        one = Object(0, named, UNCOLORED, masks={FRAME: Mask(packed, 1.0, "hand")})
        self._begin("begin with a mask", one)
        self.broadcast(self._asks[1])

    # ---------------------------------------------------------------- texts, everything mode

    @gesture("find by words", key="/")
    def do_text(
        self,
        text: Words,
        threshold: Threshold = _TEXT_THRESHOLD,
        boxes: Boxes = (),  # type: ignore[assignment]
        box_labels: Labels = (),  # type: ignore[assignment]
    ) -> None:
        """Add what a text and example boxes find; it replaces what the same text found."""
        if not self.model.supports_text:
            raise UnsupportedError(
                f"text: expected a model of SAM 3, found one of {self.model.family}"
            )
        boxes, labels = list(boxes), list(box_labels) or [1] * len(boxes)
        if len(labels) != len(boxes):
            raise InvalidArgumentError(
                f"box_labels: expected {len(boxes)} labels, found {len(labels)}"
            )
        with self._working(f"Looking for {text or 'what is like the examples'}"):
            found = self._clicks.find(text, threshold, boxes, labels)
        name = text or "example"
        added = [
            Object(
                0,
                f"{name} {at + 1}",
                UNCOLORED,
                prompts=(Text(1, FRAME, name),),
                masks={FRAME: Mask(PackedMask.of(mask), float(score), "text")},
            )
            for at, (mask, score) in enumerate(zip(found.masks, found.scores, strict=True))
        ]

        def change(document: Document) -> Document:
            again = [o.number for o in document.objects if o.text == name and not _is_clicked(o)]
            document = document.without(*again)
            return document.with_objects(*numbered(document, added))

        self._edit(f"find {name}", change)
        self._select(None)
        self.broadcast(self._asks[1])

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

    @gesture("choose a mask of what was found", key="click")
    def do_pick(self, x: Coordinate, y: Coordinate) -> None:
        """Add the mask of the layer at a position as an object."""
        layer = self._layer_now()
        if layer is None:
            raise InvalidArgumentError("pick: expected the masks of everything mode, found none")
        mask = layer.at(x, y)
        if mask is not None:
            self._begin("choose a mask", Object(0, "", UNCOLORED, masks={FRAME: mask}))
            with self._lock:
                self._kept = self.selected
        self.broadcast(self._asks[1])

    def _set_found(self, title: str, masks: tuple[Mask, ...]) -> None:
        self._edit(title, lambda document: replace(document, found=masks))
        with self._lock:
            self._send_layer(None, self._asks[1])
        self.broadcast(None)

    # ---------------------------------------------------------------- images and files

    @gesture("another image", edits=False)
    def do_image(self, index: Index) -> None:
        """Go to an image of the queue.

        A view is told of images that cannot be read, and gets the next one that can; a caller in
        Python gets the error.
        """
        view, answer = self._asks
        last = len(self.sources) - 1
        if index > last:
            raise InvalidArgumentError(f"index: expected 0 to {last}, found {index}")
        step = -1 if index < self.index else 1
        notes = []
        while True:
            try:
                self._show(index)
                break
            except (SamRlxError, OSError) as error:
                notes.append(self._unreadable(index, error))
                if view is None:
                    raise InvalidArgumentError(notes[-1]) from error
                index += step
                if not 0 <= index <= last:
                    raise InvalidArgumentError("; ".join(notes[:5])) from error
        with self._lock:
            self._send_image(None, answer)
            self._send_layer(None, None)
        self.broadcast(None)
        for note in notes:
            self.send({"type": "note", "text": note}, [], "page")
        self._encode()
        for note in notes:
            self.send({"type": "error", "text": note}, [], view)

    @gesture("export", key="Ctrl+E", edits=False)
    def do_export(self, format: Words) -> ExportedFile:
        """Write the objects as a file."""
        with self._lock:
            every = [self.annotated(at) for at in self.annotated_indices()]
            current = self.annotated(self.index)
        file = export(format, current, every)
        self._hand_over(file.name, file.mime, file.contents)
        return file

    @gesture("load objects")
    def do_load(self, name: Words, contents: Contents) -> list[str]:
        """Add the objects of a file to their images; return those of its images that are not open.

        A view that asked is told how many these are.
        """
        view, answer = self._asks
        with self._working("Loading objects"):
            saved = read_saved(name, contents, self._open_images())
        if saved.passed_over:
            warnings.warn(_without_masks(name, saved.passed_over), MediaWarning, stacklevel=2)
        keys = {self.sources.key(index, self.project): o for index, o in saved.objects.items()}
        with self.project.history.lock:
            documents = {}
            for key, objects in keys.items():
                document = self.project.document(key)
                added = numbered(document, [from_saved(one) for one in objects])
                documents[key] = document.with_objects(*added)
            edit = self.project.edit_all(documents, "load", f"load {name}")
        self.project.done(edit)
        self._select(None)
        self.broadcast(answer)
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

    def _open_images(self) -> OpenImages:
        count = len(self.sources)
        return OpenImages(
            [self.sources.path(at) for at in range(count)],
            self.index,
            self._size_of,
            [self.sources.file_key(at) for at in range(count)],
        )

    def _size_of(self, index: int) -> tuple[int, int]:
        item = self.project.history.project.item(self.sources.known_key(index))
        if item is None or item.hw is None:
            height, width = self.sources.read(index).shape[:2]
            return height, width
        return item.hw


def _is_clicked(one: Object) -> bool:
    return any(isinstance(prompt, (Point, BoxPrompt)) for prompt in one.prompts)


def _with_start(one: Object) -> tuple[Prompt, ...]:
    """Return the prompts of an object: what began without a click begins with its mask."""
    if one.masks and not _is_clicked(one) and one.start_on(FRAME) is None:
        return (*one.prompts, Start(one.next_prompt, FRAME, one.packed))
    return one.prompts


def _arguments(given: Any, clicks: Clicks) -> dict[str, Any]:
    """Return the arguments of `ImagePredictor.predict` for prompts."""
    points = [one for one in given if isinstance(one, Point)]
    boxes = [one.box for one in given if isinstance(one, BoxPrompt)]
    starts = [one.mask for one in given if isinstance(one, Start)]
    return prompts_of(
        [(one.x, one.y) for one in points],
        [one.label for one in points],
        boxes[-1] if boxes else None,
        clicks.logits(starts[-1] if starts else None),
    )


def _without_masks(name: str, passed_over: list[str]) -> str:
    some = ", ".join(passed_over[:3]) + (", ..." if len(passed_over) > 3 else "")
    return f"{name}: {len(passed_over)} annotations have no mask, and are passed over: {some}"


def _described(one: Object, mask: int) -> dict[str, Any]:
    return {
        "id": one.number,
        "name": one.name,
        "color": list(one.color),
        "points": [[x, y, label] for (x, y), label in zip(one.points, one.labels, strict=True)],
        "boxes": [] if one.box is None else [list(one.box)],
        "candidate": one.candidate,
        "candidates": max(len(one.candidates), 1),
        "score": one.score,
        "text": one.text,
        "mask": mask,
    }
