"""SAM 3 on images: everything that texts or example boxes describe."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from sam_rlx._internal.arrays.checks import as_texts
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensor import to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.ultralytics.arguments import Settings
from sam_rlx.compat.ultralytics.models.sam.base import Found, KeepsImage
from sam_rlx.compat.ultralytics.models.sam.predict import embedding_of, one_image, size_of
from sam_rlx.compat.ultralytics.prompts import as_boxes
from sam_rlx.compat.ultralytics.sources import Item, items
from sam_rlx.concept import ConceptPredictor
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.model import Model


def as_concepts(prompts: dict[str, Any]) -> dict[str, Any]:
    """Return texts, example boxes and their labels as `ConceptPredictor.predict` takes them."""
    text, bboxes, labels = (prompts.get(name) for name in ("text", "bboxes", "labels"))
    if text is None and bboxes is None:
        raise InvalidArgumentError("prompts: expected text or bboxes, found none")
    marks = None if labels is None else np.ravel(np.asarray(to_array(labels, np.int32)))
    if bboxes is None and marks is not None:
        raise InvalidArgumentError("labels: expected bboxes that they belong to, found none")
    return {
        "text": None if text is None else as_texts("text", text),
        "boxes": None if bboxes is None else as_boxes(bboxes),
        "box_labels": marks,
    }


class SAM3SemanticPredictor(KeepsImage):
    """All instances of what ``text``, or example ``bboxes`` with ``labels``, describe.

    Each text is a class. Boxes are examples of what is meant (label 1, the default), or of what is
    not (0). Scores are above the setting ``conf``. Parameters are those of `BasePredictor`.
    """

    _PROMPTS: ClassVar[tuple[str, ...]] = ("text", "bboxes", "labels")
    _MODEL: ClassVar[str] = "sam3.pt"

    def _set_up(self, model: Model) -> None:
        self._item = None
        self._kept, self._passing = ConceptPredictor(model), ConceptPredictor(model)

    def set_image(self, image: Any) -> None:
        """Encode one image, a path or array in BGR, for the calls without a source."""
        item = one_image(image)
        assert self.model is not None
        self._kept.set_image(item.pixels)
        self._item = item

    def inference_features(
        self,
        features: Any,
        src_shape: tuple[int, int],
        bboxes: Any = None,
        labels: Any = None,
        text: Any = None,
    ) -> tuple[Any, Any]:
        """Return masks (N, H, W) and boxes (N, 6) on features; (None, None) if nothing is found.

        Parameters
        ----------
        features : sequence of tensors
            `features` of a predictor with the same weights.
        src_shape : (int, int)
            Height and width of the image.
        bboxes, labels, text
            As in a call.
        """
        assert self.model is not None
        prompts = as_concepts({"text": text, "bboxes": bboxes, "labels": labels})
        self._passing.set_image_embedding(embedding_of(features), size_of(src_shape))
        found = self._find(self._passing, prompts, self.args)
        kept = found.kept(self.args)
        if not len(kept):
            return None, None
        return as_result(found.masks[kept]), as_result(found.rows()[kept])

    def _checked_prompts(self, prompts: dict[str, Any]) -> dict[str, Any]:
        return as_concepts(prompts)

    def _find(self, predictor: ConceptPredictor, prompts: Any, settings: Settings) -> Found:
        found = predictor.predict(threshold=settings.conf, **prompts)
        names = {index: str(text) for index, text in enumerate(found.texts)}
        masks = np.asarray(found.masks)
        return Found(masks, found.scores, found.labels, names, found.boxes, best=True)

    def _found(
        self, source: Any, prompts: dict[str, Any], settings: Settings
    ) -> Iterator[tuple[Item, Found, float]]:
        if source is None and self._item is None:
            raise StateError("source: expected an image, or one from set_image, found none")
        for item in (self._item,) if source is None else items(source, settings.vid_stride):
            assert item is not None
            began = time.perf_counter()
            predictor = self._kept if source is None else self._passing
            if source is not None:
                predictor.set_image(item.pixels)
            yield item, self._find(predictor, prompts, settings), began


__dir__ = public_names(__name__)
