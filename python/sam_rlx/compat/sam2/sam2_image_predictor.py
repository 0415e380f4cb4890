"""Upstream's ``SAM2ImagePredictor``: ``sam2.sam2_image_predictor``."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._arrays import as_rgb
from sam_rlx.compat.errors import require
from sam_rlx.compat.sam2.build_sam import build_sam2_hf
from sam_rlx.compat.sam2.sam2_base import SAM2Base
from sam_rlx.compat.segment_anything.tensor import TensorArray, as_tensor, to_array
from sam_rlx.errors import StateError

Masks = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class SAM2ImagePredictor:
    """Masks for prompts on one image or several, with upstream's methods.

    Parameters
    ----------
    sam_model : SAM2Base
        From `build_sam2`.
    mask_threshold : float
        Logit above which a pixel belongs to a mask.
    max_hole_area, max_sprinkle_area : float
        Holes and islands of at most so many positions of the low-resolution mask are removed, as
        upstream does on a GPU; its CPU path leaves them. 0: they stay.
    """

    def __init__(
        self,
        sam_model: SAM2Base,
        mask_threshold: float = 0.0,
        max_hole_area: float = 0.0,
        max_sprinkle_area: float = 0.0,
    ) -> None:
        self.model = sam_model
        self.max_hole_area = max_hole_area
        self.max_sprinkle_area = max_sprinkle_area
        self.mask_threshold = mask_threshold
        self._core = _core.ImagePredictor(sam_model.model.core, 0)
        self._encoded: list[tuple[tuple[NDArray[np.float32], ...], tuple[int, int]]] = []
        self._is_batch = False

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> "SAM2ImagePredictor":
        """Load a model from the hub (extra ``hub``)."""
        return cls(build_sam2_hf(model_id), **kwargs)

    @property
    def device(self) -> str:
        """Always ``"cpu"``."""
        return "cpu"

    def set_image(self, image: Any) -> None:
        """Encode an image: PIL image, or array (H, W, 3), RGB, uint8 or float in 0 to 1.

        Anything else is a ``NotImplementedError``, as upstream.
        """
        self._core.set_image(as_rgb(_picture(image)))
        self._encoded, self._is_batch = [], False

    def set_image_batch(self, image_list: list[NDArray[Any]]) -> None:
        """Encode images (H, W, 3) for `predict_batch`; other types are ``AssertionError``."""
        require(isinstance(image_list, list), "image_list: expected a list")
        require(
            all(isinstance(image, np.ndarray) for image in image_list),
            "image_list: expected arrays (H, W, 3) alone",
        )
        encoded = []
        for image in image_list:
            self._core.set_image(as_rgb(image))
            encoded.append((self._core.image_embeddings, (image.shape[0], image.shape[1])))
        self._encoded, self._is_batch = encoded, True

    def predict(
        self,
        point_coords: ArrayLike | None = None,
        point_labels: ArrayLike | None = None,
        box: ArrayLike | None = None,
        mask_input: ArrayLike | None = None,
        multimask_output: bool = True,
        return_logits: bool = False,
        normalize_coords: bool = True,
    ) -> Masks:
        """Predict masks for one prompt set, or for B sets with an axis in front.

        Parameters
        ----------
        point_coords, point_labels : array ([B,] N, 2), array ([B,] N), optional
            Points (x, y); label 1 foreground, 0 background.
        box : array ([B,] 4), optional
            (x0, y0, x1, y1).
        mask_input : array ([B,] 1, S, S), optional
            Logits of an earlier prediction.
        multimask_output : bool
            Three masks, or one.
        return_logits : bool
            Give logits instead of 0.0 and 1.0.
        normalize_coords : bool
            Coordinates are pixels of the image; False: they are in 0 to 1.

        Returns
        -------
        tuple of ndarray, float32
            Masks ([B,] K, H, W), predicted IoU ([B,] K), logits ([B,] K, S, S).

        Raises
        ------
        RuntimeError
            No image is set.
        AssertionError
            `point_labels` is missing.
        """
        if self._core.orig_hw is None or self._is_batch:
            raise StateError("predict: expected an image from set_image, found none")
        return self._predict(
            (point_coords, point_labels, box, mask_input),
            multimask_output,
            return_logits,
            normalize_coords,
        )

    def predict_batch(
        self,
        point_coords_batch: list[ArrayLike] | None = None,
        point_labels_batch: list[ArrayLike] | None = None,
        box_batch: list[ArrayLike] | None = None,
        mask_input_batch: list[ArrayLike] | None = None,
        multimask_output: bool = True,
        return_logits: bool = False,
        normalize_coords: bool = True,
    ) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """Predict for each image of `set_image_batch`; prompts are lists, one an image.

        Returns three lists of what `predict` gives. Without images: ``RuntimeError``.
        """
        require(self._is_batch, "predict_batch: expected images from set_image_batch")
        if not self._encoded:
            raise StateError("predict_batch: expected images from set_image_batch, found none")
        results = []
        for i, encoded_image in enumerate(self._encoded):
            self._core.set_image_embeddings(*encoded_image)
            batches = (point_coords_batch, point_labels_batch, box_batch, mask_input_batch)
            prompts = tuple(None if batch is None else batch[i] for batch in batches)
            results.append(
                self._predict(prompts, multimask_output, return_logits, normalize_coords)
            )
        masks, scores, logits = zip(*results, strict=True)
        return list(masks), list(scores), list(logits)

    def _predict(
        self,
        prompts: tuple[ArrayLike | None, ...],
        multimask_output: bool,
        return_logits: bool,
        normalize_coords: bool,
    ) -> Masks:
        coords, labels, box, mask = prompts
        # Coordinates go on in float32, as upstream.
        points = to_array(coords, np.float32)
        boxes = to_array(box, np.float32)
        marks = to_array(labels, np.int32)
        side = self.model.model.mask_side
        logits = to_array(mask, np.float32)
        if points is not None:
            require(marks is not None, "point_labels: expected one for each point, found none")
            assert marks is not None
            points = points[None] if points.ndim == 2 else points
            marks = marks[None] if marks.ndim == 1 else marks
        if boxes is not None:
            boxes = boxes.reshape(-1, 4)
        if logits is not None:
            logits = logits.reshape(-1, side, side)
        if not normalize_coords:
            scale = np.float32(self.model.image_size)
            points = None if points is None else points * scale
            boxes = None if boxes is None else boxes * scale
        masks, scores, low_res = self._core.predict(
            to_array(points, np.float64),
            marks if points is not None else None,
            to_array(boxes, np.float64),
            logits,
            multimask_output,
            return_logits,
            model_frame=not normalize_coords,
            max_hole_area=float(self.max_hole_area),
            max_sprinkle_area=float(self.max_sprinkle_area),
            mask_threshold=float(self.mask_threshold),
        )
        if len(masks) == 1:
            masks, scores, low_res = masks[0], scores[0], low_res[0]
        return masks.astype(np.float32, copy=False), scores, low_res

    def get_image_embedding(self) -> TensorArray:
        """Return the image's embedding (1, C, h, w); ``RuntimeError`` without an image."""
        if self._core.orig_hw is None:
            raise StateError("get_image_embedding: expected an image from set_image, found none")
        return as_tensor(self._core.image_embeddings[0])

    def reset_predictor(self) -> None:
        """Forget all images."""
        self._core.reset_image()
        self._encoded, self._is_batch = [], False


def _picture(image: Any) -> Any:
    if isinstance(image, np.ndarray) or hasattr(image, "convert"):
        return image
    raise NotImplementedError(
        f"image: expected an array or a PIL image, found {type(image).__name__}"
    )
