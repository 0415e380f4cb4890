"""Objects through a video: prompts on any frame, masks on all of them."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal import options as _options
from sam_rlx._internal import text_prompts
from sam_rlx._internal.arrays.checks import (
    as_flag,
    as_integer,
    as_mapping,
    as_name,
    as_num_threads,
    as_progress,
    as_text,
)
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.arrays.masks import as_bools, as_region_area, clean_
from sam_rlx._internal.arrays.prompts import as_marks, as_prompts, clipped
from sam_rlx._internal.files import saved_tensors
from sam_rlx._internal.files import sessions as files
from sam_rlx._internal.files.sessions import as_label
from sam_rlx._internal.formats.instances import OBJECT, Instance
from sam_rlx._internal.media.frames import FrameKind, SessionFrames, open_frames
from sam_rlx._internal.printable import shown, with_model
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import ResultForms, of_mask
from sam_rlx._internal.synonyms import also
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.model import Model, as_model
from sam_rlx.tokenizer import Tokenizer

# What calls want to see of a frame: nothing, and by whether logits are asked for.
_NOTHING = _core.Wants(masks=False)
_WANTS = {False: _core.Wants(), True: _core.Wants(logits=True)}


@dataclass(frozen=True, eq=False)
class VideoFrame(ResultForms):
    """Masks of one frame.

    Attributes
    ----------
    frame_index : int
        Number of the frame, from 0.
    masks : dict
        By object: bool (H, W) at the size of the video. Objects without a result on this frame
        are not in it.
    scores : dict
        By object: the model's logit for being visible. Where it is not above 0 the mask is empty.
        Of an object that a text named: the probability with which it was found, 1 if it was
        clicked; it is here only where it is seen.
    logits : dict, optional
        By object: float32 (H, W), on request.
    texts : dict
        By object that a text named: the text.
    """

    frame_index: int
    masks: dict[Hashable, NDArray[np.bool_]]
    scores: dict[Hashable, float]
    logits: dict[Hashable, NDArray[np.float32]] | None = None
    texts: dict[Hashable, str] = field(default_factory=dict)

    def _instances(self) -> list[Instance]:
        return [
            of_mask(
                mask,
                name=self.texts.get(obj_id, OBJECT),
                score=self.scores[obj_id],
                track=obj_id,
                frame=self.frame_index,
            )
            for obj_id, mask in self.masks.items()
        ]

    def _hw(self) -> tuple[int, int] | None:
        return next((mask.shape for mask in self.masks.values()), None)

    def __repr__(self) -> str:
        names = ", ".join(
            f"{shown(obj_id)} {score:.2f}" for obj_id, score in list(self.scores.items())[:6]
        )
        more = ", ..." if len(self.scores) > 6 else ""
        return f"<VideoFrame {self.frame_index}, {len(self.masks)} masks, scores: {names}{more}>"

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the masks, with the names of their objects; None without any."""
        from sam_rlx._internal.drawing.previews import png

        if not self.masks:
            return None
        masks = list(self.masks.values())
        captions = [
            f"{self.texts[obj_id]} {obj_id}" if obj_id in self.texts else str(obj_id)
            for obj_id in self.masks
        ]
        return png(masks, masks[0].shape, captions)


class VideoPredictor:
    """Follow objects through a video: by clicks, boxes and masks, with SAM 3 also by texts.

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
        A video file (extra ``video``; decoded frame by frame, never as a whole), an image file
        with pages (TIFF, GIF, WebP), the bytes of either or an open binary file, a folder of images
        in the order of the numbers in their names, an array (T, H, W, C) or (T, H, W) in grey, a
        sequence of images, or an iterator, which is only read forwards. None: frames are given by
        `push`.
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
        the tracker of upstream's video model does (default). False: the last ones, as SAM 2 and
        SAM 3.1 do, which take nothing else.
    memory_rule : {"samurai", "dam4sam"}, optional
        SAM 2 and 2.1 only: another rule for what an object remembers and which of the model's masks
        it takes, that of a public tracker, for each object by itself. "samurai": masks that fit the
        object's motion, and frames with good masks. "dam4sam": a frame that shows something like
        the object is remembered as frames with prompts are. None: upstream's, the last frames.
    resize : {"video", "float", "integer"}
        How frames become as large as the model's input. "video": as upstream's loaders of videos
        do, which differ from its image predictors and from each other. Images and pushed frames:
        Pillow's bicubic filter. Folders: the same, for SAM 3 Pillow's bilinear filter. Video files:
        FFmpeg's bilinear filter, for SAM 3 OpenCV's bicubic one. "float", "integer": as for
        `ImagePredictor`.
    min_mask_region_area : int
        With a value > 0, holes and islands of the masks that are given out smaller than this many
        pixels are removed, as `MaskGenerator` does. Logits, and what is remembered for tracking,
        stay.
    text_options : mapping, optional
        For texts: arguments of upstream's video model by their names, instead of the released
        values, such as ``score_threshold_detection`` (0.5), ``new_det_thresh`` (0.7),
        ``hotstart_delay`` (15), ``max_num_objects`` (10000; of one text),
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
        memory_rule: Literal["samurai", "dam4sam"] | None = None,
        resize: Literal["video", "float", "integer"] = "video",
        min_mask_region_area: int = 0,
        text_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._model = as_model(model)
        given = {"fill_hole_area": fill_hole_area, "use_memory_selection": memory_selection}
        options = _options.checked("video", model.family, given, given, model.core)
        self._options = {
            "fill_hole_area": options["fill_hole_area"],
            "non_overlap_masks": as_flag("non_overlap_masks", non_overlap_masks),
            "keep_corrections": as_flag("keep_corrections", keep_corrections),
            "history": -1 if history is None else as_integer("history", history, 0),
            "memory_selection": options["use_memory_selection"],
            "memory_rule": _options.as_memory_rule(memory_rule),
            "min_mask_region_area": as_region_area(min_mask_region_area),
        }
        self._resize = as_text("resize", resize)
        source = None if frames is None else SessionFrames(open_frames(frames))
        core = _core_options(self._options, self._resize, None if source is None else source.kind)
        self._core = _core.VideoSession(model.core, as_num_threads(num_threads), core, source)
        self._frames = source
        self._text_options = text_prompts.checked_options(
            as_mapping("text_options", text_options),
            source is None,
            _options.own_defaults("text", model.core),
        )

    def __repr__(self) -> str:
        count, hw = self.num_frames, self.orig_hw
        frames = "frames" if count is None else f"{count} frames"
        size = "" if hw is None else f" of {hw[0]} x {hw[1]}"
        return with_model(self, self._model, f"{frames}{size}", f"{len(self.obj_ids)} objects")

    def __reduce__(self) -> tuple[Any, ...]:
        raise UnsupportedError(
            "VideoPredictor: expected save() and load(), or one predictor for each process, found "
            "a session to copy or pickle"
        )

    # ---------------------------------------------------------------- what there is

    @property
    def model(self) -> Model:
        """The model that this predictor runs."""
        return self._model

    @property
    def num_frames(self) -> int | None:
        """Number of frames; with `push`, those so far; None for an iterator."""
        return self._core.num_pushed if self._frames is None else self._core.num_frames

    @property
    def orig_hw(self) -> tuple[int, int] | None:
        """Height and width of the video in pixels, None before the first frame is read."""
        return self._core.orig_hw

    @property
    def obj_ids(self) -> list[Hashable]:
        """Objects in the order of their first prompts, then those that texts named."""
        return self._core.obj_ids

    # ---------------------------------------------------------------- prompts

    @also(boxes="box")
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
    ) -> VideoPredictor:
        """Say on one frame where an object is; `frame` then shows what the model makes of it.

        On a frame that the object was tracked on already, the prompt corrects the mask there.

        Parameters
        ----------
        frame_index : int
            Number of the frame, from 0. With `push`: the last one.
        obj_id : hashable
            Any name for the object; a new one makes a new object. One that a text named is
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
            The frame is not at hand any more, or has no results of the text that named the
            object, or the predictor is in use.
        UnsupportedError
            A mask is given for an object that a text named.
        """
        index = as_integer("frame_index", frame_index, 0)
        obj_id = as_name("obj_id", obj_id)
        given = (point_coords, point_labels, box)
        if mask is not None and any(value is not None for value in given):
            raise InvalidArgumentError("mask: expected it alone, found points or a box too")
        clear = as_flag("clear_old_points", clear_old_points)
        if mask is None:
            points, labels = _as_points(*given, clear)
            self._core.add_points(
                index, obj_id, as_label(obj_id), points, labels, clear, wants=_NOTHING
            )
        else:
            self._core.add_mask(index, obj_id, as_label(obj_id), _as_mask(mask), wants=_NOTHING)
        return self

    @also(box="boxes")
    def add_text(
        self,
        text: str | Sequence[str] | None = None,
        *,
        frame_index: int | None = None,
        boxes: ArrayLike | None = None,
        box_labels: ArrayLike | None = None,
    ) -> VideoPredictor:
        """Name what to look for on all frames, with SAM 3; everything of that kind is followed.

        Each text is followed as if it were the only one: texts do not influence each other,
        and masks of one text do not overlap. Objects get the next free integers as names. Boxes
        are examples of what is meant, or of what is not, and count on their frame only. Without a
        text only their frame is searched, and what is found there is followed to the end, while
        upstream's rule for errors of the detector would remove it.

        Parameters
        ----------
        text : str or sequence of str, optional
            Texts. Default: the boxes alone.
        frame_index : int, optional
            The frame that is searched at once, and where `propagate` begins. Default: 0. With
            `push` it is the last one; by default the search begins with the next one.
        boxes : array (B, 4), optional
            (x0, y0, x1, y1) in pixels of the video, within it and not empty. They belong to each
            of the texts.
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
            A text is too long; its end has no effect.
        """
        texts = text_prompts.as_texts(text)
        examples = as_marks(("boxes", "box_labels"), boxes, box_labels, 4)
        if text is None and examples is None:
            raise InvalidArgumentError("add_text: expected text or boxes, found None for both")
        if not self._model.supports_text:
            found = f"one of {self._model.family} that finds no texts"
            raise UnsupportedError(f"add_text: expected a model of family sam3, found {found}")
        if frame_index is None and self._frames is None and examples is not None:
            raise InvalidArgumentError(
                "frame_index: expected the last frame with boxes, found None"
            )
        index = None if frame_index is None else as_integer("frame_index", frame_index, 0)
        options = self._text_options
        if text is None:
            options = {**options, **text_prompts.TRUSTED}
        if examples is not None:
            examples = clipped(examples, self._hw_of(index or 0), "a frame")
        tokenizer = Tokenizer(self._model.config["text"]["context_length"])
        self._core.add_text(
            texts,
            [tokenizer(one)[0].tolist() for one in texts],
            text is not None,
            options,
            index,
            None if examples is None else examples.values,
            None if examples is None else examples.labels,
            wants=_NOTHING,
        )
        return self

    def _hw_of(self, index: int) -> tuple[int, int]:
        """Return the size of the video, which its frame `index` tells."""
        if self._core.orig_hw is None:
            self._core.load(index)
        hw = self._core.orig_hw
        assert hw is not None
        return hw

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
        index, obj_id = as_integer("frame_index", frame_index, 0), as_name("obj_id", obj_id)
        if self._core.clear_prompts(index, obj_id, _NOTHING) is None:
            raise self._unknown(obj_id)

    def _unknown(self, obj_id: Hashable) -> InvalidArgumentError:
        known = shown(self.obj_ids)
        return InvalidArgumentError(f"obj_id: expected one of {known}, found {shown(obj_id)}")

    def remove_object(self, obj_id: Hashable) -> None:
        """Forget an object. The others stay as they are.

        Raises
        ------
        InvalidArgumentError
            There is no such object.
        StateError
            The predictor is in use.
        """
        obj_id = as_name("obj_id", obj_id)
        if self._core.remove_object(obj_id, _NOTHING) is None:
            raise self._unknown(obj_id)

    def reset(self) -> None:
        """Forget all objects, texts and results; the frames stay."""
        self._core.reset()

    # ---------------------------------------------------------------- tracking

    def propagate(
        self,
        *,
        start_frame: int | None = None,
        max_frames: int | None = None,
        reverse: bool = False,
        return_logits: bool = False,
        progress: bool | Progress = False,
    ) -> Iterator[VideoFrame]:
        """Track all objects from frame to frame, and look for what texts name.

        Prompts may be added while this runs: they count from the next frame on. Tracking
        backwards reads results of later frames: those near prompts, and those within `history`.

        With texts frames come 15 frames late, and the last ones at once: until then an object
        that turns out to be an error of the detector is taken out of them. A frame is searched
        once for a text, and again tracked only for objects that were clicked since.

        Parameters
        ----------
        start_frame : int, optional
            The first frame. Default: the earliest one with a prompt or result.
        max_frames : int, optional
            Stop after so many frames. Default: at the end of the video.
        reverse : bool
            True: towards frame 0.
        return_logits : bool
            True: `VideoFrame.logits` is filled. Not with texts.
        progress : bool or callable
            A callable gets (frames done, frames in all) with each frame; the second is 0 as long
            as the length of the video is not known. True shows a bar on a terminal and in Jupyter
            if ``tqdm`` is installed, else nothing.

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
        UnsupportedError
            Logits are asked for, and there is a text.
        """
        if self._frames is None:
            raise StateError("propagate: expected frames of a video, found a session of push")
        start = None if start_frame is None else as_integer("start_frame", start_frame, 0)
        count = self._core.num_frames
        if start is not None and count is not None and start >= count:
            raise InvalidArgumentError(
                f"start_frame: expected 0 to {count - 1}, found {shown(start)}"
            )
        most = None if max_frames is None else as_integer("max_frames", max_frames, 1)
        reverse, logits = as_flag("reverse", reverse), as_flag("return_logits", return_logits)
        progress = as_progress(progress)
        propagation = self._core.propagation(start, most, reverse, logits=logits)
        total = 0
        if count is not None:
            total = propagation.frame + 1 if reverse else count - propagation.frame
            total = total if most is None else min(total, most)
        return self._propagate(propagation, logits, progress, total)

    def _propagate(
        self,
        propagation: _core.Propagation,
        return_logits: bool,
        progress: bool | Progress,
        total: int,
    ) -> Iterator[VideoFrame]:
        done, wants = 0, _WANTS[return_logits]
        with reporter(progress, "frame") as report:
            while (found := self._core.next(propagation, wants)) is not None:
                done += 1
                if report is not None:
                    report(done, total)
                yield self._to_frame(found, return_logits)

    def push(self, image: Any, *, return_logits: bool = False) -> VideoFrame:
        """Give the next frame of a stream, track all objects on it, and look for texts there.

        A stream has no later frames to wait for: an object of a text is shown from the frame on
        which it is found, and one that turns out to be an error until then. Only the last frame
        can be searched, clicked or looked at again, and there is no way back.

        Parameters
        ----------
        image : ndarray or PIL image
            As for `ImagePredictor.set_image`; all frames have one size.
        return_logits : bool
            True: `VideoFrame.logits` is filled. Not with texts.

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
            The image is not valid, or of another size than the first one.
        """
        if self._frames is not None:
            raise StateError("push: expected a session without frames, found a video")
        pixels, logits = as_rgb(image), as_flag("return_logits", return_logits)
        return self._to_frame(self._core.push(pixels, _WANTS[logits]), logits)

    def frame(self, frame_index: int, *, return_logits: bool = False) -> VideoFrame:
        """Return the latest masks on a frame, those of new prompts included.

        Parameters
        ----------
        frame_index : int
            Number of the frame.
        return_logits : bool
            True: `VideoFrame.logits` is filled.

        Raises `StateError` if no frame was read so far, or the predictor is in use, and
        `UnsupportedError` if logits are asked for and there is a text.
        """
        index = as_integer("frame_index", frame_index, 0)
        logits = as_flag("return_logits", return_logits)
        return self._to_frame(self._core.result(index, "latest", _WANTS[logits]), logits)

    def _to_frame(self, found: _core.FrameResult, return_logits: bool) -> VideoFrame:
        """Return what the core knows of a frame, by object."""
        obj_ids = found.obj_ids
        frame = VideoFrame(
            frame_index=found.frame_index,
            masks=dict(zip(obj_ids, found.masks, strict=True)),
            scores=dict(zip(obj_ids, found.scores, strict=True)),
            logits=dict(zip(obj_ids, found.logits, strict=True)) if return_logits else None,
        )
        for text in found.texts:
            frame.masks.update(zip(text.obj_ids, text.masks, strict=True))
            frame.scores.update(zip(text.obj_ids, text.scores, strict=True))
            frame.texts.update(dict.fromkeys(text.obj_ids, text.text))
        for mask in frame.masks.values():
            clean_(mask, self._options["min_mask_region_area"])
        return frame

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session, without its frames, as safetensors.

        Parameters
        ----------
        path : str or path
            Ends in ``.safetensors``, or in nothing that says another kind of file. No suffix is
            added. The file appears complete or not at all.

        Raises
        ------
        InvalidArgumentError
            It is the video, or a frame of the folder, that this session reads; its suffix is one of
            another kind; there is a file of another kind that this library has not written, or
            weights; or the name of an object is no plain Python value: str, int, float, bool, None,
            bytes, or a tuple of these.
        UnsupportedError
            There is a text.
        StateError
            The predictor is in use.
        """
        files.write(
            path,
            saved_tensors.identity(self._model.core, self._model.source),
            self._core,
            {**self._options, "resize": self._resize},
            () if self._frames is None else self._frames.source.files,
        )

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: Model,
        frames: Any = None,
        *,
        num_threads: int | None = None,
    ) -> Self:
        """Go on with a session of `save`.

        Parameters
        ----------
        path : str or path
            The file.
        model : Model
            The model that made it.
        frames : path, sequence or iterable, optional
            The frames of the session; None for one of `push`, which goes on after its last frame.
        num_threads : int, optional
            As for `VideoPredictor`.

        Returns
        -------
        VideoPredictor

        Raises
        ------
        FileNotFoundError
            There is no such file.
        CheckpointError
            The file is damaged, of another kind, or made with other weights.
        """
        saved = files.read(path, saved_tensors.identity(as_model(model).core, model.source))
        video = cls(model, frames, num_threads=num_threads, **saved.options)
        files.restore(path, video._core, saved)
        return video


# Coordinates (N, 2) and labels (N,).
_Points: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int32]]


def _as_points(
    coords: ArrayLike | None,
    labels: ArrayLike | None,
    box: ArrayLike | None,
    clear_old_points: bool,
) -> _Points:
    """Return points with a box as the first two of them, labelled 2 and 3."""
    if box is not None and not clear_old_points:
        raise InvalidArgumentError(
            "box: expected clear_old_points=True, since a box comes before all points, found False"
        )
    prompts = as_prompts(coords, labels, box, None, 0)
    if prompts.batched:
        raise InvalidArgumentError("add_prompt: expected prompts of one object, found a batch")
    points = np.zeros((0, 2)) if prompts.point_coords is None else prompts.point_coords[0]
    kinds = np.zeros(0, np.int32) if prompts.point_labels is None else prompts.point_labels[0]
    _core.check_points("point_coords", points, kinds)
    if prompts.boxes is not None:
        _core.check_boxes("box", prompts.boxes)
        points = np.concatenate([prompts.boxes[0].reshape(2, 2), points])
        kinds = np.concatenate([np.array([2, 3], np.int32), kinds])
    return points, kinds


def _as_mask(mask: ArrayLike) -> NDArray[np.float32]:
    """Return a mask as zeros and ones; the core checks its size."""
    return as_bools("mask", mask).astype(np.float32)


def _core_options(options: dict[str, Any], resize: str, kind: FrameKind | None) -> dict[str, Any]:
    """Return the options of a session under upstream's names; without a kind, frames are pushed."""
    return {
        "fill_hole_area": options["fill_hole_area"],
        "non_overlap_masks": options["non_overlap_masks"],
        "add_all_frames_to_correct_as_cond": options["keep_corrections"],
        "history": 0 if kind is None else options["history"],
        "use_memory_selection": options["memory_selection"],
        "memory_rule": options["memory_rule"] or "",
        "resize": resize,
        "frames": kind or "images",
        "streaming": kind is None,
    }


__dir__ = public_names(__name__)
