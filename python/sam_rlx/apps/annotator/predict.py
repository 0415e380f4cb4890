"""From prompts to masks: predictors that belong to one session."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.mask_logits import mask_logits
from sam_rlx._internal.options import defaults
from sam_rlx.apps.annotator.values import PackedMask
from sam_rlx.concept import ConceptExamples, ConceptPredictor
from sam_rlx.generator import MaskGenerator, MaskRecord
from sam_rlx.image import ImagePredictor, MaskPrediction
from sam_rlx.model import Model

# Longest side of the image that a hover is computed on.
PREVIEW = 1024

# Encodes an image for a later `Encode`, until the callable says that other work waits; returns
# whether it is done with, or to be tried again.
Ahead = Callable[[NDArray[np.uint8], Callable[[], bool]], bool]
# What an encoder of a host's own gives for an image: the `image_embeddings` of an `ImagePredictor`,
# or with True those of a `ConceptPredictor`.
Encode = Callable[[NDArray[np.uint8], bool], Sequence[NDArray[np.float32]]]


def preview_hw(hw: tuple[int, int]) -> tuple[int, int]:
    """Return the size (H, W) of hovers on an image."""
    longest = max(hw)
    if longest <= PREVIEW:
        return hw
    height, width = (max(1, round(side * PREVIEW / longest)) for side in hw)
    return height, width


def hover_threads(num_threads: int | None) -> int:
    """Return the threads of hovers: half of the others, since what paints them needs cores too.

    Threads wait for each other: with a browser on the same two cores a hover of two threads takes
    twice as long as one of a single thread (benchmarks/page_trips.py).
    """
    available: int = _core.build_info()["cores"] if num_threads is None else num_threads
    return max(1, min(4, available // 2))


def prompts_of(
    points: Sequence[Sequence[float]],
    labels: Sequence[int],
    box: Sequence[float] | None,
    logits: NDArray[np.float32] | None = None,
) -> dict[str, Any]:
    """Return the arguments of `ImagePredictor.predict` for the prompts of an object.

    A single click is ambiguous and has three candidates; all else has one.
    """
    alone = len(points) == 1 and box is None and logits is None
    return {
        "point_coords": [list(point) for point in points] or None,
        "point_labels": list(labels) or None,
        "box": None if box is None else list(box),
        "mask_input": logits,
        "multimask_output": alone,
    }


class Clicks:
    """The predictors of one image: one at its size, one at the size of a preview.

    They serve one call at a time. An image is encoded once for both.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`.
    num_threads : int, optional
        As for `ImagePredictor`.
    encode : callable, optional
        Instead of the predictors' `set_image`, such as one with a cache.
    """

    def __init__(
        self, model: Model, num_threads: int | None = None, encode: Encode | None = None
    ) -> None:
        self.model = model
        self._num_threads = num_threads
        self._encode = encode
        self._full = ImagePredictor(model, num_threads=num_threads)
        self._small = _core.ImagePredictor(model.core, hover_threads(num_threads))
        self._concepts: ConceptPredictor | None = None
        self._image: NDArray[np.uint8] | None = None
        self._searched: NDArray[np.uint8] | None = None  # the image that `_concepts` has encoded

    @property
    def image(self) -> NDArray[np.uint8] | None:
        """The current image."""
        return self._image

    def set_image(self, image: NDArray[np.uint8]) -> None:
        """Encode an image (H, W, 3) and make it the current one."""
        hw = (image.shape[0], image.shape[1])
        if self._encode is None:
            self._full.set_image(image)
        else:
            self._full.set_image_embedding(list(self._encode(image, False)), hw)
        self._small.set_image_embeddings(list(self._full.image_embeddings), preview_hw(hw))
        self._image = image

    def predict(self, prompts: dict[str, Any]) -> MaskPrediction:
        """Predict at the size of the image."""
        return self._full.predict(**prompts)

    def hover(self, prompts: dict[str, Any]) -> tuple[PackedMask, float]:
        """Predict at the size of a preview: the best mask and its predicted IoU.

        Only this one of the candidates is made larger.
        """
        assert self._image is not None
        hw = self._image.shape[:2]
        scale = np.flip(np.divide(preview_hw(hw), hw))
        points, box, start = (prompts[name] for name in ("point_coords", "box", "mask_input"))
        found = self._small.decode(
            None if points is None else np.asarray(points, float)[None] * scale,
            None if points is None else np.asarray(prompts["point_labels"], np.int32)[None],
            None if box is None else np.asarray(box, float)[None] * np.tile(scale, 2),
            None if start is None else start[None],
            multimask_output=prompts["multimask_output"],
        )
        scores = found.iou_predictions[0]
        best = int(scores.argmax())
        chosen = found.low_res_masks[:, best : best + 1]
        masks = self._small.upscale(chosen, return_logits=False)
        return PackedMask.of(masks[0, 0]), float(scores[best])

    def logits(self, start: PackedMask | None) -> NDArray[np.float32] | None:
        """Return the logits of a mask that an object began with."""
        return None if start is None else mask_logits(start.to_mask(), self.model.core)

    def find(
        self,
        text: str,
        threshold: float,
        boxes: list[Any],
        labels: list[int],
        image: NDArray[np.uint8] | None = None,
        examples: ConceptExamples | None = None,
    ) -> Any:
        """Return the `ConceptPrediction` of a text, example boxes, and examples of another image.

        On the current image, or on another one, which the current one stays beside.
        """
        return self._search(image).predict(
            text=text or None,
            boxes=boxes or None,
            box_labels=labels or None,
            examples=examples,
            threshold=threshold,
        )

    def examples(
        self, boxes: list[Any], labels: list[int], image: NDArray[np.uint8]
    ) -> ConceptExamples:
        """Return what boxes on an image show, for `find` on others."""
        return self._search(image).encode_examples(None, boxes, labels)

    def _search(self, image: NDArray[np.uint8] | None) -> ConceptPredictor:
        """Return the predictor of texts with an image, the current one if none is given."""
        image = self._image if image is None else image
        assert image is not None
        if self._concepts is None:
            self._concepts = ConceptPredictor(self.model, self._num_threads)
        if self._searched is not image:
            if self._encode is None:
                self._concepts.set_image(image)
            else:
                hw = (image.shape[0], image.shape[1])
                self._concepts.set_image_embedding(list(self._encode(image, True)), hw)
            self._searched = image
        return self._concepts

    def thresholds(self, options: dict[str, Any]) -> str:
        """Return the thresholds of everything mode, as a sentence has them."""
        chosen = {**defaults("generator", self.model.core), **options}
        return f"{chosen['pred_iou_thresh']:g} and {chosen['stability_score_thresh']:g}"

    def everything(
        self, options: dict[str, Any], progress: Callable[[int, int], None]
    ) -> list[MaskRecord]:
        """Return the masks of everything mode, without encoding again."""
        assert self._image is not None
        chosen = {**defaults("generator", self.model.core), **options}
        generator = MaskGenerator(self.model, num_threads=self._num_threads, **chosen)
        height, width = self._image.shape[:2]
        return generator.generate(
            embedding=self._full.image_embeddings, orig_hw=(height, width), progress=progress
        )
