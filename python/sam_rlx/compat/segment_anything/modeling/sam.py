"""The class ``Sam``: one model behind upstream's batched interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, expects
from sam_rlx.compat.common.mask_inputs import as_logits, same_count
from sam_rlx.compat.common.network import Network
from sam_rlx.compat.common.state_dicts import EmptyModel
from sam_rlx.compat.common.tensor import TensorArray, to_array
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.segment_anything.modeling.parts import MaskDecoder, PromptEncoder
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

__all__ = ["Sam"]


class ImageEncoder:
    """The image encoder of a `Sam`, which programs call.

    Attributes
    ----------
    img_size : int
        Side of the network's input in pixels.
    """

    def __init__(self, sam: Sam) -> None:
        self._sam = sam

    @property
    def img_size(self) -> int:
        """Side of the network's input in pixels."""
        return int(self._sam.model.img_size)

    @expects("normalized images (B, 3, S, S)")
    def __call__(self, x: Any) -> Any:
        """Encode images (B, 3, S, S), as `Sam.preprocess` or the program itself normalizes them.

        Returns features (B, C, h, w); of SAM-HQ a tuple of them and a list of the maps (B, h, w, D)
        behind its global blocks.
        """
        values = np.asarray(to_array(x, np.float32))
        side = self.img_size
        if values.ndim != 4 or values.shape[1:] != (3, side, side):
            raise ArgumentRuntimeError(
                f"image_encoder: expected (B, 3, {side}, {side}), found {values.shape}"
            )
        core = _core.TensorPredictor(self._sam.model.core)
        features, *inner = map(as_result, core.encode(values, all_maps=True))
        return (features, inner) if inner else features


class Sam(Network):
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
    image_encoder : ImageEncoder
        Has `img_size`, and can be called.
    prompt_encoder : PromptEncoder
        Can be called, and has `get_dense_pe`.
    mask_decoder : MaskDecoder
        Can be called; that of SAM-HQ is an error.
    """

    image_format = "RGB"

    def __init__(self, model: Model | EmptyModel) -> None:
        self.model: Any = model
        self.mask_threshold = model.mask_threshold
        self.image_encoder = ImageEncoder(self)
        self.prompt_encoder = PromptEncoder(self)
        self.mask_decoder = MaskDecoder(self)

    @property
    def pixel_mean(self) -> Any:
        """Mean of the grey levels of each channel, (3, 1, 1)."""
        return as_result(self.normalization()[0])

    @property
    def pixel_std(self) -> Any:
        """Standard deviation of the grey levels of each channel, (3, 1, 1)."""
        return as_result(self.normalization()[1])

    def normalization(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return `pixel_mean` and `pixel_std` as arrays."""
        mean, std = (
            np.array(self.model.config[key], np.float32).reshape(3, 1, 1)
            for key in ("pixel_mean", "pixel_std")
        )
        return mean, std

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
        """
        return self._outputs(batched_input, multimask_output)

    def _outputs(
        self,
        batched_input: Sequence[Mapping[str, Any]],
        multimask_output: bool,
        hq_token_only: bool = False,
    ) -> list[dict[str, TensorArray]]:
        predictor = _core.ImagePredictor(self.model.core, 0)
        wanted = (bool(multimask_output), bool(hq_token_only))
        outputs = []
        for record in batched_input:
            original_size = _size("original_size", record["original_size"])
            values = self._resized(record["image"])
            predictor.set_input(np.asarray(self.preprocess(values[None])), original_size)
            names = ("point_coords", "point_labels", "boxes", "mask_inputs")
            prompts = tuple(record.get(name) for name in names)
            low_res, iou = decode(predictor, self.model.mask_side, prompts, wanted)
            size = np.shape(record["image"])[-2:]
            outputs.append(
                {
                    "masks": self.enlarge(low_res, size, original_size, predictor=predictor),
                    "iou_predictions": as_result(iou),
                    "low_res_logits": as_result(low_res),
                }
            )
        return outputs

    def _resized(self, image: Any) -> NDArray[Any]:
        array = np.asarray(image)
        side = self.model.img_size
        if array.ndim != 3 or array.shape[0] != 3 or max(array.shape[1:]) != side:
            raise InvalidArgumentError(
                f"image: expected (3, h, w) with the longer side {side}, found {array.shape}"
            )
        return array

    def enlarge(
        self,
        low_res: NDArray[np.float32],
        input_size: Any,
        original_size: Any,
        return_logits: bool = False,
        predictor: _core.ImagePredictor | None = None,
    ) -> Any:
        """Return masks (B, K, H, W) of low-resolution logits, or the logits themselves.

        A `predictor` with an image of these sizes has faster kernels for it.
        """
        usual = return_logits or self.mask_threshold == self.model.mask_threshold
        sizes = _size("input_size", input_size), _size("original_size", original_size)
        if predictor is not None and usual and sizes == (predictor.input_hw, predictor.orig_hw):
            return as_result(predictor.upscale(low_res, return_logits))
        enlarged = _core.postprocess_masks(
            low_res.reshape(-1, *low_res.shape[-2:]),
            sizes[1],
            sizes[0],
            self.model.img_size,
            None if return_logits else float(self.mask_threshold),
            available_threads(),
        )
        return as_result(enlarged.reshape(*low_res.shape[:-2], *enlarged.shape[-2:]))

    def preprocess(self, x: Any) -> Any:
        """Normalize pixel values (..., 3, h, w) and pad them with zeros to the square input."""
        mean, std = self.normalization()
        values = (np.asarray(x, np.float32) - mean) / std
        side = self.model.img_size
        pad = [(0, 0)] * (values.ndim - 2) + [(0, side - length) for length in values.shape[-2:]]
        return as_result(np.pad(values, pad))

    def postprocess_masks(self, masks: Any, input_size: Any, original_size: Any) -> Any:
        """Enlarge low-resolution logits (B, K, h, w) to logits (B, K, H, W).

        `input_size` is (H, W) after the resize, `original_size` that of the image.
        """
        logits = np.ascontiguousarray(masks, np.float32)
        return self.enlarge(logits, input_size, original_size, True)


def _size(name: str, size: Any) -> tuple[int, int]:
    if size is None or len(size) != 2:
        raise ArgumentRuntimeError(f"{name}: expected (H, W), found {size!r}")
    return int(size[0]), int(size[1])


def available_threads() -> int:
    """Return the cores this process may use."""
    cores: int = _core.build_info()["cores"]
    return cores


def decode(
    predictor: _core.ImagePredictor,
    side: int,
    prompts: tuple[Any, ...],
    wanted: tuple[bool, bool],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Run the decoder on prompts in pixels of the resized image, given as upstream gives them.

    Prompts are points (B, N, 2), labels (B, N), boxes and masks. Boxes, of four numbers each, count
    the same sets as points. Masks have the channel axis, (M, 1, S, S); one mask serves all sets,
    and one set all masks. `wanted` is `multimask_output` and `hq_token_only`.
    """
    point_coords, point_labels, boxes, mask_input = prompts
    points = to_array(point_coords, np.float64)
    labels = None if points is None else to_array(point_labels, np.int32)
    corners = to_array(boxes, np.float64)
    count = next((len(x) for x in (points, corners) if x is not None and x.ndim), None)
    if corners is not None:
        found, corners = corners.shape, corners.reshape(-1, 4)
        if len(corners) != count:
            raise ArgumentRuntimeError(
                f"boxes: expected shape (B, 4), one box for each prompt set, found {found}"
            )
    logits = as_logits(mask_input, side)
    if logits is not None and count is not None:
        points, labels, corners, logits = same_count(count, logits, points, labels, corners)
    low_res = predictor.decode_model_frame(points, labels, corners, logits, *wanted)
    return low_res.low_res_masks, low_res.iou_predictions


__dir__ = public_names(__name__)
