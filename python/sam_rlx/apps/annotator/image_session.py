"""Objects of images by clicks, boxes and texts."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.described import described
from sam_rlx.apps.annotator.gestures import (
    BoxField,
    Choice,
    Coordinate,
    Flag,
    FromPython,
    Index,
    Label,
    Level,
    Tiles,
    gesture,
)
from sam_rlx.apps.annotator.image_files import FRAME
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.apps.annotator.predict import Ahead, Clicks, Encode, preview_hw, prompts_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.search_gestures import SearchGestures, is_clicked
from sam_rlx.apps.annotator.sent_masks import deflated, sent
from sam_rlx.apps.annotator.session import (
    Answer,
    Send,
    mask_of_size,
    still,
)
from sam_rlx.apps.annotator.sources import ImageSource, encoded, shrunk
from sam_rlx.apps.annotator.tiles import TILE, Pyramid, level_of, masks_in
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Color,
    Mask,
    Object,
    PackedMask,
    Point,
    Prompt,
    Start,
    Stroke,
    fold_document,
    next_number,
)
from sam_rlx.apps.annotator.worker import During
from sam_rlx.errors import (
    InvalidArgumentError,
    SamRlxError,
    StateError,
)
from sam_rlx.model import Model

_MAX_GRID = 1 << 22  # pixels of the masks that views get; a larger image's are sampled
_THUMBNAIL = 160  # longest side
_ANSWER = 160  # cells of the longest side of answers, which are shown small
_QUIET = 1.0  # seconds without work before the next image is encoded


class ImageSession(SearchGestures):
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
        self._pyramid: Pyramid | None = None
        self._ahead = ahead
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
        chosen = [self.index] if shown_alone else range(len(self.sources))
        sources = self.sources
        rows = {at: self.item_row(at, sources.known_key(at), sources.path(at)) for at in chosen}
        for at in self._reasons.keys() & rows.keys():
            if not rows[at]["key"]:
                rows[at] |= {"state": "unreadable", "reason": self._reasons[at]}
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
                index += step
                if view is None or not 0 <= index <= last:
                    self.send_project(None, whole=True)
                    raise InvalidArgumentError("; ".join(notes[:5])) from error
        with self._lock:
            self._send_image(None, answer)
            self._send_layer(None, None)
        if notes:
            self.send_project(None, whole=True)
        self.broadcast(None)
        for note in notes:
            self.send({"type": "note", "text": note}, [], "page")
        self._encode()
        for note in notes:
            self.send({"type": "error", "text": note}, [], view)


def _cells(answers: Sequence[PackedMask], step: int) -> int:
    """Return how many cells of a grid of `step` pixels are one of answers, which are seen small."""
    sides = [max(one.box[2] - one.box[0], one.box[3] - one.box[1]) for one in answers]
    return max(1, -(-max(sides, default=0) // (step * _ANSWER)))


def _with_start(one: Object) -> tuple[Prompt, ...]:
    """Return the prompts of an object: what began without a click begins with its mask."""
    if one.masks and not is_clicked(one) and one.start_on(FRAME) is None:
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
