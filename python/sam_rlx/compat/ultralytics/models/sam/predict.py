"""Predictors of images by boxes and points, and of everything."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_flag
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.ultralytics.arguments import Settings
from sam_rlx.compat.ultralytics.models.sam.base import Found, KeepsImage, numbered
from sam_rlx.compat.ultralytics.prompts import Prompts, as_prompts
from sam_rlx.compat.ultralytics.sources import Item, items
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.generator import MaskGenerator
from sam_rlx.image import ImagePredictor
from sam_rlx.model import Model

_BY_HAND = ("bboxes", "points", "labels", "masks")
# Arguments of everything mode by ultralytics' names, and by ours.
_EVERYTHING = {
    "points_stride": "points_per_side",
    "points_batch_size": "points_per_batch",
    "conf_thres": "pred_iou_thresh",
    "stability_score_thresh": "stability_score_thresh",
    "stability_score_offset": "stability_score_offset",
    "crop_n_layers": "crop_n_layers",
    "crop_overlap_ratio": "crop_overlap_ratio",
    "crop_downscale_factor": "crop_n_points_downscale_factor",
    "crop_nms_thresh": "crop_nms_thresh",
    "point_grids": "point_grids",
}


def one_image(source: Any) -> Item:
    """Return the one image of a source."""
    found = items(source)
    item = next(found, None)
    if item is None or next(found, None) is not None:
        raise InvalidArgumentError("set_image: expected one image, found none or several")
    return item


def embedding_of(features: Any) -> list[NDArray[np.float32]]:
    """Return the arrays of ``features``."""
    parts = features if isinstance(features, (list, tuple)) else [features]
    arrays = (to_array(part, np.float32) for part in parts)
    return [array for array in arrays if array is not None]


def size_of(src_shape: Any) -> tuple[int, int]:
    """Return (H, W) of the shape of an image."""
    if len(src_shape) not in (2, 3):
        raise InvalidArgumentError(f"src_shape: expected (H, W), found {src_shape!r}")
    return int(src_shape[0]), int(src_shape[1])


class Predictor(KeepsImage):
    """Masks for boxes and points on images; without a prompt, masks of everything.

    A call takes ``bboxes``, ``points``, ``labels``, ``masks`` (logits of an earlier prediction) and
    ``multimask_output``. Without these it takes the arguments of everything mode:
    ``points_stride``, ``crop_n_layers``, ``crop_overlap_ratio``, ``crop_downscale_factor``,
    ``points_batch_size``, ``conf_thres``, ``stability_score_thresh``,
    ``stability_score_offset``, ``crop_nms_thresh``, ``point_grids``. Objects are in the order of
    their prompts, and each is a class of its own. Parameters are those of `BasePredictor`.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = (*_BY_HAND, "multimask_output", *_EVERYTHING)

    def _set_up(self, model: Model) -> None:
        self._item = None
        self._kept, self._passing = ImagePredictor(model), ImagePredictor(model)

    def set_image(self, image: Any) -> None:
        """Encode one image, a path or array in BGR, for the calls without a source."""
        item = one_image(image)
        self._ready()._kept.set_image(item.pixels)
        self._item = item

    def _ready(self) -> Predictor:
        """Load the model if it is not."""
        assert self.model is not None
        return self

    def inference_features(
        self,
        features: Any,
        src_shape: tuple[int, int],
        dst_shape: tuple[int, int] | None = None,
        bboxes: Any = None,
        points: Any = None,
        labels: Any = None,
        masks: Any = None,
        multimask_output: bool = False,
    ) -> tuple[Any, Any]:
        """Return masks (N, H, W) and boxes (N, 6) for prompts on features.

        Parameters
        ----------
        features : tensor, or sequence of tensors
            `features` of a predictor with the same weights.
        src_shape : (int, int)
            Height and width of the image.
        dst_shape : None
            The network's size; no other is taken.
        bboxes, points, labels, masks, multimask_output
            As in a call.
        """
        if dst_shape is not None and set(dst_shape) != {self.model.img_size}:
            raise InvalidArgumentError(
                f"dst_shape: expected the network's side {self.model.img_size}, found {dst_shape}"
            )
        predictor = self._ready()._passing
        predictor.set_image_embedding(embedding_of(features), size_of(src_shape))
        prompts = as_prompts(bboxes, points, labels, masks)
        found = _by_prompts(predictor, prompts, as_flag("multimask_output", multimask_output))
        kept = found.kept(self.args)
        return as_result(found.masks[kept]), as_result(found.rows()[kept])

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        by_hand = as_prompts(*(prompts.get(name) for name in _BY_HAND))
        multimask = as_flag("multimask_output", prompts.get("multimask_output", False))
        others = {
            _EVERYTHING[name]: value
            for name, value in prompts.items()
            if name in _EVERYTHING and value is not None
        }
        if "point_grids" in others:
            others.setdefault("points_per_side", None)
        if by_hand.count is not None and others:
            raise InvalidArgumentError(
                f"prompts: expected none beside arguments of everything mode, found {by_hand.count}"
            )
        return {"by_hand": by_hand, "multimask": multimask, "everything": others}

    def _found(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[tuple[Item, Found, float]]:
        self._ready()
        by_hand = prompts["by_hand"]
        if source is None and self._item is None:
            raise StateError("source: expected an image, or one from set_image, found none")
        for item in (self._item,) if source is None else items(source, settings.vid_stride):
            assert item is not None
            began = time.perf_counter()
            if by_hand.count is None:
                found = self._everything(item, source is None, prompts["everything"], settings)
            elif by_hand.count == 0:
                found = _nothing(item)
            else:
                predictor = self._kept if source is None else self._passing
                if source is not None:
                    predictor.set_image(item.pixels)
                found = _by_prompts(predictor, by_hand, prompts["multimask"])
            yield item, found, began

    def _everything(
        self, item: Item, is_kept: bool, options: dict[str, Any], settings: Settings
    ) -> Found:
        generator = MaskGenerator(self.model, **{"box_nms_thresh": settings.iou} | options)
        if is_kept and not options.get("crop_n_layers"):
            embedding = self._kept.image_embeddings
            records = generator.generate(embedding=embedding, orig_hw=item.pixels.shape[:2])
        else:
            records = generator.generate(item.pixels)
        if not records:
            return _nothing(item)
        masks = np.stack([record["segmentation"] for record in records])
        scores = np.array([record["predicted_iou"] for record in records], np.float32)
        return numbered(masks, scores, best=True)


def _by_prompts(predictor: ImagePredictor, prompts: Prompts, multimask: bool) -> Found:
    if prompts.count is None:
        raise InvalidArgumentError("prompts: expected bboxes, points or masks, found none")
    found = predictor.predict(
        point_coords=prompts.points,
        point_labels=prompts.labels,
        box=prompts.boxes,
        mask_input=prompts.masks,
        multimask_output=multimask,
    )
    masks = np.asarray(found.masks)
    return numbered(masks.reshape(-1, *masks.shape[-2:]), found.iou_predictions.ravel())


def _nothing(item: Item) -> Found:
    return numbered(np.zeros((0, *item.pixels.shape[:2]), bool), np.zeros(0, np.float32))


class SAM2Predictor(Predictor):
    """As `Predictor`, by default with SAM 2."""

    _MODEL: ClassVar[str] = "sam2_b.pt"


class SAM3Predictor(Predictor):
    """As `Predictor`, by default with SAM 3, whose tracker answers boxes and points."""

    _MODEL: ClassVar[str] = "sam3.pt"


__dir__ = public_names(__name__)
