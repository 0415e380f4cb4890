"""SAM 2 on images that follow each other: objects are remembered from those that have prompts."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_flag, as_integer, as_items
from sam_rlx._internal.media.image_files import pillow
from sam_rlx._internal.public import public_names
from sam_rlx.compat.ultralytics.arguments import Settings
from sam_rlx.compat.ultralytics.models.sam.base import BasePredictor, Found
from sam_rlx.compat.ultralytics.prompts import Prompts, as_prompts
from sam_rlx.compat.ultralytics.sources import Item, items
from sam_rlx.errors import InvalidArgumentError, StateError, UnsupportedError
from sam_rlx.model import Model

_BY_HAND = ("bboxes", "points", "labels", "masks")
_WANTS = _core.Wants(masks=False, logits=True)
_OPTIONS = {"history": 0, "streaming": True, "frames": "images"}


class SAM2DynamicInteractivePredictor(BasePredictor):
    """Objects on one image after the other, by a memory that prompts add to.

    A call takes ``bboxes``, ``points``, ``labels``, ``masks``, ``obj_ids`` (one of each prompt) and
    ``update_memory``. With ``update_memory=True`` the image and its prompts are remembered, and
    later images are answered by what is remembered; other calls change nothing. Images of another
    size than the first one are resized to it for the network.

    Parameters
    ----------
    cfg, overrides, _callbacks
        As of `BasePredictor`.
    max_obj_num : int
        Objects that are remembered at most.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = (*_BY_HAND, "obj_ids", "update_memory")
    _MODEL: ClassVar[str] = "sam2_b.pt"

    def __init__(
        self,
        cfg: Any = None,
        overrides: Any = None,
        max_obj_num: int = 3,
        _callbacks: None = None,
    ) -> None:
        super().__init__(cfg, overrides, _callbacks)
        self.max_obj_num = as_integer("max_obj_num", max_obj_num, 1)

    def _set_up(self, model: Model) -> None:
        if model.family != "sam2" or not model.supports_video:
            raise UnsupportedError(
                f"model: expected SAM 2 with its memory, found {model.family} {model.variant}"
            )
        self._memory = _core.VideoSession(model.core, 0, dict(_OPTIONS))
        self._hw: tuple[int, int] | None = None

    @property
    def obj_ids(self) -> list[int]:
        """The objects that are remembered."""
        assert self.model is not None
        return list(self._memory.obj_ids)

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        found = as_prompts(*(prompts.get(name) for name in _BY_HAND))
        update = as_flag("update_memory", prompts.get("update_memory") or False)
        given = prompts.get("obj_ids")
        count = found.count or 0
        if given is None:
            ids = list(range(count))
        else:
            listed = [given] if isinstance(given, (int, np.integer)) else as_items("obj_ids", given)
            ids = [as_integer("obj_ids", number, 0) for number in listed]
        if update and (given is None or not count):
            raise InvalidArgumentError(
                "update_memory: expected prompts and obj_ids to remember, found none"
            )
        if len(ids) != count:
            raise InvalidArgumentError(
                f"obj_ids: expected one for each of {count} prompts, found {len(ids)}"
            )
        return {"by_hand": found, "ids": ids, "update": update}

    def _found(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[tuple[Item, Found, float]]:
        self._check_objects(prompts)
        for item in items(source, settings.vid_stride):
            began = time.perf_counter()
            hw = (item.pixels.shape[0], item.pixels.shape[1])
            size = self._hw or hw
            # A copy takes what is not to be remembered, and what may fail.
            session = copy.deepcopy(self._memory)
            result = session.push(_resized(item.pixels, size), _WANTS)
            by_hand = prompts["by_hand"]
            scale = np.divide(size[::-1], hw[::-1])
            for index, obj_id in enumerate(prompts["ids"]):
                frame = session.num_pushed - 1
                result = _add(session, (frame, obj_id), by_hand, index, scale)
            if prompts["update"]:
                session.prepare()  # makes memories of the prompts: a copy has no frame
                self._memory, self._hw = session, size
            yield item, _objects(result, hw), began

    def _check_objects(self, prompts: dict[str, Any]) -> None:
        known = self.obj_ids
        if not known and not prompts["ids"]:
            raise StateError(
                "source: expected objects that are remembered, or prompts, found neither; give "
                "prompts with obj_ids= and update_memory=True first"
            )
        count = len({*known, *prompts["ids"]})
        if count > self.max_obj_num:
            raise InvalidArgumentError(
                f"obj_ids: expected at most max_obj_num={self.max_obj_num} objects, found {count}"
            )


def _add(
    session: _core.VideoSession,
    where: tuple[int, int],
    prompts: Prompts,
    index: int,
    scale: NDArray[np.float64],
) -> _core.FrameResult:
    """Give a session one prompt; `where` is the frame and the object."""
    frame, obj_id = where
    label = str(obj_id)
    if prompts.masks is not None:
        mask = (prompts.masks[index] > 0).astype(np.float32)
        return session.add_mask(frame, obj_id, label, mask, any_size=True, wants=_WANTS)
    coords, labels = np.zeros((0, 2)), np.zeros(0, np.int32)
    if prompts.points is not None and prompts.labels is not None:
        coords, labels = prompts.points[index], prompts.labels[index]
    if prompts.boxes is not None:
        coords = np.concatenate([prompts.boxes[index].reshape(2, 2), coords])
        labels = np.concatenate([np.array([2, 3], np.int32), labels])
    return session.add_points(frame, obj_id, label, coords * scale, labels, wants=_WANTS)


def _resized(pixels: NDArray[np.uint8], hw: tuple[int, int]) -> NDArray[np.uint8]:
    if pixels.shape[:2] == hw:
        return pixels
    image = pillow("Image").fromarray(pixels)
    return np.array(image.resize(hw[::-1], pillow("Image").Resampling.BICUBIC))


def _objects(result: _core.FrameResult, hw: tuple[int, int]) -> Found:
    """Return the objects of a frame at the size of its image; those that are seen."""
    images = pillow("Image")
    logits = [np.asarray(each) for each in result.logits]
    masks = [
        np.array(images.fromarray(each).resize(hw[::-1], images.Resampling.BILINEAR)) > 0
        if each.shape != hw
        else each > 0
        for each in logits
    ]
    shown = [i for i, mask in enumerate(masks) if mask.any()]
    ids = [int(result.obj_ids[i]) for i in shown]
    scores = np.array([1 / (1 + np.exp(-result.scores[i])) for i in shown], np.float32)
    kept = np.array([masks[i] for i in shown], bool).reshape(len(shown), *hw)
    names = {obj_id: str(obj_id) for obj_id in ids}
    return Found(kept, scores, np.array(ids, np.int64), names, ids=ids)


__dir__ = public_names(__name__)
