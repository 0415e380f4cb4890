"""Objects of a video by clicks and boxes on any frame, and tracking from there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import viz
from sam_rlx._internal.media.frames import FrameSource, open_frames
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.clicks import Clicks, preview_hw, prompts_of
from sam_rlx.apps.annotator.limits import MAX_OBJECTS, MAX_POINTS, MAX_UNDO
from sam_rlx.apps.annotator.masks import PackedMask
from sam_rlx.apps.annotator.session import Answer, Send, Session, still
from sam_rlx.apps.annotator.sources import encoded, shrunk
from sam_rlx.apps.annotator.tracks import FramePrompts, Track, clip_head, described, sampled
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model
from sam_rlx.video import VideoFrame, VideoPredictor

_State: TypeAlias = tuple[tuple[Track, ...], int | None]
_SHOWN = 1024  # longest side of the frames that views get


class VideoSession(Session):
    """Interactive tracking. Frames, prompts and masks have one order, in a thread of its own.

    Parameters
    ----------
    model : Model
        Of SAM 2, or of SAM 3 with the tracker.
    frames : path, folder, array or sequence of images
        As for `VideoPredictor`, of known length.
    send, changed
        As for `Session`.
    num_threads : int, optional
        As for `VideoPredictor`.
    """

    handlers: ClassVar[dict[str, str]] = {
        kind: f"do_{kind}"
        for kind in (
            *("frame", "click", "box", "undo", "redo", "delete", "commit", "cancel", "select"),
            *("rename", "recolor", "propagate"),
        )
    }

    def __init__(
        self,
        model: Model,
        frames: Any,
        *,
        send: Send | None = None,
        changed: Callable[[int], None] | None = None,
        num_threads: int | None = None,
    ) -> None:
        super().__init__(send, changed)
        source = open_frames(frames)
        if source.count is None:
            raise InvalidArgumentError("frames: expected a known length, found an iterator")
        self.model = model
        self.count = source.count
        self._source: FrameSource | None = source
        self._predictor: VideoPredictor | None = VideoPredictor(
            model, source, num_threads=num_threads
        )
        self._num_threads = num_threads
        self._clicks: Clicks | None = None
        self._clicks_frame = -1
        self._tracks: tuple[Track, ...] = ()
        self._current: int | None = None
        self._next = 1
        self._undo: list[_State] = []
        self._redo: list[_State] = []
        self._masks: dict[int, dict[int, PackedMask]] = {}  # by frame and number of the object
        self._stop = False
        self._running = False
        self._done = (0, 0)
        first = source.read(0)
        self.hw = (first.shape[0], first.shape[1])

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The objects."""
        return self._tracks

    @property
    def current(self) -> int | None:
        """Index of the object that prompts change."""
        return self._current

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
        with self._lock:
            return dict(self._masks.get(frame, {}))

    def known_frames(self) -> list[int]:
        """Return the numbers of the frames with masks."""
        with self._lock:
            return sorted(frame for frame, masks in self._masks.items() if masks)

    # ---------------------------------------------------------------- gestures

    def do_click(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Add a point to the current object on a frame, or begin an object."""
        point, label = fields.position(values), fields.label(values)
        frame = self._frame(values)
        track = self._with_current()
        given = track.prompts.get(frame, FramePrompts())
        fields.at_most("click: points of an object", len(given.points) + 1, MAX_POINTS)
        changed = replace(given, points=(*given.points, point), labels=(*given.labels, label))
        self._prompt(track, frame, changed, answer)

    def do_box(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give the current object a box on a frame, or begin an object."""
        box = fields.box(values.get("box"))
        frame = self._frame(values)
        track = self._with_current()
        given = track.prompts.get(frame, FramePrompts())
        self._prompt(track, frame, replace(given, box=box), answer)

    def _frame(self, values: Mapping[str, Any]) -> int:
        return fields.integer(values, "frame", 0, self.count - 1)

    def _with_current(self) -> Track:
        if self._current is not None:
            return self._tracks[self._current]
        fields.at_most("objects", len(self._tracks) + 1, MAX_OBJECTS)
        return Track(self._next, f"object {self._next}", viz.color(self._next))

    def _prompt(self, track: Track, frame: int, prompts: FramePrompts, answer: Answer) -> None:
        self._tell_predictor(track.number, frame, prompts)
        changed = replace(track, steps=(*track.steps, (frame, prompts)))
        with self._lock:
            self._remember()
            if track in self._tracks:
                self._tracks = tuple(changed if one is track else one for one in self._tracks)
            else:
                self._tracks = (*self._tracks, changed)
                self._current = len(self._tracks) - 1
                self._next += 1
        self._keep(self._video.frame(frame))
        self._broadcast(answer)

    def _tell_predictor(self, number: int, frame: int, prompts: FramePrompts) -> None:
        points = [list(point) for point in prompts.points]
        self._video.add_prompt(
            frame,
            number,
            point_coords=points or None,
            point_labels=list(prompts.labels) or None,
            box=None if prompts.box is None else list(prompts.box),
        )

    def do_delete(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Forget an object; the others stay as they are."""
        index = fields.index(values, len(self._tracks), self._current)
        with self._lock:
            self._remember()
        current = None if self._current == index else self._current
        if current is not None and current > index:
            current -= 1
        self._become((self._tracks[:index] + self._tracks[index + 1 :], current), answer)

    def do_undo(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Take back the last prompt or change of an object."""
        self._move(self._undo, self._redo, answer)

    def do_redo(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Do again what was taken back."""
        self._move(self._redo, self._undo, answer)

    def _move(self, there: list[_State], back: list[_State], answer: Answer) -> None:
        if there:
            back.append((self._tracks, self._current))
            self._become(there.pop(), answer)
        else:
            self._broadcast(answer)

    def _remember(self) -> None:
        self._undo.append((self._tracks, self._current))
        del self._undo[:-MAX_UNDO]
        self._redo.clear()

    def _become(self, state: _State, answer: Answer) -> None:
        """Go to other objects: the predictor is told what differs.

        A prompt on a frame corrects the mask of the one before it. So what was said of an object is
        said again from the beginning, to a predictor that has forgotten it.
        """
        before = {track.number: track for track in self._tracks}
        after = {track.number: track for track in state[0]}
        touched: set[int] = set()
        for number, track in before.items():
            if number not in after or after[number].steps != track.steps:
                self._video.remove_object(number)
                wanted = after[number].prompts if number in after else {}
                touched.update(self._forget(number, set(track.prompts) - set(wanted), not wanted))
        for number, track in after.items():
            if number not in before or before[number].steps != track.steps:
                for frame, prompts in track.steps:
                    self._tell_predictor(number, frame, prompts)
                touched.update(track.prompts)
        with self._lock:
            self._tracks, self._current = state
        for frame in sorted(touched):
            if any(frame in track.prompts for track in after.values()):
                self._keep(self._video.frame(frame))
            else:
                self._send_masks(frame)
        self._broadcast(answer)

    def _forget(self, number: int, frames: set[int], everywhere: bool) -> list[int]:
        """Forget masks of an object; return the frames that it was on."""
        with self._lock:
            found = [
                frame
                for frame, masks in self._masks.items()
                if number in masks and (everywhere or frame in frames)
            ]
            for frame in found:
                del self._masks[frame][number]
        return found

    def do_commit(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Leave the current object as it is: the next prompt begins another one."""
        self._current = None
        self._broadcast(answer)

    do_cancel = do_commit

    def do_select(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Choose the object that prompts change."""
        given = values.get("index") is not None
        self._current = fields.index(values, len(self._tracks), None) if given else None
        self._broadcast(answer)

    def do_rename(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give an object another name."""
        self._change(values, answer, name=fields.name(values))

    def do_recolor(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Give an object another colour."""
        self._change(values, answer, color=fields.color(values))

    def _change(self, values: Mapping[str, Any], answer: Answer, **changes: Any) -> None:
        index = fields.index(values, len(self._tracks), self._current)
        changed = replace(self._tracks[index], **changes)
        with self._lock:
            self._remember()
            self._tracks = (*self._tracks[:index], changed, *self._tracks[index + 1 :])
        self._broadcast(answer)

    # ---------------------------------------------------------------- tracking

    def do_propagate(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> Any:
        """Begin to track all objects; goes on frame by frame while nothing else waits."""
        if not self._tracks:
            raise InvalidArgumentError("propagate: expected an object, found none")
        start = None if values.get("frame") is None else self._frame(values)
        reverse = bool(values.get("reverse", False))
        first = min(min(track.prompts) for track in self._tracks)
        begin = first if start is None else start
        total = begin + 1 if reverse else self.count - begin
        steps = self._video.propagate(start_frame=start, reverse=reverse)
        self._stop, self._running = False, True
        self._progress(0, total, answer)
        ended = values.get("ended")
        self._worker.start(self._steps(steps, total, ended))

    def _steps(
        self, frames: Iterator[VideoFrame], total: int, ended: Callable[[Any], None] | None
    ) -> Iterator[None]:
        error: Exception | None = None
        done = 0
        try:
            while not self._stop:
                frame = next(frames, None)
                if frame is None:
                    break
                done += 1
                self._keep(frame)
                self._progress(done, total, None)
                yield
        except Exception as found:  # whoever waits is told, and all views
            error = found
            self._tell(found, None, None)
        finally:
            self._running = False
            self._progress(done, total, None)
            self._broadcast(None)
            if ended is not None:
                ended(error)

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

    def _keep(self, frame: VideoFrame) -> None:
        """Remember the masks of a frame, and show them to all views."""
        with self._lock:
            found = {number: PackedMask.of(mask) for number, mask in frame.masks.items()}
            kept = self._masks.setdefault(frame.frame_index, {})
            kept.update(found)  # type: ignore[arg-type]
        self._send_masks(frame.frame_index)

    # ---------------------------------------------------------------- views

    def do_frame(self, values: Mapping[str, Any], view: str | None, answer: Answer) -> None:
        """Send a view a frame with its masks."""
        frame = self._frame(values)
        image = encoded(shrunk(self.read(frame), _SHOWN), "JPEG")
        with self._lock:
            heads, bits = self._masks_of(frame)
            head = {"type": "frame", "frame": frame, "masks": heads, "answer": answer}
            self.send(head, [image, *bits], view)

    def on_ready(self, view: str, answer: Answer) -> None:
        """Send a view the size of the video and all objects; it asks for frames."""
        head = {**clip_head(self.hw, self.count), "answer": answer}
        with self._lock:
            self.send(head, [], view)
            self.send(self._state(None), [], view)
            self.send(self._progress_head(None), [], view)

    def on_hover(self, head: Mapping[str, Any], view: str, answer: Answer) -> None:
        """Send a view the mask that a click on this frame would begin or change."""
        point, label, frame = fields.position(head), fields.label(head), self._frame(head)
        if self._running:
            raise UnsupportedError("hover: expected a still video, found tracking at work")
        if self._clicks is None:
            self._clicks = Clicks(self.model, self._num_threads)
        if self._clicks_frame != frame:
            self._clicks.set_image(self.read(frame))
            self._clicks_frame = frame
        given = FramePrompts()
        if self._current is not None:
            given = self._tracks[self._current].prompts.get(frame, given)
        prompts = prompts_of((*given.points, point), (*given.labels, label), given.box)
        mask, score = self._clicks.hover(prompts)
        message = {"type": "hover", "mask": mask.head(0), "score": score, "frame": frame}
        self.send({**message, "answer": answer}, [mask.bits.tobytes()], view)

    def _masks_of(self, frame: int) -> tuple[list[dict[str, Any]], list[bytes]]:
        small = preview_hw(self.hw)
        heads, bits = [], []
        for number, mask in self._masks.get(frame, {}).items():
            shown = mask if small == self.hw else PackedMask.of(sampled(mask, small))
            heads.append({**shown.head(0), "object": number})
            bits.append(shown.bits.tobytes())
        return heads, bits

    def _send_masks(self, frame: int) -> None:
        with self._lock:
            heads, bits = self._masks_of(frame)
            self.send({"type": "masks", "frame": frame, "masks": heads}, bits, None)

    def _broadcast(self, answer: Answer) -> None:
        with self._lock:
            self.revision += 1
            self.send(self._state(answer), [], None)
        self.publish()

    def _state(self, answer: Answer) -> dict[str, Any]:
        return {
            "type": "state",
            "revision": self.revision,
            "current": self._current,
            "can_undo": bool(self._undo),
            "can_redo": bool(self._redo),
            "objects": [described(track) for track in self._tracks],
            "masks": [],
            "answer": answer,
        }
