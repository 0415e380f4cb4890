"""Upstream's ``SAM2VideoPredictor``: ``sam2.sam2_video_predictor``."""

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx.compat.sam2.all_or_nothing import all_or_nothing
from sam_rlx.compat.sam2.sam2_base import SAM2Base
from sam_rlx.compat.sam2.video_frames import open_video
from sam_rlx.compat.segment_anything.tensor import as_tensor
from sam_rlx.compat.tensors import like, numbers

_NO_OBJ_SCORE = np.float32(-1024.0)
_OTHERS = -10.0  # where another object is more likely
State = dict[str, Any]
Result = tuple[int, list[Hashable], NDArray[np.float32]]


class SAM2VideoPredictor(SAM2Base):
    """Objects through a video with upstream's methods, arguments and results.

    Does what upstream does, what it does wrong included: a correction of a frame that was tracked
    is lost when that frame is tracked again, unless `add_all_frames_to_correct_as_cond`;
    `clear_non_cond_mem_around_input` raises ``AttributeError``; clearing prompts of an unknown
    object makes that object. Memory is rounded to bfloat16. Two things differ: holes are filled as
    upstream does on a GPU only, and a prompt in the future or a correction in a video of one frame
    works. `sam_rlx.VideoPredictor` needs less memory: here all results are kept.
    """

    def __init__(
        self,
        model: Any,
        fill_hole_area: int = 0,
        non_overlap_masks: bool = False,
        clear_non_cond_mem_around_input: bool = False,
        add_all_frames_to_correct_as_cond: bool = False,
    ) -> None:
        super().__init__(model.model if isinstance(model, SAM2Base) else model)
        self.fill_hole_area = fill_hole_area
        self.non_overlap_masks = non_overlap_masks
        self.clear_non_cond_mem_around_input = clear_non_cond_mem_around_input
        self.add_all_frames_to_correct_as_cond = add_all_frames_to_correct_as_cond

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> "SAM2VideoPredictor":
        """Load a model from the hub (extra ``hub``)."""
        from sam_rlx.compat.sam2.build_sam import build_sam2_video_predictor_hf

        return build_sam2_video_predictor_hf(model_id, **kwargs)

    def init_state(
        self,
        video_path: str | bytes,
        offload_video_to_cpu: bool = False,
        offload_state_to_cpu: bool = False,
        async_loading_frames: bool = False,
    ) -> State:
        """Begin a session.

        Parameters
        ----------
        video_path : str or bytes
            A folder of JPEG files named by numbers, an MP4 file, or the contents of one. Frames
            are decoded when they are needed.
        offload_video_to_cpu, offload_state_to_cpu, async_loading_frames : bool
            Without effect.

        Returns
        -------
        dict
            The state that the other methods take. Keys of upstream's: ``images``,
            ``num_frames``, ``video_height``, ``video_width``, ``obj_ids``, ``obj_id_to_idx``,
            ``obj_idx_to_id``, the flags and the devices.
        """
        images = open_video(video_path, self.image_size)
        session = _core.VideoPredictor(
            self.model.core,
            0,
            {
                "fill_hole_area": self.fill_hole_area,
                "non_overlap_masks": self.non_overlap_masks,
                "add_all_frames_to_correct_as_cond": self.add_all_frames_to_correct_as_cond,
                "bfloat16_memory": True,
                "history": -1,
            },
        )
        session.num_frames = len(images)
        state: State = {
            "images": images,
            "num_frames": len(images),
            "offload_video_to_cpu": offload_video_to_cpu,
            "offload_state_to_cpu": offload_state_to_cpu,
            "video_height": images.height,
            "video_width": images.width,
            "device": "cpu",
            "storage_device": "cpu",
            "obj_id_to_idx": {},
            "obj_idx_to_id": {},
            "obj_ids": [],
            "handles": {},
            "next_handle": 0,
            "session": session,
        }
        self._load(state, 0)
        return state

    # ---------------------------------------------------------------- helpers

    def _load(self, state: State, frame_idx: int) -> None:
        session: _core.VideoPredictor = state["session"]
        if not session.has_frame(frame_idx):
            images = state["images"]
            session.set_frame(frame_idx, images[frame_idx], (images.height, images.width))

    def _handle(self, state: State, obj_id: Hashable) -> int:
        """Return the session's number of an object; a new one is made."""
        if obj_id not in state["handles"]:
            state["handles"][obj_id] = state["next_handle"]
            state["next_handle"] += 1
            state["obj_ids"] = [*state["obj_ids"], obj_id]
            _number(state)
        handle: int = state["handles"][obj_id]
        return handle

    def _result(self, state: State, frame_idx: int, source: str) -> Result:
        """Return the masks of all objects: -1024 for those without one on this frame."""
        handles, masks, _ = state["session"].masks(frame_idx, source, True)
        obj_ids = state["obj_ids"]
        logits = np.full((len(obj_ids), 1, *masks.shape[1:]), _NO_OBJ_SCORE)
        rows = {state["handles"][obj_id]: row for row, obj_id in enumerate(obj_ids)}
        for handle, mask in zip(handles, masks, strict=True):
            logits[rows[handle], 0] = mask
        return frame_idx, obj_ids, as_tensor(logits)

    def _apply_non_overlapping_constraints(self, pred_masks: Any) -> Any:
        """Leave each position of logits (N, 1, H, W) to the object with the highest; at most -10.

        Upstream's program for data sets calls it; tensors of PyTorch give one.
        """
        logits = numbers(pred_masks)
        if len(logits) == 1:
            return pred_masks
        owner = logits.argmax(axis=0)
        rows = np.arange(len(logits)).reshape(-1, *[1] * owner.ndim)
        lowered = np.minimum(logits, np.array(_OTHERS, logits.dtype))
        return like(np.where(owner == rows, logits, lowered), pred_masks)

    # ---------------------------------------------------------------- prompts

    def add_new_points_or_box(
        self,
        inference_state: State,
        frame_idx: int,
        obj_id: Hashable,
        points: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        clear_old_points: bool = True,
        normalize_coords: bool = True,
        box: ArrayLike | None = None,
    ) -> Result:
        """Give points (N, 2) with labels (N,), a box (4,) or both on one frame.

        Returns
        -------
        tuple
            Frame, objects, logits (number of objects, 1, H, W).
        """
        if (points is not None) != (labels is not None):
            raise ValueError("expected points and labels, found one of them")
        if points is None and box is None:
            raise ValueError("expected points or box, found neither")
        coords = np.asarray(() if points is None else points, np.float32).reshape(-1, 2)
        kinds = np.asarray(() if labels is None else labels, np.int32).reshape(-1)
        if box is not None:
            if not clear_old_points:
                raise ValueError(
                    "box: expected clear_old_points=True, for a box comes before points"
                )
            corners = np.asarray(box, np.float32).reshape(2, 2)
            coords = np.concatenate([corners, coords])
            kinds = np.concatenate([np.array([2, 3], np.int32), kinds])
        with all_or_nothing(inference_state):
            handle = self._handle(inference_state, obj_id)
            self._load(inference_state, frame_idx)
            is_cond = inference_state["session"].add_points(
                frame_idx,
                handle,
                coords.astype(np.float64),
                kinds,
                clear_old_points,
                normalize_coords,
            )
            return self._result(inference_state, frame_idx, "cond" if is_cond else "correction")

    def add_new_points(self, *args: Any, **kwargs: Any) -> Result:
        """Do the same as `add_new_points_or_box`, under its old name."""
        return self.add_new_points_or_box(*args, **kwargs)

    def add_new_mask(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, mask: ArrayLike
    ) -> Result:
        """Give the mask (h, w) of an object on one frame; returns as `add_new_points_or_box`."""
        pixels = np.asarray(mask, np.bool_)
        assert pixels.ndim == 2
        values = pixels.astype(np.float32)
        with all_or_nothing(inference_state):
            handle = self._handle(inference_state, obj_id)
            self._load(inference_state, frame_idx)
            is_cond = inference_state["session"].add_mask(frame_idx, handle, values)
            return self._result(inference_state, frame_idx, "cond" if is_cond else "correction")

    def clear_all_prompts_in_frame(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, need_output: bool = True
    ) -> Result | None:
        """Forget the prompts of an object on one frame."""
        session: _core.VideoPredictor = inference_state["session"]
        with all_or_nothing(inference_state):
            handle = self._handle(inference_state, obj_id)
            if handle in session.objects:
                session.clear_prompts(frame_idx, handle)
            is_cond = session.has_new_prompt(frame_idx)
            if not need_output:
                return None
            return self._result(inference_state, frame_idx, "cond" if is_cond else "correction")

    def remove_object(
        self,
        inference_state: State,
        obj_id: Hashable,
        strict: bool = False,
        need_output: bool = True,
    ) -> tuple[list[Hashable], list[tuple[int, NDArray[np.float32]]]]:
        """Forget an object; returns the others, and their masks where it had prompts."""
        if obj_id not in inference_state["handles"]:
            if not strict:
                return inference_state["obj_ids"], []
            raise RuntimeError(
                f"obj_id: expected one of {inference_state['obj_ids']}, found {obj_id}"
            )
        with all_or_nothing(inference_state):
            if len(inference_state["handles"]) == 1:
                self.reset_state(inference_state)
                return inference_state["obj_ids"], []
            return self._remove(inference_state, obj_id, need_output)

    def _remove(
        self, inference_state: State, obj_id: Hashable, need_output: bool
    ) -> tuple[list[Hashable], list[tuple[int, NDArray[np.float32]]]]:
        session: _core.VideoPredictor = inference_state["session"]
        handle = inference_state["handles"].pop(obj_id)
        frames = []
        if handle in session.objects:
            frames = session.prompts[handle][0]
            session.remove_object(handle)
        inference_state["obj_ids"] = list(inference_state["handles"])
        _number(inference_state)
        updated = []
        for frame_idx in frames if need_output else []:
            is_cond = session.has_new_prompt(frame_idx)
            source = "cond" if is_cond else "correction"
            updated.append((frame_idx, self._result(inference_state, frame_idx, source)[2]))
        return inference_state["obj_ids"], updated

    def reset_state(self, inference_state: State) -> None:
        """Forget all objects and results; the frames stay."""
        inference_state["session"].reset()
        inference_state["handles"].clear()
        inference_state["obj_ids"] = []
        _number(inference_state)

    # ---------------------------------------------------------------- tracking

    def propagate_in_video_preflight(self, inference_state: State) -> None:
        """Encode what was given since the last propagation."""
        session: _core.VideoPredictor = inference_state["session"]
        if not inference_state["handles"]:
            raise RuntimeError("propagate_in_video: expected an object with prompts, found none")
        with all_or_nothing(inference_state):
            for frame_idx in session.pending_frames():
                self._load(inference_state, frame_idx)
                session.encode_pending(frame_idx)
            session.preflight()
        if self.clear_non_cond_mem_around_input:
            raise AttributeError(f"{type(self).__name__}: no _clear_obj_non_cond_mem_around_input")
        prompts = session.prompts
        for obj_id, handle in inference_state["handles"].items():
            if handle not in prompts or not prompts[handle][1]:
                raise RuntimeError(
                    f"propagate_in_video: expected prompts for object {obj_id}, found none"
                )

    def propagate_in_video(
        self,
        inference_state: State,
        start_frame_idx: int | None = None,
        max_frame_num_to_track: int | None = None,
        reverse: bool = False,
    ) -> Iterator[Result]:
        """Track all objects; yields frame, objects and logits (number of objects, 1, H, W).

        As upstream, `max_frame_num_to_track` gives one frame more than it says, and nothing is
        tracked backwards from frame 0.
        """
        self.propagate_in_video_preflight(inference_state)
        session: _core.VideoPredictor = inference_state["session"]
        count = inference_state["num_frames"]
        if start_frame_idx is None:
            start_frame_idx = min(min(cond) for _, cond in session.prompts.values())
        most = count if max_frame_num_to_track is None else max_frame_num_to_track
        if not reverse:
            order = range(start_frame_idx, min(start_frame_idx + most, count - 1) + 1)
        elif start_frame_idx > 0:
            order = range(start_frame_idx, max(start_frame_idx - most, 0) - 1, -1)
        else:
            order = range(0)
        for frame_idx in order:
            with all_or_nothing(inference_state):
                if session.needs_frame(frame_idx):
                    self._load(inference_state, frame_idx)
                session.track(frame_idx, reverse)
                result = self._result(inference_state, frame_idx, "tracked")
            yield result


class SAM2VideoPredictorVOS(SAM2VideoPredictor):
    """Upstream's predictor for whole data sets, which is compiled there; here nothing differs."""


def _number(state: State) -> None:
    state["obj_id_to_idx"] = {obj_id: i for i, obj_id in enumerate(state["obj_ids"])}
    state["obj_idx_to_id"] = dict(enumerate(state["obj_ids"]))
