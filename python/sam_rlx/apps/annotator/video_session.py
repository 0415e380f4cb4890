"""Objects of a video by clicks and boxes on any frame, and tracking from there."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import open_frames
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clip_export import AnnotatedClip, export_clip, read_clip
from sam_rlx.apps.annotator.clip_items import clip_item
from sam_rlx.apps.annotator.described import described
from sam_rlx.apps.annotator.export import ExportedFile
from sam_rlx.apps.annotator.export_gestures import Placed, without_number
from sam_rlx.apps.annotator.exports.collect import clip_work
from sam_rlx.apps.annotator.exports.work import Clip, Still, Work
from sam_rlx.apps.annotator.gestures import (
    BoxField,
    Contents,
    Coordinate,
    Frame,
    FromPython,
    Label,
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
from sam_rlx.apps.annotator.tracking import Tracking
from sam_rlx.apps.annotator.tracks import HELD, clip_head, sampled
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
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model
from sam_rlx.video import VideoPredictor

_SHOWN = 1024  # longest side of the frames that views get
_RATE = 25.0  # frames a second of a clip that says none
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


class VideoSession(Tracking):
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
        self._source = source
        self._predictor: VideoPredictor | None = predictor
        self._clicks: Clicks | None = None
        self._clicks_frame = -1
        self._told: dict[int, tuple[Prompt, ...]] = {}  # what the predictor knows, by number
        self._stale = False  # whether the predictor remembers a tracking that was undone
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


def _begun(item: Item) -> State:
    return "begun" if item.state in ("new", "unreadable") else item.state
