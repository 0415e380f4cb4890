"""Two objects through a clip, by the defaults of ours and by upstream's own loaders of videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sam_rlx
from numpy.typing import NDArray
from PIL import Image

from support import upstream, upstream_sam3, upstream_sam3_video, upstream_video

HW = (150, 213)
# By frame and object, at the size of the video.
Logits = list[dict[str, NDArray[np.float32]]]


def boxes(hw: tuple[int, int] = HW) -> dict[str, list[float]]:
    """Where the shapes of `upstream_video.clip` are on frame 0."""
    height, width = hw
    x, y, radius = 0.2 * width, 0.4 * height, 0.18 * height
    disc = [x - radius, y - radius, x + radius, y + radius]
    x, y = 0.75 * width, 0.65 * height
    return {"disc": disc, "square": [x - 19, y - 21, x + 19, y + 21]}


def write_folder(folder: Path, count: int, hw: tuple[int, int] = HW) -> Path:
    """Write a clip as JPEG files named by numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for t, frame in enumerate(upstream_video.clip(count, hw)):
        Image.fromarray(frame).save(folder / f"{t}.jpg", quality=95)
    return folder


def images(folder: Path) -> list[Image.Image]:
    """Return the frames of a folder, decoded."""
    files = sorted(folder.iterdir(), key=lambda path: int(path.stem))
    return [Image.open(path).convert("RGB") for path in files]


def track(session: sam_rlx.VideoPredictor, hw: tuple[int, int] = HW) -> list[sam_rlx.VideoFrame]:
    """Track the objects with ours."""
    for obj, box in boxes(hw).items():
        session.add_prompt(0, obj, box=box)
    return list(session.propagate(return_logits=True))


def sam2_logits(predictor: Any, folder: Path, hw: tuple[int, int] = HW) -> Logits:
    """Run upstream's predictor of SAM 2 with its own loader, memories in float32."""
    with upstream_video.NoBFloat16():
        state = predictor.init_state(str(folder))
        for obj, box in boxes(hw).items():
            predictor.add_new_points_or_box(state, 0, obj, box=np.array(box, np.float32))
        return [
            {obj: logits[i, 0].numpy() for i, obj in enumerate(obj_ids)}
            for _, obj_ids, logits in predictor.propagate_in_video(state)
        ]


def sam3_logits(predictor: Any, resource: str | Sequence[Any]) -> Logits:
    """Run upstream's tracker of SAM 3 on frames of its own loader, not rounded to 16 bits."""
    from sam3.model.io_utils import load_resource_as_video_frames

    upstream_sam3.refresh(predictor)
    with upstream_video.NoHalf(), upstream_sam3_video.stand_ins():
        frames, height, width = load_resource_as_video_frames(
            resource, predictor.image_size, offload_video_to_cpu=True
        )
        state = predictor.init_state(video_height=height, video_width=width, num_frames=len(frames))
        state["images"] = frames
        for obj, box in boxes((height, width)).items():
            corners = np.array(box, np.float32).reshape(2, 2) / np.array([width, height])
            relative = upstream.tensor(corners.astype(np.float32))
            predictor.add_new_points_or_box(state, 0, obj, box=relative)
        return [
            {obj: masks[i, 0].numpy() for i, obj in enumerate(obj_ids)}
            for _, obj_ids, _, masks, _ in predictor.propagate_in_video(
                state,
                start_frame_idx=0,
                max_frame_num_to_track=None,
                reverse=False,
                tqdm_disable=True,
                propagate_preflight=True,
            )
        ]


def ious(ours: Sequence[sam_rlx.VideoFrame], right: Logits) -> list[float]:
    """Return the IoU of each object on each frame."""
    assert [list(found.masks) for found in ours] == [list(expected) for expected in right]
    return [
        float(upstream_video.iou(found.masks[obj], logits > 0))
        for found, expected in zip(ours, right, strict=True)
        for obj, logits in expected.items()
    ]


def difference(ours: Sequence[sam_rlx.VideoFrame], right: Logits) -> float:
    """Return the largest difference of logits, as a part of the largest logit."""
    pairs = [
        (found.logits[obj], logits)
        for found, expected in zip(ours, right, strict=True)
        for obj, logits in expected.items()
        if found.logits is not None
    ]
    largest = max(float(np.abs(logits).max()) for _, logits in pairs)
    return max(float(np.abs(a - b).max()) for a, b in pairs) / largest
