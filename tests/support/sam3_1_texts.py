"""Sessions of SAM 3.1 with a text, and files with what Meta's model gives for them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import upstream_video

HW = (72, 96)
FILE = Path(__file__).parents[1] / "data" / "sam3_1_texts.json"
TEXT = ("text", 0, "person")
ALL = ("track", {"start_frame_idx": 0})
# The released values, some of them smaller: clips are short, and weights are random.
OPTIONS: dict[str, Any] = {
    "score_threshold_detection": 0.25,
    "new_det_thresh": 0.4,
    "det_nms_thresh": 0.5,
    "hotstart_delay": 6,
    "hotstart_unmatch_thresh": 4,
    "hotstart_dup_thresh": 4,
    "recondition_every_nth_frame": 4,
    "suppress_det_close_to_boundary": False,
}


@dataclass(frozen=True)
class Case:
    """A session: weights of a seed, frames, options that are not those above, and steps."""

    seed: int
    frames: int
    options: Mapping[str, Any]
    steps: Sequence[tuple[Any, ...]]

    @property
    def given(self) -> dict[str, Any]:
        """All options of both sides."""
        return {**OPTIONS, **self.options}

    def clip(self) -> NDArray[np.uint8]:
        """Return the frames: three of each position, two dark ones."""
        frames = np.repeat(upstream_video.clip(-(-self.frames // 3), HW), 3, axis=0)
        frames[13:15] = 0
        return frames[: self.frames]


ONCE = {"hotstart_delay": 0}  # what is found is shown at once
CASES = {
    # Found on the first frame and corrected by what is found there; another one joins its bucket.
    "corrected, and joined": Case(26, 30, ONCE, [TEXT, ALL]),
    "confirmed later": Case(44, 30, {}, [TEXT, ALL]),
    "none is confirmed": Case(3, 9, {}, [TEXT, ALL]),
    "six at once, one removed": Case(
        101,
        12,
        {**ONCE, "det_nms_thresh": 0.0, "max_num_objects": 6},
        [TEXT, ALL, ("remove", 3), ALL],
    ),
    # Found at the edge while nothing is followed, and not again. No other score is as good: of
    # equal ones the last bit would choose.
    "at the edge": Case(206, 12, {**ONCE, "suppress_det_close_to_boundary": True}, [TEXT, ALL]),
}


@dataclass(frozen=True)
class Shown:
    """What is to be seen on a frame."""

    frame: int
    obj_ids: list[int]
    scores: list[float]
    masks: list[NDArray[np.bool_]]


def shown(results: Sequence[Any]) -> list[Shown]:
    """Return what Meta's model gives in our words."""
    return [
        Shown(
            int(frame),
            [int(obj) for obj in found["out_obj_ids"]],
            [float(score) for score in found["out_probs"]],
            [np.asarray(mask, np.bool_) for mask in found["out_binary_masks"]],
        )
        for frame, found in results
    ]


def hold(ours: Sequence[Any], expected: Sequence[Shown]) -> None:
    """Hold the frames of a session to what is to be seen: objects, scores and masks."""
    assert [frame.frame_index for frame in ours] == [right.frame for right in expected]
    for found, right in zip(ours, expected, strict=True):
        assert list(found.masks) == right.obj_ids, f"frame {right.frame}"
        for obj, score, mask in zip(right.obj_ids, right.scores, right.masks, strict=True):
            name = f"frame {right.frame}, object {obj}"
            assert abs(found.scores[obj] - score) < 1e-3, name
            assert upstream_video.iou(found.masks[obj], mask) >= 0.999, name


def write(cases: Mapping[str, Sequence[Shown]]) -> None:
    """Write what is to be seen in sessions."""
    document = {name: [_packed(frame) for frame in frames] for name, frames in cases.items()}
    FILE.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


def read(name: str) -> list[Shown]:
    """Read what is to be seen in a session."""
    document = json.loads(FILE.read_text(encoding="utf-8"))
    return [
        Shown(frame["frame"], frame["obj_ids"], frame["scores"], _unpacked(frame))
        for frame in document[name]
    ]


def _packed(frame: Shown) -> dict[str, Any]:
    bits = np.packbits(np.array(frame.masks, np.bool_).reshape(len(frame.masks), *HW))
    return {
        "frame": frame.frame,
        "obj_ids": frame.obj_ids,
        "scores": [round(score, 6) for score in frame.scores],
        "masks": base64.b64encode(zlib.compress(bits.tobytes(), 9)).decode(),
    }


def _unpacked(frame: Mapping[str, Any]) -> list[NDArray[np.bool_]]:
    count = len(frame["obj_ids"])
    packed = np.frombuffer(zlib.decompress(base64.b64decode(frame["masks"])), np.uint8)
    bits = np.unpackbits(packed, count=count * HW[0] * HW[1])
    return list(bits.astype(np.bool_).reshape(count, *HW))
