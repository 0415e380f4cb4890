"""Ours following objects through a video, through the public classes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import resident
import tracks
from rivals import Task
from workloads import BUILD, Workload


def start_session(workload: Workload, model: Any, threads: int, frames: int = tracks.FRAMES) -> Any:
    """Prompt the objects on frame 0. Holes stay, as upstream's CPU path leaves them."""
    import sam_rlx

    clip = tracks.Clip(workload.image_hw, frames)
    # The rivals get frames that are resized as single images.
    session = sam_rlx.VideoPredictor(
        model, clip, num_threads=threads, fill_hole_area=0, resize="float"
    )
    for obj_id in range(workload.objects):
        points, labels = tracks.click(workload, obj_id)
        session.add_prompt(0, obj_id, point_coords=points, point_labels=labels)
    return session


def tracked(workload: Workload, model: Any, threads: int) -> Task:
    """The same, in a session that has tracked all frames before."""
    frames = start_session(workload, model, threads).propagate(return_logits=True)
    for _ in range(tracks.FIRST):
        next(frames)
    resident.forget_peak()  # as the others
    return Task(lambda: next(frames), lambda out: np.stack(list(out.logits.values())))


def tracking(workload: Workload, model: Any, threads: int) -> Task:
    """One steady frame after the other, in a session that is read from a file with a past."""
    import sam_rlx
    from sam_rlx._core import NamedTensors

    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = Path(folder) / "session.safetensors"
        start_session(workload, model, threads).save(path)
        saved = NamedTensors.read(path)
        arrays = saved.arrays
        for index in range(workload.objects):
            _remember(arrays, str(index), tracks.past(workload.config, index))
        with path.open("wb") as file:
            NamedTensors(arrays, saved.metadata).save(file)
        del saved, arrays
        clip = tracks.Clip(workload.image_hw)
        session = sam_rlx.VideoPredictor.load(path, model, clip, num_threads=threads)
    resident.forget_peak()  # of the past that was made up
    frames = session.propagate(start_frame=tracks.FIRST, return_logits=True)
    return Task(lambda: next(frames), lambda out: np.stack(list(out.logits.values())))


def _remember(fields: dict[str, Any], name: str, past: tracks.Past) -> None:
    known = np.arange(1, tracks.POINTERS + 1)
    fields[f"{name}.non_cond.frames"] = known
    fields[f"{name}.non_cond.has_memory"] = np.ones_like(known)
    for part in ("is_outdated", "was_prompted"):
        fields[f"{name}.non_cond.{part}"] = np.zeros_like(known)
    for part in ("iou_prediction", "eff_iou_score"):  # which SAM 3 alone reads
        fields[f"{name}.non_cond.{part}"] = np.zeros(len(known), np.float32)
    for part, values in past._asdict().items():
        fields[f"{name}.non_cond.{part}"] = values
    fields[f"{name}.frames_tracked"] = np.arange(tracks.POINTERS + 1)
    fields[f"{name}.frames_tracked.reverse"] = np.zeros(tracks.POINTERS + 1, np.int64)
