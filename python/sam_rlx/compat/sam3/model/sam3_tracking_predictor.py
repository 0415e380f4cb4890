"""SAM 3's tracker with clicks, boxes and masks: ``sam3.model.sam3_tracking_predictor``."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.video_frames import open_video
from sam_rlx.compat.common.video_sessions import NO_OBJ_SCORE, State, VideoSessions, points_and_box
from sam_rlx.compat.common.video_sessions import Shown as Result
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model

_PRESENT = np.float32(10.0)
_WANTS = _core.Wants(masks=False, logits=True, low_res_masks=True)
Shown = tuple[int, list[Hashable], None, TensorArray]
Tracked = tuple[int, list[Hashable], TensorArray, TensorArray, TensorArray]


class Sam3TrackerPredictor(VideoSessions, Network):
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
    # Those of SAM 2, whose memory it has.
    _FIXED = frozenset(
        {
            "image_size", "num_maskmem", "max_cond_frames_in_attn", "max_obj_ptrs_in_encoder",
            "memory_temporal_stride_for_eval", "mf_threshold", "backbone_stride", "mem_dim",
            "sigmoid_scale_for_mem_enc", "sigmoid_bias_for_mem_enc", "multimask_output_in_sam",
            "multimask_output_for_tracking", "multimask_min_pt_num", "multimask_max_pt_num",
        }
    )  # fmt: skip

    def __init__(self, model: Model | EmptyModel, use_memory_selection: bool = True) -> None:
        if model.family != "sam3":
            raise UnsupportedError(f"model: expected family sam3, found {model.family}")
        self.model: Any = model
        self.image_size = model.img_size
        self.use_memory_selection = use_memory_selection

    def init_state(
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
        state = self._begin(
            open_video(video_path, self.image_size),
            (offload_video_to_cpu, offload_state_to_cpu),
            {
                "fill_hole_area": 0,
                "use_memory_selection": self.use_memory_selection,
                "frames": "clip",
            },
        )
        state["tracking_has_started"] = False
        return state

    def _check_object(self, state: State, obj_id: Hashable) -> None:
        super()._check_object(state, obj_id)
        if obj_id not in state["obj_id_to_idx"] and state["tracking_has_started"]:
            raise ArgumentRuntimeError(
                f"obj_id: expected one of {state['obj_ids']} once tracking has started, found "
                f"{obj_id}"
            )

    # ---------------------------------------------------------------- prompts

    def add_new_points_or_box(
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
        coords, marks = points_and_box(points, labels, box, clear_old_points)
        return _shown(
            self._add_points(
                inference_state, frame_idx, obj_id, (coords * scale, marks), clear_old_points, False
            )
        )

    def add_new_points(self, *args: Any, **kwargs: Any) -> Shown:
        """Do the same as `add_new_points_or_box`, under its old name."""
        return self.add_new_points_or_box(*args, **kwargs)

    def add_new_mask(
        self,
        inference_state: State,
        frame_idx: int,
        obj_id: Hashable,
        mask: Any,
        add_mask_to_memory: bool = False,
    ) -> Shown:
        """Give the mask (h, w) of an object on one frame; returns as `add_new_points_or_box`."""
        return _shown(self._add_mask(inference_state, frame_idx, obj_id, mask))

    def clear_all_points_in_frame(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, need_output: bool = True
    ) -> Shown | None:
        """Forget the prompts of an object on one frame."""
        found = self._clear_prompts(inference_state, frame_idx, obj_id, need_output)
        return None if found is None else _shown(found)

    def clear_all_points_in_video(self, inference_state: State) -> None:
        """Forget all objects and results; the frames stay, and new objects may come."""
        self.reset_state(inference_state)

    def _reset(self, state: State) -> None:
        super()._reset(state)
        state["tracking_has_started"] = False

    # ---------------------------------------------------------------- tracking

    def propagate_in_video_preflight(
        self, inference_state: State, run_mem_encoder: bool = True
    ) -> None:
        """Encode what was given since the last propagation. No more objects are taken then."""
        if not run_mem_encoder:
            raise UnsupportedError("run_mem_encoder: expected True, found False")
        session: _core.VideoSession = inference_state["session"]
        if session.obj_ids:
            session.prepare(allow_unprompted=True)
        inference_state["tracking_has_started"] = True

    def propagate_in_video(
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
        has_prompts = inference_state["session"].has_prompts
        if not has_prompts or not inference_state["tracking_has_started"]:
            raise RuntimeError("propagate_in_video: expected an object with prompts, found none")
        order = (start_frame_idx, max_frame_num_to_track, reverse)
        yield from self._propagate(
            inference_state, order, self._tracked, _WANTS, skip_reverse_from_zero=False
        )

    def _tracked(self, result: _core.FrameResult, obj_ids: list[Hashable]) -> Tracked:
        """Return the masks of all objects on a frame that was tracked."""
        found = self._found(result, obj_ids)
        side = self.model.mask_side
        low_res = np.full((len(obj_ids), 1, side, side), NO_OBJ_SCORE)
        scores = np.full((len(obj_ids), 1), _PRESENT)
        low_res[found.rows, 0] = result.low_res_masks
        scores[found.rows, 0] = found.scores
        masks = as_result(low_res), as_result(found.logits), as_result(scores)
        return (result.frame_index, obj_ids, *masks)


def _shown(found: Result) -> Shown:
    frame, obj_ids, masks = found
    return frame, obj_ids, None, masks


__dir__ = public_names(__name__)
