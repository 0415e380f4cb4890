"""Predictors of clips: objects that prompts or texts name on the first frame."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics.arguments import Settings
from sam_rlx.compat.ultralytics.models.sam.base import BasePredictor, Found
from sam_rlx.compat.ultralytics.models.sam.semantic import as_concepts
from sam_rlx.compat.ultralytics.prompts import Prompts, as_prompts
from sam_rlx.compat.ultralytics.sources import Item, clip
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.video import VideoFrame, VideoPredictor


class _ClipPredictor(BasePredictor):
    """A predictor whose source is a clip."""

    def _begin(self, video: VideoPredictor, prompts: dict[str, Any]) -> dict[int, str]:
        """Give a session its prompts; return the names of the classes."""
        raise NotImplementedError

    def _classes(self, frame: VideoFrame, names: dict[int, str]) -> list[int]:
        """Return the class of each object of a frame."""
        raise NotImplementedError

    def _probability(self, score: float) -> float:
        """Return the score of an object as 0 to 1."""
        raise NotImplementedError

    def _found(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[tuple[Item, Found, float]]:
        if source is None:
            raise InvalidArgumentError("source: expected a clip, found None")
        opened = clip(source, settings.vid_stride)
        video = VideoPredictor(self.model, opened.open())
        names = self._begin(video, prompts)
        images = opened.items()  # frames of texts come late: pixels are read a second time
        began = time.perf_counter()
        for frame, item in zip(video.propagate(), images, strict=False):
            yield item, self._of_frame(frame, item, names), began
            began = time.perf_counter()

    def _of_frame(self, frame: VideoFrame, item: Item, names: dict[int, str]) -> Found:
        classes = self._classes(frame, names)
        shown = [
            (obj_id, number)
            for obj_id, number in zip(frame.masks, classes, strict=True)
            if frame.masks[obj_id].any()
        ]
        ids = [obj_id for obj_id, _ in shown]
        size = (len(ids), *item.pixels.shape[:2])
        masks = np.array([frame.masks[obj_id] for obj_id in ids], bool).reshape(size)
        scores = [self._probability(frame.scores[obj_id]) for obj_id in ids]
        numbers = np.array([number for _, number in shown], np.int64)
        plain = [int(obj_id) for obj_id in ids]  # type: ignore[call-overload]
        return Found(masks, np.array(scores, np.float32), numbers, names, ids=plain)


class SAM2VideoPredictor(_ClipPredictor):
    """Objects of a clip, by ``bboxes``, ``points``, ``labels`` or ``masks`` on its first frame.

    Objects have the numbers 0, 1, ... of their prompts; those that are not seen on a frame are not
    in its results. Parameters are those of `BasePredictor`.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = ("bboxes", "points", "labels", "masks")
    _MODEL: ClassVar[str] = "sam2_b.pt"

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        found = as_prompts(*(prompts.get(name) for name in self._PROMPTS))
        if not found.count:
            raise InvalidArgumentError(
                "prompts: expected bboxes, points or masks of the first frame, found none"
            )
        return {"by_hand": found}

    def _begin(self, video: VideoPredictor, prompts: dict[str, Any]) -> dict[int, str]:
        by_hand: Prompts = prompts["by_hand"]
        for index in range(by_hand.count or 0):
            if by_hand.masks is not None:
                video.add_prompt(0, index, mask=by_hand.masks[index] > 0)
                continue
            video.add_prompt(
                0,
                index,
                point_coords=None if by_hand.points is None else by_hand.points[index],
                point_labels=None if by_hand.labels is None else by_hand.labels[index],
                box=None if by_hand.boxes is None else by_hand.boxes[index],
            )
        return {index: str(index) for index in range(by_hand.count or 0)}

    def _classes(self, frame: VideoFrame, names: dict[int, str]) -> list[int]:
        return [int(obj_id) for obj_id in frame.masks]  # type: ignore[call-overload]

    def _probability(self, score: float) -> float:
        return float(1 / (1 + np.exp(-score)))


class SAM3VideoPredictor(SAM2VideoPredictor):
    """As `SAM2VideoPredictor`, by default with SAM 3."""

    _MODEL: ClassVar[str] = "sam3.pt"


class SAM3VideoSemanticPredictor(_ClipPredictor):
    """All of a clip that ``text`` or example ``bboxes`` describe.

    Boxes are on the first frame, with ``labels`` as for images. Each text is a class.
    Parameters are those of `BasePredictor`.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = ("text", "bboxes", "labels")
    _MODEL: ClassVar[str] = "sam3.pt"

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        return as_concepts(prompts)

    def _begin(self, video: VideoPredictor, prompts: dict[str, Any]) -> dict[int, str]:
        first = None if prompts["boxes"] is None else 0
        video.add_text(
            prompts["text"],
            frame_index=first,
            boxes=prompts["boxes"],
            box_labels=prompts["box_labels"],
        )
        return dict(enumerate(prompts["text"] or ["visual"]))

    def _classes(self, frame: VideoFrame, names: dict[int, str]) -> list[int]:
        numbers = {text: number for number, text in names.items()}
        return [numbers.get(frame.texts.get(obj_id, ""), 0) for obj_id in frame.masks]

    def _probability(self, score: float) -> float:
        return score


__dir__ = public_names(__name__)
