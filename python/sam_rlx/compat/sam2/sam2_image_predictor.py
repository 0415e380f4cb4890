"""Upstream's ``SAM2ImagePredictor``: ``sam2.sam2_image_predictor``."""

from __future__ import annotations

from typing import Any

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.click_predictor import ClickPredictor
from sam_rlx.compat.sam2.build_sam import build_sam2_hf
from sam_rlx.compat.sam2.sam2_base import SAM2Base


class SAM2ImagePredictor(ClickPredictor):
    """Masks for prompts on one image or several, with upstream's methods.

    Several threads may predict: they wait for each other. Upstream's attributes of its state can be
    set, as programs do that keep them from an earlier image: ``_features``, a dict of
    ``image_embed`` (B, C, h, w) and ``high_res_feats``; ``_orig_hw``, a list of (H, W);
    ``_is_image_set``; ``_is_batch``. Predictions are of what they say.

    Parameters
    ----------
    sam_model : SAM2Base
        From `build_sam2`.
    mask_threshold : float
        Logit above which a pixel belongs to a mask.
    max_hole_area, max_sprinkle_area : float
        Holes and islands of at most so many positions of the low-resolution mask are removed, as
        upstream does on a GPU; its CPU path leaves them. 0: they stay.
    disable_torch_jit, **kwargs
        Without effect, as upstream.
    """

    def __init__(
        self,
        sam_model: SAM2Base,
        mask_threshold: float = 0.0,
        max_hole_area: float = 0.0,
        max_sprinkle_area: float = 0.0,
        disable_torch_jit: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(sam_model, mask_threshold, max_hole_area, max_sprinkle_area)

    @classmethod
    def from_pretrained(cls, model_id: str, **kwargs: Any) -> SAM2ImagePredictor:
        """Load a model from the hub (extra ``hub``); `kwargs` go to it and to the predictor."""
        return cls(build_sam2_hf(model_id, **kwargs), **kwargs)


__dir__ = public_names(__name__)
