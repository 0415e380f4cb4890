"""Scripts of calls on SAM 3's tracker, played by upstream's predictor and by ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sam_rlx
import torch

from support import upstream_sam3_video as oracle
from support import upstream_video
from support.video_scripts import HW, Step


def _relative(points: Any) -> torch.Tensor:
    return torch.from_numpy(np.asarray(points, np.float32) / np.array(HW[::-1], np.float32))


def _track(predictor: Any, state: Any, options: Mapping[str, Any]) -> Iterator[Any]:
    most = options.get("max_frames")
    for frame, obj_ids, _, masks, scores in predictor.propagate_in_video(
        state,
        start_frame_idx=options.get("start_frame"),
        max_frame_num_to_track=None if most is None else most - 1,
        reverse=options.get("reverse", False),
        tqdm_disable=True,
        propagate_preflight=True,
    ):
        yield (
            frame,
            {obj: masks[i, 0].numpy() for i, obj in enumerate(obj_ids)},
            {obj: float(scores[i]) for i, obj in enumerate(obj_ids)},
        )


def play_upstream(steps: Sequence[Step]) -> Callable[[Any, Any], list[Any]]:
    """Make a session of upstream's out of steps; returns (frame, logits and scores by object)."""

    def prompt(predictor: Any, state: Any, kind: str, frame: int, obj: Any, *args: Any) -> Any:
        if kind == "mask":
            return predictor.add_new_mask(state, frame, obj, torch.from_numpy(args[0]))
        if kind == "box":
            box = _relative(np.reshape(args[0], (2, 2)))
            return predictor.add_new_points_or_box(state, frame, obj, box=box)
        points, labels, *more = args
        clear = more[0] if more else True
        return predictor.add_new_points_or_box(
            state, frame, obj, points=_relative(points), labels=labels, clear_old_points=clear
        )

    def session(predictor: Any, state: Any) -> list[Any]:
        results: list[Any] = []
        for kind, *args in steps:
            if kind == "track":
                results += _track(predictor, state, *args)
            elif kind == "clear":
                predictor.clear_all_points_in_frame(state, *args, need_output=False)
            elif kind == "remove":
                predictor.remove_object(state, *args, need_output=False)
            elif kind == "reset":
                predictor.clear_all_points_in_video(state)
            else:
                frame, obj_ids, _, masks = prompt(predictor, state, kind, *args)
                logits = {obj: masks[i, 0].numpy() for i, obj in enumerate(obj_ids)}
                scores = {obj: upstream_video.score(state, frame, obj) for obj in obj_ids}
                results.append((frame, logits, scores))
        return results

    return session


def run(
    model: sam_rlx.Model, frames: Any, steps: Sequence[Step], **options: Any
) -> list[sam_rlx.VideoFrame]:
    """Play a script with a session of ours."""
    return upstream_video.play_ours(sam_rlx.VideoPredictor(model, frames, **options), steps)


def check(
    parity: Any,
    models: tuple[sam_rlx.Model, Any],
    steps: Sequence[Step],
    *,
    frames: Any = 8,
    options: Mapping[str, Any] | None = None,
    **switches: Any,
) -> list[sam_rlx.VideoFrame]:
    """Hold every mask of a script to upstream."""
    model, network = models
    frames = upstream_video.clip(frames, HW) if isinstance(frames, int) else frames
    released = {"use_memory_selection": True, "fill_hole_area": 0}
    predictor = oracle.tracker(network, **{**released, **switches})
    session = play_upstream(steps)
    single = oracle.run(predictor, frames, session)
    exact = oracle.run64(predictor, frames, session)
    options = {"history": None, "resize": "integer", **(options or {})}
    ours = run(model, frames, steps, **options)
    return upstream_video.hold(parity, ours, exact, single)
