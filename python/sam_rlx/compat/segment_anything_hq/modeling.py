"""The class ``Sam``: one model behind upstream's batched interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensor import TensorArray
from sam_rlx.compat.segment_anything import modeling

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
        """
        return self._outputs(batched_input, multimask_output, hq_token_only)


__dir__ = public_names(__name__)
