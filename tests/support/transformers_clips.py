"""Clips that transformers' models of clips and the drop-in run alike: one script for both sides.

A side is a model with `propagate_in_video_iterator` and a class of sessions. Prompts are given as
sessions keep them, so that no processor is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from support import hugging_face_models as hf
from support.hugging_face_configs import side as side_of

CLASSES = ("Sam2VideoModel", "Sam3TrackerVideoModel", "EdgeTamVideoModel")
FRAMES = 12
WIDTH = 128  # of the maps: transformers' pointers want another width than memories have
HW = (75, 100)
OBJECT_THERE = 20.0  # added to the logit of the object's presence


class Side(NamedTuple):
    """One of the two: a model, and the class of its sessions."""

    model: Any
    session: Any

    def clip(self, frames: NDArray[np.float32] | None) -> Any:
        """Return a session of frames, or of a stream."""
        import torch

        video = None if frames is None else torch.from_numpy(frames)
        return self.session(video, *HW, dtype=torch.float32)


def theirs(name: str) -> Side:
    """Return transformers' model with random weights."""
    import torch

    model = hf.make(name, width=WIDTH)
    if name.startswith("EdgeTam"):  # whose random weights see no object anywhere
        with torch.no_grad():
            model.mask_decoder.pred_obj_score_head.proj_out.bias += OBJECT_THERE
    module = importlib.import_module(type(model).__module__)
    return Side(model, getattr(module, name.replace("Model", "InferenceSession")))


def frames(name: str, count: int = FRAMES) -> NDArray[np.float32]:
    """Draw frames (T, 3, S, S) of something that moves, normalized."""
    side = side_of(name)
    random = np.random.default_rng(3)
    scene = random.normal(size=(3, side, side))
    moved = [np.roll(scene, (2 * index, 3 * index), (1, 2)) for index in range(count)]
    return np.stack([each + 0.3 * random.normal(size=each.shape) for each in moved]).astype(
        np.float32
    )


# ---------------------------------------------------------------- prompts


def points(session: Any, name: Any, frame: int, coords: Any, labels: Any) -> None:
    """Give an object points on a frame, in pixels of the network's input."""
    import torch

    number = session.obj_id_to_idx(name)
    inputs = {
        "point_coords": torch.tensor([[coords]], dtype=torch.float32),
        "point_labels": torch.tensor([[labels]]),
    }
    session.add_point_inputs(number, frame, inputs)
    session.remove_mask_inputs(number, frame)


def click(session: Any, name: Any, frame: int, point: Any = (40.0, 30.0)) -> None:
    """Give one object a click on a frame, which is the only new prompt."""
    points(session, name, frame, [point], [1])
    session.obj_with_new_inputs = [name]


def box_mask(session: Any, name: Any, frame: int, side: int) -> None:
    """Give an object a mask on a frame."""
    import torch

    mask = torch.zeros(1, 1, side, side)
    mask[..., 20:60, 30:80] = 1
    number = session.obj_id_to_idx(name)
    session.add_mask_inputs(number, frame, mask)
    session.remove_point_inputs(number, frame)


# ---------------------------------------------------------------- scripts


def long_clip(side: Side, video: NDArray[np.float32]) -> Iterator[Any]:
    """Follow two objects, with a click between, then in reverse, then from the start again."""
    session = side.clip(video)
    click(session, 1, 0)
    yield side.model(session, frame_idx=0)
    yield from side.model.propagate_in_video_iterator(session, max_frame_num_to_track=6)
    if "EdgeTam" in side.session.__name__:  # transformers fails on a mask beside points
        points(session, "b", 3, [(90.0, 20.0)], [1])
    else:
        box_mask(session, "b", 3, video.shape[-1])
    points(session, 1, 3, [(41.0, 33.0), (70.0, 80.0)], [1, 0])
    session.obj_with_new_inputs = [1, "b"]
    yield side.model(session, frame_idx=3)
    yield from side.model.propagate_in_video_iterator(session, start_frame_idx=3)
    points(session, 1, 8, [(10.0, 20.0), (90.0, 80.0), (50.0, 50.0)], [2, 3, 0])
    session.obj_with_new_inputs = [1]
    yield side.model(session, frame_idx=8)
    yield from side.model.propagate_in_video_iterator(session, start_frame_idx=8, reverse=True)
    yield from side.model.propagate_in_video_iterator(session)


def stream(side: Side, video: NDArray[np.float32]) -> Iterator[Any]:
    """Follow an object through frames that come one by one."""
    import torch

    session = side.clip(None)
    click(session, 1, 0)
    for frame in video:
        yield side.model(session, frame=torch.from_numpy(frame))


def masks(outputs: Any) -> list[NDArray[np.float32]]:
    """Return the masks of outputs as arrays."""
    return [np.asarray(each.pred_masks) for each in outputs]


def save(model: Any, folder: Path) -> Path:
    """Write the folder of transformers' model."""
    return hf.save(model, folder)


def ours(name: str, folder: Path, *, bfloat16_memory: bool) -> Side:
    """Return the drop-in's model of a folder; it keeps memories in this type."""
    from sam_rlx.compat.transformers import video, video_sessions

    kind = getattr(video, name)
    wanted: Any = type(name, (kind,), {"_BFLOAT16_MEMORY": bfloat16_memory})
    session = getattr(video_sessions, name.replace("Model", "InferenceSession"))
    return Side(wanted.from_pretrained(folder), session)
