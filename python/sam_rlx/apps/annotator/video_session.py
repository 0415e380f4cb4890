"""Objects of a video by clicks and boxes on any frame, and tracking from there."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.media.frames import FrameSource, open_frames
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clip_export import AnnotatedClip, export_clip, read_clip
from sam_rlx.apps.annotator.clip_items import clip_item
from sam_rlx.apps.annotator.export import ExportedFile
from sam_rlx.apps.annotator.gestures import (
    BoxField,
    Contents,
    Coordinate,
    Flag,
    Frame,
    FromPython,
    Label,
    OptionalFrame,
    Threshold,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.apps.annotator.predict import Clicks, preview_hw, prompts_of
from sam_rlx.apps.annotator.projects import OpenProject
from sam_rlx.apps.annotator.session import (
    UNCOLORED,
    Answer,
    Send,
    Session,
    mask_of_size,
    still,
)
from sam_rlx.apps.annotator.sources import encoded, shrunk
from sam_rlx.apps.annotator.tracks import clip_head, described, sampled
from sam_rlx.apps.annotator.values import (
    BoxPrompt,
    Change,
    Document,
    How,
    Mask,
    Object,
    PackedMask,
    Point,
    Prompt,
    Start,
)
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model
from sam_rlx.video import VideoFrame, VideoPredictor

_SHOWN = 1024  # longest side of the frames that views get
_WRITE_EACH = 1.0  # seconds of tracking that a kill may take back
_HELD = ("hand", "checked")  # masks that tracking leaves alone


class VideoSession(Session):
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
    """

    after_close: ClassVar[frozenset[str]] = frozenset(("export",))

    def __init__(
        self,
        model: Model,
        frames: Any,
        *,
        project: OpenProject | None = None,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
    ) -> None:
        source = open_frames(frames)
        if source.count is None:
            raise InvalidArgumentError("frames: expected a known length, found an iterator")
        predictor = VideoPredictor(model, source, num_threads=num_threads)
        super().__init__(project or OpenProject(), send, changed)
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
        item = clip_item(source, self.hw)
        self.key, self.name = item.key, item.path
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
        one = self.selected or Object(0, "", UNCOLORED)
        count = len(one.points_on(frame)) + 1
        fields.at_most("click: points of an object", count, MAX_POINTS)
        self._prompt(one, Point(one.next_prompt, frame, x, y, label))

    @gesture("box", key="drag")
    def do_box(self, frame: Frame, box: BoxField) -> None:
        """Give the current object a box on a frame, or begin an object."""
        self._check_frame(frame)
        one = self.selected or Object(0, "", UNCOLORED)
        self._prompt(one, BoxPrompt(one.next_prompt, frame, box))

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
        self._begin_with(frame, "begin with a mask", [(named, mask, 1.0, "hand")])

    @gesture("find by words")
    def do_text(self, frame: Frame, text: Words, threshold: Threshold = 0.5) -> None:
        """Find all that a text names on a frame; each becomes an object that tracking follows."""
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
        )

    def _begin_with(
        self, frame: int, title: str, masks: Sequence[tuple[str, Any, float, How]]
    ) -> None:
        """Add objects that begin with masks on a frame."""
        objects = []
        for name, mask, score, how in masks:
            packed = PackedMask.of(mask)
            kept = {frame: Mask(packed, score, how)}
            objects.append(
                Object(0, name, UNCOLORED, prompts=(Start(1, frame, packed),), masks=kept)
            )
        self._begin(title, *objects, select=len(objects) == 1)
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

    @gesture("track all objects from here", key="T")
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
        self._tell_all()
        first = min(prompt.frame for one in with_prompts for prompt in one.prompts)
        begin = first if frame is None else frame
        total = begin + 1 if reverse else self.count - begin
        steps = self._video.propagate(start_frame=frame, reverse=reverse)
        self._stop, self._running = False, True
        self._progress(0, total, self._asks[1])
        self._worker.start(self._steps(steps, total, len(with_prompts), ended))

    def _steps(
        self,
        frames: Iterator[VideoFrame],
        total: int,
        count: int,
        ended: Callable[[Any], None] | None,
    ) -> Iterator[None]:
        error: Exception | None = None
        done, edit, written = 0, 0, time.monotonic()
        try:
            while not self._stop:
                frame = next(frames, None)
                if frame is None:
                    break
                done += 1
                title = f"tracking of {_counted(count, 'object')}, {_counted(done, 'frame')}"
                edit = self._keep(frame, edit, title)
                if edit < 0:  # it was undone
                    break
                if time.monotonic() - written > _WRITE_EACH:
                    self.project.write()
                    written = time.monotonic()
                self._progress(done, total, None)
                yield
        except Exception as found:  # whoever waits is told, and all views
            error = found
            self._tell(found, None, None)
        finally:
            self._running = False
            self.project.write()
            self._progress(done, total, None)
            self.broadcast(None)
            if ended is not None:
                ended(error)

    def _keep(self, frame: VideoFrame, edit: int, title: str) -> int:
        """Add the masks of a frame to the edit of the tracking; return its number.

        0 while nothing was kept, -1 if the edit was taken back.
        """
        at = frame.frame_index
        found = {number: PackedMask.of(mask) for number, mask in frame.masks.items()}

        def change(document: Document) -> Document:
            return document.with_objects(
                *(
                    replace(one, masks={**one.masks, at: Mask(found[one.number], 1.0, "tracked")})
                    for one in document.objects
                    if one.number in found and _may_track(one, at, found[one.number])
                )
            )

        if edit:
            kept = edit if self.project.extend(edit, change, self.key, title) else -1
        else:
            made = self.project.edit(self.key, change, "propagate", title)
            kept = 0 if made is None else made.n
        self._send_masks(at)
        return kept

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

    # ---------------------------------------------------------------- files

    def annotated(self) -> AnnotatedClip:
        """Return the clip with its objects."""
        return AnnotatedClip(self.name, self.key, self.hw, self.count, self.document)

    @gesture("export", key="Ctrl+E", edits=False)
    def do_export(self, format: Words) -> ExportedFile:
        """Write the objects as a file."""
        file = export_clip(format, self.annotated())
        self._hand_over(file.name, file.mime, file.contents)
        return file

    @gesture("load objects")
    def do_load(self, name: Words, contents: Contents) -> list[str]:
        """Add the objects of a COCO document of this clip; return an empty list."""
        objects = read_clip(name, contents, self.annotated())
        self._begin(f"load {name}", *objects, select=False)
        self._select(None)
        for frame in self.known_frames():
            self._send_masks(frame)
        self.broadcast(self._asks[1])
        return []

    # ---------------------------------------------------------------- views

    @gesture("show a frame", edits=False)
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
        head = {**clip_head(self.hw, self.count), "key": self.key, "answer": answer}
        with self._lock:
            self.send(self.about_head(), [], view)
            self.send(head, [], view)
            self.send(self._state(None), [], view)
            self.send(self._progress_head(None), [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click on this frame would begin or change."""
        point, label = fields.position(head), fields.label(head)
        frame = fields.integer(head, "frame", 0, self.count - 1)
        if self._running:
            raise UnsupportedError("hover: expected a still video, found tracking at work")
        clicks = self._clicks_on(frame)
        one = self.selected or Object(0, "", UNCOLORED)
        points = one.points_on(frame)
        prompts = prompts_of(
            [*((each.x, each.y) for each in points), point],
            [*(each.label for each in points), label],
            one.box_on(frame),
        )
        mask, score = clicks.hover(prompts)
        message = {"type": "hover", "mask": mask.head(0), "score": score, "frame": frame}
        self.send({**message, "answer": answer}, [mask.bits], view)

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
        heads, bits = [], []
        for number, mask in self.masks(frame).items():
            shown = mask if small == self.hw else PackedMask.of(sampled(mask, small))
            heads.append({**shown.head(0), "object": number})
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
            self.send(self._state(answer), [], None)
        self.publish()

    def _state(self, answer: Answer) -> dict[str, Any]:
        return {
            "type": "state",
            "revision": self.revision,
            **self.project_head(),
            "objects": [described(track) for track in self.tracks],
            "masks": [],
            "answer": answer,
        }


def _may_track(one: Object, frame: int, found: PackedMask) -> bool:
    """Tell whether tracking gives an object a mask on a frame: there is none that a person made."""
    known = one.masks.get(frame)
    return known is None or (known.how not in _HELD and known.packed != found)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
