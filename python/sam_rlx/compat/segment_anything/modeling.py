"""The class ``Sam``: one model behind upstream's batched interface."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.compat.segment_anything.tensor import TensorArray, as_tensor, to_array
from sam_rlx.errors import InvalidArgumentError, UnsupportedError
from sam_rlx.model import Model


@dataclass(frozen=True)
class EncoderSize:
    """What programs read from ``sam.image_encoder``: the side of the network input."""

    img_size: int


class Sam:
    """Upstream's ``Sam`` over a loaded model.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`; the functions of `sam_model_registry` do this.

    Attributes
    ----------
    mask_threshold : float
        Logit above which a pixel belongs to a mask.
    image_format : str
        ``"RGB"``.
    image_encoder : EncoderSize
        Has `img_size`.
    """

    image_format = "RGB"

    def __init__(self, model: Model) -> None:
        self.model = model
        self.mask_threshold = model.mask_threshold
        self.image_encoder = EncoderSize(model.img_size)

    @property
    def device(self) -> str:
        """Always ``"cpu"``."""
        return "cpu"

    def to(self, device: Any = "cpu") -> "Sam":
        """Return the model itself; any device but the CPU raises `UnsupportedError`."""
        if str(device) != "cpu":
            raise UnsupportedError(f"Sam.to: expected device 'cpu', found {str(device)!r}")
        return self

    def eval(self) -> "Sam":
        """Return the model itself: it is always in evaluation mode."""
        return self

    def __call__(
        self, batched_input: Sequence[Mapping[str, Any]], multimask_output: bool
    ) -> list[dict[str, TensorArray]]:
        """Call `forward`."""
        return self.forward(batched_input, multimask_output)

    def forward(
        self, batched_input: Sequence[Mapping[str, Any]], multimask_output: bool
    ) -> list[dict[str, TensorArray]]:
        """Predict masks for several images, each with its own prompts.

        Parameters
        ----------
        batched_input : list of dict
            ``image`` (3, h, w), resized so that the longer side is `image_encoder.img_size`, not
            normalized; ``original_size`` (H, W). Optional, in pixels of the resized image:
            ``point_coords`` (B, N, 2), ``point_labels`` (B, N), ``boxes`` (B, 4), ``mask_inputs``
            (B, 1, S, S).
        multimask_output : bool
            Three masks for each prompt set, or one.

        Returns
        -------
        list of dict
            ``masks`` bool (B, K, H, W), ``iou_predictions`` (B, K), ``low_res_logits``
            (B, K, S, S).

        Raises
        ------
        InvalidArgumentError
            A shape is wrong.
        UnsupportedError
            An image has values that are not whole grey levels from 0 to 255.
        """
        predictor = _core.ImagePredictor(self.model.core, 0)
        outputs = []
        for record in batched_input:
            self.set_resized(predictor, record["image"], record["original_size"])
            prompts = model_prompts(
                record.get("point_coords"),
                record.get("point_labels"),
                record.get("boxes"),
                record.get("mask_inputs"),
            )
            masks, iou, low_res = predictor.predict(
                *prompts, bool(multimask_output), False, model_frame=True
            )
            outputs.append(
                {
                    "masks": as_tensor(masks),
                    "iou_predictions": as_tensor(iou),
                    "low_res_logits": as_tensor(low_res),
                }
            )
        return outputs

    def set_resized(self, predictor: _core.ImagePredictor, image: Any, original_size: Any) -> None:
        """Encode an image (3, h, w) that was resized already, and note its original size."""
        array = np.asarray(image)
        side = self.model.img_size
        if array.ndim != 3 or array.shape[0] != 3 or max(array.shape[1:]) != side:
            raise InvalidArgumentError(
                f"image: expected (3, h, w) with the longer side {side}, found {array.shape}"
            )
        pixels = array.astype(np.uint8)
        if not np.array_equal(pixels, array):
            raise UnsupportedError(
                "image: expected whole grey levels from 0 to 255, found other values"
            )
        predictor.set_image(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        height, width = (int(length) for length in original_size)
        predictor.set_image_embeddings(predictor.image_embeddings, (height, width))

    def preprocess(self, x: Any) -> TensorArray:
        """Normalize pixel values (..., 3, h, w) and pad them with zeros to the square input."""
        config = self.model.config
        mean, std = (
            np.asarray(config[key], np.float32).reshape(3, 1, 1)
            for key in ("pixel_mean", "pixel_std")
        )
        values = (np.asarray(x, np.float32) - mean) / std
        side = self.model.img_size
        pad = [(0, 0)] * (values.ndim - 2) + [(0, side - length) for length in values.shape[-2:]]
        return as_tensor(np.pad(values, pad))

    def postprocess_masks(self, masks: Any, input_size: Any, original_size: Any) -> TensorArray:
        """Enlarge low-resolution logits (B, K, h, w) to logits (B, K, H, W).

        `input_size` is (H, W) after the resize, `original_size` that of the image.
        """
        logits = np.ascontiguousarray(masks, np.float32)
        enlarged = _core.postprocess_masks(
            logits.reshape(-1, *logits.shape[-2:]),
            (int(original_size[0]), int(original_size[1])),
            (int(input_size[0]), int(input_size[1])),
            self.model.img_size,
        )
        return as_tensor(enlarged.reshape(*logits.shape[:-2], *enlarged.shape[-2:]))


ModelPrompts: TypeAlias = tuple[
    NDArray[np.float64] | None,
    NDArray[np.int32] | None,
    NDArray[np.float64] | None,
    NDArray[np.float32] | None,
]


def model_prompts(
    point_coords: Any, point_labels: Any, boxes: Any, mask_input: Any
) -> ModelPrompts:
    """Return prompts in pixels of the resized image, given as upstream gives them, for the core.

    Boxes may have further axes of length 1, and `mask_input` has the channel axis (B, 1, S, S).
    """
    corners = to_array(boxes, np.float64)
    logits = to_array(mask_input, np.float32)
    return (
        to_array(point_coords, np.float64),
        to_array(point_labels, np.int32),
        None if corners is None else corners.reshape(-1, 4),
        None if logits is None else logits.reshape(-1, *logits.shape[-2:]),
    )
