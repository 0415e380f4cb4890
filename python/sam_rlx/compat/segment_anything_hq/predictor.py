"""Upstream's ``SamPredictor``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.segment_anything import predictor

__all__ = ["SamPredictor"]


class SamPredictor(predictor.SamPredictor):
    """Masks of SAM-HQ for prompts on one image, otherwise as `segment_anything`'s.

    Parameters
    ----------
    sam_model : Sam
        From `sam_model_registry`.

    Attributes
    ----------
    interm_features : list of array
        What the decoder takes of the image beside `features`: the map of finer features
        (1, C / 8, 4 h, 4 w). Upstream keeps the maps inside the encoder that it is made of.
    """

    def _hold(self, features: Any, original_size: Any, input_size: Any) -> None:
        super()._hold(features, original_size, input_size)
        self.interm_features: Any = [as_result(part) for part in features[1:]]

    def _maps(self) -> tuple[Any, ...]:
        return self.features, *self.interm_features

    @expects("points, labels, a box and logits as arrays of numbers")
    def predict(
        self,
        point_coords: NDArray[Any] | None = None,
        point_labels: NDArray[Any] | None = None,
        box: NDArray[Any] | None = None,
        mask_input: NDArray[Any] | None = None,
        multimask_output: bool = True,
        return_logits: bool = False,
        hq_token_only: bool = False,
    ) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.float32]]:
        """Predict the mask for one prompt set in pixels of the original image.

        Parameters
        ----------
        point_coords, point_labels, box, mask_input
            As for `sam_rlx.compat.segment_anything.SamPredictor.predict`.
        multimask_output : bool
            Whether SAM's mask is the best of three, or its single one.
        return_logits : bool
            Give float32 logits instead of a bool mask.
        hq_token_only : bool
            Whether SAM's mask is left out.

        Returns
        -------
        tuple of ndarray
            Mask (1, H, W), predicted IoU (1,), low-resolution logits (1, S, S).

        Raises
        ------
        RuntimeError
            No image is set, or shapes do not fit together.
        AssertionError
            `point_labels` is missing.
        """
        prompts = (point_coords, point_labels, box, mask_input)
        return self._predict_set(prompts, multimask_output, return_logits, hq_token_only)

    @expects("points, labels, boxes and logits as arrays of numbers")
    def predict_torch(
        self,
        point_coords: Any,
        point_labels: Any,
        boxes: Any = None,
        mask_input: Any = None,
        multimask_output: bool = True,
        return_logits: bool = False,
        hq_token_only: bool = False,
    ) -> tuple[TensorArray, TensorArray, TensorArray]:
        """Predict masks for B prompt sets in pixels of the resized image.

        Parameters
        ----------
        point_coords, point_labels, boxes, mask_input
            As for `sam_rlx.compat.segment_anything.SamPredictor.predict_torch`.
        multimask_output, return_logits, hq_token_only : bool
            As for `predict`.

        Returns
        -------
        tuple of TensorArray
            Masks (B, 1, H, W), predicted IoU (B, 1), low-resolution logits (B, 1, S, S).

        Raises
        ------
        RuntimeError
            No image is set, or shapes do not fit together.
        """
        prompts = (point_coords, point_labels, boxes, mask_input)
        return self._predict_sets(prompts, multimask_output, return_logits, hq_token_only)


__dir__ = public_names(__name__)
