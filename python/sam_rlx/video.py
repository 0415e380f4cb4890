"""Objects through a video: prompts on any frame, masks on all of them."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from sam_rlx import _core, _options
from sam_rlx._arrays import Marks, as_integer, as_marks, as_num_threads
from sam_rlx._video.files import VideoFiles
from sam_rlx._video.frames import FrameSource, open_frames
from sam_rlx._video.phrases import Phrases, check_examples
from sam_rlx._video.tracking import VideoTracking
from sam_rlx._video.types import Points, as_mask, as_points, core_options
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model


class VideoPredictor(VideoTracking, VideoFiles):
    """Follow objects through a video: by clicks, boxes and masks, with SAM 3 also by phrases.

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
        images in the order of the numbers in their names, an array (T, H, W, 3), a sequence of
        images, or an iterator, which is only read forwards. None: frames are given by `push`.
    num_threads : int, optional
        Threads for computing. Default: the cores this process may use. Results do not depend on
        it.
    fill_hole_area : int, optional
        Holes of at most so many positions are filled; 0 leaves them. SAM 2: of the low-resolution
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
    resize : {"video", "float", "integer"}
        How frames become as large as the model's input. "video": as upstream's loaders of videos
        do, which differ from its image predictors and from each other. Images and pushed frames:
        Pillow's bicubic filter. Folders: the same, for SAM 3 Pillow's bilinear filter. Video files:
        FFmpeg's bilinear filter, for SAM 3 OpenCV's bicubic one. "float", "integer": as for
        `ImagePredictor`.
    phrase_options : mapping, optional
        For phrases: arguments of upstream's video model by their names, in place of the released
        values, such as ``score_threshold_detection`` (0.5), ``new_det_thresh`` (0.7),
        ``hotstart_delay`` (15), ``max_num_objects`` (10000; of one phrase),
        ``recondition_every_nth_frame`` (16). ``new_det_thresh_without_masklets`` (True) is ours:
        False takes any finding for a new object while there is none, as upstream does.
        ``forget_unseen_after`` (300; with `push` only) is ours too: an object that was hidden on
        more frames than this is forgotten, and has a new name if it returns; 0 keeps all.

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
        resize: Literal["video", "float", "integer"] = "video",
        phrase_options: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(model, Model):
            found = type(model).__name__
            raise InvalidArgumentError(f"model: expected sam_rlx.Model, found {found}")
        given = {"fill_hole_area": fill_hole_area, "use_memory_selection": memory_selection}
        options = _options.checked("video", model.family, given, given)
        self._model = model
        self._options = {
            "fill_hole_area": options["fill_hole_area"],
            "non_overlap_masks": bool(non_overlap_masks),
            "keep_corrections": bool(keep_corrections),
            "history": -1 if history is None else as_integer("history", history, 0),
            "memory_selection": options["use_memory_selection"],
        }
        self._resize = str(resize)
        self._source: FrameSource | None = None if frames is None else open_frames(frames)
        kind = None if self._source is None else self._source.kind
        core = core_options(self._options, self._resize, kind)
        self._core = _core.VideoPredictor(model.core, as_num_threads(num_threads), core)
        self._core.num_frames = None if self._source is None else self._source.count
        self._phrases = Phrases(model, self._core, phrase_options or {}, self._source is None)
        self._handles: dict[Hashable, int] = {}
        self._next_handle = 0
        self._pushed = 0
        self._exclusive = _core.Exclusive("VideoPredictor")
        self._commit()

    # ---------------------------------------------------------------- what there is

    @property
    def model(self) -> Model:
        """The model that this predictor runs."""
        return self._model

    @property
    def num_frames(self) -> int | None:
        """Number of frames; with `push`, those so far; None for an iterator."""
        return self._committed.pushed if self._source is None else self._source.count

    @property
    def orig_hw(self) -> tuple[int, int] | None:
        """Height and width of the video in pixels, None before the first frame is read."""
        return self._committed.orig_hw

    @property
    def obj_ids(self) -> list[Hashable]:
        """Objects in the order of their first prompts, then those that phrases named."""
        return list(self._committed.obj_ids)

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
            Any name for the object; a new one makes a new object. One that a phrase named is
            corrected: by points or a box, on a frame that was tracked.
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
            The frame is not at hand any more, or has no results of the phrase that named the
            object, or the predictor is in use.
        UnsupportedError
            A mask is given for an object that a phrase named.
        """
        index = as_integer("frame_index", frame_index, 0)
        try:
            hash(obj_id)
        except TypeError as error:
            raise InvalidArgumentError(f"obj_id: expected a hashable, found {obj_id!r}") from error
        given = (point_coords, point_labels, box)
        if mask is not None and any(value is not None for value in given):
            raise InvalidArgumentError("mask: expected it alone, found points or a box too")
        clear = bool(clear_old_points)
        points = as_points(*given, clear) if mask is None else None
        with self._exclusive:
            self._begin()
            if self._phrases.find(obj_id) is None:
                self._add_object(index, obj_id, points, mask, clear)
            elif points is None:
                raise UnsupportedError("mask: expected points for what was found, found a mask")
            else:
                self._load(index)
                self._phrases.refine(index, obj_id, points, clear)
            self._commit()
        return self

    def _add_object(
        self,
        index: int,
        obj_id: Hashable,
        points: Points | None,
        mask: ArrayLike | None,
        clear: bool,
    ) -> None:
        self._load(index)
        handle = self._handle(obj_id)
        if points is None:
            assert mask is not None
            self._core.add_mask(index, handle, as_mask(mask, self._core.orig_hw))
        else:
            self._core.add_points(index, handle, *points, clear, True)
        self._adopt(obj_id)
        self._phrases.reserve(obj_id)

    def add_text(
        self,
        text: str | Sequence[str] | None = None,
        *,
        frame_index: int | None = None,
        boxes: ArrayLike | None = None,
        box_labels: ArrayLike | None = None,
    ) -> "VideoPredictor":
        """Name what to look for on all frames, with SAM 3; everything of that kind is followed.

        Each phrase is followed as if it were the only one: phrases do not influence each other,
        and masks of one phrase do not overlap. Objects get the next free integers as names. Boxes
        are examples of what is meant, or of what is not, and count on their frame only. Without a
        phrase only their frame is searched, and what is found there is followed to the end, while
        upstream's rule for errors of the detector would remove it.

        Parameters
        ----------
        text : str or sequence of str, optional
            Phrases. Default: the boxes alone.
        frame_index : int, optional
            The frame that is searched at once, and where `propagate` begins. Default: 0. With
            `push` it is the last one; by default the search begins with the next one.
        boxes : array (B, 4), optional
            (x0, y0, x1, y1) in pixels of the video, within it and not empty. They belong to each
            of the phrases.
        box_labels : array (B,), optional
            1: an example of what is meant (default for all), 0: of what is not.

        Returns
        -------
        VideoPredictor
            This predictor; `frame` shows what was found.

        Raises
        ------
        InvalidArgumentError
            There is neither text nor a box, there is no such frame, or a box is not valid.
        UnsupportedError
            The model is not of SAM 3.
        StateError
            The frame is not at hand any more, or the predictor is in use.

        Warns
        -----
        TruncationWarning
            A phrase is too long; its end has no effect.
        """
        phrases = _as_phrases(text)
        examples = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        if text is None and examples is None:
            raise InvalidArgumentError("add_text: expected text or boxes, found None for both")
        if not self._model.supports_text:
            found = self._model.family
            raise UnsupportedError(f"add_text: expected a model of family sam3, found {found}")
        if frame_index is None and self._source is None and examples is not None:
            raise InvalidArgumentError(
                "frame_index: expected the last frame with boxes, found None"
            )
        index = None if frame_index is None else as_integer("frame_index", frame_index, 0)
        with self._exclusive:
            self._begin()
            if self._handles:
                self._prepare()
            for phrase in phrases:
                self._add_phrase(phrase, index, examples)
            self._commit()
        return self

    def _add_phrase(self, text: str | None, frame_index: int | None, boxes: Marks | None) -> None:
        index = frame_index or 0
        phrase = self._phrases.make(text, index)
        if frame_index is not None or self._source is not None:
            self._load(index)
            if boxes is not None:
                assert self._core.orig_hw is not None
                check_examples(boxes, self._core.orig_hw)
                phrase.core.set_examples(index, boxes.values, boxes.labels)
            self._next_handle = self._phrases.search(phrase, index, False, self._next_handle)

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
        index = as_integer("frame_index", frame_index, 0)
        with self._exclusive:
            self._begin()
            self._core.clear_prompts(index, self._known(obj_id))
            self._commit()

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
            self._begin()
            if not self._phrases.remove(obj_id):
                self._core.remove_object(self._known(obj_id))
                del self._handles[obj_id]
            self._commit()

    def reset(self) -> None:
        """Forget all objects, phrases and results; the frames stay."""
        with self._exclusive:
            self._begin()
            self._core.reset()
            self._handles.clear()
            self._phrases.reset()
            self._commit()


def _as_phrases(text: str | Sequence[str] | None) -> list[str | None]:
    if text is None or isinstance(text, str):
        return [text]
    phrases = list(text)
    if not phrases or not all(isinstance(phrase, str) for phrase in phrases):
        raise InvalidArgumentError(f"text: expected a str, or some in a sequence, found {text!r}")
    return list(phrases)
