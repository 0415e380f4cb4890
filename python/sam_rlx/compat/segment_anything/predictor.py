"""Upstream's ``SamPredictor``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.errors import expects, require
from sam_rlx.compat.segment_anything.modeling import Sam, model_prompts
from sam_rlx.compat.segment_anything.tensor import TensorArray, as_tensor
from sam_rlx.compat.segment_anything.utils.transforms import ResizeLongestSide
from sam_rlx.errors import StateError


class SamPredictor:
    """Masks for prompts on one image, with upstream's methods.

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

    def __init__(self, sam_model: Sam) -> None:
        self.model = sam_model
        self.transform = ResizeLongestSide(sam_model.image_encoder.img_size)
        self._core = _core.ImagePredictor(sam_model.model.core, 0)

    @property
    def device(self) -> str:
        """Always ``"cpu"``."""
        return self.model.device

    @property
    def is_image_set(self) -> bool:
        """Whether an image is set."""
        return self._core.orig_hw is not None

    @property
    def original_size(self) -> tuple[int, int] | None:
        """(H, W) of the image in pixels, or None."""
        return self._core.orig_hw

    @property
    def input_size(self) -> tuple[int, int] | None:
        """(H, W) of the image after the resize, or None."""
        return self._core.input_hw

    @property
    def features(self) -> TensorArray | None:
        """The image's embedding (1, C, h, w), or None."""
        return as_tensor(self._core.image_embeddings[0]) if self.is_image_set else None

    @expects("an image (H, W, 3), uint8")
    def set_image(self, image: NDArray[np.uint8], image_format: str = "RGB") -> None:
        """Encode an image.

        Parameters
        ----------
        image : ndarray (H, W, 3), uint8
            0 to 255.
        image_format : str
            ``"RGB"`` or ``"BGR"``; anything else is an ``AssertionError``, as upstream.
        """
        require(
            image_format in ("RGB", "BGR"),
            f"image_format: expected RGB or BGR, found {image_format!r}",
        )
        if image_format != self.model.image_format:
            image = image[..., ::-1]
        self._core.set_image(np.ascontiguousarray(image))

    @expects("an image (1, 3, h, w) and a size (H, W)")
    def set_torch_image(self, transformed_image: Any, original_image_size: Any) -> None:
        """Encode an image (1, 3, h, w) that was resized already, its longer side the network's.

        A wrong shape is an ``AssertionError``, as upstream; values must be whole grey levels.
        """
        array = np.asarray(transformed_image)
        side = self.model.image_encoder.img_size
        right = array.ndim == 4 and array.shape[:2] == (1, 3) and max(array.shape[2:]) == side
        require(
            right,
            f"transformed_image: expected (1, 3, h, w), the longer side {side}, found "
            f"{array.shape}",
        )
        self.model.set_resized(self._core, array[0], original_image_size)

    def _require_image(self, purpose: str) -> None:
        if not self.is_image_set:
            raise StateError(f"{purpose}: expected an image from set_image, found none")

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
            Points (x, y); label 1 foreground, 0 background.
        box : array (4,), optional
            (x0, y0, x1, y1).
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
            No image is set.
        AssertionError
            `point_labels` is missing.
        """
        self._require_image("predict")
        size = self.original_size
        assert size is not None
        coords = labels = boxes = logits = None  # coordinates go on in float32, as upstream
        if point_coords is not None:
            require(
                point_labels is not None, "point_labels: expected one for each point, found none"
            )
            coords = self.transform.apply_coords(np.asarray(point_coords), size)[None]
            coords = coords.astype(np.float32)
            labels = np.asarray(point_labels)[None]
        if box is not None:
            boxes = self.transform.apply_boxes(np.asarray(box), size).astype(np.float32)
        if mask_input is not None:
            logits = np.asarray(mask_input)[None]
        masks, scores, low_res = self.predict_torch(
            coords, labels, boxes, logits, multimask_output, return_logits
        )
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
            Logits.
        multimask_output, return_logits : bool
            As for `predict`.

        Returns
        -------
        tuple of TensorArray
            Masks (B, K, H, W), predicted IoU (B, K), low-resolution logits (B, K, S, S).

        Raises
        ------
        RuntimeError
            No image is set.
        """
        self._require_image("predict")
        prompts = model_prompts(point_coords, point_labels, boxes, mask_input)
        masks, iou, low_res = self._core.predict(
            *prompts, bool(multimask_output), bool(return_logits), model_frame=True
        )
        return as_tensor(masks), as_tensor(iou), as_tensor(low_res)

    def get_image_embedding(self) -> TensorArray:
        """Return the image's embedding (1, C, h, w); a ``RuntimeError`` if none is set."""
        self._require_image("get_image_embedding")
        return as_tensor(self._core.image_embeddings[0])

    def reset_image(self) -> None:
        """Forget the image."""
        self._core.reset_image()
