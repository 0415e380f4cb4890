"""Frames of a video one after the other, and what is found on them."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sam_rlx._arrays import as_integer, as_rgb
from sam_rlx._core import Exclusive
from sam_rlx._video.commits import VideoCommits
from sam_rlx._video.frames import ClipFrames, EndOfFrames, FrameSource
from sam_rlx._video.types import VideoFrame, to_frame
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.model import Model


class VideoTracking(VideoCommits):
    """Tracking: a part of `VideoPredictor`."""

    _model: Model
    _exclusive: Exclusive
    _source: FrameSource | None

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
            self._read(self._source, index)
        except EndOfFrames as end:
            raise InvalidArgumentError(
                f"frame_index: expected less than {end.args[0]}, found {index}"
            ) from None

    def _read(self, source: FrameSource, index: int) -> None:
        if self._core.wants_squares:
            assert isinstance(source, ClipFrames)
            pixels, orig_hw = source.read_square(index, self._core.side)
            self._core.set_frame(index, pixels, orig_hw)
        else:
            self._core.set_frame(index, source.read(index))

    def _prepare(self) -> None:
        """Encode the memory of frames with new prompts."""
        if not self._handles and not self._phrases:
            raise StateError("propagate: expected an object with prompts or a phrase, found none")
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
        """Track all objects from frame to frame, and look for what phrases name.

        Prompts may be added while this runs: they count from the next frame on. Tracking
        backwards reads results of later frames: those near prompts, and those within `history`.

        With phrases frames come 15 frames late, and the last ones at once: until then an object
        that turns out to be an error of the detector is taken out of them. A frame is searched
        once for a phrase, and again tracked only for objects that were clicked since.

        Parameters
        ----------
        start_frame : int, optional
            The first frame. Default: the earliest one with a prompt or result.
        max_frames : int, optional
            Stop after so many frames. Default: at the end of the video.
        reverse : bool
            True: towards frame 0.
        return_logits : bool
            True: `VideoFrame.logits` is filled. Not with phrases.

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
            Logits are asked for, and there is a phrase.
        """
        if self._source is None:
            raise StateError("propagate: expected frames of a video, found a session of push")
        count = self._source.count
        start = None if start_frame is None else as_integer("start_frame", start_frame, 0)
        if start is not None and count is not None and start >= count:
            raise InvalidArgumentError(f"start_frame: expected 0 to {count - 1}, found {start}")
        most = None if max_frames is None else as_integer("max_frames", max_frames, 1)
        with self._exclusive:
            self._begin()
            self._refuse_logits(return_logits)
            self._prepare()
            if start is None:
                start = self._first_frame()
            self._commit()
        return self._propagate(start, most, bool(reverse), bool(return_logits))

    def _first_frame(self) -> int:
        frames = [min(cond) for _, cond in self._core.prompts.values()]
        return min(frames + self._phrases.first_frames())

    def _refuse_logits(self, return_logits: bool) -> None:
        if return_logits and self._phrases:
            raise UnsupportedError("return_logits: expected False with phrases, found True")

    def _propagate(
        self, index: int, most: int | None, reverse: bool, return_logits: bool
    ) -> Iterator[VideoFrame]:
        assert self._source is not None
        held: deque[int] = deque()
        for frame in self._indices(index, most, reverse):
            with self._exclusive:
                self._begin()
                self._prepare()
                if not self._reads(frame):
                    self._commit()
                    break
                self._track(frame, reverse)
                held.append(frame)
                ready = len(held) >= self._phrases.delay
                found = self._frame(held.popleft(), "tracked", return_logits) if ready else None
                self._commit()
            if found is not None:
                yield found
        while held:
            with self._exclusive:
                self._begin()
                found = self._frame(held.popleft(), "tracked", return_logits)
                self._commit()
            yield found

    def _indices(self, index: int, most: int | None, reverse: bool) -> Iterator[int]:
        """Return the frames to visit; without a known length there is no end."""
        assert self._source is not None
        last = -1 if reverse else self._source.count
        done = 0
        while index != last and (most is None or done < most):
            yield index
            done += 1
            index += -1 if reverse else 1

    def _reads(self, index: int) -> bool:
        """Make sure that a frame is at hand if it is needed; False: the video ended before."""
        assert self._source is not None
        needed = self._core.needs_frame(index) or self._phrases.needs_frame(index)
        if needed and not self._core.has_frame(index):
            try:
                self._read(self._source, index)
            except EndOfFrames:
                return False
        return True

    def _track(self, index: int, reverse: bool) -> None:
        if self._handles:
            self._core.track(index, reverse)
        self._next_handle = self._phrases.step(index, reverse, self._next_handle)

    def push(self, image: Any, *, return_logits: bool = False) -> VideoFrame:
        """Give the next frame of a stream, track all objects on it, and look for phrases there.

        A stream has no later frames to wait for: an object of a phrase is shown from the frame on
        which it is found, and one that turns out to be an error until then. Only the last frame
        can be searched, clicked or looked at again, and there is no way back.

        Parameters
        ----------
        image : ndarray or PIL image
            As for `ImagePredictor.set_image`; all frames have one size.
        return_logits : bool
            True: `VideoFrame.logits` is filled. Not with phrases.

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
        if self._source is not None:
            raise StateError("push: expected a session without frames, found a video")
        pixels = as_rgb(image)
        with self._exclusive:
            self._begin()
            self._refuse_logits(return_logits)
            if self._handles:
                self._prepare()
            index = self._pushed
            self._core.set_frame(index, pixels)
            self._track(index, False)
            self._pushed += 1
            found = self._frame(index, "tracked", bool(return_logits))
            self._commit()
        return found

    def frame(self, frame_index: int, *, return_logits: bool = False) -> VideoFrame:
        """Return the latest masks on a frame, those of new prompts included.

        Parameters
        ----------
        frame_index : int
            Number of the frame.
        return_logits : bool
            True: `VideoFrame.logits` is filled.

        Raises `StateError` if no frame was read so far, or the predictor is in use, and
        `UnsupportedError` if logits are asked for and there is a phrase.
        """
        index = as_integer("frame_index", frame_index, 0)
        with self._exclusive:
            self._begin()
            self._refuse_logits(return_logits)
            found = self._frame(index, "latest", bool(return_logits))
            self._commit()
        return found

    def _frame(self, index: int, source: str, return_logits: bool) -> VideoFrame:
        found = self._core.masks(index, source, return_logits)
        names = {handle: obj_id for obj_id, handle in self._handles.items()}
        threshold = self._model.mask_threshold if return_logits else None
        frame = to_frame(index, names, found, threshold)
        if not self._phrases:
            return frame
        masks, scores, phrases = self._phrases.results(index)
        return replace(
            frame,
            masks={**frame.masks, **masks},
            scores={**frame.scores, **scores},
            phrases=phrases,
        )
