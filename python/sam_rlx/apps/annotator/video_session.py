"""Objects of a video by clicks and boxes on any frame, and tracking from there."""

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import FrameSource, open_frames
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.checks import Finding, to_check
from sam_rlx.apps.annotator.clip_export import AnnotatedClip, export_clip, read_clip
from sam_rlx.apps.annotator.clip_items import clip_item
from sam_rlx.apps.annotator.described import described
from sam_rlx.apps.annotator.export import ExportedFile
from sam_rlx.apps.annotator.export_gestures import ExportGestures, Placed, without_number
from sam_rlx.apps.annotator.exports.collect import clip_work
from sam_rlx.apps.annotator.exports.work import Clip, Still, Work
from sam_rlx.apps.annotator.gestures import (
    BoxField,
    Contents,
    Coordinate,
    Flag,
    Frame,
    FromPython,
    Label,
    OptionalFrame,
    OptionalNumber,
    Threshold,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.imports import FoundStill
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.apps.annotator.predict import Clicks, preview_hw, prompts_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.session import (
    UNCOLORED,
    Answer,
    Send,
    by_view,
    mask_of_size,
    numbered,
    still,
)
from sam_rlx.apps.annotator.sources import encoded, shrunk
from sam_rlx.apps.annotator.tracks import HELD, asked_anew, clip_head, sampled
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Change,
    Document,
    Gone,
    How,
    Item,
    Mask,
    Object,
    PackedMask,
    Point,
    Project,
    Prompt,
    Start,
    State,
    Stroke,
)
from sam_rlx.apps.annotator.worker import During
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.model import Model
from sam_rlx.video import VideoFrame, VideoPredictor

_SHOWN = 1024  # longest side of the frames that views get
_RATE = 25.0  # frames a second of a clip that says none
_WRITE_EACH = 1.0  # seconds of tracking that a kill may take back
# What a timeline shows of a mask: tracked, of a prompt, by hand, checked.
_LETTERS: Mapping[How, str] = {
    "tracked": "t",
    "click": "p",
    "text": "p",
    "everything": "p",
    "file": "p",
    "hand": "h",
    "checked": "c",
}


class VideoSession(ExportGestures):
    """Interactive tracking. Frames, prompts and masks have one order, in a thread of its own.

    Masks belong to the history; the memory of the predictor does not. Before a prompt and before
    tracking it is told again what was undone or redone.

    Parameters
    ----------
    model : Model
        Of SAM 2, or of SAM 3 with the tracker.
    frames : path, folder, array or sequence of images
        As for `VideoPredictor`, of known length.
    project : OpenProject, optional
        Keeps the work; by default in memory alone.
    send, changed
        As for `Session`.
    num_threads : int, optional
        As for `VideoPredictor`.
    item : Item, optional
        Of the project, that the clip is. Default: one by its content.
    during : callable, optional
        As for `Session`.
    """

    after_close: ClassVar[frozenset[str]] = frozenset(("export", "export_as"))
    kind = "clip"

    def __init__(
        self,
        model: Model,
        frames: Any,
        *,
        project: OpenProject | None = None,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
        item: Item | None = None,
        during: During = nullcontext,
    ) -> None:
        source = open_frames(frames)
        if source.count is None:
            raise InvalidArgumentError("frames: expected a known length, found an iterator")
        predictor = VideoPredictor(model, source, num_threads=num_threads)
        super().__init__(project or OpenProject(), send, changed, during)
        self.model, self.num_threads = model, num_threads
        self.count = source.count
        self._source: FrameSource | None = source
        self._predictor: VideoPredictor | None = predictor
        self._clicks: Clicks | None = None
        self._clicks_frame = -1
        self._told: dict[int, tuple[Prompt, ...]] = {}  # what the predictor knows, by number
        self._stop = False
        self._stale = False  # whether the predictor remembers a tracking that was undone
        self._running = False
        self._done = (0, 0)
        first = source.read(0)
        self.hw = (first.shape[0], first.shape[1])
        if item is None:
            item = clip_item(source, self.hw)
            known = self.project.history.project.item(item.key)
            item = item if known is None else replace(item, state=_begun(known))
        else:
            item = replace(item, hw=self.hw, frames=self.count, state=_begun(item), reason="")
        self.key, self.name = item.key, item.path
        self.rate = float(getattr(source, "rate", _RATE))
        self.files = list(source.files)  # that an export may not replace
        self.project.add_items([item])

    @property
    def tracks(self) -> tuple[Object, ...]:
        """The objects."""
        return self.document.objects

    def read(self, frame: int) -> NDArray[np.uint8]:
        """Return a frame (H, W, 3)."""
        return still(self._source).read(frame)

    @property
    def _video(self) -> VideoPredictor:
        return still(self._predictor)

    def forget(self) -> None:
        """Let go of frames and predictors; objects and masks stay."""
        with self._lock:
            self._source = self._predictor = self._clicks = None

    def masks(self, frame: int) -> dict[int, PackedMask]:
        """Return the masks that are known on a frame, by number of the object."""
        return {o.number: o.masks[frame].packed for o in self.tracks if frame in o.masks}

    def known_frames(self) -> list[int]:
        """Return the numbers of the frames with masks."""
        return sorted({frame for one in self.tracks for frame in one.masks})

    # ---------------------------------------------------------------- gestures

    @gesture("click", key="click")
    def do_click(self, frame: Frame, x: Coordinate, y: Coordinate, label: Label = 1) -> None:
        """Add a point to the current object on a frame, or begin an object."""
        self._check_frame(frame)
        if self.repeats(Point(0, frame, x, y, label)):
            return
        one = self._selected_free() or self.new_object()
        count = len(one.points_on(frame)) + 1
        fields.at_most("click: points of an object", count, MAX_POINTS)
        self._prompt(one, Point(one.next_prompt, frame, x, y, label))

    @gesture("box", key="drag")
    def do_box(self, frame: Frame, box: BoxField) -> None:
        """Give the current object a box on a frame, or begin an object."""
        self._check_frame(frame)
        if self.repeats(BoxPrompt(0, frame, box)):
            return
        one = self._selected_free() or self.new_object()
        self._prompt(one, BoxPrompt(one.next_prompt, frame, box))

    def _put(self, title: str, *objects: Object) -> None:
        """Change objects that are there, and note where their prompts changed."""
        known = {one.number: one for one in self.tracks}
        super()._put(title, *(asked_anew(known.get(one.number, one), one) for one in objects))

    def _check_frame(self, frame: int) -> None:
        if frame >= self.count:
            raise InvalidArgumentError(f"frame: expected 0 to {self.count - 1}, found {frame}")

    def _prompt(self, one: Object, prompt: Point | BoxPrompt) -> None:
        self._tell_all()
        frame, given = prompt.frame, (*one.prompts, prompt)
        number = one.number or self.document.next_number
        known = self._told.pop(number, ())
        self._tell_predictor(number, given[len(known) :], known)
        found = self._video.frame(frame).masks
        self._told[number] = given
        packed = PackedMask.of(found[number])
        packed = self.composed(packed, one.number, frame, one.strokes_on(frame))
        masks = {**one.masks, frame: Mask(packed, 1.0, "click")}
        changed = replace(one, prompts=given, masks=masks)
        title = "click" if isinstance(prompt, Point) else "box"
        if one.number:
            self._put(title, changed)
        else:
            self._begin(title, changed)
            if self.current != number:  # another view has taken the number meanwhile
                self._stale = True
        self._send_masks(frame)
        self.broadcast(self._asks[1])

    @gesture("begin with a mask", of_views=False)
    def do_start(self, frame: Frame, mask: FromPython, name: FromPython = None) -> None:
        """Add an object that begins with a mask on a frame."""
        self._check_frame(frame)
        mask = mask_of_size(mask, self.hw)
        named = "" if name is None else fields.name({"name": name})
        if self.repeats(Start(0, frame, PackedMask.of(mask)), begins=True):
            return
        self._begin_with(frame, "begin with a mask", [(named, mask, 1.0, "hand")])

    @gesture("find by words", key="/")
    def do_text(self, frame: Frame, text: Words, threshold: Threshold = 0.5) -> None:
        """Find all that a text names on a frame; each becomes an object that tracking follows.

        They are of the class with the name of the text.
        """
        self._check_frame(frame)
        if not self.model.supports_text:
            raise UnsupportedError(
                f"text: expected a model of SAM 3, found one of {self.model.family}"
            )
        with self._working(f"Looking for {text}"):
            found = self._clicks_on(frame).find(text, threshold, [], [])
        pairs = zip(found.masks, found.scores, strict=True)
        self._begin_with(
            frame,
            f"find {text}",
            [
                (f"{text} {at + 1}", mask, float(score), "text")
                for at, (mask, score) in enumerate(pairs)
            ],
            category=text,
        )

    def _begin_with(
        self,
        frame: int,
        title: str,
        masks: Sequence[tuple[str, Any, float, How]],
        category: str | None = None,
    ) -> None:
        """Add objects that begin with masks on a frame."""
        objects = []
        for name, mask, score, how in masks:
            packed = PackedMask.of(mask)
            kept = {frame: Mask(packed, score, how)}
            objects.append(
                replace(self.new_object(prompts=(Start(1, frame, packed),), masks=kept), name=name)
            )
        if category:
            self._add_classed(title, [(one, category) for one in objects])
            self._select(None)
        else:
            self._begin(title, *objects, select=len(objects) == 1)
        self._send_masks(frame)
        self.broadcast(self._asks[1])

    def _add_classed(self, title: str, objects: Sequence[tuple[Object, str]]) -> None:
        """Add objects of the classes with these names, which are made if they are not there."""

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            document, added = self.document, []
            for one, name in objects:
                if name:
                    project, made = self.with_class(project, name)
                    one = replace(one, class_number=made.number)
                added.append(one)
            document = document.with_objects(*numbered(document, added, project))
            return project, {self.key: document}

        self.project.edit_all(change, self._doing, title, by_view(*self._asks))

    def frame_of(self, frame: int | None) -> int:
        """Return a frame of the clip that a gesture names."""
        if frame is None:
            raise InvalidArgumentError(f"frame: expected 0 to {self.count - 1}, found none")
        self._check_frame(frame)
        return frame

    def on_masks(self, frame: int) -> None:
        """Tell views of the masks of a frame."""
        self._send_masks(frame)

    def merged(self, first: Object, others: Sequence[Object]) -> Object:
        """Return an object with the masks of others too, from which tracking can go on."""
        masks = dict(first.masks)
        for frame in sorted({frame for one in others for frame in one.masks}):
            known = [o.masks[frame] for o in (first, *others) if frame in o.masks]
            pixels = np.logical_or.reduce([mask.to_mask() for mask in known])
            how: How = next((mask.how for mask in known if mask.how in HELD), known[0].how)
            score = min(mask.score for mask in known)
            masks[frame] = Mask(PackedMask.of(pixels), score, how, first.version)
        starts = sorted({each.frame for o in (first, *others) for each in o.prompts})
        prompts: list[Prompt] = []
        for frame in starts:
            if frame in masks:
                prompts.append(Start(len(prompts) + 1, frame, masks[frame].packed))
        return replace(first, masks=masks, prompts=tuple(prompts))

    def answer_again(self, title: str, one: Object, given: tuple[Prompt, ...], number: int) -> None:
        """Answer other prompts of an object on the frame of the one that has changed."""
        frame = next(each.frame for each in one.prompts if each.number == number)
        self._tell_all()
        if self._told.pop(one.number, None) is not None:
            self._video.remove_object(one.number)
        masks = {at: mask for at, mask in one.masks.items() if at != frame}
        changed = replace(one, prompts=given)
        strokes = changed.strokes_on(frame)
        if any(isinstance(each, (Point, BoxPrompt, Start)) for each in given):
            self._tell_predictor(one.number, given, ())
            self._told[one.number] = given
        if any(isinstance(o, (Point, BoxPrompt, Start)) and o.frame == frame for o in given):
            answer = PackedMask.of(self._video.frame(frame).masks[one.number])
            packed = self.composed(answer, one.number, frame, strokes)
            masks[frame] = Mask(packed, 1.0, "hand" if strokes else "click")
        elif strokes:
            pixels = np.zeros(self.hw, np.bool_)
            for stroke in strokes:
                stroke.over(pixels)
            masks[frame] = Mask(PackedMask.of(pixels), 1.0, "hand")
        if given or masks:
            self._put(title, replace(changed, masks=masks))
        else:
            self._edit(title, lambda document: document.without(one.number))
            if self.current == one.number:
                self._select(None)
        self._send_masks(frame)
        self.broadcast(self._asks[1])

    def _tell_all(self) -> None:
        """Tell the predictor what it does not know, after an undo, a redo, or a new start."""
        if self._stale and not self._running:
            self._stale = False
            self._told.clear()
            self._video.reset()
        wanted = {one.number: one.prompts for one in self.tracks if one.prompts}
        for number, known in list(self._told.items()):
            if wanted.get(number, ())[: len(known)] != known:
                self._video.remove_object(number)
                del self._told[number]
        for number, given in wanted.items():
            known = self._told.get(number, ())
            self._tell_predictor(number, given[len(known) :], known)
            self._told[number] = given

    def _tell_predictor(
        self, number: int, more: Sequence[Prompt], known: tuple[Prompt, ...]
    ) -> None:
        """Say prompts one after the other: each corrects the mask of those before it."""
        for prompt in more:
            known = (*known, prompt)
            if isinstance(prompt, Start):
                mask = prompt.mask.to_mask()
                self._video.add_prompt(prompt.frame, number, mask=mask)
                continue
            if isinstance(prompt, Stroke):
                known_object = self.document.get(number)
                painted = None if known_object is None else known_object.masks.get(prompt.frame)
                if painted is not None:
                    self._video.add_prompt(prompt.frame, number, mask=painted.to_mask())
                continue
            if not isinstance(prompt, (Point, BoxPrompt)):
                continue
            one = Object(number, "", UNCOLORED, prompts=known)
            points = one.points_on(prompt.frame)
            box = one.box_on(prompt.frame)
            self._video.add_prompt(
                prompt.frame,
                number,
                point_coords=[[point.x, point.y] for point in points] or None,
                point_labels=[point.label for point in points] or None,
                box=None if box is None else list(box),
            )

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Show masks that came or went; what the predictor made of them is not kept."""
        frames = {
            change.key[1]
            for change in changes
            if isinstance(change.key, tuple) and change.document == self.key
        }
        numbers = {
            change.key
            for change in changes
            if change.what == "object" and None in (change.before, change.after)
        }
        for one in changes:
            if one.what == "object" and isinstance(one.before, Object):
                frames.update(one.before.masks)
        if len(frames) > 1 and not numbers:  # a tracking was undone or redone
            self._stop = self._stale = True
        for frame in sorted(frames):
            self._send_masks(frame)

    # ---------------------------------------------------------------- tracking

    @gesture("track all objects", edits=True)
    def do_propagate(
        self,
        frame: OptionalFrame = None,
        reverse: Flag = False,
        ended: FromPython = None,
    ) -> None:
        """Begin to track all objects; goes on frame by frame while nothing else waits."""
        with_prompts = [one for one in self.tracks if one.prompts]
        if not with_prompts:
            raise InvalidArgumentError("propagate: expected an object, found none")
        if frame is not None:
            self._check_frame(frame)
        first = min(prompt.frame for one in with_prompts for prompt in one.prompts)
        begin = first if frame is None else frame
        way = _Way(begin, 0 if reverse else self.count - 1, frame, whole=True)
        self._begin_tracking([way], {one.number for one in with_prompts}, ended)

    @gesture("track", key="T")
    def do_track(
        self,
        frame: OptionalFrame = None,
        to: OptionalFrame = None,
        both: Flag = True,
        object: OptionalNumber = None,
        ended: FromPython = None,
    ) -> None:
        """Track objects that are not locked from a frame on, both ways, or to another frame.

        It goes on frame by frame while nothing else waits. No mask that a person made or checked
        changes; from a frame on none beyond it does. By default all objects from their first prompt
        on, through the whole clip.
        """
        chosen = [o for o in self.tracks if o.prompts and not o.locked]
        if object is not None:
            chosen = [one for one in (self._free(object),) if one.prompts]
        if not chosen:
            raise InvalidArgumentError("track: expected an object with a prompt, found none")
        first = min(prompt.frame for one in chosen for prompt in one.prompts)
        begin = self.frame_of(first if frame is None else frame)
        ends = [self.count - 1, *([0] if both else [])] if to is None else [self.frame_of(to)]
        ways = [
            _Way(begin, end, begin, whole=frame is None)
            for end in ends
            if end != begin or len(ends) == 1
        ]
        self._begin_tracking(ways, {one.number for one in chosen}, ended)

    def _begin_tracking(
        self, ways: Sequence["_Way"], numbers: set[int], ended: Callable[[Any], None] | None
    ) -> None:
        self._worker.end_steps()  # of a tracking that goes on: whoever waits for it is told
        self._tell_all()
        total = sum(way.length for way in ways)
        self._stop, self._running = False, True
        self._progress(0, total, self._asks[1])
        steps = self._steps(ways, total, numbers)
        self.begin_steps(steps, self._end_tracking, ended)

    def _steps(
        self,
        ways: Sequence["_Way"],
        total: int,
        numbers: set[int],
    ) -> Iterator[None]:
        done, edit, written = 0, 0, time.monotonic()
        for way in ways:
            held = {number: self._held_on(number, way) for number in numbers}
            to_the_end = way.end in (0, self.count - 1)
            for frame in self._video.propagate(
                start_frame=way.start,
                max_frames=None if to_the_end else way.length,
                reverse=way.end < way.begin,
            ):
                done += 1
                counted = _counted(len(numbers), "object")
                title = f"tracking of {counted}, {_counted(done, 'frame')}"
                edit = self._keep(frame, edit, title, way, held)
                written = self._written_by(written)
                self._progress(done, total, None)
                if edit < 0 or self._stop:  # it was undone, or stopped
                    return
                yield
                if self._stop:
                    return

    def _written_by(self, last: float) -> float:
        """Write and show what was tracked so far, if the last time is a while ago; return when."""
        if time.monotonic() - last <= _WRITE_EACH:
            return last
        self.project.write()
        now = time.monotonic()
        self.broadcast(None)
        return now

    def _end_tracking(self) -> None:
        """Write and show what was tracked."""
        self._running = False
        self.project.write()
        self._progress(*self._done, None)
        self._send_checks(None, None)
        self.broadcast(None)

    def _held_on(self, number: int, way: "_Way") -> int | None:
        """Return the frame that tracking of an object ends at: the next one that a person made.

        An object that begins on the way is followed from there.
        """
        one = self.document.get(number)
        if one is None or way.whole:
            return None
        steps = [way.steps_to(each.frame) for each in one.prompts]
        begin = 0 if min(steps) <= 0 else min(steps)
        held = [at for at, mask in one.masks.items() if mask.how in HELD]
        return min((at for at in held if way.steps_to(at) > begin), key=way.steps_to, default=None)

    def _keep(
        self,
        frame: VideoFrame,
        edit: int,
        title: str,
        way: "_Way",
        held: dict[int, int | None],
    ) -> int:
        """Add the masks of a frame to the edit of the tracking; return its number.

        0 while nothing was kept, -1 if the edit was taken back.
        """
        at = frame.frame_index
        found = {
            number: Mask(PackedMask.of(mask), _probability(frame.scores[number]), "tracked")
            for number, mask in frame.masks.items()
        }

        def change(document: Document) -> Document:
            return document.with_objects(
                *(
                    replace(one, masks={**one.masks, at: mask})
                    for one, mask in (
                        (one, replace(found[one.number], since=one.version))
                        for one in document.objects
                        if one.number in found and one.number in held
                    )
                    if not way.is_beyond(at, held[one.number])
                    and _may_track(one, at, mask)
                    and not (way.is_begin(at) and _vanishes(one, at, mask))
                )
            )

        if edit:
            kept = edit if self.project.extend(edit, change, self.key, title) else -1
        else:
            made = self.project.edit(self.key, change, "track", title)
            kept = 0 if made is None else made.n
        self._send_masks(at)
        for mask in found.values():
            mask.packed.fold()
        return kept

    @gesture("track by words")
    def do_track_text(
        self, text: Words, frame: OptionalFrame = None, ended: FromPython = None
    ) -> None:
        """Find and follow all that a text names, from a frame on, by default from the first one.

        What is found on later frames is followed too. Each becomes an object of the class with the
        name of the text. It goes on frame by frame while nothing else waits; what was found is one
        edit, also when it is stopped.
        """
        if not self.model.supports_text:
            raise UnsupportedError(
                f"text: expected a model of SAM 3, found one of {self.model.family}"
            )
        if not text:
            raise InvalidArgumentError("text: expected words, found none")
        if self._running:
            raise StateError("track_text: expected no tracking, found one that goes on")
        begin = self.frame_of(0 if frame is None else frame)
        finder = VideoPredictor(self.model, self._source, num_threads=self.num_threads)
        finder.add_text(text, frame_index=begin)
        self._stop, self._running = False, True
        self._progress(0, self.count - begin, self._asks[1])
        steps = self._text_steps(text, finder, begin)
        self.begin_steps(steps, self._end_tracking, ended)

    def _text_steps(self, text: str, finder: VideoPredictor, begin: int) -> Iterator[None]:
        done, edit, written = 0, 0, time.monotonic()
        numbers: dict[Hashable, int] = {}  # of the objects, by the names that the finder gives
        for found in finder.propagate(start_frame=begin):
            if self._stop:
                return
            done += 1
            title = f"tracking of {text}, {_counted(len(numbers), 'object')}"
            edit = self._keep_text(text, found, edit, title, numbers)
            written = self._written_by(written)
            self._progress(done, self.count - begin, None)
            if edit < 0:  # it was undone
                return
            yield
        if not numbers:
            said = f"Nothing found for '{text}' in {_counted(done, 'frame')}."
            self.send({"type": "note", "text": said, "about": "search"}, [], None)

    def _keep_text(
        self,
        text: str,
        found: VideoFrame,
        edit: int,
        title: str,
        numbers: dict[Hashable, int],
    ) -> int:
        """Add what a text found on a frame to its edit; return its number, as `_keep` does."""
        at = found.frame_index
        masks = {
            name: Mask(PackedMask.of(mask), float(found.scores[name]), "tracked")
            for name, mask in found.masks.items()
            if mask.any()
        }
        if not masks:
            return edit
        given: dict[Hashable, int] = {}

        def change(project: Project, document: Document) -> tuple[Project, Document]:
            project, of_class = self.with_class(project, text)
            for name, mask in masks.items():
                one = document.get(numbers.get(name))
                if one is not None and _may_track(one, at, mask):
                    kept = {**one.masks, at: replace(mask, since=one.version)}
                    document = document.with_objects(replace(one, masks=kept))
                elif name not in numbers:
                    new = Object(
                        0,
                        "",
                        UNCOLORED,
                        class_number=of_class.number,
                        prompts=(Start(1, at, mask.packed),),
                        masks={at: replace(mask, how="text")},
                    )
                    (one,) = numbered(document, [new], project)
                    given[name] = one.number
                    document = document.with_objects(one)
            return project, document

        kept = self._extend_or_begin(edit, change, title)
        numbers.update(given)
        self._send_masks(at)
        for mask in masks.values():
            mask.packed.fold()
        return kept

    def _extend_or_begin(
        self,
        edit: int,
        change: Callable[[Project, Document], tuple[Project, Document]],
        title: str,
    ) -> int:
        """Add to an edit, or begin it; return its number, 0 for none, -1 if it was taken back."""
        if edit:

            def more(document: Document) -> Document:
                return change(self.project.history.project, document)[1]

            return edit if self.project.extend(edit, more, self.key, title) else -1

        def first(project: Project) -> tuple[Project, dict[str, Document]]:
            project, document = change(project, self.document)
            return project, {self.key: document}

        made = self.project.edit_all(first, "track_text", title)
        return 0 if made is None else made.n

    def _progress(self, done: int, total: int, answer: Answer) -> None:
        self._done = (done, total)
        self.send(self._progress_head(answer), [], None)

    def _progress_head(self, answer: Answer) -> dict[str, Any]:
        done, total = self._done
        head = {"type": "progress", "done": done, "total": total, "running": self._running}
        return {**head, "answer": answer}

    def on_stop(self) -> None:
        """End tracking after its current frame."""
        self._stop = True

    # ---------------------------------------------------------------- what tracking made

    @gesture("gone from here on")
    def do_gone(self, frame: Frame, object: OptionalNumber = None) -> None:
        """Say that an object is out of sight from a frame on, until a later prompt of it."""
        one = self._free(object)
        self._check_frame(frame)
        gone = replace(one, prompts=(*one.prompts, Gone(one.next_prompt, frame)))
        masks = {at: mask for at, mask in one.masks.items() if not _is_gone(gone, at)}
        self._change_masks(f"{one.name} is gone from frame {frame} on", replace(gone, masks=masks))

    @gesture("right", key="Y")
    def do_right(
        self, frame: Frame, to: OptionalFrame = None, object: OptionalNumber = None
    ) -> None:
        """Say that masks are right, on a frame or up to another one: tracking leaves them alone."""
        one = self._object(object)
        first, last = self._range(frame, to)
        masks = {
            at: replace(mask, how="checked")
            if first <= at <= last and mask.how not in HELD
            else mask
            for at, mask in one.masks.items()
        }
        self._change_masks(f"{one.name} is right", replace(one, masks=masks))
        self._send_checks(None, None)

    @gesture("split the track")
    def do_split_track(self, frame: Frame, object: OptionalNumber = None) -> None:
        """Make what an object is from a frame on another object."""
        one = self._free(object)
        self._check_frame(frame)
        later = {at: mask for at, mask in one.masks.items() if at >= frame}
        earlier = {at: mask for at, mask in one.masks.items() if at < frame}
        if not later or not earlier:
            raise InvalidArgumentError(
                f"frame: expected masks of {one.name} before {frame} and from it on, found none"
            )
        begin = min(later)
        prompts: tuple[Prompt, ...] = (Start(1, begin, later[begin].packed),)
        prompts += tuple(
            replace(each, number=at + 2)
            for at, each in enumerate(each for each in one.prompts if each.frame > begin)
        )
        other = replace(
            self.new_object(prompts=prompts, masks=later),
            class_number=one.class_number,
            asked=one.asked,
        )
        rest = replace(
            one, prompts=tuple(each for each in one.prompts if each.frame < frame), masks=earlier
        )

        def change(document: Document) -> Document:
            document = document.with_objects(rest)
            return document.with_objects(*self._numbered(document, [other]))

        self._edit(f"split {one.name} at frame {frame}", change)
        for at in sorted(later):
            self._send_masks(at)
        self.broadcast(self._asks[1])

    @gesture("take masks away")
    def do_remove_masks(
        self, frame: Frame, to: OptionalFrame = None, object: OptionalNumber = None
    ) -> None:
        """Take masks and prompts of an object away, on a frame or up to another one."""
        one = self._free(object)
        first, last = self._range(frame, to)
        masks = {at: mask for at, mask in one.masks.items() if not first <= at <= last}
        prompts = tuple(each for each in one.prompts if not first <= each.frame <= last)
        changed = replace(one, masks=masks, prompts=prompts)
        self._change_masks(f"take masks of {one.name} away", changed)

    def _range(self, frame: int, to: int | None) -> tuple[int, int]:
        self._check_frame(frame)
        last = frame if to is None else to
        self._check_frame(last)
        return min(frame, last), max(frame, last)

    def _change_masks(self, title: str, one: Object) -> None:
        """Put an object with other masks, and tell views of them."""
        before = self.document.get(one.number)
        self._put(title, one)
        known = {} if before is None else before.masks
        changed = [at for at in {*known, *one.masks} if known.get(at) is not one.masks.get(at)]
        for at in sorted(changed):
            self._send_masks(at)
        self.broadcast(self._asks[1])

    def checks(self) -> list[Finding]:
        """Return what a person should look at, the worst first."""
        return to_check(self.tracks)

    @gesture("what to check", key="N", edits=False)
    def do_check(self) -> list[Finding]:
        """Tell a view what should be looked at, with a reason each."""
        return self._send_checks(*self._asks)

    def _send_checks(self, view: str | None, answer: Answer) -> list[Finding]:
        found = self.checks()
        rows = [
            {"object": o.object, "frame": o.frame, "reason": o.reason, "text": o.text}
            for o in found
        ]
        self.send({"type": "checks", "rows": rows, "answer": answer}, [], view)
        return found

    # ---------------------------------------------------------------- files

    def annotated(self) -> AnnotatedClip:
        """Return the clip with its objects."""
        project = self.project.history.project
        return AnnotatedClip(self.name, self.key, self.hw, self.count, self.document, project)

    @gesture("export", edits=False)
    def do_export(self, format: Words) -> ExportedFile:
        """Write the objects as a file."""
        file = export_clip(format, self.annotated())
        self._hand_over(file.name, file.mime, file.contents)
        return file

    def work(self, images: str, classes: Sequence[str] | None) -> Work:
        """Return the clip that an export writes."""

        def clip(stills: tuple[Still, ...]) -> Clip:
            return Clip(self.name, self.hw, self.count, self.rate, stills, self.key, self.read)

        project = self.project.history.project
        return clip_work(project, self.document, clip, self.name, self.hw, self.read, classes)

    def size_named(self, name: str) -> tuple[int, int] | None:
        """Return the size of the clip for the name of a frame."""
        height, width = self.hw
        return height, width

    def placed(self, found: Sequence[FoundStill]) -> Placed:
        """Return the objects of frames, joined by their tracks."""
        placed = Placed()
        tracks: dict[str, tuple[Object, str]] = {}
        for at, found_still in enumerate(found):
            frame = self._frame_named(found_still)
            placed.matched["frame"] += 1
            for one in found_still.objects:
                if one.mask.hw != self.hw:
                    raise InvalidArgumentError(
                        f"frame {frame}: expected masks of {self.hw}, found {one.mask.hw}"
                    )
                key = one.track or f"{at} {len(tracks)}"
                known = tracks[key][0] if key in tracks else without_number(one)
                masks = {**known.masks, frame: Mask(one.mask, 1.0, "file")}
                prompts = known.prompts or (Start(1, frame, one.mask),)
                tracks[key] = replace(known, masks=masks, prompts=prompts), one.category
        if tracks:
            placed.objects[self.key] = list(tracks.values())
        return placed

    def _frame_named(self, still: FoundStill) -> int:
        """Return the frame of a still: its number, or that of its name."""
        digits = Path(still.name).stem
        number = int(digits) if digits.isdigit() and len(digits) < 9 else -1
        frame = still.frame if still.frame is not None else number
        if not 0 <= frame < self.count:
            raise InvalidArgumentError(f"frame: expected 0 to {self.count - 1}, found {frame}")
        return frame

    def on_imported(self) -> None:
        """Tell views of the masks of all frames."""
        for frame in self.known_frames():
            self._send_masks(frame)

    @gesture("load objects")
    def do_load(self, name: Words, contents: Contents) -> list[str]:
        """Add the objects of a COCO document of this clip; return an empty list."""
        objects = read_clip(name, contents, self.annotated())
        self._add_classed(f"load {name}", objects)
        self._select(None)
        for frame in self.known_frames():
            self._send_masks(frame)
        self.broadcast(self._asks[1])
        return []

    # ---------------------------------------------------------------- views

    @gesture("show a frame", edits=False, later=True)
    def do_frame(self, frame: Frame) -> None:
        """Send a view a frame with its masks."""
        self._check_frame(frame)
        image = encoded(shrunk(self.read(frame), _SHOWN), "JPEG")
        view, answer = self._asks
        with self._lock:
            heads, bits = self._masks_of(frame)
            head = {"type": "frame", "frame": frame, "masks": heads, "answer": answer}
            self.send(head, [image, *bits], view)

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the size of the video and all objects; it asks for frames."""
        head = {
            **clip_head(self.hw, self.count, self.model.supports_text),
            "key": self.key,
            "answer": answer,
        }
        with self._lock:
            self.send(self.about_head(), [], view)
            self.send(head, [], view)
            self.send_project(view, whole=True)
            self.send(self._state(None, whole=True), [], view)
            self.note_described(view)
            self.send(self._lanes_head(), [], view)
            self.send(self._progress_head(None), [], view)
            self._send_checks(view, None)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click on this frame would begin or change."""
        point, label = fields.position(head), fields.label(head)
        frame = fields.integer(head, "frame", 0, self.count - 1)
        mask, score = self._previewed(
            self.selected or Object(0, "", UNCOLORED), frame, point, label
        )
        message = {"type": "hover", "mask": mask.head(0), "score": score, "frame": frame}
        self.send({**message, "answer": answer}, [mask.bits], view)

    def _previewed(
        self, one: Object, frame: int, point: tuple[float, float], label: int
    ) -> tuple[PackedMask, float]:
        """Return what a click gives, at the size of a preview; nothing of a locked object."""
        if one.locked:
            return PackedMask(preview_hw(self.hw), (0, 0, 0, 0), b""), 0.0
        points = one.points_on(frame)
        prompts = prompts_of(
            [*((each.x, each.y) for each in points), point],
            [*(each.label for each in points), label],
            one.box_on(frame),
        )
        mask, score = self._clicks_on(frame).hover(prompts)
        return self.composed_small(mask, one, frame), score

    def _clicks_on(self, frame: int) -> Clicks:
        """Return predictors that have encoded a frame."""
        if self._clicks is None:
            self._clicks = Clicks(self.model, self.num_threads)
        if self._clicks_frame != frame:
            self._clicks.set_image(self.read(frame))
            self._clicks_frame = frame
        return self._clicks

    def _masks_of(self, frame: int) -> tuple[list[dict[str, Any]], list[bytes]]:
        small = preview_hw(self.hw)
        known = {o.number: o.masks[frame].how for o in self.tracks if frame in o.masks}
        heads, bits = [], []
        for number, mask in self.masks(frame).items():
            shown = mask if small == self.hw else PackedMask.of(sampled(mask, small))
            how = known[number]
            heads.append({**shown.head(0), "object": number, "how": how})
            bits.append(shown.bits)
        return heads, bits

    def _send_masks(self, frame: int) -> None:
        with self._lock:
            heads, bits = self._masks_of(frame)
            self.send({"type": "masks", "frame": frame, "masks": heads}, bits, None)

    def broadcast(self, answer: Answer) -> None:
        """Send all views the objects."""
        with self._lock:
            self.revision += 1
            self.send_project(None)
            self.send(self._state(answer, whole=not self.sees_edits(None)), [], None)  # the last
            self.note_described(None)
        self.publish()

    def _state(self, answer: Answer, *, whole: bool) -> dict[str, Any]:
        kind, objects, gone = self.objects_head(whole=whole)
        return {
            "type": kind,
            "revision": self.revision,
            **self.project_head(),
            "answers": [],
            "objects": [described(track) for track in objects],
            "gone": gone,
            "masks": [],
            "answer": answer,
        }

    def queue_rows(self, *, shown_alone: bool = False) -> dict[int, dict[str, Any]]:
        """Return what views are told of the clip."""
        return {0: self.item_row(0, self.key, self.name)}

    def _lanes_head(self) -> dict[str, Any]:
        """Return what is known of each frame of each object, for a timeline."""
        lanes = [
            {
                "object": one.number,
                "frames": [[at, _LETTERS[one.masks[at].how]] for at in sorted(one.masks)],
                "gone": [each.frame for each in one.prompts if isinstance(each, Gone)],
            }
            for one in self.tracks
        ]
        return {"type": "lanes", "lanes": lanes}


@dataclass(frozen=True)
class _Way:
    """The frames that a tracking goes through, from `begin` to `end`.

    `start` is what the predictor is asked for: None for the earliest frame that it knows. `whole`:
    it goes on behind masks that a person made.
    """

    begin: int
    end: int
    start: int | None
    whole: bool

    @property
    def length(self) -> int:
        return abs(self.end - self.begin) + 1

    def steps_to(self, frame: int) -> int:
        """Return how many frames lie between the begin and a frame; below 0 behind the begin."""
        return frame - self.begin if self.end >= self.begin else self.begin - frame

    def is_begin(self, frame: int) -> bool:
        """Tell whether a frame is the one that a person sees and tracks from."""
        return frame == self.begin and not self.whole

    def is_beyond(self, frame: int, held: int | None) -> bool:
        """Tell whether a frame comes after another one on the way."""
        return held is not None and self.steps_to(frame) > self.steps_to(held)


def _may_track(one: Object, frame: int, found: Mask) -> bool:
    """Tell whether tracking gives an object a mask on a frame.

    Not where a person made one or said that it is right, where the object is gone, or is locked.
    """
    if one.locked or _is_gone(one, frame):
        return False
    known = one.masks.get(frame)
    if known is None or known.how in HELD:
        return known is None
    return known.packed != found.packed or (known.how == "tracked" and known.since != found.since)


def _vanishes(one: Object, frame: int, found: Mask) -> bool:
    """Tell whether an object would lose its mask on a frame.

    The tracker gives objects without a prompt an empty mask where another one has a prompt.
    """
    known = one.masks.get(frame)
    return found.packed.is_empty and known is not None and not known.packed.is_empty


def _is_gone(one: Object, frame: int) -> bool:
    """Tell whether the last that a person said of an object up to a frame is that it is gone."""
    said = [each for each in one.prompts if each.frame <= frame]
    last = max(said, key=lambda each: (each.frame, each.number), default=None)
    return isinstance(last, Gone)


def _probability(score: float) -> float:
    """Return the probability of being seen, from its logit."""
    return float(1.0 / (1.0 + np.exp(-np.float64(score))))


def _begun(item: Item) -> State:
    return "begun" if item.state in ("new", "unreadable") else item.state


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
