"""Upstream's video model: ``sam3.model.sam3_video_inference``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.options import checked, describe
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentIndexError, require
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel, LoadResult
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.video_frames import is_image, open_resource
from sam_rlx.compat.common.video_sessions import (
    NOTHING,
    State,
    begin_session,
    check_key,
    frame_of,
)
from sam_rlx.compat.sam3.model import state_dicts
from sam_rlx.compat.sam3.model.sam3_tracking_predictor import Sam3TrackerPredictor
from sam_rlx.errors import UnsupportedError
from sam_rlx.model import Model
from sam_rlx.tokenizer import Tokenizer

__all__ = ["Sam3VideoInferenceWithInstanceInteractivity"]

Outputs = dict[str, Any]

_OF_WEIGHTS = ("image_size", "image_mean", "image_std")
_TEXT = describe("text", "sam3")  # options that can be set

# A version without the rules against errors of the detector.
_ABLATION: dict[str, Any] = {
    "hotstart_delay": 0,
    "hotstart_unmatch_thresh": 0,
    "hotstart_dup_thresh": 0,
    "recondition_every_nth_frame": 0,
}


class Sam3VideoInferenceWithInstanceInteractivity(Network):
    """Everything that a text names through a video, with upstream's methods and results.

    Does what upstream does, what it does wrong included: an object that a box alone found is
    removed by the rule against errors of the detector, and a second propagation is taken from the
    results of the first. Three things differ: memory and frames are not rounded to 16 bits, frames
    of a video file are divided by 255, which upstream's loader forgets, and examples count on
    their own frame only, where upstream's buffer carries them to the next one.
    `sam_rlx.VideoPredictor` follows several texts, and does not keep the results of all objects.

    Parameters
    ----------
    model : Model
        Of SAM 3, with the tracker.
    image_size, image_mean, image_std
        Those of the model, or None.
    compile_model : bool
        Without effect: there is one way to compute.
    **options
        Further arguments of upstream's class, as `sam_rlx.VideoPredictor` takes them in
        `text_options`.

    Attributes
    ----------
    tracker : Sam3TrackerPredictor
        Follows objects by clicks, boxes and masks, in sessions of its own.
    detector
        Has a ``backbone``, which programs give to the tracker.
    score_threshold_detection, new_det_thresh, hotstart_delay, ...
        The options: set, they count for the texts that are added later.
    """

    _FIXED = frozenset(
        {
            *_OF_WEIGHTS, "use_prev_mem_frame", "o2o_matching_masklets_enable",
            "use_stateless_refinement",
        }
    )  # fmt: skip

    def __init__(
        self,
        model: Model | EmptyModel,
        image_size: int | None = None,
        image_mean: ArrayLike | None = None,
        image_std: ArrayLike | None = None,
        compile_model: bool = False,
        **options: Any,
    ) -> None:
        if model.family != "sam3":
            raise UnsupportedError(f"model: expected family sam3, found {model.family}")
        self._given = (image_size, image_mean, image_std)
        if isinstance(model, Model):
            self._check(model)
        self.model: Any = model
        self.image_size = model.img_size
        self._options = options
        self.tracker = Sam3TrackerPredictor(model, self.hotstart_delay > 0)
        self.detector = SimpleNamespace(backbone=model)

    def _check(self, model: Model) -> None:
        """Refuse weights of other settings than the arguments."""
        owns = (model.img_size, model.config["pixel_mean"], model.config["pixel_std"])
        for name, given, own in zip(_OF_WEIGHTS, self._given, owns, strict=True):
            if given is not None and not np.allclose(given, own):
                raise UnsupportedError(f"{name}: expected {own}, as the model has, found {given!r}")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> LoadResult:
        """Take weights by the names of upstream's files; see `Network.load_state_dict`."""
        return super().load_state_dict(state_dicts.names_of_file(state_dict), strict, assign)

    def _load(self, path: str, strict: bool) -> Model:
        model = state_dicts.of_family(super()._load(path, strict), path)
        self._check(model)
        return model

    def _metadata(self) -> dict[str, str]:
        return state_dicts.metadata_of(self.model)

    def _loaded(self) -> None:
        vars(self)["image_size"] = vars(self.tracker)["image_size"] = self.model.img_size
        self.tracker.model = self.detector.backbone = self.model

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return Tokenizer(self.model.config["text"]["context_length"])

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an option for the texts that follow; what is read when the model is made stays."""
        if name in _TEXT:
            self._options.update(checked("text", "sam3", {name: value}))
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name in _TEXT and "_options" in vars(self):
            return self._options.get(name, _TEXT[name]["default"])
        return super().__getattr__(name)

    # ---------------------------------------------------------------- sessions

    def init_state(
        self,
        resource_path: Any,
        offload_video_to_cpu: bool = False,
        async_loading_frames: bool = False,
        video_loader_type: str = "cv2",
    ) -> State:
        """Begin a session.

        Parameters
        ----------
        resource_path : str or list of PIL images
            An image, a folder of JPEG files, a video file, or images.
        offload_video_to_cpu, async_loading_frames, video_loader_type
            Without effect: frames are decoded when they are needed.

        Returns
        -------
        dict
            The state that the other methods take. Keys of upstream's: ``image_size``,
            ``num_frames``, ``orig_height``, ``orig_width``, ``action_history``,
            ``is_image_only``, ``cached_frame_outputs``, a dict {frame: {object: mask}} of the
            frames that have outputs, and ``tracker_inference_states``, whose entry names the
            objects that are tracked.
        """
        frames = open_resource(resource_path, self.image_size)
        options = {"fill_hole_area": 0, "use_memory_selection": True, "frames": "clip"}
        state: State = {
            "image_size": self.image_size,
            "num_frames": frames.count,
            "orig_height": frames.height,
            "orig_width": frames.width,
            "is_image_only": is_image(resource_path),
            "images": frames,
            "session": begin_session(self.model, frames, options),
        }
        self.reset_state(state)
        return state

    def reset_state(self, inference_state: State) -> None:
        """Make a state what it was at first."""
        inference_state["session"].reset()
        inference_state.update(
            text_prompt=None,
            action_history=[],
            cached_frame_outputs={},
            tracker_inference_states=[],
        )

    # ---------------------------------------------------------------- prompts

    def add_prompt(
        self,
        inference_state: State,
        frame_idx: int,
        text_str: str | None = None,
        boxes_xywh: ArrayLike | None = None,
        box_labels: ArrayLike | None = None,
        points: ArrayLike | None = None,
        point_labels: ArrayLike | None = None,
        obj_id: int | None = None,
        rel_coordinates: bool = True,
    ) -> tuple[int, Outputs]:
        """Add a text or a box, which starts anew, or points on one object.

        Parameters
        ----------
        inference_state : dict
            From `init_state`.
        frame_idx : int
            The frame, which is run at once.
        text_str : str, optional
            A text, for all frames.
        boxes_xywh : array (1, 4), optional
            A box (x, y, w, h) in fractions of the sides, for this frame.
        box_labels : array (1,), optional
            1 or 0. Required with `boxes_xywh`.
        points : array (N, 2), optional
            (x, y) in fractions of the sides, or in pixels of the model's input without
            `rel_coordinates`.
        point_labels : array (N,), optional
            1 or 0.
        obj_id : int, optional
            The object that the points are on; another number makes a new object.
        rel_coordinates : bool
            See `points`.

        Returns
        -------
        tuple
            The frame, and its outputs: see `propagate_in_video`.

        Raises
        ------
        AssertionError, RuntimeError
            As upstream: prompts do not fit together, or the frame has no outputs to refine.
        """
        _check_state(inference_state)
        if points is not None:
            require(
                text_str is None and boxes_xywh is None,
                "points: expected neither text_str nor boxes_xywh beside them",
            )
            require(
                obj_id is not None, "obj_id: expected the object that the points are on, found none"
            )
            assert obj_id is not None
            scale = 1.0 if rel_coordinates else 1.0 / self.image_size
            coords = np.asarray(points, np.float64) * scale
            return self._add_points(
                inference_state, frame_idx, obj_id, coords, np.asarray(point_labels, np.int32)
            )
        require(
            text_str is not None or boxes_xywh is not None,
            "expected text_str, boxes_xywh or points, found none",
        )
        count = inference_state["num_frames"]
        require(0 <= frame_idx < count, f"frame_idx: expected 0 to {count - 1}, found {frame_idx}")
        require((box_labels is None) == (boxes_xywh is None), "expected boxes_xywh with box_labels")
        boxes = None if boxes_xywh is None else _boxes_cxcywh(boxes_xywh)
        if boxes is not None and len(boxes) != 1:
            raise RuntimeError(f"boxes_xywh: expected one box, found {len(boxes)}")
        text = None if text_str == "visual" else text_str
        labels = np.zeros(0, np.int32) if boxes is None else np.asarray(box_labels, np.int32)
        if boxes is not None:
            require(
                labels.shape == boxes.shape[:1],
                f"box_labels: expected {len(boxes)} labels, found shape {labels.shape}",
            )
        options = dict(self._options)
        if inference_state["is_image_only"]:
            options["max_num_objects"] = np.iinfo(np.int32).max
        words = "visual" if text is None else text
        result = inference_state["session"].add_text(
            [words],
            [self._tokenizer(words)[0].tolist()],
            text is not None,
            options,
            frame_idx,
            boxes,
            None if boxes is None else labels,
            fractions=True,
            anew=True,
        )
        inference_state.update(text_prompt=text, action_history=[])
        return frame_idx, self._outputs(inference_state, result, True)

    def _add_points(
        self,
        state: State,
        frame_idx: int,
        obj_id: int,
        points: NDArray[np.float64],
        labels: NDArray[np.int32],
    ) -> tuple[int, Outputs]:
        session: _core.VideoSession = state["session"]
        require(
            any(frame_idx in text.frames for text in session.texts),
            f"frame_idx: expected a frame that was searched for a text, found {frame_idx}",
        )
        result = session.add_points(
            frame_of(state, frame_idx),
            obj_id,
            str(obj_id),
            points,
            labels,
            normalize_coords=False,
            of_text=True,
        )
        state["action_history"] = _history(session)
        return frame_idx, self._outputs(state, result)

    def remove_object(
        self, inference_state: State, obj_id: int, is_user_action: bool = False
    ) -> None:
        """Forget an object. Its number is not used again."""
        session: _core.VideoSession = inference_state["session"]
        require(
            obj_id in session.obj_ids, f"obj_id: expected an object that is tracked, found {obj_id}"
        )
        session.remove_object(obj_id, NOTHING)
        for outputs in inference_state["cached_frame_outputs"].values():
            outputs.pop(obj_id, None)
        _list_trackers(inference_state)
        if is_user_action:
            self.add_action_history(inference_state, "remove", None, [obj_id])

    def add_action_history(
        self,
        inference_state: State,
        action_type: str,
        frame_idx: int | None = None,
        obj_ids: list[int] | None = None,
    ) -> None:
        """Note what was done: the kind of the next propagation follows from it."""
        session: _core.VideoSession = inference_state["session"]
        session.note_action(action_type, frame_idx, obj_ids or [])
        inference_state["action_history"] = _history(session)

    def parse_action_history_for_propagation(
        self, inference_state: State
    ) -> tuple[str, list[int] | None]:
        """Return the kind of the next propagation, and the objects of a partial one."""
        session: _core.VideoSession = inference_state["session"]
        action = session.next_text_action
        return action.type, action.obj_ids

    # ---------------------------------------------------------------- frames

    def propagate_in_video(
        self,
        inference_state: State,
        start_frame_idx: int | None = None,
        max_frame_num_to_track: int | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[int, Outputs]]:
        """Run all frames, or the part of it that earlier calls and clicks leave to do.

        Parameters
        ----------
        inference_state : dict
            From `init_state`.
        start_frame_idx : int, optional
            The first frame; in reverse, the one after it. Default: the earliest with outputs.
        max_frame_num_to_track : int, optional
            Stop so many frames on. Default: at the end of the video.
        reverse : bool
            True: towards frame 0.

        Yields
        ------
        tuple
            The frame, and its outputs: ``out_obj_ids`` int64 (N,), ``out_probs`` float32 (N,),
            ``out_boxes_xywh`` float32 (N, 4) in fractions of the sides, ``out_binary_masks`` bool
            (N, H, W), and ``frame_stats``.
        """
        _check_state(inference_state)
        session: _core.VideoSession = inference_state["session"]
        num_frames = inference_state["num_frames"]
        if start_frame_idx is not None:
            first = start_frame_idx - int(reverse)
            if start_frame_idx < 0 or (reverse and first >= num_frames):
                raise ArgumentIndexError(
                    f"frame_idx: expected 0 to {num_frames - 1}, found {first}"
                )
        count = None
        if max_frame_num_to_track is not None:  # forward, the first frame is not counted
            count = max(min(max_frame_num_to_track, num_frames) + int(not reverse), 0)
        propagation = session.text_propagation(start_frame_idx, count, reverse)
        inference_state["action_history"] = _history(session)
        searches = propagation.searches
        while (result := session.next(propagation)) is not None:
            yield result.frame_index, self._outputs(inference_state, result, searches)

    def _outputs(
        self, state: State, result: _core.FrameResult, with_stats: bool = False
    ) -> Outputs:
        found = result.texts[-1]
        x0, y0, x1, y1 = found.boxes.astype(np.float32).T.reshape(4, -1)
        size = np.array(2 * [state["orig_width"], state["orig_height"]], np.float32)
        state["cached_frame_outputs"][result.frame_index] = {
            obj_id: as_result(mask) for obj_id, mask in zip(found.obj_ids, found.masks, strict=True)
        }
        _list_trackers(state)
        stats = {"num_obj_tracked": found.num_tracked, "num_obj_dropped": found.num_dropped}
        return {
            "out_obj_ids": np.asarray(found.obj_ids, np.int64),
            "out_probs": np.asarray(found.scores, np.float32),
            "out_boxes_xywh": np.stack([x0, y0, x1 - x0, y1 - y0], axis=1) / size,
            "out_binary_masks": found.masks,
            "frame_stats": stats if with_stats else None,
        }


def _list_trackers(state: State) -> None:
    """Name the objects that are tracked, in upstream's key of a state: all in one tracker."""
    obj_ids = list(state["session"].obj_ids)
    state["tracker_inference_states"] = [{"obj_ids": obj_ids}] if obj_ids else []


def _check_state(state: State) -> None:
    images = state["images"]
    check_key(state, "num_frames", images.count)
    check_key(state, "orig_height", images.height)
    check_key(state, "orig_width", images.width)


def _history(session: _core.VideoSession) -> list[dict[str, Any]]:
    """Return what was done with the objects of a text, as upstream notes it."""
    return [
        {"type": action.type, "frame_idx": action.frame_idx, "obj_ids": action.obj_ids}
        for action in session.actions
    ]


def _boxes_cxcywh(boxes_xywh: ArrayLike) -> NDArray[np.float64]:
    boxes = np.asarray(boxes_xywh, np.float32)
    right = boxes.ndim == 2 and boxes.shape[0] > 0 and boxes.shape[1] == 4
    require(right, f"boxes_xywh: expected shape (N, 4) with N > 0, found {boxes.shape}")
    centers = np.concatenate([boxes[:, :2] + boxes[:, 2:] / 2, boxes[:, 2:]], axis=1)
    for values in (boxes, centers):
        require(
            bool(((values >= 0) & (values <= 1)).all()),
            f"boxes_xywh: expected fractions of the sides, 0 to 1, found {boxes.tolist()}",
        )
    return centers.astype(np.float64)


def ablation_options() -> dict[str, Any]:
    """Return the options of a model without `apply_temporal_disambiguation`."""
    return dict(_ABLATION)


__dir__ = public_names(__name__)
