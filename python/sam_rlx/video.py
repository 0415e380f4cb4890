"""Objects through a video: prompts on any frame, masks on all of them."""

from collections.abc import Hashable, Iterator
from typing import Any, Literal

from numpy.typing import ArrayLike

from sam_rlx import _core
from sam_rlx.arrays import as_integer, as_num_threads, as_rgb
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.exclusive import Exclusive
from sam_rlx.frames import EndOfFrames, FrameSource, open_frames
from sam_rlx.model import Model
from sam_rlx.video_files import VideoFiles
from sam_rlx.video_types import VideoFrame, as_mask, as_points, core_options, to_frame


class VideoPredictor(VideoFiles):
    """Follow objects through a video by clicks, boxes and masks. SAM 2 and SAM 3.

    Prompts may be given on any frame, for any number of objects, before and after tracking. With
    SAM 2 objects do not influence each other. With SAM 3 those that were first prompted before the
    same `propagate` do, as upstream's: a prompt for one settles the masks of all on that frame,
    and there they do not overlap in memory. A failed call leaves the session as it was; a call
    from a second thread gets a `StateError`.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`: of SAM 2, or of SAM 3 with the tracker.
    frames : path, sequence or iterable, optional
        A video file (extra ``video``; decoded frame by frame, never as a whole), a folder of
        pictures in the order of the numbers in their names, an array (T, H, W, 3), a sequence of
        pictures, or an iterator, which is only read forwards. None: frames are given by `push`.
    num_threads : int, optional
        Threads for computing. Default: the cores this process may use. Results do not depend on
        it.
    fill_hole_area : int, optional
        Holes of at most so many places are filled; 0 leaves them. SAM 2: of the low-resolution
        mask, by default 8, as upstream does on a GPU; its CPU path always leaves them. SAM 3: of
        the mask as large as the video, where small islands go too, by default 0, as upstream.
    non_overlap_masks : bool
        True: where masks overlap, the one with the largest logit stays.
    keep_corrections : bool
        True: a prompt on a frame that was tracked before outlives the next `propagate`. False:
        what SAM 2's predictor does by default, which computes that frame again without the prompt.
    history : int, optional
        Results of so many frames around the last one are kept for corrections and for tracking
        backwards, about 1.3 MB each for one object at a side of 1024. Results near prompts are
        kept in any case, and those that tracking reads (the last 15). With `push` no more than
        these are kept. None: all, as upstream.
    memory_selection : bool, optional
        SAM 3 only. True: of tracked frames, those that show the objects well are remembered, as
        the tracker of upstream's video model does (default). False: the last ones, as SAM 2 does.
    resize : {"float", "integer"}
        As for `ImagePredictor`.

    Raises
    ------
    UnsupportedError
        The model cannot follow objects, or not with these options.
    InvalidArgumentError
        An argument has the wrong type or range, or the frames cannot be read.
    FileNotFoundError
        There is no such file or folder.
    MissingExtraError
        The package that decodes the frames is not installed.
    """

    def __init__(
        self,
        model: Model,
        frames: Any = None,
        *,
        num_threads: int | None = None,
        fill_hole_area: int | None = None,
        non_overlap_masks: bool = False,
        keep_corrections: bool = True,
        history: int | None = 64,
        memory_selection: bool | None = None,
        resize: Literal["float", "integer"] = "float",
    ) -> None:
        if not isinstance(model, Model):
            found = type(model).__name__
            raise InvalidArgumentError(f"model: expected sam_rlx.Model, found {found}")
        is_sam3 = model.family == "sam3"
        area = (0 if is_sam3 else 8) if fill_hole_area is None else fill_hole_area
        self._model = model
        self._options = {
            "fill_hole_area": as_integer("fill_hole_area", area, 0),
            "non_overlap_masks": bool(non_overlap_masks),
            "keep_corrections": bool(keep_corrections),
            "history": -1 if history is None else as_integer("history", history, 0),
            "memory_selection": is_sam3 if memory_selection is None else bool(memory_selection),
        }
        self._resize = str(resize)
        self._source: FrameSource | None = None if frames is None else open_frames(frames)
        core = core_options(self._options, self._resize, self._source is None)
        self._core = _core.VideoPredictor(model.core, as_num_threads(num_threads), core)
        self._core.num_frames = None if self._source is None else self._source.count
        self._handles: dict[Hashable, int] = {}
        self._next_handle = 0
        self._pushed = 0
        self._exclusive = Exclusive("VideoPredictor")

    # ---------------------------------------------------------------- what there is

    @property
    def model(self) -> Model:
        """The model that this predictor runs."""
        return self._model

    @property
    def num_frames(self) -> int | None:
        """Number of frames; with `push`, those so far; None for an iterator."""
        return self._pushed if self._source is None else self._source.count

    @property
    def orig_hw(self) -> tuple[int, int] | None:
        """Height and width of the video in pixels, None before the first frame is read."""
        return self._core.orig_hw

    @property
    def obj_ids(self) -> list[Hashable]:
        """Objects in the order of their first prompts."""
        return list(self._handles)

    # ---------------------------------------------------------------- prompts

    def add_prompt(
        self,
        frame_index: int,
        obj_id: Hashable,
        *,
        point_coords: ArrayLike | None = None,
        point_labels: ArrayLike | None = None,
        box: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        clear_old_points: bool = True,
    ) -> "VideoPredictor":
        """Say on one frame where an object is; `frame` then shows what the model makes of it.

        On a frame that the object was tracked on already, the prompt corrects the mask there.

        Parameters
        ----------
        frame_index : int
            Number of the frame, from 0. With `push`: the last one.
        obj_id : hashable
            Any name for the object; a new one makes a new object.
        point_coords : array (N, 2), optional
            Points (x, y) in pixels of the video.
        point_labels : array (N,), optional
            1 foreground, 0 background. Required with `point_coords`.
        box : array (4,), optional
            (x0, y0, x1, y1) in pixels of the video. Replaces earlier points.
        mask : array (H, W), optional
            bool, at the size of the video: the mask of the object. Not together with points.
        clear_old_points : bool
            False: earlier points of this object on this frame stay.

        Returns
        -------
        VideoPredictor
            This predictor.

        Raises
        ------
        InvalidArgumentError
            There is no such frame, it cannot be read, or a prompt is wrong.
        StateError
            The frame is not at hand any more, or the predictor is in use.
        """
        index = as_integer("frame_index", frame_index, 0)
        try:
            hash(obj_id)
        except TypeError as error:
            raise InvalidArgumentError(f"obj_id: expected a hashable, found {obj_id!r}") from error
        with self._exclusive:
            if mask is not None:
                given = (point_coords, point_labels, box)
                if any(value is not None for value in given):
                    raise InvalidArgumentError("mask: expected it alone, found points or a box too")
                self._load(index)
                pixels = as_mask(mask, self._core.orig_hw)
                self._core.add_mask(index, self._handle(obj_id), pixels)
            else:
                coords, labels = as_points(point_coords, point_labels, box, clear_old_points)
                self._load(index)
                self._core.add_points(
                    index, self._handle(obj_id), coords, labels, bool(clear_old_points), True
                )
            self._adopt(obj_id)
        return self

    def clear_prompts(self, frame_index: int, obj_id: Hashable) -> None:
        """Forget the prompts of an object on one frame.

        What they gave stays as a result of tracking, until the frame is tracked again.

        Raises
        ------
        InvalidArgumentError
            There is no such object.
        StateError
            The predictor is in use.
        """
        with self._exclusive:
            self._core.clear_prompts(as_integer("frame_index", frame_index, 0), self._known(obj_id))

    def remove_object(self, obj_id: Hashable) -> None:
        """Forget an object. The others stay as they are.

        Raises
        ------
        InvalidArgumentError
            There is no such object.
        StateError
            The predictor is in use.
        """
        with self._exclusive:
            self._core.remove_object(self._known(obj_id))
            del self._handles[obj_id]

    def reset(self) -> None:
        """Forget all objects and results; the frames stay."""
        with self._exclusive:
            self._core.reset()
            self._handles.clear()

    # ---------------------------------------------------------------- tracking

    def _load(self, index: int) -> None:
        """Make sure that the core has encoded a frame."""
        if self._core.has_frame(index):
            return
        if self._source is None:
            raise StateError(
                f"frame_index: expected {self._pushed - 1}, the last frame pushed, found {index}"
                if self._pushed
                else "VideoPredictor: expected a frame from push, found none"
            )
        try:
            pixels = self._source.read(index)
        except EndOfFrames as end:
            raise InvalidArgumentError(
                f"frame_index: expected less than {end.args[0]}, found {index}"
            ) from None
        self._core.set_frame(index, pixels)

    def _prepare(self) -> None:
        """Encode the memory of frames with new prompts."""
        if not self._handles:
            raise StateError("propagate: expected an object with prompts, found none")
        prompts = self._core.prompts
        for obj_id, handle in self._handles.items():
            if not prompts[handle][1]:
                raise StateError(f"propagate: expected prompts for object {obj_id!r}, found none")
        for index in self._core.pending_frames():
            self._load(index)
            self._core.encode_pending(index)
        self._core.preflight()

    def propagate(
        self,
        *,
        start_frame: int | None = None,
        max_frames: int | None = None,
        reverse: bool = False,
        return_logits: bool = False,
    ) -> Iterator[VideoFrame]:
        """Track all objects from frame to frame.

        Prompts may be added while this runs: they count from the next frame on. Tracking
        backwards reads results of later frames: those near prompts, and those within `history`.

        Parameters
        ----------
        start_frame : int, optional
            The first frame. Default: the earliest one with a prompt.
        max_frames : int, optional
            Stop after so many frames. Default: at the end of the video.
        reverse : bool
            True: towards frame 0.
        return_logits : bool
            True: `VideoFrame.logits` is filled.

        Yields
        ------
        VideoFrame
            One after the other.

        Raises
        ------
        StateError
            There is no prompt, frames come by `push`, or the predictor is in use.
        InvalidArgumentError
            There is no such frame, it cannot be read, or it has another size than the first one.
        """
        if self._source is None:
            raise StateError("propagate: expected frames of a video, found a session of push")
        count = self._source.count
        start = None if start_frame is None else as_integer("start_frame", start_frame, 0)
        if start is not None and count is not None and start >= count:
            raise InvalidArgumentError(f"start_frame: expected 0 to {count - 1}, found {start}")
        most = None if max_frames is None else as_integer("max_frames", max_frames, 1)
        with self._exclusive:
            self._prepare()
            if start is None:
                start = min(min(cond) for _, cond in self._core.prompts.values())
        return self._propagate(start, most, bool(reverse), bool(return_logits))

    def _propagate(
        self, index: int, most: int | None, reverse: bool, return_logits: bool
    ) -> Iterator[VideoFrame]:
        assert self._source is not None
        done = 0
        while index >= 0 and (most is None or done < most):
            if self._source.count is not None and index >= self._source.count:
                return
            with self._exclusive:
                self._prepare()
                if self._core.needs_frame(index) and not self._core.has_frame(index):
                    try:
                        self._core.set_frame(index, self._source.read(index))
                    except EndOfFrames:
                        return
                self._core.track(index, reverse)
                frame = self._frame(index, "tracked", return_logits)
            yield frame
            done += 1
            index += -1 if reverse else 1

    def push(self, image: Any, *, return_logits: bool = False) -> VideoFrame:
        """Give the next frame of a stream, and track all objects on it.

        Parameters
        ----------
        image : ndarray or PIL image
            As for `ImagePredictor.set_image`; all frames have one size.
        return_logits : bool
            True: `VideoFrame.logits` is filled.

        Returns
        -------
        VideoFrame
            Empty before the first prompt. Prompts are given on the last frame that was pushed.

        Raises
        ------
        StateError
            The frames come from a video, the prompts of an object were all cleared, or the
            predictor is in use.
        InvalidArgumentError
            The picture is not valid, or of another size than the first one.
        """
        if self._source is not None:
            raise StateError("push: expected a session without frames, found a video")
        pixels = as_rgb(image)
        with self._exclusive:
            if self._handles:
                self._prepare()
            index = self._pushed
            self._core.set_frame(index, pixels)
            if self._handles:
                self._core.track(index, False)
            self._pushed += 1
            return self._frame(index, "tracked", bool(return_logits))

    def frame(self, frame_index: int, *, return_logits: bool = False) -> VideoFrame:
        """Return the latest masks on a frame, those of new prompts included.

        Parameters
        ----------
        frame_index : int
            Number of the frame.
        return_logits : bool
            True: `VideoFrame.logits` is filled.

        Raises `StateError` if no frame was read so far, or the predictor is in use.
        """
        index = as_integer("frame_index", frame_index, 0)
        with self._exclusive:
            return self._frame(index, "latest", bool(return_logits))

    def _frame(self, index: int, source: str, return_logits: bool) -> VideoFrame:
        found = self._core.masks(index, source, return_logits)
        names = {handle: obj_id for obj_id, handle in self._handles.items()}
        threshold = self._model.mask_threshold if return_logits else None
        return to_frame(index, names, found, threshold)
