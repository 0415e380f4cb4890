"""Sessions of upstream's video predictors: names and shapes. The order of calls is the core's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.common.devices import CPU
from sam_rlx.compat.common.errors import (
    ArgumentIndexError,
    ArgumentRuntimeError,
    ArgumentTypeError,
    require,
)
from sam_rlx.compat.common.overrides import refuse_overrides
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result, is_torch, numbers
from sam_rlx.compat.common.video_frames import UpstreamFrames
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

NO_OBJ_SCORE = np.float32(-1024.0)
_NO_KIND = 9  # a label that tells nothing about a point
_OTHERS = -10.0  # where another object is more likely
# What upstream's predictors call of themselves.
_INNER = (
    "_add_output_per_object",
    "_clear_obj_non_cond_mem_around_input",
    "_consolidate_temp_output_across_obj",
    "_encode_memory_in_output",
    "_encode_new_memory",
    "_forward_sam_heads",
    "_get_empty_mask_ptr",
    "_get_image_feature",
    "_get_maskmem_pos_enc",
    "_get_orig_video_res_output",
    "_get_tpos_enc",
    "_prepare_backbone_features",
    "_prepare_memory_conditioned_features",
    "_run_memory_encoder",
    "_run_single_frame_inference",
    "_track_step",
    "_use_mask_as_output",
    "_use_multimask",
    "forward_image",
    "track_step",
)
LOGITS = _core.Wants(masks=False, logits=True)
NOTHING = _core.Wants(masks=False)
State = dict[str, Any]
Shown = tuple[int, list[Hashable], TensorArray]
_Result = TypeVar("_Result")


def as_index(name: str, value: Any) -> int:
    """Return a number of frames, or of one of them, as an int."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise ArgumentTypeError(
            f"{name}: expected an int, found {type(value).__name__} {value!r}"
        ) from error


def begin_session(
    model: Model, images: UpstreamFrames, options: dict[str, Any]
) -> _core.VideoSession:
    """Make a session on frames, all of whose results are kept."""
    return _core.VideoSession(model.core, 0, {"history": -1, **options}, images)


def frame_of(state: State, frame_idx: Any) -> int:
    """Return the number of a frame that there is."""
    index, count = as_index("frame_idx", frame_idx), state["num_frames"]
    if not 0 <= index < count:
        raise ArgumentIndexError(f"frame_idx: expected 0 to {count - 1}, found {index}")
    return index


def check_key(state: State, key: str, expected: int) -> None:
    """Refuse a key of a state that a program has set: nothing would follow from it."""
    if state.get(key) != expected:
        raise InvalidArgumentError(
            f"state[{key!r}]: expected {expected}, that of the video, found {state.get(key)!r}; "
            "frames are left out by max_frame_num_to_track, and masks resized by the program"
        )


@dataclass(frozen=True)
class Found:
    """Masks of a frame: logits (N, 1, H, W), -1024 for objects without one.

    Attributes
    ----------
    logits : ndarray
        Of the objects in their order.
    rows : list of int
        Row of each object that has a mask.
    scores : list of float
        Logits of their presence.
    """

    logits: NDArray[np.float32]
    rows: list[int]
    scores: list[float]


class VideoSessions:
    """What the video predictors of SAM 2 and of SAM 3's tracker have in common.

    Attributes
    ----------
    model : sam_rlx.Model
        The weights.
    image_size : int
        Side of the square input in pixels.
    """

    model: Model
    image_size: int
    _clearing_makes_objects = False

    def _own_class(self) -> type:
        return next(x for x in type(self).__mro__ if x.__module__.startswith("sam_rlx.compat."))

    def _check_state(self, state: State) -> None:
        """Refuse what would be without effect: overridden methods, and sizes that were set."""
        refuse_overrides(self, self._own_class(), _INNER, "tracking runs in the core")
        images = state["images"]
        check_key(state, "num_frames", images.count)
        check_key(state, "video_height", images.height)
        check_key(state, "video_width", images.width)

    def _begin(
        self, images: UpstreamFrames, offloads: tuple[bool, bool], options: dict[str, Any]
    ) -> State:
        """Return a state with the keys of upstream's, on its first frame."""
        state: State = {
            "images": images,
            "num_frames": images.count,
            "offload_video_to_cpu": offloads[0],
            "offload_state_to_cpu": offloads[1],
            "video_height": images.height,
            "video_width": images.width,
            "device": CPU,
            "storage_device": CPU,
            "session": begin_session(self.model, images, options),
        }
        self._check_state(state)
        state["session"].load(0)
        _list_objects(state, [])
        return state

    def _check_object(self, state: State, obj_id: Hashable) -> None:
        """Refuse what cannot be the name of an object."""
        try:
            hash(obj_id)
        except TypeError as error:
            raise ArgumentTypeError(f"obj_id: expected a hashable, found {obj_id!r}") from error

    def _found(self, result: _core.FrameResult, obj_ids: list[Hashable]) -> Found:
        row_of = {obj_id: row for row, obj_id in enumerate(obj_ids)}
        rows = [row_of[obj_id] for obj_id in result.obj_ids]
        logits = np.full((len(obj_ids), 1, *result.logits.shape[1:]), NO_OBJ_SCORE)
        logits[rows, 0] = result.logits
        return Found(logits, rows, result.scores)

    def _prompted(self, state: State, result: _core.FrameResult) -> Shown:
        """Return the masks of all objects on a frame whose prompts have changed."""
        obj_ids = state["obj_ids"]
        return result.frame_index, obj_ids, as_result(self._found(result, obj_ids).logits)

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
        return as_result(np.where(owner == rows, logits, lowered))

    # ---------------------------------------------------------------- prompts

    def _add_points(
        self,
        state: State,
        frame_idx: int,
        obj_id: Hashable,
        prompt: tuple[NDArray[np.float32], NDArray[np.int32]],
        clear_old_points: bool,
        normalize_coords: bool,
    ) -> Shown:
        self._check_state(state)
        frame_idx = as_index("frame_idx", frame_idx)
        self._check_object(state, obj_id)
        result = state["session"].add_points(
            frame_of(state, frame_idx),
            obj_id,
            str(obj_id),
            prompt[0].astype(np.float64),
            prompt[1],
            clear_old_points,
            normalize_coords,
            any_label=True,
            wants=LOGITS,
        )
        _list_objects(state, [*state["obj_ids"], obj_id])
        return self._prompted(state, result)

    def _add_mask(self, state: State, frame_idx: int, obj_id: Hashable, mask: Any) -> Shown:
        """Give a mask (h, w): tensors of PyTorch as they are, of all else what is not zero."""
        self._check_state(state)
        frame_idx, pixels = as_index("frame_idx", frame_idx), numbers(mask)
        require(pixels.ndim == 2, f"mask: expected shape (H, W), found {pixels.shape}")
        values = (pixels if is_torch(mask) else pixels.astype(np.bool_)).astype(np.float32)
        self._check_object(state, obj_id)
        result = state["session"].add_mask(
            frame_of(state, frame_idx), obj_id, str(obj_id), values, any_size=True, wants=LOGITS
        )
        _list_objects(state, [*state["obj_ids"], obj_id])
        return self._prompted(state, result)

    def _clear_prompts(
        self, state: State, frame_idx: int, obj_id: Hashable, need_output: bool
    ) -> Shown | None:
        self._check_state(state)
        session: _core.VideoSession = state["session"]
        frame_idx = as_index("frame_idx", frame_idx)
        self._check_object(state, obj_id)
        if self._clearing_makes_objects:
            session.add_object(obj_id, str(obj_id))
        wants = LOGITS if need_output else NOTHING
        result = session.clear_prompts(frame_idx, obj_id, wants)
        if result is None:
            result = session.result(frame_idx, "prompted", wants)
        _list_objects(state, [*state["obj_ids"], obj_id])
        return self._prompted(state, result) if need_output else None

    def remove_object(
        self,
        inference_state: State,
        obj_id: Hashable,
        strict: bool = False,
        need_output: bool = True,
    ) -> tuple[list[Hashable], list[tuple[int, TensorArray]]]:
        """Forget an object; returns the others, and their masks where it had prompts."""
        obj_ids = inference_state["obj_ids"]
        if obj_id not in inference_state["obj_id_to_idx"]:
            if not strict:
                return obj_ids, []
            raise ArgumentRuntimeError(f"obj_id: expected one of {obj_ids}, found {obj_id}")
        if len(obj_ids) == 1:
            self._reset(inference_state)
            return inference_state["obj_ids"], []
        wants = LOGITS if need_output else NOTHING
        updated = inference_state["session"].remove_object(obj_id, wants) or []
        _list_objects(inference_state, [other for other in obj_ids if other != obj_id])
        masks = [self._prompted(inference_state, result) for result in updated]
        return inference_state["obj_ids"], [(frame, logits) for frame, _, logits in masks]

    def reset_state(self, inference_state: State) -> None:
        """Forget all objects and results; the frames stay."""
        self._reset(inference_state)

    def _reset(self, state: State) -> None:
        state["session"].reset()
        _list_objects(state, [])

    # ---------------------------------------------------------------- tracking

    def _propagate(
        self,
        state: State,
        order: tuple[int | None, int | None, bool],
        result: Callable[[_core.FrameResult, list[Hashable]], _Result],
        wants: _core.Wants,
        skip_reverse_from_zero: bool,
    ) -> Iterator[_Result]:
        """Track the objects that there are now, and give results of frames and objects.

        The order is first frame, number of frames less one, and whether it goes backwards.
        Prompts and objects that are given meanwhile wait for the next propagation.
        """
        self._check_state(state)
        session: _core.VideoSession = state["session"]
        start = None if order[0] is None else as_index("start_frame_idx", order[0])
        most = None if order[1] is None else as_index("max_frame_num_to_track", order[1])
        reverse = bool(order[2])
        if start is not None and start < 0:
            raise InvalidArgumentError(f"start_frame_idx: expected 0 or more, found {start}")
        count = None if most is None else max(min(most, state["num_frames"]) + 1, 0)
        propagation = session.propagation(start, count, reverse, waits=True)
        if skip_reverse_from_zero and reverse and propagation.frame == 0:
            return
        known: list[Hashable] = state["obj_ids"]
        while (found := session.next(propagation, wants)) is not None:
            yield result(found, [obj_id for obj_id in known if obj_id in state["obj_id_to_idx"]])


def points_and_box(
    points: Any, labels: Any, box: Any, clear_old_points: bool
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return coordinates (N, 2) and labels (N,) of points ([1,] N, 2) behind the corners of a box.

    Fewer labels than points are refused; an empty list of them, which upstream takes for padding
    of every point, too.
    """
    if (points is not None) != (labels is not None):
        raise InvalidArgumentError("expected points and labels, found one of them")
    if points is None and box is None:
        raise InvalidArgumentError("expected points or box, found neither")
    coords = np.zeros((0, 2), np.float32) if points is None else _numbers("points", points)
    kinds = _numbers("labels", () if labels is None else labels)
    if box is not None and coords.shape == (0,):  # upstream's torch.cat passes over it
        coords = coords.reshape(0, 2)
    coords, kinds = (_only(values, axes) for values, axes in ((coords, 2), (kinds, 1)))
    if coords.shape[-1:] != (2,) or coords.ndim != 2:
        raise ArgumentRuntimeError(f"points: expected shape (N, 2), found {coords.shape}")
    if kinds.shape != coords.shape[:1]:
        raise ArgumentRuntimeError(
            f"labels: expected shape {coords.shape[:1]}, one of each point, found {kinds.shape}"
        )
    if box is not None:
        if not clear_old_points:
            raise InvalidArgumentError(
                "box: expected clear_old_points=True, for a box comes before points, found False"
            )
        corners = _numbers("box", box)
        if corners.size != 4:
            raise ArgumentRuntimeError(f"box: expected 4 numbers, found shape {corners.shape}")
        coords = np.concatenate([corners.reshape(2, 2), coords])
        kinds = np.concatenate([[2, 3], kinds])
    return coords, _whole(kinds, is_torch(labels))


def _only(values: NDArray[np.float32], axes: int) -> NDArray[np.float32]:
    """Leave out the batch, which is of one."""
    return values[0] if values.ndim == axes + 1 and len(values) == 1 else values


def _numbers(name: str, values: Any) -> NDArray[np.float32]:
    try:
        return numbers(values).astype(np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{name}: expected numbers, found {error}") from error


def _whole(kinds: NDArray[np.float32], are_exact: bool) -> NDArray[np.int32]:
    """Return labels as upstream compares them: fractions are cut off, but not of a tensor's."""
    whole = np.trunc(np.nan_to_num(np.clip(kinds, -_NO_KIND, _NO_KIND), nan=_NO_KIND))
    return np.where(are_exact & (whole != kinds), _NO_KIND, whole).astype(np.int32)


def _list_objects(state: State, obj_ids: list[Hashable]) -> None:
    """Name the objects, each once, in upstream's keys of a state."""
    state["obj_ids"] = list(dict.fromkeys(obj_ids))
    state["obj_id_to_idx"] = {obj_id: i for i, obj_id in enumerate(state["obj_ids"])}
    state["obj_idx_to_id"] = dict(enumerate(state["obj_ids"]))
