"""Clicks on images, with the methods and the state of upstream's ``SAM2ImagePredictor``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx.compat.common.devices import CPU, Device
from sam_rlx.compat.common.errors import ArgumentIndexError, ArgumentRuntimeError, require
from sam_rlx.compat.common.image_features import EncodedCore, make_core
from sam_rlx.compat.common.mask_inputs import as_logits, same_count
from sam_rlx.compat.common.network import WithModel
from sam_rlx.compat.common.tensor import TensorArray, to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.turns import Turns
from sam_rlx.errors import InvalidArgumentError, StateError

CorePredictor = _core.ImagePredictor
Masks = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class ClickPredictor(WithModel):
    """Masks for prompts on one image or several, with upstream's methods.

    Parameters
    ----------
    sam_model : Network
        Has a `model` and its `image_size`.
    mask_threshold, max_hole_area, max_sprinkle_area : float
        As for `SAM2ImagePredictor`.
    """

    # How the core resizes images, where that is not the usual way.
    _RESIZE: tuple[str, ...] = ()
    # Subclasses of programs set up what they know of, without our ``__init__``.
    max_hole_area: float = 0.0
    max_sprinkle_area: float = 0.0
    mask_threshold: float = 0.0
    _features: dict[str, Any] | None = None
    _orig_hw: list[tuple[int, int]] | None = None
    _is_image_set = _is_batch = False

    def __init__(
        self,
        sam_model: Any,
        mask_threshold: float = 0.0,
        max_hole_area: float = 0.0,
        max_sprinkle_area: float = 0.0,
    ) -> None:
        self.model = sam_model
        self.max_hole_area = max_hole_area
        self.max_sprinkle_area = max_sprinkle_area
        self.mask_threshold = mask_threshold
        self._turns = Turns()
        self._forget()

    @property
    def _encoded(self) -> EncodedCore:
        """The core of the model, also where a program has set another one or its weights."""
        model, held = self.model.model, vars(self).get("_held")
        if held is None or held[0] is not model:
            held = self._held = model, EncodedCore(make_core, model, *self._RESIZE)
        return held[1]

    @cached_property
    def _turns(self) -> Turns:
        return Turns()

    @property
    def _core(self) -> CorePredictor:
        return self._encoded.core

    def _forget(self) -> None:
        self._features = self._orig_hw = None
        self._is_image_set = self._is_batch = False

    @property
    def device(self) -> Device:
        """Always ``"cpu"``."""
        return CPU

    def set_image(self, image: Any) -> None:
        """Encode an image: PIL image, or array (H, W, 3), RGB, uint8 or float in 0 to 1.

        Floats are rounded to 8 bits, which upstream does not. Images without three channels are
        refused, and objects of other types are a ``NotImplementedError``, as upstream.
        """
        pixels = as_rgb(_image(image))
        with self._turns:
            features = self._encoded.encode(pixels)
            self._hold([features], [(pixels.shape[0], pixels.shape[1])], False)

    def set_image_batch(self, image_list: list[NDArray[Any]]) -> None:
        """Encode images (H, W, 3) for `predict_batch`; other types are ``AssertionError``."""
        require(isinstance(image_list, list), "image_list: expected a list")
        require(
            all(isinstance(image, np.ndarray) for image in image_list),
            "image_list: expected arrays (H, W, 3) alone",
        )
        if not image_list:
            raise ArgumentRuntimeError("image_list: expected at least one image, found none")
        pixels = [as_rgb(_image(image)) for image in image_list]
        with self._turns:
            features = [self._encoded.encode(image) for image in pixels]
            self._hold(features, [(x.shape[0], x.shape[1]) for x in pixels], True)

    def _hold(
        self,
        features: list[tuple[NDArray[np.float32], ...]],
        sizes: list[tuple[int, int]],
        is_batch: bool,
    ) -> None:
        embed, *high_res = (as_result(np.concatenate(maps)) for maps in zip(*features, strict=True))
        self._features = {"image_embed": embed, "high_res_feats": high_res}
        self._orig_hw, self._is_image_set, self._is_batch = sizes, True, is_batch

    def _use(self, index: int) -> CorePredictor:
        """Bring the core to an image of the state, whoever set it."""
        found, sizes = self._features, self._orig_hw
        try:
            assert found is not None
            assert sizes is not None
            maps = [found["image_embed"], *found["high_res_feats"]]
            features = [part[index][None] for part in maps]
            height, width = sizes[index]
        except (AssertionError, TypeError, KeyError, IndexError, ValueError) as error:
            raise StateError(
                "predict: expected _features with image_embed (B, C, h, w) and high_res_feats, and "
                f"_orig_hw with the (H, W) of each image, found {type(found).__name__} and {sizes}"
            ) from error
        try:
            return self._encoded.use(features, (int(height), int(width)))
        except InvalidArgumentError as error:
            raise StateError(f"predict: expected features of this model, found {error}") from error

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
        if not self._is_image_set:
            raise StateError("predict: expected an image from set_image, found none")
        with self._turns:
            self._use(-1)
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
        if not self._is_image_set or self._features is None:
            raise StateError("predict_batch: expected images from set_image_batch, found none")
        results = []
        batches = (point_coords_batch, point_labels_batch, box_batch, mask_input_batch)
        count = len(self._features["image_embed"])
        for batch in batches:
            if batch is not None and len(batch) < count:
                raise ArgumentIndexError(
                    f"predict_batch: expected prompts of {count} images, found {len(batch)}"
                )
        for i in range(count):
            prompts = tuple(None if batch is None else batch[i] for batch in batches)
            with self._turns:
                self._use(i)
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
        mask = to_array(mask, np.float32)
        mask = mask[None] if mask is not None and mask.ndim == 3 else mask
        logits = as_logits(mask, self.model.model.mask_side)
        if points is not None:
            require(marks is not None, "point_labels: expected one for each point, found none")
            assert marks is not None
            points = points[None] if points.ndim == 2 else points
            marks = marks[None] if marks.ndim == 1 else marks
        if boxes is not None:
            if boxes.size == 0 or boxes.size % 4:
                raise ArgumentRuntimeError(
                    f"box: expected shape (4,) or (B, 4), found {boxes.shape}"
                )
            boxes = boxes.reshape(-1, 4)
        if logits is not None:
            count = next((len(x) for x in (points, boxes) if x is not None), None)
            require(
                count is not None or len(logits) == 1,
                f"mask_input: expected one without points and boxes, found {len(logits)}",
            )
            count = count or 1
            points, marks, boxes, logits = same_count(count, logits, points, marks, boxes)
        if not normalize_coords:
            scale = np.float32(self.model.image_size)
            points = None if points is None else points * scale
            boxes = None if boxes is None else boxes * scale
        found = self._core.predict(
            to_array(points, np.float64),
            marks if points is not None else None,
            to_array(boxes, np.float64),
            logits,
            bool(multimask_output),
            bool(return_logits),
            as_upstream=True,
            model_frame=not normalize_coords,
            max_hole_area=float(self.max_hole_area),
            max_sprinkle_area=float(self.max_sprinkle_area),
            mask_threshold=float(self.mask_threshold),
        )
        masks, scores, low_res = found.masks, found.iou_predictions, found.low_res_masks
        if len(masks) == 1:
            masks, scores, low_res = masks[0], scores[0], low_res[0]
        return masks.astype(np.float32, copy=False), scores, low_res

    def get_image_embedding(self) -> TensorArray:
        """Return the image's embedding (1, C, h, w); ``RuntimeError`` without an image."""
        if not self._is_image_set or self._features is None:
            raise StateError("get_image_embedding: expected an image from set_image, found none")
        embedding: TensorArray = self._features["image_embed"]
        return embedding

    def reset_predictor(self) -> None:
        """Forget all images."""
        self._forget()
        with self._turns:
            self._encoded.reset()


def _image(image: Any) -> Any:
    """Return an image that upstream's transform takes: three channels, in arrays the last axis."""
    if isinstance(image, np.ndarray):
        known = image.dtype == np.uint8 or image.dtype.kind == "f"
        if image.ndim != 3 or image.shape[2] != 3 or not known:
            raise ArgumentRuntimeError(
                "image: expected uint8 or floats in 0 to 1 of shape (H, W, 3), found "
                f"{image.dtype} of {image.shape}"
            )
        return image
    if hasattr(image, "convert"):
        if len(image.getbands()) != 3:
            raise ArgumentRuntimeError(
                f"image: expected a PIL image of three channels, found one of mode {image.mode}"
            )
        return np.asarray(image)  # upstream takes the channels of YCbCr, HSV and LAB for RGB
    raise NotImplementedError(
        f"image: expected an array or a PIL image, found {type(image).__name__}"
    )
