"""Upstream's video model of SAM 3 at a small size: everything that a text names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from support import (
    sam3_concepts,
    upstream,
    upstream_sam3,
    upstream_sam3_nano,
    upstream_sam3_video,
    upstream_video,
)

_torch: Any = vars(upstream)["torch"]
_sam3: Any = upstream_sam3.sam3
Session = Callable[[Any, Any], list[Any]]

# The released values, some of them smaller: clips are short, and weights are random.
OPTIONS = {
    "score_threshold_detection": 0.25,
    "det_nms_thresh": 0.3,
    "assoc_iou_thresh": 0.2,
    "trk_assoc_iou_thresh": 0.3,
    "new_det_thresh": 0.4,
    "hotstart_delay": 4,
    "hotstart_unmatch_thresh": 3,
    "hotstart_dup_thresh": 3,
    "suppress_overlapping_based_on_recent_occlusion_threshold": 0.7,
    "fill_hole_area": 16,
    "recondition_every_nth_frame": 4,
}
_RELEASED = {
    "suppress_unmatched_only_within_hotstart": True,
    "min_trk_keep_alive": -1,
    "max_trk_keep_alive": 30,
    "init_trk_keep_alive": 30,
    "image_mean": (0.5, 0.5, 0.5),
    "image_std": (0.5, 0.5, 0.5),
}


def detector(seed: int = 0, presence: float = 1.0) -> Any:
    """Build the detector, which has the tracker as its predictor for clicks."""
    model = sam3_concepts.image_model(
        seed,
        clicks=True,
        kind=_sam3.Sam3ImageOnVideoMultiGPU,
        supervise_joint_box_scores=True,
    )
    head = model.inst_interactive_predictor.model.sam_mask_decoder.pred_obj_score_head
    with _torch.no_grad():
        head.layers[-1].bias += presence
        model.transformer.decoder.presence_token_head.layers[-1].bias += 1
    return model


def nano_detector() -> Any:
    """Build the same with the trained weights of the package."""
    return upstream_sam3_nano.image_model(
        kind=_sam3.Sam3ImageOnVideoMultiGPU, supervise_joint_box_scores=True
    )


def video_model(model: Any, **options: Any) -> Any:
    """Build the video model around a detector."""
    with upstream_sam3.on_cpu():
        return _sam3.video_inference.Sam3VideoInferenceWithInstanceInteractivity(
            detector=model,
            tracker=upstream_sam3_video.tracker(model, use_memory_selection=True),
            image_size=model.inst_interactive_predictor.model.image_size,
            **{**_RELEASED, **OPTIONS, **options},
        ).eval()


class _History:
    """Upstream's two functions about the history of actions, which need no model."""

    _class = _sam3.video_inference.Sam3VideoInferenceWithInstanceInteractivity

    def add(self, state: dict[str, Any], *action: Any) -> None:
        """Note an action: type, frame, objects."""
        self._class.add_action_history(None, state, *action)

    def parse(self, state: dict[str, Any]) -> tuple[str, list[int] | None]:
        """Return the next propagation, and its objects in order."""
        kind, obj_ids = self._class.parse_action_history_for_propagation(None, state)
        return kind, None if obj_ids is None else sorted(obj_ids)


history_of_actions = _History()


@contextmanager
def _frames(images: Any, hw: tuple[int, int]) -> Iterator[None]:
    with mock.patch.object(
        _sam3.video_inference, "load_resource_as_video_frames", return_value=(images, *hw)
    ):
        yield


def _play(model: Any, frames: NDArray[np.uint8], script: Session, dtype: Any) -> list[Any]:
    upstream_sam3.refresh(model)
    images = upstream_sam3_video.input_images(frames, model.image_size, dtype)
    with upstream_sam3_video.stand_ins(), _frames(images, (frames.shape[1], frames.shape[2])):
        return script(model, model.init_state("clip.mp4"))


def run(model: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run a script (model, state) -> results in float32."""
    with upstream_video.NoBFloat16():
        return _play(model, frames, script, _torch.float32)


def play(steps: Sequence[tuple[Any, ...]]) -> Session:
    """Make a session of upstream's out of steps; returns (frame, outputs).

    Kinds: text (frame, text), box (frame, text or None, x0, y0, x1, y1 in fractions), points
    (frame, object, fractions, labels), track (options), remove (object).
    """

    def session(model: Any, state: Any) -> list[Any]:
        results: list[Any] = []
        for kind, *args in steps:
            if kind == "text":
                frame, text = args
                results.append(model.add_prompt(state, frame, text_str=text))
            elif kind == "box":
                frame, text, (x0, y0, x1, y1) = args
                box = [[x0, y0, x1 - x0, y1 - y0]]
                results.append(
                    model.add_prompt(state, frame, text_str=text, boxes_xywh=box, box_labels=[1])
                )
            elif kind == "points":
                frame, obj, points, labels = args
                results.append(
                    model.add_prompt(
                        state,
                        frame,
                        points=_torch.tensor(points, dtype=_torch.float32),
                        point_labels=_torch.tensor(labels),
                        obj_id=obj,
                    )
                )
            elif kind == "track":
                results += model.propagate_in_video(state, **args[0])
            else:
                model.remove_object(state, args[0], is_user_action=True)
        return results

    return session


def run64(model: Any, frames: NDArray[np.uint8], script: Session) -> list[Any]:
    """Run the same in float64. One function of the package, which has another one, refuses it."""
    double: Any = upstream.double(model)
    perflib = _sam3.video_inference.perflib
    with upstream.float64(), mock.patch.object(perflib, "is_enabled", False):
        return _play(double, frames, script, _torch.float64)


@contextmanager
def request_handler(model: Any, images: Sequence[Any]) -> Iterator[Any]:
    """Give upstream's handler of requests for PIL images, which are not rounded to 16 bits."""
    side = model.image_size
    frames = np.stack([np.array(image.resize((side, side))) for image in images])
    inputs = upstream_sam3_video.input_images(frames, side, _torch.float32)
    width, height = images[0].size

    class Handler(_sam3.Sam3VideoPredictor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.model = model
            self.async_loading_frames = False
            self.video_loader_type = "cv2"

        def _get_session_stats(self) -> str:
            return ""

        def _get_torch_and_gpu_properties(self) -> str:
            return ""

    upstream_sam3.refresh(model)
    with (
        upstream_sam3_video.stand_ins(),
        upstream_video.NoBFloat16(),
        _frames(inputs, (height, width)),
    ):
        yield Handler()
