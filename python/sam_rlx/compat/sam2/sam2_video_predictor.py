"""Upstream's ``SAM2VideoPredictor``: ``sam2.sam2_video_predictor``."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from typing import Any

from numpy.typing import ArrayLike

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.video_frames import open_video
from sam_rlx.compat.common.video_sessions import LOGITS, Shown, State, VideoSessions, points_and_box
from sam_rlx.compat.sam2.config_file import read_settings
from sam_rlx.compat.sam2.loading import load_checkpoint
from sam_rlx.compat.sam2.sam2_base import SAM2Base
from sam_rlx.errors import UnsupportedError

__all__ = ["SAM2VideoPredictor", "SAM2VideoPredictorVOS"]


class SAM2VideoPredictor(VideoSessions, SAM2Base):
    """Objects through a video with upstream's methods, arguments and results.

    Does what upstream does, what it does wrong included: a correction of a frame that was tracked
    is lost when that frame is tracked again, unless `add_all_frames_to_correct_as_cond`;
    `clear_non_cond_mem_around_input` raises ``AttributeError``; clearing prompts of an unknown
    object makes that object. Memory is rounded to bfloat16. Two things differ: holes are filled as
    upstream does on a GPU only, and a prompt in the future or a correction in a video of one frame
    works. `sam_rlx.VideoPredictor` needs less memory: here all results are kept.
    """

    _clearing_makes_objects = True

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
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> SAM2VideoPredictor:
        """Load a model from the hub (extra ``hub``)."""
        return built(None, model_id, **kwargs)

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
        return self._begin(
            open_video(video_path, self.image_size),
            (offload_video_to_cpu, offload_state_to_cpu),
            {
                "fill_hole_area": self.fill_hole_area,
                "non_overlap_masks": self.non_overlap_masks,
                "add_all_frames_to_correct_as_cond": self.add_all_frames_to_correct_as_cond,
                "bfloat16_memory": True,
            },
        )

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
    ) -> Shown:
        """Give points (N, 2) with labels (N,), a box (4,) or both on one frame.

        Returns
        -------
        tuple
            Frame, objects, logits (number of objects, 1, H, W).
        """
        prompt = points_and_box(points, labels, box, clear_old_points)
        return self._add_points(
            inference_state, frame_idx, obj_id, prompt, clear_old_points, normalize_coords
        )

    def add_new_points(self, *args: Any, **kwargs: Any) -> Shown:
        """Do the same as `add_new_points_or_box`, under its old name."""
        return self.add_new_points_or_box(*args, **kwargs)

    def add_new_mask(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, mask: ArrayLike
    ) -> Shown:
        """Give the mask (h, w) of an object on one frame; returns as `add_new_points_or_box`."""
        return self._add_mask(inference_state, frame_idx, obj_id, mask)

    def clear_all_prompts_in_frame(
        self, inference_state: State, frame_idx: int, obj_id: Hashable, need_output: bool = True
    ) -> Shown | None:
        """Forget the prompts of an object on one frame."""
        return self._clear_prompts(inference_state, frame_idx, obj_id, need_output)

    # ---------------------------------------------------------------- tracking

    def propagate_in_video_preflight(self, inference_state: State) -> None:
        """Encode what was given since the last propagation."""
        inference_state["session"].prepare()
        if self.clear_non_cond_mem_around_input:
            raise AttributeError(f"{type(self).__name__}: no _clear_obj_non_cond_mem_around_input")

    def propagate_in_video(
        self,
        inference_state: State,
        start_frame_idx: int | None = None,
        max_frame_num_to_track: int | None = None,
        reverse: bool = False,
    ) -> Iterator[Shown]:
        """Track all objects; yields frame, objects and logits (number of objects, 1, H, W).

        As upstream, `max_frame_num_to_track` gives one frame more than it says, nothing is tracked
        backwards from frame 0, and prompts and objects that are given meanwhile wait for the next
        propagation.
        """
        self.propagate_in_video_preflight(inference_state)

        def tracked(result: _core.FrameResult, obj_ids: list[Hashable]) -> Shown:
            return result.frame_index, obj_ids, as_result(self._found(result, obj_ids).logits)

        order = (start_frame_idx, max_frame_num_to_track, reverse)
        yield from self._propagate(
            inference_state, order, tracked, LOGITS, skip_reverse_from_zero=True
        )


class SAM2VideoPredictorVOS(SAM2VideoPredictor):
    """Upstream's predictor for whole data sets, which is compiled there; here nothing differs."""


def built(
    config_file: str | os.PathLike[str] | None,
    ckpt_path: str | os.PathLike[str] | None = None,
    device: Any = "cpu",
    mode: str = "eval",
    hydra_overrides_extra: list[str] | None = None,
    apply_postprocessing: bool = True,
    vos_optimized: bool = False,
    **_kwargs: Any,
) -> SAM2VideoPredictor:
    """Return what `build_sam2_video_predictor` does, of which these are the arguments."""
    check_device(device)
    if mode != "eval":
        raise UnsupportedError(f"mode: expected 'eval', found {mode!r}")
    settings = read_settings(
        config_file,
        hydra_overrides_extra or (),
        postprocessing=apply_postprocessing,
        video=True,
    )
    kind = SAM2VideoPredictorVOS if vos_optimized else SAM2VideoPredictor
    model = load_checkpoint(settings, ckpt_path)
    network = kind(model, **settings.predictor)
    network._settings = settings
    return network


__dir__ = public_names(__name__)
