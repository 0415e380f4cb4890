"""Processors of clips: sessions with their frames, and prompts on a frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.compat.transformers.image_processors import Sam2ImageProcessor, Sam3ImageProcessor
from sam_rlx.compat.transformers.processing import SquareProcessor
from sam_rlx.compat.transformers.processors import Sam2Processor
from sam_rlx.compat.transformers.video_processors import Sam2VideoVideoProcessor, as_videos
from sam_rlx.compat.transformers.video_sessions import (
    ClipSession,
    Sam2VideoInferenceSession,
    Sam3TrackerVideoInferenceSession,
    SessionFrames,
)
from sam_rlx.errors import InvalidArgumentError

# Labels of the corners of a box.
_CORNERS = np.array([2, 3], np.int32)
_MASK_THRESHOLD = 0.5


class _Normalized:
    """Makes what the network takes of a frame's bytes (3, S, S)."""

    def __init__(self, video_processor: Any) -> None:
        self._video_processor = video_processor

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        made = self._video_processor([pixels], do_resize=False, return_tensors="np")
        found: NDArray[np.float32] = made["pixel_values_videos"][0, 0]
        return found


def session_frames(video_processor: Any, video: Any) -> tuple[SessionFrames, int, int]:
    """Return the frames of a video, and its height and width.

    Parameters
    ----------
    video_processor : Sam2VideoVideoProcessor
        How frames become what the network takes.
    video : video
        As `Sam2VideoVideoProcessor.preprocess` takes it; of several the first one counts. Frames
        of bytes stay bytes, at the side of the network's input.
    """
    frames = as_videos(video)[0]
    bare = {"return_tensors": "np", "do_rescale": False, "do_normalize": False}
    result = SessionFrames(_Normalized(video_processor))
    height = width = 0
    for number, frame in enumerate(frames):
        made = video_processor([frame], **bare)
        if made["pixel_values_videos"].dtype == np.uint8:
            result.keep(number, made["pixel_values_videos"][0, 0])
        else:
            made = video_processor([frame], return_tensors="np")
            result[number] = made["pixel_values_videos"][0, 0]
        height, width = (int(side) for side in made["original_sizes"][0])
    return result, height, width


class ClipProcessor(SquareProcessor):
    """What processors of clips share: sessions."""

    video_processor: Any
    _session: ClassVar[type[ClipSession]] = ClipSession

    def init_video_session(
        self,
        video: Any = None,
        inference_device: Any = "cpu",
        inference_state_device: Any = None,
        processing_device: Any = None,
        video_storage_device: Any = None,
        max_vision_features_cache_size: int = 1,
        dtype: Any = "float32",
    ) -> Any:
        """Return a session for a clip or a stream.

        Parameters
        ----------
        video : video, optional
            A list of PIL images or arrays, an array (T, H, W, 3) or (T, 3, H, W), one image, or
            the name of a file. Default: a stream.
        inference_device, inference_state_device, processing_device, video_storage_device
            The CPU. Another one is an `UnsupportedError`.
        max_vision_features_cache_size, dtype
            Attributes of the session: results are float32.

        Returns
        -------
        ClipSession
            Its frames are bytes at the side of the network's input.

        Raises
        ------
        ValueError
            Frames of different sizes. Ours.
        """
        check_device(processing_device)
        given: tuple[Any, Any, Any] = (None, None, None)
        if video is not None:
            given = session_frames(self.video_processor, video)
        return self._session(
            *given,
            inference_device=inference_device,
            inference_state_device=inference_state_device or inference_device,
            video_storage_device=video_storage_device or inference_device,
            dtype=dtype,
            max_vision_features_cache_size=max_vision_features_cache_size,
        )


class Sam2VideoProcessor(ClipProcessor, Sam2Processor):
    """Clips and prompts for `Sam2VideoModel` and `EdgeTamVideoModel`.

    Parameters
    ----------
    image_processor : Sam2ImageProcessor
        Of the frames of a stream.
    video_processor : Sam2VideoVideoProcessor
        Of the frames of a clip.
    target_size : int, optional
        Side of the network's input, which prompts are scaled to. Default: that of the image
        processor.
    point_pad_value : int
        Of points and labels that fill up.
    """

    parts: ClassVar[Mapping[str, Any]] = {
        "image_processor": Sam2ImageProcessor,
        "video_processor": Sam2VideoVideoProcessor,
    }
    _session = Sam2VideoInferenceSession

    def __init__(
        self,
        image_processor: Any,
        video_processor: Any,
        target_size: int | None = None,
        point_pad_value: int = -10,
    ) -> None:
        super().__init__(image_processor, target_size, point_pad_value)
        self._set_parts(video_processor=video_processor)

    def add_inputs_to_inference_session(
        self,
        inference_session: Sam2VideoInferenceSession,
        frame_idx: int,
        obj_ids: Any,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        input_masks: Any = None,
        original_size: tuple[int, int] | None = None,
        clear_old_inputs: bool = True,
    ) -> None:
        """Give objects of a session prompts on a frame; the model runs them.

        Parameters
        ----------
        inference_session : Sam2VideoInferenceSession
            It forgets which objects had new prompts before: give all new prompts of a frame in one
            call.
        frame_idx : int
            Number of the frame; whether there is one is seen when it is run.
        obj_ids : hashable or list
            Names of the objects.
        input_points, input_labels : nested lists, arrays or tensors
            [image, object, point, (x, y)] in pixels of the clip, of one image, and
            [image, object, point]: 1 inside, 0 outside. Together only.
        input_boxes : nested list, array or tensor
            [image, object, (x0, y0, x1, y1)]: before the points, as two of them with the labels 2
            and 3.
        input_masks : array or tensor, or list of them
            (H, W) for each object, resized to the network's input. Alone only.
        original_size : (height, width), optional
            Of the clip: a stream needs it.
        clear_old_inputs : bool
            False: points are added to those of the frame.

        Raises
        ------
        ValueError
            Prompts that do not fit together, or a stream without a size. Ours.
        """
        names = [obj_ids] if isinstance(obj_ids, int) else obj_ids
        has_points, has_boxes = input_points is not None, input_boxes is not None
        if has_points != (input_labels is not None):
            raise InvalidArgumentError("input_points: expected labels with points, found one alone")
        if not has_points and not has_boxes and input_masks is None:
            raise InvalidArgumentError("prompts: expected points, boxes or masks, found none")
        if input_masks is not None:
            if has_points or has_boxes:
                raise InvalidArgumentError("input_masks: expected masks alone, found other prompts")
            self.process_new_mask_for_video_frame(inference_session, frame_idx, names, input_masks)
            return
        self.process_new_points_or_boxes_for_video_frame(
            inference_session,
            frame_idx,
            names,
            input_points,
            input_labels,
            input_boxes,
            original_size,
            clear_old_inputs,
        )

    def process_new_points_or_boxes_for_video_frame(
        self,
        inference_session: Sam2VideoInferenceSession,
        frame_idx: int,
        obj_ids: Any,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        original_size: tuple[int, int] | None = None,
        clear_old_inputs: bool = True,
    ) -> None:
        """Do as `add_inputs_to_inference_session`, for points and boxes; `obj_ids` is a list."""
        session = inference_session
        if original_size is not None:
            session.video_height, session.video_width = original_size[0], original_size[1]
        elif session.video_height is None or session.video_width is None:
            raise InvalidArgumentError(
                "original_size: expected (height, width) of the stream's frames, found None"
            )
        given = self(
            input_points=input_points,
            input_labels=input_labels,
            input_boxes=input_boxes,
            original_sizes=[[session.video_height, session.video_width]],
            return_tensors="pt",
        )
        count = len(obj_ids)
        arrays = {name: np.asarray(given[name]) for name in given if name.startswith("input_")}
        for name, array in arrays.items():
            if array.shape[1] != count:
                raise InvalidArgumentError(
                    f"{name}: expected as many as obj_ids, {count}, found {array.shape[1]}"
                )
        if "input_boxes" in arrays and not clear_old_inputs:
            raise InvalidArgumentError(
                "input_boxes: expected clear_old_inputs=True, since a box is before all points, "
                "found False"
            )
        points, labels = _as_points(arrays, count)
        for index, name in enumerate(obj_ids):
            obj_idx = session.obj_id_to_idx(name)
            new = (points[:, index : index + 1], labels[:, index : index + 1])
            if not clear_old_inputs:
                new = _after(session.point_inputs_per_obj[obj_idx].get(frame_idx), new)
            coords, marks = (as_result(np.array(part)) for part in new)
            inputs = {"point_coords": coords, "point_labels": marks}
            session.add_point_inputs(obj_idx, frame_idx, inputs)
            session.remove_mask_inputs(obj_idx, frame_idx)
        session.obj_with_new_inputs = _new_names(obj_ids)

    def process_new_mask_for_video_frame(
        self,
        inference_session: Sam2VideoInferenceSession,
        frame_idx: int,
        obj_ids: Any,
        input_masks: Any,
    ) -> None:
        """Do as `add_inputs_to_inference_session`, for masks; `obj_ids` is a list."""
        masks = input_masks if isinstance(input_masks, list) else [input_masks]
        if len(masks) != len(obj_ids):
            raise InvalidArgumentError(
                f"input_masks: expected as many as obj_ids, {len(obj_ids)}, found {len(masks)}"
            )
        for name, mask in zip(obj_ids, masks, strict=True):
            obj_idx = inference_session.obj_id_to_idx(name)
            made = _mask_of_input(mask, self.target_size)
            inference_session.add_mask_inputs(obj_idx, frame_idx, made)
            inference_session.remove_point_inputs(obj_idx, frame_idx)
        inference_session.obj_with_new_inputs = _new_names(obj_ids)


class Sam3TrackerVideoProcessor(Sam2VideoProcessor):
    """Clips and prompts for `Sam3TrackerVideoModel`; all else is `Sam2VideoProcessor`'s."""

    parts: ClassVar[Mapping[str, Any]] = {
        "image_processor": Sam3ImageProcessor,
        "video_processor": Sam2VideoVideoProcessor,
    }
    _session = Sam3TrackerVideoInferenceSession


def _new_names(obj_ids: Any) -> list[Any]:
    """Return names of objects with new prompts. A list is kept, and a run takes names out of it."""
    return obj_ids if isinstance(obj_ids, list) else list(obj_ids)


def _as_points(arrays: Mapping[str, NDArray[Any]], count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return points (1, N, P, 2) and labels (1, N, P); boxes are two points each."""
    points = arrays.get("input_points", np.zeros((1, count, 0, 2), np.float32))
    labels = arrays.get("input_labels", np.zeros((1, count, 0), np.int32))
    if (boxes := arrays.get("input_boxes")) is None:
        return points, labels
    corners = boxes.reshape(1, -1, 2, 2)
    marks = np.broadcast_to(_CORNERS, (1, corners.shape[1], 2))
    return np.concatenate([corners, points], 2), np.concatenate([marks, labels], 2)


def _after(
    old: Mapping[str, Any] | None, new: tuple[NDArray[Any], NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return points and labels of before with new ones behind them."""
    if old is None:
        return new
    before = np.asarray(old["point_coords"]), np.asarray(old["point_labels"])
    return np.concatenate([before[0], new[0]], 2), np.concatenate([before[1], new[1]], 2)


def _mask_of_input(mask: Any, side: int) -> NDArray[np.float32]:
    """Return a mask of an object as the network takes it: (1, 1, S, S)."""
    # Upstream makes bools of all that are no tensors.
    array = mask.detach().cpu().numpy() if is_torch(mask) else np.asarray(mask, np.bool_)
    if not 2 <= array.ndim <= 4:
        raise InvalidArgumentError(f"input_masks: expected (H, W), found {array.shape}")
    array = array.astype(np.float32).reshape((1,) * (4 - array.ndim) + array.shape)
    if array.shape[-2:] == (side, side):
        return array
    planes = np.ascontiguousarray(array[0])
    resized = _core.resize_planes(planes, (side, side))
    return (resized >= _MASK_THRESHOLD).astype(np.float32)[None]


__dir__ = public_names(__name__)
