"""Coordinates and masks between an image and the network: ``sam2.utils.transforms``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects, require
from sam_rlx.compat.common.tensors import as_result, numbers
from sam_rlx.errors import UnsupportedError


class SAM2Transforms:
    """What `SAM2ImagePredictor` does to coordinates and masks.

    Images are resized in the core, without a tensor between: to call the object is an
    `UnsupportedError`.

    Parameters
    ----------
    resolution : int
        Side of the network's input.
    mask_threshold, max_hole_area, max_sprinkle_area : float
        As for `SAM2ImagePredictor`.
    disable_torch_jit
        Without effect.
    """

    def __init__(
        self,
        resolution: int,
        mask_threshold: float,
        max_hole_area: float = 0.0,
        max_sprinkle_area: float = 0.0,
        disable_torch_jit: bool = False,
    ) -> None:
        self.resolution = resolution
        self.mask_threshold = mask_threshold
        self.max_hole_area = max_hole_area
        self.max_sprinkle_area = max_sprinkle_area
        self.mean = [0.485, 0.456, 0.406]
        self.std = [0.229, 0.224, 0.225]

    def __call__(self, x: Any) -> Any:
        """Raise `UnsupportedError`; `SAM2ImagePredictor.set_image` takes the image itself."""
        raise UnsupportedError(
            "SAM2Transforms: expected an image for SAM2ImagePredictor.set_image, which resizes it, "
            f"found a call with {type(x).__name__}"
        )

    forward_batch = __call__

    @expects("coordinates (..., 2), and the size (H, W) of the image to normalize them")
    def transform_coords(self, coords: Any, normalize: bool = False, orig_hw: Any = None) -> Any:
        """Scale points (..., 2) to pixels of the network's input.

        They are in pixels of an image of `orig_hw` with `normalize`, else in 0 to 1.
        """
        values = np.array(numbers(coords), copy=True)
        if values.dtype.kind != "f":
            values = values.astype(np.float32)
        if normalize:
            require(orig_hw is not None, "orig_hw: expected (H, W) to normalize, found None")
            height, width = orig_hw
            values /= np.array([width, height], values.dtype)
        return as_result(values * values.dtype.type(self.resolution))

    @expects("boxes (..., 4), and the size (H, W) of the image to normalize them")
    def transform_boxes(self, boxes: Any, normalize: bool = False, orig_hw: Any = None) -> Any:
        """Scale boxes (..., 4) as points; returns corners (B, 2, 2)."""
        corners = as_result(numbers(boxes).reshape(-1, 2, 2))
        return self.transform_coords(corners, normalize, orig_hw)

    @expects("logits (B, K, h, w) and a size (H, W)")
    def postprocess_masks(self, masks: Any, orig_hw: Any) -> Any:
        """Enlarge logits (B, K, h, w) to the image, without small holes and islands."""
        logits = np.ascontiguousarray(numbers(masks), np.float32)
        flat = logits.reshape(-1, *logits.shape[-2:])
        areas = float(self.max_hole_area), float(self.max_sprinkle_area)
        cleaned = _core.remove_small_mask_regions(flat, *areas, float(self.mask_threshold))
        enlarged = _core.postprocess_masks(cleaned, (int(orig_hw[0]), int(orig_hw[1])))
        return as_result(enlarged.reshape(*logits.shape[:-2], *enlarged.shape[-2:]))


__dir__ = public_names(__name__)
