"""Objects of images by clicks, boxes and texts."""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.weights.sources import PACKAGED
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.described import described
from sam_rlx.apps.annotator.export import Annotated, ExportedFile, export
from sam_rlx.apps.annotator.export_gestures import ExportGestures, Placed, without_number
from sam_rlx.apps.annotator.exports.collect import Source, image_work
from sam_rlx.apps.annotator.exports.work import Work
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
    Level,
    OptionalIndices,
    OptionalKey,
    Options,
    Scope,
    Threshold,
    Tiles,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.imports import FoundStill
from sam_rlx.apps.annotator.layer import Layer, apart, found_masks
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.apps.annotator.predict import Ahead, Clicks, Encode, preview_hw, prompts_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.saved import OpenImages, from_saved
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.annotator.sent_masks import deflated, sent
from sam_rlx.apps.annotator.session import (
    UNCOLORED,
    Answer,
    Send,
    by_view,
    mask_of_size,
    numbered,
    still,
)
from sam_rlx.apps.annotator.sources import HELD_ASIDE, ImageSource, encoded, shrunk
from sam_rlx.apps.annotator.tiles import TILE, Pyramid, level_of, masks_in
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Color,
    Document,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Prompt,
    Start,
    Stroke,
    Text,
    fold_document,
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
_THUMBNAIL = 160  # longest side
_ANSWER = 160  # cells of the longest side of answers, which are shown small
_QUIET = 1.0  # seconds without work before the next image is encoded


class ImageSession(ExportGestures):
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
    ahead : callable, optional
        Takes the next image (H, W, 3) while nobody asks for anything, and a callable that says
        whether somebody does meanwhile; returns False if it gave way to that.
    first : str
        The key of the item to begin with; by default the first image that can be read.

    Raises
    ------
    InvalidArgumentError, OSError
        None of the images can be read.
    """

    after_close: ClassVar[frozenset[str]] = frozenset(("export", "export_as"))
    kind = "image"

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
        ahead: Ahead | None = None,
        first: str = "",
    ) -> None:
        self.sources = images if isinstance(images, ImageSource) else ImageSource(images)
        super().__init__(project or OpenProject(), send, changed, during)
        self.model, self.num_threads = model, num_threads
        self.notes = [*self.project.notes]
        clicks = Clicks(model, num_threads, encode)
        self._clicks_or_none: Clicks | None = clicks
        self._layer: Layer | None = None
        self._pyramid: Pyramid | None = None
        self._stop = False
        self._ahead = ahead
        self._searching = self._stop_search = False  # a text in all images
        self._names: list[tuple[str, dict[str, int | None]]] = []  # of the images, for an import
        self._sent: set[int] = set()
        # Of masks that views know, with how many cells of their grid are one of the mask's.
        self._numbers: dict[tuple[PackedMask, int], int] = {}
        self._counter = itertools.count(1)
        self._shown: tuple[str, bytes] | None = None  # key and file of the image that views see
        self.index = 0
        self._reasons: dict[int, str] = {}  # why images cannot be read that were never items
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
        if isinstance(errors[0], SamRlxError):  # which does not know the file's name
            raise type(errors[0])(self.notes[-len(errors)]) from errors[0]
        raise errors[0]

    def _show(self, index: int) -> None:
        """Show another image, once it is read."""
        image = self.sources.read(index)
        key = self.sources.key(index, self.project)
        if key != self.key:
            fold_document(self.document)
        with self._lock:
            self.index, self.key, self._image = index, key, image
            self._select(None)
            self._layer, self._sent, self._described = None, set(), {}
            self._pyramid = None
        self._reasons.pop(index, None)
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
        else:  # the key of what the file has now would not be that of the mended file
            self._reasons[index] = reason[:500]
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
            self._pyramid = None
            self.sources.close()

    def key_at(self, index: int) -> str:
        """Return the key of the item of an image."""
        if index >= len(self.sources):
            raise InvalidArgumentError(
                f"index: expected 0 to {len(self.sources) - 1}, found {index}"
            )
        return self.sources.key(index, self.project)

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
        project = self.project.history.project
        path, content = self.sources.path(index), self.sources.file_key(index)
        return Annotated(path, hw, objects, content, project)

    # ---------------------------------------------------------------- views

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the image, all objects and the layer."""
        with self._lock:
            self.send(self.about_head(), [], view)
            self._send_image(view, answer)
            self.send_project(view, whole=True)
            self._send_state(view, None, known=set(), whole=True)
            self._send_layer(view, None)
            self.send(self.status_head(), [], view)
            if self.notes:
                head = {"type": "note", "text": "; ".join(self.notes[:5])}
                about = {"about": "changed"} if self.sources.changed else {}
                self.send({**head, **about}, [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click would give, at the size of a preview."""
        point, label = fields.position(head), fields.label(head)
        if self._clicks.image is not self.image:
            raise StateError("hover: expected an encoded image, found none")
        one = self.selected or Object(0, "", (0, 0, 0))
        if one.locked:
            mask, score = PackedMask(preview_hw(self.hw), (0, 0, 0, 0), b""), 0.0
        else:
            given = [*_with_start(one), Point(0, FRAME, *point, label)]
            mask, score = self._clicks.hover(_arguments(given, self._clicks))
            mask = self.composed_small(mask, one, FRAME)
        message = {"type": "hover", "mask": mask.head(0), "score": score, "answer": answer}
        self.send(message, [mask.bits], view)

    def on_stop(self) -> None:
        """Stop everything mode, and the search in all images."""
        self._stop = self._stop_search = True

    def on_changes(self, changes: Any) -> None:
        """Show the masks of everything mode that there are now."""
        if any(change.what == "found" and change.document == self.key for change in changes):
            with self._lock:
                self._send_layer(None, None)

    def _send_image(self, view: str | None, answer: Answer) -> None:
        level = level_of(self.hw)
        if self._shown is None or self._shown[0] != self.key:
            self._shown = (self.key, encoded(self._pyramid_now().level(level)))
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
            "level": level,
            "texts": self.model.supports_text,
            "answer": answer,
        }
        self.send(head, [self._shown[1]], view)

    def _pyramid_now(self) -> Pyramid:
        """Return the current image with its halves."""
        if self._pyramid is None or self._pyramid.image is not self.image:
            self._pyramid = Pyramid(self.image)
        return self._pyramid

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
            at = self.sources.index_of(self.key)  # items may have another order
            self.index = self.index if at is None else at
            whole = not self.sees_edits(None)
            self.send_project(None)
            self._send_state(None, answer, known=self._sent, whole=whole)  # the answer is the last
        self.publish()

    def _send_state(
        self, view: str | None, answer: Answer, known: set[int], *, whole: bool
    ) -> None:
        kind, objects, gone = self.objects_head(whole=whole)
        known_to_all = self.note_described(view)
        selected = self.selected
        answers = () if selected is None else selected.candidates
        cells = _cells([each.packed for each in answers], self._step)
        shown = [(one.packed, 1) for one in self.document.objects]
        shown += [(each.packed, cells) for each in answers]
        # A mask that an undo brings back has another number, and is sent again.
        self._numbers = {part: self._numbers.get(part) or next(self._counter) for part in shown}
        heads, buffers = sent(
            (mask.coarse(self._step * each), number)
            for (mask, each), number in self._numbers.items()
            if number not in known
        )
        head = {
            "type": kind,
            "revision": self.revision,
            **self.project_head(),
            "answers": [
                {
                    "mask": self._numbers[each.packed, cells],
                    "score": each.score,
                    "step": self._step * cells,
                }
                for each in answers
            ],
            "objects": [described(one, self._numbers[one.packed, 1]) for one in objects],
            "gone": gone,
            "masks": heads,
            "deflated": deflated(heads),
            "answer": answer,
        }
        self.send(head, buffers, view)
        if known_to_all:
            self._sent = set(self._numbers.values())

    def queue_rows(self, *, shown_alone: bool = False) -> dict[int, dict[str, Any]]:
        """Return what views are told of the images by their index."""
        chosen = {self.index, *self._reasons} if shown_alone else range(len(self.sources))
        sources = self.sources
        rows = {at: self.item_row(at, sources.known_key(at), sources.path(at)) for at in chosen}
        for at, reason in self._reasons.items():
            if not rows[at]["key"]:
                rows[at] |= {"state": "unreadable", "reason": reason}
        return rows

    # ---------------------------------------------------------------- work

    def _encode(self) -> None:
        with self._working("Reading the image"):
            self._clicks.set_image(self.image)
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Encode the next image once nobody has asked for anything for a while."""
        index = self.index + 1
        if self._ahead is not None and not self._searching and index < len(self.sources):
            self._worker.start(self._steps_ahead(self._ahead, index), _QUIET)

    def _steps_ahead(self, ahead: Ahead, index: int) -> Iterator[None]:
        try:
            image = self.sources.read(index)
        except (SamRlxError, OSError):  # it is told when it is shown
            return
        yield
        while not ahead(image, lambda: self._worker.is_wanted):
            yield

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
        if self.repeats(Point(0, FRAME, x, y, label)):
            return
        one = self._selected_free()
        given = () if one is None else _with_start(one)
        count = sum(isinstance(prompt, Point) for prompt in given)
        fields.at_most("click: points of an object", count + 1, MAX_POINTS)
        self._answer("click", one, (*given, Point(next_number(given), FRAME, x, y, label)))

    @gesture("box", key="drag")
    def do_box(self, box: BoxField) -> None:
        """Give the current object a box, or begin one."""
        if self.repeats(BoxPrompt(0, FRAME, box)):
            return
        one = self._selected_free()
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
        several = len(answers) > 1
        begun = self.new_object() if one is None else one
        answered = replace(
            begun,
            prompts=given,
            masks={FRAME: self._shaped(begun.number, given, answers[choice])},
            candidates=answers if several else (),
            candidate=choice if several else 0,
        )
        if one is None:
            self._begin(title, answered)
        else:
            self._put(title, answered)
        self.broadcast(self._asks[1])

    def _shaped(self, number: int, given: Sequence[Prompt], answer: Mask) -> Mask:
        """Return an answer without pixels of other objects, and with strokes on top."""
        strokes = [one for one in given if isinstance(one, Stroke)]
        packed = self.composed(answer.packed, number, FRAME, strokes)
        if answer.packed.bits and not packed.bits and not strokes:
            there = self._seen_below(answer.packed)
            raise InvalidArgumentError(
                f"{self._doing}: expected pixels that no other object has, found those of "
                f"{there.name}: go on with it (in Python `select({there.number})`), or let others "
                "give way (`others_stay(False)`)"
            )
        return replace(answer, packed=packed)

    def _seen_below(self, answer: PackedMask) -> Object:
        """Return the object that has most pixels of an answer."""
        mask = answer.to_mask()
        return max(self.document.objects, key=lambda one: int((mask & one.mask).sum()))

    def frame_of(self, frame: int | None) -> int:
        """Return the frame of an image: 0."""
        if frame not in (None, FRAME):
            raise InvalidArgumentError(f"frame: expected {FRAME} of an image, found {frame}")
        return FRAME

    def check_order(self) -> None:
        """Raise `UnsupportedError` where the order of the images is given."""
        if not self.sources.can_be_ordered:
            super().check_order()

    def mean_color(self) -> Color:
        """Return the mean colour of the image."""
        red, green, blue = self.image[::16, ::16].reshape(-1, 3).mean(axis=0).round().tolist()
        return int(red), int(green), int(blue)

    def answer_again(self, title: str, one: Object, given: tuple[Prompt, ...], number: int) -> None:
        """Answer other prompts of an object; one of which nothing is left goes."""
        if any(isinstance(each, (Point, BoxPrompt)) for each in given):
            self._answer(title, one, given)
            return
        starts = [each.mask for each in given if isinstance(each, Start)]
        strokes = any(isinstance(each, Stroke) for each in given)
        if not starts and not strokes:
            self._edit(title, lambda document: document.without(one.number))
            if self.current == one.number:
                self._select(None)
        else:
            base = starts[-1] if starts else PackedMask(self.hw, (0, 0, 0, 0), b"")
            mask = self._shaped(one.number, given, Mask(base, one.score, "hand"))
            rest = replace(one, prompts=given, masks={FRAME: mask}, candidates=(), candidate=0)
            self._put(title, rest)
        self.broadcast(self._asks[1])

    @gesture("another answer", key="C, Shift+1 to 3")
    def do_candidate(self, index: Choice) -> None:
        """Choose another answer to the prompts of the current object."""
        one = self._free(None)
        most = max(len(one.candidates), 1) - 1
        if index > most:
            raise InvalidArgumentError(f"candidate: expected 0 to {most}, found {index}")
        if one.candidates:
            masks = {FRAME: self._shaped(one.number, one.prompts, one.candidates[index])}
            self._put("another answer", replace(one, masks=masks, candidate=index))
        self.broadcast(self._asks[1])

    @gesture("begin with a mask", of_views=False)
    def do_start(self, mask: FromPython, name: FromPython = None) -> None:
        """Add an object that begins with a mask."""
        mask = mask_of_size(mask, self.hw)
        unnamed = name is None or (isinstance(name, str) and not name)
        named = "" if unnamed else fields.name({"name": name})
        packed = PackedMask.of(mask)
        start = Start(1, FRAME, packed)
        if self.repeats(start, begins=True):
            return
        masks = {FRAME: Mask(packed, 1.0, "hand")}
        self._begin(
            "begin with a mask", replace(self.new_object(prompts=(start,), masks=masks), name=named)
        )
        self.broadcast(self._asks[1])

    # ---------------------------------------------------------------- texts, everything mode

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

    @gesture("keep objects of images whose content has changed")
    def do_keep_changed(self, on: Flag = True) -> None:
        """Give images whose files have changed the objects that they had, or hold these aside.

        Objects of an image of another size are held aside in any case.
        """
        found: dict[str, tuple[Object, ...]] = {}
        aside: list[str] = []
        for before, index in self.sources.changed if on else ():
            objects = self.project.document(before).objects
            hw = self.sources.read(index).shape[:2]
            if all(one.packed.hw == hw for one in objects):
                found[self.sources.key(index, self.project)] = objects
            else:
                aside.append(self.sources.name(index))

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents = {key: self.project.document(key) for key in found}
            return project, {
                key: one.with_objects(*self.numbered_in(project, one, found[key]))
                for key, one in documents.items()
            }

        if found:
            title = "keep objects of changed images"
            self.project.edit_all(change, self._doing, title, by_view(*self._asks))
        self.sources.changed = ()
        self.notes = [one for one in self.notes if not one.endswith(HELD_ASIDE)]
        self.notes += [f"{name} has another size than before: {HELD_ASIDE}" for name in aside]
        if aside:
            self.send({"type": "note", "text": "; ".join(self.notes[-len(aside) :][:5])}, [], None)
        self.broadcast(self._asks[1])

    @gesture("parts of the image and its masks, as they are seen", edits=False, later=True)
    def do_tiles(
        self,
        level: Level,
        box: BoxField,
        tiles: Tiles = (),
        masks: Flag = True,
    ) -> None:
        """Send a view tiles of the image, and the masks in a box, at a level."""
        view, answer = self._asks
        pyramid = self._pyramid_now()
        wanted = [[c, r] for c, r in tiles if pyramid.has(level, c, r)]
        images = pyramid.tiles(level, wanted)
        height, width = self.hw
        x0, y0 = max(int(box[0]), 0), max(int(box[1]), 0)
        seen = (x0, y0, min(int(np.ceil(box[2])), width), min(int(np.ceil(box[3])), height))
        objects = self.document.objects if masks else ()
        heads, buffers = masks_in(objects, FRAME, level, seen)
        head = {
            "type": "tiles",
            "key": self.key,
            "level": level,
            "tile": TILE,
            "tiles": wanted,
            "box": list(seen),
            "masks": heads,
            "deflated": deflated(heads, len(images)),
            "n": self.project.history.n,
            "answer": answer,
        }
        self.send(head, [*images, *buffers], view)

    @gesture("a small image of an item", edits=False, later=True)
    def do_thumbnail(self, index: Index) -> None:
        """Send a view an image of the queue, at most 160 pixels wide or high."""
        view, answer = self._asks
        fields.at_most("index", index, len(self.sources) - 1)
        image = self.image if index == self.index else self.sources.read(index)
        contents = encoded(shrunk(image, _THUMBNAIL), "JPEG", 80)
        head = {"type": "thumbnail", "index": index, "key": self.sources.known_key(index)}
        self.send({**head, "answer": answer}, [contents], view)

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
                    self.send_project(None)
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

    @gesture("export", edits=False)
    def do_export(self, format: Words) -> ExportedFile:
        """Write the objects as a file."""
        with self._lock:
            every = [self.annotated(at) for at in self.annotated_indices()]
            current = self.annotated(self.index)
        file = export(format, current, every)
        self._hand_over(file.name, file.mime, file.contents)
        return file

    def work(self, images: str, classes: Sequence[str] | None) -> Work:
        """Return the images that an export writes."""
        known = self.sources.known_key
        wanted = [at for at in range(len(self.sources)) if images == "all" or known(at)]
        return image_work(
            self.project.history.project,
            self.project.document,
            [self._source(at) for at in wanted],
            images,
            classes,
        )

    def _source(self, index: int) -> Source:
        sources = self.sources
        return Source(
            sources.known_key(index),
            sources.path(index),
            lambda: self._size_of(index),
            lambda: sources.read(index),
            sources.file(index),
        )

    def size_named(self, name: str) -> tuple[int, int] | None:
        """Return the size (H, W) of an image by its key, its path, its name, or its stem."""
        found = self._named(name)
        return None if found is None else self._size_of(found[0])

    def _named(self, name: str) -> tuple[int, str] | None:
        """Return the index of the only image of a name, and what it was found by.

        A key of a content, a path, a name, or either without suffix. Exports write ``a/b.jpg`` as
        ``a_b`` too.
        """
        for by, known in self._names:
            at = known.get(name)
            if at is not None:
                return at, by
        return self._named(Path(name).name) if "/" in name else None

    def begin_import(self) -> None:
        """Take note of the names of the images."""
        paths = [self.sources.path(at) for at in range(len(self.sources))]
        stems = [str(Path(path).with_suffix("")) for path in paths]
        self._names = [
            (by, _only_ones(names))
            for by, names in (
                ("key", [self.sources.file_key(at) for at in range(len(paths))]),
                ("path", paths),
                ("path", stems),
                ("path", [stem.replace("/", "_") for stem in stems]),
                ("name", [Path(path).name for path in paths]),
                ("name", [Path(path).stem for path in paths]),
            )
        ]

    def placed(self, found: Sequence[FoundStill]) -> Placed:
        """Return where the objects of files go: to images by their key, path or name."""
        placed = Placed()
        for found_still in found:
            known = self._named(found_still.key) or self._named(found_still.name)
            if known is None:
                placed.absent.append(found_still.name)
                continue
            at, by = known
            placed.matched[by] += 1
            hw = self._size_of(at)
            objects = []
            for one in found_still.objects:
                if one.mask.hw != hw:
                    raise InvalidArgumentError(
                        f"{found_still.name}: expected masks of {hw[1]} x {hw[0]} pixels, found "
                        f"{one.mask.hw[1]} x {one.mask.hw[0]}"
                    )
                made = without_number(one, masks={FRAME: Mask(one.mask, 1.0, "file")})
                objects.append((made, one.category))
            key = self.sources.key(at, self.project)
            placed.objects.setdefault(key, []).extend(objects)
        return placed

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

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents = {}
            for key, objects in keys.items():
                document, added = self.project.document(key), []
                for one in objects:
                    made = None
                    if one.category is not None:
                        project, made = self.with_class(project, one.category)
                    number = self.class_number if made is None else made.number
                    added.append(replace(from_saved(one), class_number=number))
                documents[key] = document.with_objects(*numbered(document, added, project))
            return project, documents

        self.project.edit_all(change, "load", f"load {name}")
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


def _only_ones(names: Sequence[str]) -> dict[str, int | None]:
    """Return the index of each name; None for a name that several have."""
    found: dict[str, int | None] = {"": None}
    for at, name in enumerate(names):
        found[name] = None if name in found else at
    return found


def _cells(answers: Sequence[PackedMask], step: int) -> int:
    """Return how many cells of a grid of `step` pixels are one of answers, which are seen small."""
    sides = [max(one.box[2] - one.box[0], one.box[3] - one.box[1]) for one in answers]
    return max(1, -(-max(sides, default=0) // (step * _ANSWER)))


def _is_clicked(one: Object) -> bool:
    return any(isinstance(prompt, (Point, BoxPrompt)) for prompt in one.prompts)


def is_touched(one: Object) -> bool:
    """Tell whether a person has worked on what was found: the same search leaves it there."""
    painted = any(isinstance(prompt, Stroke) for prompt in one.prompts)
    return _is_clicked(one) or painted or one.locked


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
