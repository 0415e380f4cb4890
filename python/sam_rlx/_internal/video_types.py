"""What the video predictor takes and gives."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._internal.arrays.pixels import as_array
from sam_rlx._internal.arrays.prompts import as_prompts
from sam_rlx._internal.media.frames import FrameKind
from sam_rlx._internal.printable import shown
from sam_rlx._internal.synonyms import also
from sam_rlx.errors import InvalidArgumentError


@also(phrases="texts")
@dataclass(frozen=True, eq=False)
class VideoFrame:
    """Masks of one frame.

    Attributes
    ----------
    frame_index : int
        Number of the frame, from 0.
    masks : dict
        By object: bool (H, W) at the size of the video. Objects without a result on this frame
        are not in it.
    scores : dict
        By object: the model's logit for being visible. Where it is not above 0 the mask is empty.
        Of an object that a text named: the probability with which it was found, 1 if it was
        clicked; it is here only where it is seen.
    logits : dict, optional
        By object: float32 (H, W), on request.
    texts : dict
        By object that a text named: the text.
    """

    frame_index: int
    masks: dict[Hashable, NDArray[np.bool_]]
    scores: dict[Hashable, float]
    logits: dict[Hashable, NDArray[np.float32]] | None = None
    texts: dict[Hashable, str] = field(default_factory=dict)

    @property
    def phrases(self) -> dict[Hashable, str]:
        """The same as `texts`."""
        return self.texts

    def __repr__(self) -> str:
        names = ", ".join(
            f"{shown(obj_id)} {score:.2f}" for obj_id, score in list(self.scores.items())[:6]
        )
        more = ", ..." if len(self.scores) > 6 else ""
        return f"<VideoFrame {self.frame_index}, {len(self.masks)} masks, scores: {names}{more}>"

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the masks, with the names of their objects; None without any."""
        from sam_rlx._internal.drawing.previews import png

        if not self.masks:
            return None
        masks = list(self.masks.values())
        captions = [
            f"{self.texts[obj_id]} {obj_id}" if obj_id in self.texts else str(obj_id)
            for obj_id in self.masks
        ]
        return png(masks, masks[0].shape, captions)


# What a text found on a frame: names, masks (K, H, W), scores.
Found: TypeAlias = tuple[list[int], NDArray[np.bool_], list[float]]
# Coordinates (N, 2) and labels (N,).
Points: TypeAlias = tuple[NDArray[np.float64], NDArray[np.int32]]


def as_points(
    coords: ArrayLike | None,
    labels: ArrayLike | None,
    box: ArrayLike | None,
    clear_old_points: bool,
) -> Points:
    """Return points with a box as the first two of them, labelled 2 and 3."""
    if box is not None and not clear_old_points:
        raise InvalidArgumentError(
            "box: expected clear_old_points=True, since a box comes before all points, found False"
        )
    prompts = as_prompts(coords, labels, box, None, 0)
    if prompts.batched:
        raise InvalidArgumentError("add_prompt: expected prompts of one object, found a batch")
    points = np.zeros((0, 2)) if prompts.point_coords is None else prompts.point_coords[0]
    kinds = np.zeros(0, np.int32) if prompts.point_labels is None else prompts.point_labels[0]
    if prompts.boxes is not None:
        points = np.concatenate([prompts.boxes[0].reshape(2, 2), points])
        kinds = np.concatenate([np.array([2, 3], np.int32), kinds])
    return points, kinds


def as_mask(mask: ArrayLike, orig_hw: tuple[int, int] | None) -> NDArray[np.float32]:
    """Return a mask of the size of the video as zeros and ones."""
    array = as_array("mask", mask)
    if array.dtype.kind not in "biu" or array.shape != orig_hw:
        raise InvalidArgumentError(
            f"mask: expected bool {orig_hw}, found {array.dtype} {array.shape}"
        )
    return array.astype(np.bool_).astype(np.float32)


def core_options(options: dict[str, Any], resize: str, kind: FrameKind | None) -> dict[str, Any]:
    """Return the options of a session under upstream's names; without a kind, frames are pushed."""
    return {
        "fill_hole_area": options["fill_hole_area"],
        "non_overlap_masks": options["non_overlap_masks"],
        "add_all_frames_to_correct_as_cond": options["keep_corrections"],
        "history": 0 if kind is None else options["history"],
        "use_memory_selection": options["memory_selection"],
        "resize": resize,
        "frames": kind or "images",
        "streaming": kind is None,
    }


def to_frame(
    index: int,
    names: dict[int, Hashable],
    shown: tuple[Any, ...],
    found: list[tuple[str, Found]],
) -> VideoFrame:
    """Name what the core gave: numbers, masks, logits or None, scores; and what texts found."""
    handles, masks, logits, scores = shown
    obj_ids = [names[handle] for handle in handles]
    frame = VideoFrame(
        frame_index=index,
        masks=dict(zip(obj_ids, masks, strict=True)),
        scores=dict(zip(obj_ids, scores, strict=True)),
        logits=None if logits is None else dict(zip(obj_ids, logits, strict=True)),
    )
    for text, (numbers, pixels, probabilities) in found:
        frame.masks.update(zip(numbers, pixels, strict=True))
        frame.scores.update(zip(numbers, probabilities, strict=True))
        frame.texts.update(dict.fromkeys(numbers, text))
    return frame
