"""Sessions of upstream's video predictors: names and shapes. The order of calls is the core's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.common.all_or_nothing import all_or_nothing
from sam_rlx.compat.common.errors import (
    ArgumentIndexError,
    ArgumentRuntimeError,
    ArgumentTypeError,
    require,
)
from sam_rlx.compat.common.network import CPU
from sam_rlx.compat.common.tensor import TensorArray, as_tensor
from sam_rlx.compat.common.tensors import is_torch, like, numbers
from sam_rlx.compat.sam2.video_frames import SquareFrames
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

NO_OBJ_SCORE = np.float32(-1024.0)
_NO_KIND = 9  # a label that tells nothing about a point
_OTHERS = -10.0  # where another object is more likely
State = dict[str, Any]
Shown = tuple[int, list[Hashable], TensorArray]
_Result = TypeVar("_Result")


def begin_session(
    model: Model, images: SquareFrames, options: dict[str, Any]
) -> _core.VideoPredictor:
    """Make a session on frames, all of whose results are kept."""
    session = _core.VideoPredictor(model.core, 0, {"history": -1, **options})
    session.num_frames = len(images)
    return session


def as_index(name: str, value: Any) -> int:
    """Return a number of frames, or of one of them, as an int."""
    try:
        return operator.index(value)
    except TypeError as error:
        raise ArgumentTypeError(
            f"{name}: expected an int, found {type(value).__name__} {value!r}"
        ) from error


def load_frame(state: State, frame_idx: int) -> None:
    """Make sure that the session has encoded a frame."""
    session: _core.VideoPredictor = state["session"]
    images = state["images"]
    if not 0 <= frame_idx < len(images):
        raise ArgumentIndexError(f"frame_idx: expected 0 to {len(images) - 1}, found {frame_idx}")
    if not session.has_frame(frame_idx):
        session.set_frame(frame_idx, images[frame_idx], (images.height, images.width))


def results(
    state: State, propagation: _core.Propagation, result: Callable[[int], _Result]
) -> Iterator[_Result]:
    """Go on frame by frame, and give the result of each one; a step that fails changes nothing."""
    session: _core.VideoPredictor = state["session"]
    while not propagation.is_done:
        with all_or_nothing(state):
            wanted, ready = session.next(propagation)
            if wanted is not None:
                load_frame(state, wanted)
            if ready is None:
                continue
            found = result(ready)
        yield found


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

    def _begin(
        self, images: SquareFrames, offloads: tuple[bool, bool], options: dict[str, Any]
    ) -> State:
        """Return a state with the keys of upstream's, on its first frame."""
        state: State = {
            "images": images,
            "num_frames": len(images),
            "offload_video_to_cpu": offloads[0],
            "offload_state_to_cpu": offloads[1],
            "video_height": images.height,
            "video_width": images.width,
            "device": CPU,
            "storage_device": CPU,
            "handles": {},
            "next_handle": 0,
            "session": begin_session(self.model, images, options),
        }
        _list_objects(state)
        with all_or_nothing(state):
            load_frame(state, 0)
        return state

    def _handle(self, state: State, obj_id: Hashable) -> int:
        """Return the session's number of an object; a new one is made."""
        try:
            hash(obj_id)
        except TypeError as error:
            raise ArgumentTypeError(f"obj_id: expected a hashable, found {obj_id!r}") from error
        if obj_id not in state["handles"]:
            state["handles"][obj_id] = state["next_handle"]
            state["next_handle"] += 1
            state["session"].set_label(state["handles"][obj_id], str(obj_id))
            _list_objects(state)
        handle: int = state["handles"][obj_id]
        return handle

    def _found(self, state: State, frame_idx: int, source: str, obj_ids: list[Hashable]) -> Found:
        handles, masks, scores = state["session"].masks(frame_idx, source, True)
        row_of = {state["handles"][obj_id]: row for row, obj_id in enumerate(obj_ids)}
        rows = [row_of[handle] for handle in handles]
        logits = np.full((len(obj_ids), 1, *masks.shape[1:]), NO_OBJ_SCORE)
        logits[rows, 0] = masks
        return Found(logits, rows, scores)

    def _prompted(self, state: State, frame_idx: int, is_cond: bool) -> Shown:
        """Return the masks of all objects on a frame whose prompts have changed."""
        source = "cond" if is_cond else "correction"
        found = self._found(state, frame_idx, source, state["obj_ids"])
        return frame_idx, state["obj_ids"], as_tensor(found.logits)

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

    def _add_points(
        self,
        state: State,
        frame_idx: int,
        obj_id: Hashable,
        prompt: tuple[NDArray[np.float32], NDArray[np.int32]],
        clear_old_points: bool,
        normalize_coords: bool,
    ) -> Shown:
        frame_idx, (coords, labels) = as_index("frame_idx", frame_idx), prompt
        with all_or_nothing(state):
            handle = self._handle(state, obj_id)
            load_frame(state, frame_idx)
            is_cond = state["session"].add_points(
                frame_idx,
                handle,
                coords.astype(np.float64),
                labels,
                clear_old_points,
                normalize_coords,
                any_label=True,
            )
            return self._prompted(state, frame_idx, is_cond)

    def _add_mask(self, state: State, frame_idx: int, obj_id: Hashable, mask: Any) -> Shown:
        """Give a mask (h, w): tensors of PyTorch as they are, of all else what is not zero."""
        frame_idx = as_index("frame_idx", frame_idx)
        pixels = numbers(mask)
        require(pixels.ndim == 2, f"mask: expected shape (H, W), found {pixels.shape}")
        values = (pixels if is_torch(mask) else pixels.astype(np.bool_)).astype(np.float32)
        with all_or_nothing(state):
            handle = self._handle(state, obj_id)
            load_frame(state, frame_idx)
            is_cond = state["session"].add_mask(frame_idx, handle, values)
            return self._prompted(state, frame_idx, is_cond)

    def _clear_prompts(
        self, state: State, frame_idx: int, obj_id: Hashable, need_output: bool
    ) -> Shown | None:
        session: _core.VideoPredictor = state["session"]
        frame_idx = as_index("frame_idx", frame_idx)
        with all_or_nothing(state):
            handle = self._handle(state, obj_id)
            if self._clearing_makes_objects:
                session.add_object(handle)
            if handle in session.objects:
                session.clear_prompts(frame_idx, handle)
            is_cond = session.has_new_prompt(frame_idx)
            return self._prompted(state, frame_idx, is_cond) if need_output else None

    def remove_object(
        self,
        inference_state: State,
        obj_id: Hashable,
        strict: bool = False,
        need_output: bool = True,
    ) -> tuple[list[Hashable], list[tuple[int, TensorArray]]]:
        """Forget an object; returns the others, and their masks where it had prompts."""
        handles = inference_state["handles"]
        if obj_id not in handles:
            if not strict:
                return inference_state["obj_ids"], []
            raise ArgumentRuntimeError(
                f"obj_id: expected one of {inference_state['obj_ids']}, found {obj_id}"
            )
        with all_or_nothing(inference_state):
            if len(handles) == 1:
                self._reset(inference_state)
                return inference_state["obj_ids"], []
            session: _core.VideoPredictor = inference_state["session"]
            handle = handles.pop(obj_id)
            frames: list[int] = []
            if handle in session.objects:
                frames = session.prompts[handle][0]
                session.remove_object(handle)
            _list_objects(inference_state)
            updated = []
            for frame_idx in frames if need_output else []:
                is_cond = session.has_new_prompt(frame_idx)
                updated.append((frame_idx, self._prompted(inference_state, frame_idx, is_cond)[2]))
            return inference_state["obj_ids"], updated

    def reset_state(self, inference_state: State) -> None:
        """Forget all objects and results; the frames stay."""
        with all_or_nothing(inference_state):
            self._reset(inference_state)

    def _reset(self, state: State) -> None:
        state["session"].reset()
        state["handles"].clear()
        _list_objects(state)

    # ---------------------------------------------------------------- tracking

    def _prepare(self, state: State, allow_unprompted: bool) -> None:
        """Encode what was given since the last propagation."""
        session: _core.VideoPredictor = state["session"]
        with all_or_nothing(state):
            while (wanted := session.prepare(allow_unprompted)) is not None:
                load_frame(state, wanted)

    def _propagate(
        self,
        state: State,
        order: tuple[int | None, int | None, bool],
        result: Callable[[int, list[Hashable]], _Result],
        skip_reverse_from_zero: bool,
    ) -> Iterator[_Result]:
        """Track the objects that there are now, and give results of frames and objects.

        The order is first frame, number of frames less one, and whether it goes backwards.
        Prompts and objects that are given meanwhile wait for the next propagation.
        """
        session: _core.VideoPredictor = state["session"]
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

        def of_known(frame_idx: int) -> _Result:
            return result(frame_idx, [obj_id for obj_id in known if obj_id in state["handles"]])

        yield from results(state, propagation, of_known)


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


def _list_objects(state: State) -> None:
    state["obj_ids"] = list(state["handles"])
    state["obj_id_to_idx"] = {obj_id: i for i, obj_id in enumerate(state["obj_ids"])}
    state["obj_idx_to_id"] = dict(enumerate(state["obj_ids"]))
