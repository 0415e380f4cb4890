"""SAM 3's tracker with clicks, boxes and masks: ``sam3.model.sam3_tracking_predictor``."""

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.errors import ArgumentRuntimeError, require
from sam_rlx.compat.sam2.all_or_nothing import all_or_nothing
from sam_rlx.compat.sam2.sam2_video_predictor import SAM2VideoPredictor, State
from sam_rlx.compat.sam2.video_frames import open_video
from sam_rlx.compat.segment_anything.tensor import TensorArray, as_tensor
from sam_rlx.compat.tensors import numbers
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

_NO_OBJ_SCORE = np.float32(-1024.0)
_PRESENT = np.float32(10.0)
Shown = tuple[int, list[Hashable], None, TensorArray]
Tracked = tuple[int, list[Hashable], TensorArray, TensorArray, TensorArray]


class Sam3TrackerPredictor(SAM2VideoPredictor):
    """Objects through a video with upstream's methods, arguments and results.

    The attribute ``tracker`` of what `build_sam3_video_model` gives. As upstream, all objects are
    given before the tracking starts, and coordinates are fractions of the sides unless
    `rel_coordinates` is False: then they are pixels of the model's input. `sam_rlx.VideoPredictor`
    takes objects at any time and pixels of the video.

    Parameters
    ----------
    model : Model
        Of SAM 3, with the tracker.
    use_memory_selection : bool
        Frames of low quality are left out of the memory.

    Attributes
    ----------
    backbone
        Without effect: programs set it to the backbone of the detector.
    """

    backbone: Any = None

    def __init__(self, model: Model, use_memory_selection: bool = True) -> None:
        if model.family != "sam3":
            raise UnsupportedError(f"model: expected family sam3, found {model.family}")
        self.model = model
        self.image_size = model.img_size
        self.use_memory_selection = use_memory_selection

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> "Sam3TrackerPredictor":
        """Raise `UnsupportedError`: upstream's class has no such method."""
        raise UnsupportedError(
            f"Sam3TrackerPredictor: expected build_sam3_video_model, found from_pretrained of "
            f"{model_id}"
        )

    def init_state(  # type: ignore[override]
        self,
        video_height: int | None = None,
        video_width: int | None = None,
        num_frames: int | None = None,
        video_path: str | bytes | None = None,
        cached_features: Any = None,
        offload_video_to_cpu: bool = False,
        offload_state_to_cpu: bool = False,
        async_loading_frames: bool = False,
    ) -> State:
        """Begin a session.

        Parameters
        ----------
        video_path : str or bytes
            A folder of JPEG files named by numbers, an MP4 file, or the contents of one.
        video_height, video_width, num_frames, cached_features
            None: sessions on features that were computed elsewhere are not offered.
        offload_video_to_cpu, offload_state_to_cpu, async_loading_frames : bool
            Without effect.

        Returns
        -------
        dict
            The state that the other methods take.
        """
        if video_path is None or cached_features is not None:
            raise UnsupportedError(
                "init_state: expected video_path, found features that were computed elsewhere"
            )
        images = open_video(video_path, self.image_size)
        session = _core.VideoPredictor(
            self.model.core,
            0,
            {
                "fill_hole_area": 0,
                "history": -1,
                "use_memory_selection": self.use_memory_selection,
                "frames": "clip",
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
            "tracking_has_started": False,
            "handles": {},
            "next_handle": 0,
            "session": session,
        }
        self._load(state, 0)
        return state

    def _handle(self, state: State, obj_id: Hashable) -> int:
        if obj_id not in state["handles"] and state["tracking_has_started"]:
            raise ArgumentRuntimeError(
                f"obj_id: expected one of {state['obj_ids']} once tracking has started, found "
                f"{obj_id}"
            )
        return super()._handle(state, obj_id)

    # ---------------------------------------------------------------- prompts

    def add_new_points_or_box(  # type: ignore[override]
        self,
        inference_state: State,
        frame_idx: int,
        obj_id: Hashable,
        points: Any = None,
        labels: Any = None,
        clear_old_points: bool = True,
        rel_coordinates: bool = True,
        use_prev_mem_frame: bool = False,
        normalize_coords: bool = True,
        box: Any = None,
    ) -> Shown:
        """Give points ([1,] N, 2) with labels ([1,] N), a box (4,) or both on one frame.

        Returns
        -------
        tuple
            Frame, objects, None, logits (number of objects, 1, H, W).
        """
        if use_prev_mem_frame:
            raise UnsupportedError("use_prev_mem_frame: expected False, found True")
        scale = np.float32(1.0 if rel_coordinates else 1.0 / self.image_size)
        coords = None if points is None else numbers(points).astype(np.float32) * scale
        marks = None if labels is None else numbers(labels)
        corners = None if box is None else numbers(box).astype(np.float32) * scale
        frame, obj_ids, masks = super().add_new_points_or_box(
            inference_state,
            frame_idx,
            obj_id,
            coords,
            marks,
            clear_old_points,
            normalize_coords=False,
            box=corners,
        )
        return frame, obj_ids, None, as_tensor(masks)

    def add_new_points(self, *args: Any, **kwargs: Any) -> Shown:  # type: ignore[override]
        """Do the same as `add_new_points_or_box`, under its old name."""
        return self.add_new_points_or_box(*args, **kwargs)

    def add_new_mask(  # type: ignore[override]
        self,
        inference_state: State,
        frame_idx: int,
        obj_id: Hashable,
        mask: Any,
        add_mask_to_memory: bool = False,
    ) -> Shown:
        """Give the mask (h, w) of an object on one frame; returns as `add_new_points_or_box`."""
        pixels = numbers(mask)
        require(pixels.ndim == 2, f"mask: expected shape (H, W), found {pixels.shape}")
        frame, obj_ids, masks = super().add_new_mask(inference_state, frame_idx, obj_id, pixels)
        return frame, obj_ids, None, as_tensor(masks)

    def clear_all_points_in_frame(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, need_output: bool = True
    ) -> Shown | None:
        """Forget the prompts of an object on one frame."""
        found = self.clear_all_prompts_in_frame(inference_state, frame_idx, obj_id, need_output)
        if found is None:
            return None
        frame, obj_ids, masks = found
        return frame, obj_ids, None, as_tensor(masks)

    def clear_all_points_in_video(self, inference_state: State) -> None:
        """Forget all objects and results; the frames stay, and new objects may come."""
        self.reset_state(inference_state)

    def reset_state(self, inference_state: State) -> None:
        """Do the same as `clear_all_points_in_video`, under the name of SAM 2."""
        super().reset_state(inference_state)
        inference_state["tracking_has_started"] = False

    # ---------------------------------------------------------------- tracking

    def propagate_in_video_preflight(
        self, inference_state: State, run_mem_encoder: bool = True
    ) -> None:
        """Encode what was given since the last propagation. No more objects are taken then."""
        if not run_mem_encoder:
            raise UnsupportedError("run_mem_encoder: expected True, found False")
        session: _core.VideoPredictor = inference_state["session"]
        with all_or_nothing(inference_state):
            for frame_idx in session.pending_frames():
                self._load(inference_state, frame_idx)
                session.encode_pending(frame_idx)
            if inference_state["handles"]:
                session.preflight()
            inference_state["tracking_has_started"] = True

    def propagate_in_video(  # type: ignore[override]
        self,
        inference_state: State,
        start_frame_idx: int | None,
        max_frame_num_to_track: int | None,
        reverse: bool,
        tqdm_disable: bool = False,
        obj_ids: Any = None,
        run_mem_encoder: bool = True,
        propagate_preflight: bool = False,
    ) -> Iterator[Tracked]:
        """Track all objects.

        Parameters
        ----------
        inference_state : dict
            From `init_state`.
        start_frame_idx : int or None
            None: the earliest frame with prompts.
        max_frame_num_to_track : int or None
            None: all frames. As upstream, there is one frame more than it says.
        reverse : bool
            True: towards frame 0.
        tqdm_disable : bool
            Without effect: there is no bar.
        obj_ids
            None, as upstream.
        run_mem_encoder : bool
            True.
        propagate_preflight : bool
            Call `propagate_in_video_preflight` before, which is needed after new prompts.

        Yields
        ------
        tuple
            Frame, objects, logits (N, 1, S, S), logits (N, 1, H, W), object scores (N, 1).
        """
        if propagate_preflight:
            self.propagate_in_video_preflight(inference_state)
        if obj_ids is not None:
            raise NotImplementedError("obj_ids: expected None, found objects of their own")
        if not run_mem_encoder:
            raise UnsupportedError("run_mem_encoder: expected True, found False")
        session: _core.VideoPredictor = inference_state["session"]
        frames = [frame for _, cond in session.prompts.values() for frame in cond]
        if not frames or not inference_state["tracking_has_started"]:
            raise RuntimeError("propagate_in_video: expected an object with prompts, found none")
        start = min(frames) if start_frame_idx is None else start_frame_idx
        for frame_idx in self._order(inference_state, start, max_frame_num_to_track, reverse):
            with all_or_nothing(inference_state):
                if session.needs_frame(frame_idx):
                    self._load(inference_state, frame_idx)
                session.track(frame_idx, reverse)
                result = self._tracked(inference_state, frame_idx)
            yield result

    @staticmethod
    def _order(state: State, start: int, most: int | None, reverse: bool) -> range:
        count = state["num_frames"]
        most = count if most is None else most
        if not reverse:
            return range(start, min(start + most, count - 1) + 1)
        if start == 0:
            return range(1)
        return range(start, max(start - most, 0) - 1, -1)

    def _tracked(self, state: State, frame_idx: int) -> Tracked:
        """Return the masks of all objects on a frame that was tracked."""
        session: _core.VideoPredictor = state["session"]
        obj_ids = state["obj_ids"]
        handles, masks, found = session.masks(frame_idx, "tracked", True)
        side = self.model.mask_side
        low_res = _filled((len(obj_ids), 1, side, side), _NO_OBJ_SCORE)
        logits = _filled((len(obj_ids), 1, *masks.shape[1:]), _NO_OBJ_SCORE)
        scores = _filled((len(obj_ids), 1), _PRESENT)
        rows = {state["handles"][obj_id]: row for row, obj_id in enumerate(obj_ids)}
        small = session.low_res_masks(frame_idx, "tracked")
        for handle, mask, low, score in zip(handles, masks, small, found, strict=True):
            row = rows[handle]
            logits[row, 0], low_res[row, 0], scores[row, 0] = mask, low, score
        return frame_idx, obj_ids, as_tensor(low_res), as_tensor(logits), as_tensor(scores)


def _filled(shape: tuple[int, ...], value: np.float32) -> NDArray[np.float32]:
    return np.full(shape, value, np.float32)
