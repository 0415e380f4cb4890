"""Sessions of ours with texts on video, held to upstream's video model of SAM 3."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import sam_rlx
from numpy.typing import NDArray

from support import upstream_sam3_masklets as oracle
from support import upstream_video

# Where nothing is followed yet, all findings are new, as upstream.
ANY = {"new_det_thresh_without_masklets": False}
Step = tuple[Any, ...]


def play(session: sam_rlx.VideoPredictor, steps: Sequence[Step], hw: tuple[int, int]) -> list[Any]:
    """Do the steps of `upstream_sam3_masklets.play`; a list of frames."""
    size = np.array(hw[::-1])
    results: list[Any] = []
    for kind, *args in steps:
        if kind == "text":
            frame, text = args
            session.add_text(text, frame_index=frame)
        elif kind == "box":
            frame, text, box = args
            session.add_text(text, frame_index=frame, boxes=[np.tile(size, 2) * box])
        elif kind == "points":
            frame, obj, points, labels = args
            points = np.asarray(points) * size
            session.add_prompt(frame, obj, point_coords=points, point_labels=labels)
        elif kind == "track":
            start = args[0]["start_frame_idx"]
            if args[0].get("reverse"):
                start -= 1  # upstream begins after it
            options = {"start_frame": start, "reverse": args[0].get("reverse", False)}
            results += session.propagate(**options)
            continue
        else:
            session.remove_object(args[0])
            continue
        results.append(session.frame(frame))
    return results


def check(
    model: sam_rlx.Model,
    detector: Any,
    frames: NDArray[np.uint8],
    steps: Sequence[Step],
    options: Mapping[str, Any],
    wide_borders: bool = False,
) -> list[Any]:
    """Hold identities, masks and scores of a script to upstream.

    Random weights make masks with wide borders: then upstream runs in float64, and an IoU may be
    below 0.99 where masks of upstream's own float32, which runs only then, differ in a fourth as
    many pixels.
    """
    video = oracle.video_model(detector, **options)
    run = oracle.run64 if wide_borders else oracle.run
    expected = run(video, frames, oracle.play(steps))
    session = sam_rlx.VideoPredictor(
        model, frames, resize="integer", history=None, text_options={**ANY, **options}
    )
    ours = play(session, steps, frames.shape[1:3])
    assert [frame.frame_index for frame in ours] == [frame for frame, _ in expected]

    @functools.cache
    def most() -> int:
        single = oracle.run(video, frames, oracle.play(steps))
        return 4 * max(
            int(np.count_nonzero(mask ^ rough))
            for (_, right), (_, other) in zip(expected, single, strict=True)
            for mask, rough in zip(
                right["out_binary_masks"], other["out_binary_masks"], strict=False
            )
        )

    for found, (index, right) in zip(ours, expected, strict=True):
        names = right["out_obj_ids"].tolist()
        assert list(found.masks) == names, f"frame {index}"
        for obj, mask, score in zip(
            names, right["out_binary_masks"], right["out_probs"], strict=True
        ):
            name = f"frame {index}, object {obj}"
            if upstream_video.iou(found.masks[obj], mask) < 0.99:
                assert wide_borders, name
                assert np.count_nonzero(found.masks[obj] ^ mask) <= most(), name
            assert found.scores[obj] == pytest.approx(float(score), abs=1e-3), name
    return ours
