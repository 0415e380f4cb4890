"""Sessions of clips: frames, prompts, and what was found on each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import check_device
from sam_rlx.compat.common.errors import (
    ArgumentIndexError,
    ArgumentKeyError,
    ArgumentRuntimeError,
)
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.model import Model


class NotEncodedError(StateError, KeyError, InvalidArgumentError):
    """A frame is tracked that lacks a memory before it: upstream raises one of two errors."""


class SessionFrames(MutableMapping[int, Any]):
    """Frames of a clip by number, each a float32 tensor (3, S, S) when it is read.

    Parameters
    ----------
    normalized : callable, optional
        Makes float32 (3, S, S) of uint8 (S, S, 3). Frames that are set as such bytes stay bytes.
    """

    def __init__(
        self, normalized: Callable[[NDArray[np.uint8]], NDArray[np.float32]] | None = None
    ) -> None:
        self._normalized = normalized
        self._kept: dict[int, NDArray[Any]] = {}

    def pixels(self, frame_idx: int) -> NDArray[np.float32]:
        """Return a frame as an array; `ArgumentKeyError`: there is none."""
        if frame_idx not in self._kept:
            raise ArgumentKeyError(
                f"frame_idx: expected one of {len(self._kept)} frames, found {frame_idx!r}"
            )
        kept = self._kept[frame_idx]
        if kept.dtype == np.uint8 and self._normalized is not None:
            return self._normalized(kept)
        return kept

    def keep(self, frame_idx: int, pixels: NDArray[np.uint8]) -> None:
        """Keep a frame as bytes (S, S, 3)."""
        self._kept[frame_idx] = pixels

    def __getitem__(self, frame_idx: int) -> Any:
        return as_result(np.array(self.pixels(frame_idx)))

    def __setitem__(self, frame_idx: int, frame: Any) -> None:
        self._kept[frame_idx] = _array(frame, np.float32).copy()

    def __delitem__(self, frame_idx: int) -> None:
        del self._kept[frame_idx]

    def __iter__(self) -> Iterator[int]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the frames take."""
        return sum(frame.nbytes for frame in self._kept.values())


class _Outputs(Mapping[int, dict[str, Any]]):
    """Outputs of an object, by frame: what the core has at that time."""

    def __init__(self, session: ClipSession, obj_idx: int, conditioning: bool) -> None:
        self._session, self._obj_idx, self._conditioning = session, obj_idx, conditioning

    def _frames(self) -> list[int]:
        objects = self._session._objects
        if objects is None or self._obj_idx >= objects.num_objects:
            return []
        return objects.frames(self._obj_idx, self._conditioning)

    def __getitem__(self, frame_idx: int) -> dict[str, Any]:
        objects = self._session._objects
        found = None
        if objects is not None and self._obj_idx < objects.num_objects:
            found = objects.output(self._obj_idx, frame_idx, self._conditioning)
        if found is None:
            raise ArgumentKeyError(f"frame {frame_idx!r}: expected one that was run, found none")
        memory = found["maskmem_features"]
        values = {
            "pred_masks": found["low_res_mask"][None, None],
            "object_pointer": found["obj_ptr"][None, None],
            "object_score_logits": np.full((1, 1, 1), found["object_score_logits"], np.float32),
        }
        if memory is not None:
            values["maskmem_features"] = memory.reshape(-1, 1, memory.shape[-1])
        return {name: as_result(value) for name, value in values.items()}

    def __iter__(self) -> Iterator[int]:
        return iter(self._frames())

    def __len__(self) -> int:
        return len(self._frames())


class _Cache:
    """The maps of the last frames, which the core keeps: it can be emptied."""

    def __init__(self, session: ClipSession) -> None:
        self._session = session

    def clear_all(self) -> None:
        """Forget them: a frame is encoded again when it is run again."""
        if self._session._objects is not None:
            self._session._objects.forget_frames()


class ClipSession:
    """Frames of a clip or a stream, and what the core keeps of objects on them.

    Parameters
    ----------
    video : tensor or array, or SessionFrames, optional
        Frames, (T, 3, S, S) float, as a processor makes them. Default: a stream.
    video_height, video_width : int, optional
        Size of the clip in pixels.
    inference_device, inference_state_device, video_storage_device : str or device
        The CPU. Another one is an `UnsupportedError`.
    dtype : dtype or str
        Kept as an attribute: numbers are float32.
    max_vision_features_cache_size : int
        Kept as an attribute: maps of the last two frames are kept.

    Attributes
    ----------
    processed_frames : SessionFrames or None
        Float32 tensors (3, S, S) by number.
    obj_ids : list
        Names of the objects.
    output_dict_per_obj : dict of int to dict
        Of each object the outputs, ``"cond_frame_outputs"`` and ``"non_cond_frame_outputs"``.
    frames_tracked_per_obj : dict of int to dict
        Frames that were tracked, and in which direction.
    """

    _objects: _core.SteppedObjects | None

    def __init__(
        self,
        video: Any = None,
        video_height: int | None = None,
        video_width: int | None = None,
        inference_device: Any = "cpu",
        inference_state_device: Any = "cpu",
        video_storage_device: Any = "cpu",
        dtype: Any = "float32",
        max_vision_features_cache_size: int = 1,
    ) -> None:
        for device in (inference_device, inference_state_device, video_storage_device):
            check_device(device)
        self.processed_frames = _frames_of(video)
        self.video_height, self.video_width = video_height, video_width
        self.inference_device = inference_device
        self.inference_state_device = inference_state_device
        self.video_storage_device = video_storage_device
        self.dtype = dtype
        self.max_vision_features_cache_size = max_vision_features_cache_size
        self._objects = None
        self._model: Model | None = None
        self._begin()

    def _begin(self) -> None:
        """Set what else a new session has."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_frames} frames, objects {self._names()})"

    @property
    def num_frames(self) -> int | None:
        """Number of frames that there are now; None before the first of a stream."""
        return None if self.processed_frames is None else len(self.processed_frames)

    @property
    def cache(self) -> Any:
        """The maps of the last frames; ``clear_all()`` forgets them."""
        return _Cache(self)

    def _check_model(self, model: Model) -> None:
        if self._model is not model:
            raise StateError("session: expected the model that ran it before, found another one")

    def obj_idx_to_id(self, obj_idx: int) -> Any:
        """Return the name of an object; `ArgumentKeyError`: there is none of this number."""
        names = self._names()
        if not isinstance(obj_idx, int) or not 0 <= obj_idx < len(names):
            raise ArgumentKeyError(f"obj_idx: expected below {len(names)}, found {obj_idx!r}")
        return names[obj_idx]

    def get_obj_num(self) -> int:
        """Return the number of objects."""
        return len(self._names())

    def _names(self) -> list[Any]:
        """Return the names of the objects, by their numbers."""
        raise NotImplementedError

    # ---------------------------------------------------------------- outputs

    @property
    def output_dict_per_obj(self) -> dict[int, dict[str, Mapping[int, dict[str, Any]]]]:
        """Outputs of each object by its number; values are copies."""
        return {
            number: {
                "cond_frame_outputs": _Outputs(self, number, True),
                "non_cond_frame_outputs": _Outputs(self, number, False),
            }
            for number in range(self.get_obj_num())
        }

    @property
    def frames_tracked_per_obj(self) -> dict[int, dict[int, dict[str, bool]]]:
        """Frames that each object was tracked on, with the direction."""
        known = 0 if self._objects is None else self._objects.num_objects
        return {
            number: {
                frame: {"reverse": reverse}
                for frame, reverse in (
                    self._objects.tracked(number).items()
                    if self._objects is not None and number < known
                    else ()
                )
            }
            for number in range(self.get_obj_num())
        }

    def store_output(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused: outputs are the model's."""
        raise UnsupportedError(
            "store_output: expected outputs of the model alone, found values of the program's own; "
            "a prompt changes what the model finds"
        )

    def get_output(
        self, obj_idx: int, frame_idx: int, output_key: str, is_conditioning_frame: bool = True
    ) -> Any:
        """Return a value of an output, or None if the frame has none.

        Parameters
        ----------
        obj_idx, frame_idx : int
            Which object, and where.
        output_key : {"pred_masks", "object_pointer", "object_score_logits", "maskmem_features"}
            Which value; another one is an `ArgumentKeyError`.
        is_conditioning_frame : bool
            Whether that of a frame with prompts is meant.

        Returns
        -------
        tensor or None
            A copy, float32.
        """
        kind = "cond_frame_outputs" if is_conditioning_frame else "non_cond_frame_outputs"
        found = self.output_dict_per_obj[obj_idx][kind].get(frame_idx)
        if found is None:
            return None
        if output_key not in found:
            raise ArgumentKeyError(f"output_key: expected one of {list(found)}, found {output_key}")
        return found[output_key]

    # ---------------------------------------------------------------- frames

    def add_new_frame(self, pixel_values: Any, frame_idx: int | None = None) -> int:
        """Keep a frame of a stream, and return its number.

        Parameters
        ----------
        pixel_values : tensor or array
            (3, S, S) or (1, 3, S, S) float, as a processor makes it.
        frame_idx : int, optional
            Its number. Default: the next one.
        """
        pixels = _array(pixel_values, np.float32)
        if pixels.ndim == 4 and len(pixels) == 1:
            pixels = pixels[0]
        if self.processed_frames is None:
            self.processed_frames = SessionFrames()
        number = len(self.processed_frames) if frame_idx is None else frame_idx
        self.processed_frames[number] = pixels
        return number

    def get_frame(self, frame_idx: int) -> Any:
        """Return a frame, float32 (3, S, S); `ArgumentKeyError`: there is none."""
        return self._frames()[frame_idx]

    def _frames(self) -> SessionFrames:
        return SessionFrames() if self.processed_frames is None else self.processed_frames


class Sam2VideoInferenceSession(ClipSession):
    """A clip with objects: their prompts, and what the model found.

    Prompts are kept here, as in upstream; outputs are the core's, and are read from it. Parameters
    are `ClipSession`'s.

    Attributes
    ----------
    point_inputs_per_obj, mask_inputs_per_obj : dict of int to dict
        Prompts of each object, by its number and the frame.
    obj_with_new_inputs : list
        Names of objects whose prompts were not run yet. A second call of
        ``add_inputs_to_inference_session`` replaces it: upstream's rule.
    """

    obj_ids: list[Any]
    obj_with_new_inputs: list[Any]
    point_inputs_per_obj: dict[int, dict[int, dict[str, Any]]]
    mask_inputs_per_obj: dict[int, dict[int, Any]]

    def _begin(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._forget()

    # ---------------------------------------------------------------- objects

    def _names(self) -> list[Any]:
        return list(self._numbers)

    def obj_id_to_idx(self, obj_id: Any) -> int:
        """Return the number of an object; one that is not known is added."""
        if obj_id in self._numbers:
            return self._numbers[obj_id]
        obj_idx = len(self._numbers)
        self._numbers[obj_id] = obj_idx
        self.obj_ids = list(self._numbers)
        self.point_inputs_per_obj[obj_idx] = {}
        self.mask_inputs_per_obj[obj_idx] = {}
        return obj_idx

    # ---------------------------------------------------------------- prompts

    def add_point_inputs(self, obj_idx: int, frame_idx: int, inputs: dict[str, Any]) -> None:
        """Keep points of an object on a frame.

        Parameters
        ----------
        obj_idx, frame_idx : int
            Which object, and where.
        inputs : dict
            ``"point_coords"`` (1, 1, N, 2) in pixels of the model's input, and
            ``"point_labels"`` (1, 1, N).
        """
        self.point_inputs_per_obj[obj_idx][frame_idx] = dict(inputs)

    def remove_point_inputs(self, obj_idx: int, frame_idx: int) -> None:
        """Forget points of an object on a frame."""
        self.point_inputs_per_obj[obj_idx].pop(frame_idx, None)

    def add_mask_inputs(self, obj_idx: int, frame_idx: int, inputs: Any) -> None:
        """Keep a mask of an object on a frame: (1, 1, S, S) of zeros and ones."""
        self.mask_inputs_per_obj[obj_idx][frame_idx] = as_result(_array(inputs, np.float32).copy())

    def remove_mask_inputs(self, obj_idx: int, frame_idx: int) -> None:
        """Forget the mask of an object on a frame."""
        self.mask_inputs_per_obj[obj_idx].pop(frame_idx, None)

    # ---------------------------------------------------------------- begin again

    def _forget(self) -> None:
        self._numbers.clear()
        self.obj_ids, self.obj_with_new_inputs = [], []
        self.point_inputs_per_obj, self.mask_inputs_per_obj = {}, {}
        if self._objects is not None:
            self._objects.reset()

    def reset_tracking_data(self) -> None:
        """Forget objects, their prompts and outputs; frames stay."""
        self._forget()

    def reset_inference_session(self) -> None:
        """Forget objects, their prompts and outputs, and the maps of frames; frames stay."""
        self._forget()
        self.cache.clear_all()

    # ---------------------------------------------------------------- a run

    def _run(
        self,
        model: Model,
        frame_idx: Any,
        *,
        streaming: bool,
        reverse: bool,
        remember: bool,
        bfloat16_memory: bool,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Run a frame; return masks (N, s, s) of logits and scores (N,)."""
        if not self._numbers:
            raise ArgumentIndexError("frame: expected a session with an object, found none")
        objects = self._objects_of(model, bfloat16_memory)
        inputs = [self._input(number, frame_idx) for number in range(len(self._numbers))]
        is_needed = objects.needs_frame(frame_idx, [each[0] for each in inputs])
        if is_needed and not objects.has_frame(frame_idx):
            objects.set_frame(frame_idx, self._frames().pixels(frame_idx))
        num_frames = None if streaming else self.num_frames
        try:
            found = objects.run(frame_idx, num_frames, bool(reverse), bool(remember), inputs)
        except StateError as error:
            raise NotEncodedError(str(error)) from error
        for name, (is_new, points, _, mask) in zip(list(self._numbers), inputs, strict=True):
            if is_new and (points is not None or mask is not None):
                self.obj_with_new_inputs.remove(name)
        return found

    def _objects_of(self, model: Model, bfloat16_memory: bool) -> _core.SteppedObjects:
        """Return the core's objects, which are of one model, as many as there are here."""
        if self._objects is None or (self._model is not model and not self._objects.num_objects):
            self._objects = _core.SteppedObjects(model.core, 0, bfloat16_memory)
            self._model = model
        self._check_model(model)
        while self._objects.num_objects < len(self._numbers):
            self._objects.add_object()
        return self._objects

    def _input(self, obj_idx: int, frame_idx: int) -> tuple[bool, Any, Any, Any]:
        """Return whether an object has new prompts, and those that it has on the frame."""
        is_new = self.obj_idx_to_id(obj_idx) in self.obj_with_new_inputs
        if not is_new:
            return False, None, None, None
        points = self.point_inputs_per_obj[obj_idx].get(frame_idx)
        mask = self.mask_inputs_per_obj[obj_idx].get(frame_idx)
        if points is not None and mask is not None:
            raise InvalidArgumentError(
                f"frame {frame_idx}: expected points or a mask of an object, found both"
            )
        if points is not None:
            coords = _array(points["point_coords"], np.float32)
            labels = _array(points["point_labels"], np.int32)
            _check_shape("point_coords", coords, (1, 1, None, 2))
            _check_shape("point_labels", labels, (1, 1, coords.shape[2]))
            return True, coords[0, 0], labels[0, 0], None
        if mask is not None:
            pixels = _array(mask, np.float32)
            _check_shape("mask", pixels, (1, 1, None, None))
            return True, None, None, pixels[0, 0]
        return True, None, None, None


class Sam3TrackerVideoInferenceSession(Sam2VideoInferenceSession):
    """The same for SAM 3."""


class EdgeTamVideoInferenceSession(Sam2VideoInferenceSession):
    """The same for EdgeTAM."""


def _frames_of(video: Any) -> SessionFrames | None:
    if video is None or isinstance(video, SessionFrames):
        return video
    frames = SessionFrames()
    for number, frame in enumerate(video):
        frames[number] = frame
    return frames


def _array(values: Any, dtype: Any) -> NDArray[Any]:
    """Return an array or tensor as a plain array."""
    found = to_array(values, dtype)
    if found is None:
        raise InvalidArgumentError("session: expected an array or tensor, found None")
    return found


def _check_shape(name: str, array: NDArray[Any], expected: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(expected) and all(
        want is None or want == found for want, found in zip(expected, array.shape, strict=True)
    )
    if not fits:
        shape = "(" + ", ".join("N" if want is None else str(want) for want in expected) + ")"
        raise ArgumentRuntimeError(f"{name}: expected shape {shape}, found {array.shape}")


__dir__ = public_names(__name__)
