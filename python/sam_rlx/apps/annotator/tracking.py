"""Tracking objects and texts through a clip, frame by frame."""

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sam_rlx._internal.media.frames import FrameSource
from sam_rlx.apps.annotator.gestures import (
    Flag,
    FromPython,
    OptionalFrame,
    OptionalNumber,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.session import UNCOLORED, Answer, numbered
from sam_rlx.apps.annotator.track_gestures import TrackGestures, is_gone
from sam_rlx.apps.annotator.tracks import HELD
from sam_rlx.apps.annotator.values import Document, Mask, Object, PackedMask, Project, Start
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.video import VideoFrame, VideoPredictor

_WRITE_EACH = 1.0  # seconds of tracking that a kill may take back


class Tracking(TrackGestures):
    """Masks of a predictor, which tracks while nothing else waits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._source: FrameSource | None = None
        self._stop = False
        self._running = False
        self._done = (0, 0)

    @property
    def _video(self) -> VideoPredictor:
        raise NotImplementedError

    def _tell_all(self) -> None:
        """Tell the predictor what it does not know, after an undo, a redo, or a new start."""
        raise NotImplementedError

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
        way = Way(begin, 0 if reverse else self.count - 1, frame, whole=True)
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
            Way(begin, end, begin, whole=frame is None)
            for end in ends
            if end != begin or len(ends) == 1
        ]
        self._begin_tracking(ways, {one.number for one in chosen}, ended)

    def _begin_tracking(
        self, ways: Sequence["Way"], numbers: set[int], ended: Callable[[Any], None] | None
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
        ways: Sequence["Way"],
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

    def _held_on(self, number: int, way: "Way") -> int | None:
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
        way: "Way",
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


@dataclass(frozen=True)
class Way:
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
        """How many frames that are."""
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
    if one.locked or is_gone(one, frame):
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


def _probability(score: float) -> float:
    """Return the probability of being seen, from its logit."""
    return float(1.0 / (1.0 + np.exp(-np.float64(score))))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
