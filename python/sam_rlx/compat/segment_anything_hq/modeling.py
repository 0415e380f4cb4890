"""The class ``Sam``: one model behind upstream's batched interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.segment_anything import modeling
from sam_rlx.errors import UnsupportedError

__all__ = ["Sam"]


class Sam(modeling.Sam):
    """Upstream's ``Sam`` of SAM-HQ over a loaded model, otherwise as `segment_anything`'s.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`; the functions of `sam_model_registry` do this.
    """

    def __call__(
        self,
        batched_input: Sequence[Mapping[str, Any]],
        multimask_output: bool,
        hq_token_only: bool = False,
    ) -> list[dict[str, TensorArray]]:
        """Call `forward`."""
        return self.forward(batched_input, multimask_output, hq_token_only)

    def forward(
        self,
        batched_input: Sequence[Mapping[str, Any]],
        multimask_output: bool,
        hq_token_only: bool = False,
    ) -> list[dict[str, TensorArray]]:
        """Predict masks for several images, each with its own prompts.

        Parameters
        ----------
        batched_input : list of dict
            As for `sam_rlx.compat.segment_anything.modeling.Sam.forward`.
        multimask_output : bool
            Whether SAM's mask is the best of three, or its single one.
        hq_token_only : bool
            Whether SAM's mask is left out.

        Returns
        -------
        list of dict
            ``masks`` bool (B, 1, H, W), ``iou_predictions`` (B, 1), ``low_res_logits``
            (B, 1, S, S).

        Raises
        ------
        InvalidArgumentError
            A shape is wrong.
        UnsupportedError
            An image has values that are not whole grey levels from 0 to 255.
        """
        return self._outputs(batched_input, multimask_output, hq_token_only)

    def embeddings(self, image: Any) -> tuple[NDArray[np.float32], ...]:
        """Return the embeddings of an image (3, h, w) that was resized already: grey levels."""
        array = self._resized(image)
        with np.errstate(invalid="ignore"):
            pixels = array.astype(np.uint8)
        if not np.array_equal(pixels, array):
            raise UnsupportedError(
                "image: expected whole grey levels from 0 to 255, found other values"
            )
        predictor = _core.ImagePredictor(self.model.core, 0)
        predictor.set_image(np.ascontiguousarray(pixels.transpose(1, 2, 0)))
        return predictor.image_embeddings


__dir__ = public_names(__name__)
