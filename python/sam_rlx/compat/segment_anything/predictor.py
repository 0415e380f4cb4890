"""Upstream's ``SamPredictor``."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import Device
from sam_rlx.compat.common.errors import (
    ArgumentAttributeError,
    ArgumentRuntimeError,
    ArgumentTypeError,
    expects,
    require,
)
from sam_rlx.compat.common.image_features import EncodedCore, make_core
from sam_rlx.compat.common.network import WithModel
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.common.turns import Turns
from sam_rlx.compat.segment_anything.modeling.sam import Sam, decode
from sam_rlx.compat.segment_anything.utils.transforms import ResizeLongestSide
from sam_rlx.errors import InvalidArgumentError, StateError

__all__ = ["SamPredictor"]


def as_uint8(image: Any) -> NDArray[np.uint8]:
    """Return an image (H, W, 3) as upstream's resize sees it."""
    if not isinstance(image, np.ndarray):
        raise ArgumentAttributeError(
            f"image: expected an array (H, W, 3), found {type(image).__name__}"
        )
    require(
        image.ndim == 3 and image.shape[2] == 3 and image.size > 0,
        f"image: expected shape (H, W, 3), found {image.shape}",
    )
    if image.dtype.kind == "f":
        levels = image * 255
        if not ((levels > -1) & (levels < 256)).all():
            raise InvalidArgumentError(
                f"image: expected floats in 0 to 1, found {image.min():g} to {image.max():g}"
            )
        pixels: NDArray[np.uint8] = levels.astype(np.uint8)
        return pixels
    if image.dtype != np.uint8:
        raise ArgumentTypeError(f"image: expected uint8, 0 to 255, found {image.dtype}")
    return image


class SamPredictor(WithModel):
    """Masks for prompts on one image, with upstream's methods.

    Several threads may predict: they wait for each other. The attributes can be set, as programs do
    that keep them from an earlier image: predictions are of what they say.

    Parameters
    ----------
    sam_model : Sam
        From `sam_model_registry`.

    Attributes
    ----------
    model : Sam
        The model.
    transform : ResizeLongestSide
        To the network's input size.
    is_image_set : bool
        Whether an image is set.
    original_size, input_size : (int, int) or None
        (H, W) of the image, and after the resize.
    features : array (1, C, h, w) or None
        The image's embedding.
    """

    # Subclasses of programs set up what they know of, without our ``__init__``.
    is_image_set = False
    features: Any = None
    original_size: Any = None
    input_size: Any = None

    def __init__(self, sam_model: Sam) -> None:
        self.model = sam_model
        self.transform = ResizeLongestSide(sam_model.image_encoder.img_size)
        self._turns = Turns()
        self.reset_image()

    @property
    def _encoded(self) -> EncodedCore:
        """The core of the model, also where a program has set another one or its weights."""
        model, held = self.model.model, vars(self).get("_held")
        if held is None or held[0] is not model:
            held = self._held = model, EncodedCore(make_core, model)
        return held[1]

    @cached_property
    def _turns(self) -> Turns:
        return Turns()

    @property
    def device(self) -> Device:
        """Always ``"cpu"``."""
        return self.model.device

    @expects("an image (H, W, 3), uint8 or floats in 0 to 1")
    def set_image(self, image: NDArray[np.uint8], image_format: str = "RGB") -> None:
        """Encode an image.

        Parameters
        ----------
        image : ndarray (H, W, 3), uint8
            0 to 255. Floats in 0 to 1 are multiplied by 255 and cut off, as upstream; other types
            are a ``TypeError``. Upstream takes floats of 0 to 255 too, and wraps them around: they
            are refused.
        image_format : str
            ``"RGB"`` or ``"BGR"``; anything else is an ``AssertionError``, as upstream.
        """
        require(
            image_format in ("RGB", "BGR"),
            f"image_format: expected RGB or BGR, found {image_format!r}",
        )
        image = as_uint8(image)
        if image_format != self.model.image_format:
            image = image[..., ::-1]
        with self._turns:
            features = self._encoded.encode(np.ascontiguousarray(image))
            input_size = self._encoded.core.input_hw
            self._hold(features, (image.shape[0], image.shape[1]), input_size)

    @expects("an image (1, 3, h, w) and a size (H, W)")
    def set_torch_image(self, transformed_image: Any, original_image_size: Any) -> None:
        """Encode an image (1, 3, h, w) that was resized already, its longer side the network's.

        A wrong shape is an ``AssertionError``, as upstream.
        """
        array = np.asarray(transformed_image)
        side = self.model.image_encoder.img_size
        right = array.ndim == 4 and array.shape[:2] == (1, 3) and max(array.shape[2:]) == side
        require(
            right,
            f"transformed_image: expected (1, 3, h, w), the longer side {side}, found "
            f"{array.shape}",
        )
        with self._turns:
            # The image's own size is looked at where masks are asked for, as upstream.
            input_size = array.shape[-2:]
            pixel_values = np.asarray(self.model.preprocess(array))
            features = self._encoded.encode_input(pixel_values, input_size)
            self._hold(features, original_image_size, input_size)

    def _hold(self, features: Any, original_size: Any, input_size: Any) -> None:
        self.features = as_result(features[0])
        self.original_size, self.input_size = original_size, input_size
        self.is_image_set = True

    def _require_image(self, purpose: str) -> None:
        if not self.is_image_set:
            raise StateError(f"{purpose}: expected an image from set_image, found none")
        if self.features is None:
            raise StateError(f"{purpose}: expected features (1, C, h, w), found None")

    @expects("points, labels, a box and logits as arrays of numbers")
    def predict(
        self,
        point_coords: NDArray[Any] | None = None,
        point_labels: NDArray[Any] | None = None,
        box: NDArray[Any] | None = None,
        mask_input: NDArray[Any] | None = None,
        multimask_output: bool = True,
        return_logits: bool = False,
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Predict masks for one prompt set in pixels of the original image.

        Parameters
        ----------
        point_coords, point_labels : array (N, 2), array (N,), optional
            Points (x, y); label 1 foreground, 0 background. N may be 0.
        box : array (4,), optional
            (x0, y0, x1, y1). Several boxes are for `predict_torch`.
        mask_input : array (1, S, S), optional
            Logits of an earlier prediction.
        multimask_output : bool
            Three masks, or one.
        return_logits : bool
            Give float32 logits instead of bool masks.

        Returns
        -------
        tuple of ndarray
            Masks (K, H, W), predicted IoU (K,), low-resolution logits (K, S, S).

        Raises
        ------
        RuntimeError
            No image is set, or shapes do not fit together.
        AssertionError
            `point_labels` is missing.
        """
        prompts = (point_coords, point_labels, box, mask_input)
        return self._predict_set(prompts, multimask_output, return_logits)

    def _predict_set(
        self, prompts: tuple[Any, ...], *wanted: bool
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Predict one set; `wanted` are the arguments of `predict_torch` behind the prompts."""
        self._require_image("predict")
        point_coords, point_labels, box, mask_input = prompts
        size = self.original_size
        coords = labels = boxes = logits = None  # coordinates go on in float32, as upstream
        if point_coords is not None:
            require(
                point_labels is not None, "point_labels: expected one for each point, found none"
            )
            coords = self.transform.apply_coords(np.asarray(point_coords), size)[None]
            coords = coords.astype(np.float32)
            labels = np.asarray(point_labels)[None]
        if box is not None:
            corners = np.asarray(box)
            if corners.size != 4:
                raise ArgumentRuntimeError(
                    f"box: expected one, of shape (4,), found {corners.shape}; predict_torch takes "
                    "several"
                )
            boxes = self.transform.apply_boxes(corners, size).astype(np.float32)
        if mask_input is not None:
            logits = np.asarray(mask_input)
            side = self.model.model.mask_side
            if logits.shape != (1, side, side):
                raise ArgumentRuntimeError(
                    f"mask_input: expected logits (1, {side}, {side}), found {logits.shape}"
                )
            logits = logits[None]
        masks, scores, low_res = self.predict_torch(coords, labels, boxes, logits, *wanted)
        return masks[0].numpy(), scores[0].numpy(), low_res[0].numpy()

    @expects("points, labels, boxes and logits as arrays of numbers")
    def predict_torch(
        self,
        point_coords: Any,
        point_labels: Any,
        boxes: Any = None,
        mask_input: Any = None,
        multimask_output: bool = True,
        return_logits: bool = False,
    ) -> tuple[TensorArray, TensorArray, TensorArray]:
        """Predict masks for B prompt sets in pixels of the resized image.

        Parameters
        ----------
        point_coords, point_labels : array (B, N, 2), array (B, N), or None
            Points through ``transform.apply_coords_torch``.
        boxes : array (B, 4), optional
            Boxes through ``transform.apply_boxes_torch``.
        mask_input : array (B, 1, S, S), optional
            Logits. One mask serves all sets, and one set all masks.
        multimask_output, return_logits : bool
            As for `predict`.

        Returns
        -------
        tuple of TensorArray
            Masks (B, K, H, W), predicted IoU (B, K), low-resolution logits (B, K, S, S).

        Raises
        ------
        RuntimeError
            No image is set, or shapes do not fit together.
        """
        prompts = (point_coords, point_labels, boxes, mask_input)
        return self._predict_sets(prompts, multimask_output, return_logits)

    def _maps(self) -> tuple[Any, ...]:
        """Return all that the decoder needs of the image."""
        return (self.features,)

    def _predict_sets(
        self,
        prompts: tuple[Any, ...],
        multimask_output: bool,
        return_logits: bool,
        hq_token_only: bool = False,
    ) -> tuple[TensorArray, TensorArray, TensorArray]:
        self._require_image("predict")
        maps, size = self._maps(), (int(self.original_size[0]), int(self.original_size[1]))
        input_size = self.input_size
        wanted = (bool(multimask_output), bool(hq_token_only))
        with self._turns:
            core = self._encoded.use(maps, size)
            low_res, iou = decode(core, self.model.model.mask_side, prompts, wanted)
            masks = self.model.enlarge(low_res, input_size, size, bool(return_logits), core)
        return masks, as_result(iou), as_result(low_res)

    def get_image_embedding(self) -> TensorArray:
        """Return the image's embedding (1, C, h, w); a ``RuntimeError`` if none is set."""
        self._require_image("get_image_embedding")
        features: TensorArray = self.features
        return features

    def reset_image(self) -> None:
        """Forget the image."""
        self.is_image_set = False
        self.features = None
        with self._turns:
            if "_held" in vars(self):
                self._encoded.reset()


__dir__ = public_names(__name__)
