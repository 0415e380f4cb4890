"""Pixels of a network's input as transformers computes them with Pillow: other bytes.

Upstream: transformers 5.24, `image_processing_backends.PilBackend`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.pil import is_pil
from sam_rlx._internal.packages import optional
from sam_rlx._internal.public import public_names
from sam_rlx.compat.transformers.images import Image, channels_last
from sam_rlx.compat.transformers.pixels import Backend
from sam_rlx.compat.transformers.sizes import Hw
from sam_rlx.errors import InvalidArgumentError


def channels_last_pil(image: Any, *, rgb: bool | None, data_format: Any = None) -> Image:
    """Return an image (H, W, C) as `channels_last` does; transparency of arrays is rounded."""
    if is_pil(image) or not rgb:
        return channels_last(image, rgb=rgb, data_format=data_format)
    array = channels_last(image, rgb=False, data_format=data_format)
    if array.shape[-1] != 4:
        return channels_last(array, rgb=True, data_format="channels_last")
    is_float = array.dtype.kind == "f"
    if is_float and (array.min() < 0.0 or array.max() > 1.0):
        raise InvalidArgumentError("image: expected floats of 0 to 1 beside transparency")
    white = 1.0 if is_float else 255
    alpha = array[..., 3:4] / white
    blended = alpha * array[..., :3] + (1 - alpha) * white
    return (blended if is_float else np.round(blended)).astype(array.dtype)


def resized_pil(image: Image, hw: Hw, resample: int) -> Image:
    """Return an image (H, W, C) in another size; floats of 0 to 1 go through bytes."""
    pillow = optional("images", "PIL.Image", "pillow")
    scaled = _is_fraction(image)
    shown = (image.astype(np.float64) * 255).astype(np.float32) if scaled else image
    squeezed = shown[..., 0] if shown.shape[-1] == 1 else shown
    source = pillow.fromarray(np.ascontiguousarray(squeezed.astype(np.uint8)))
    found = np.array(source.resize((hw[1], hw[0]), resample=resample))
    found = found if found.ndim == 3 else found[..., None]
    return (found.astype(np.float64) * (1 / 255)).astype(np.float32) if scaled else found


def values_pil(planes: NDArray[Any], settings: Mapping[str, Any]) -> NDArray[Any]:
    """Return planes (C, H, W) rescaled, then normalized."""
    if settings["do_rescale"]:
        planes = (planes.astype(np.float64) * settings["rescale_factor"]).astype(np.float32)
    if settings["do_normalize"]:
        kind = planes.dtype if planes.dtype.kind == "f" else np.dtype(np.float32)
        mean, std = (
            np.broadcast_to(np.asarray(settings[name], kind), len(planes)).reshape(-1, 1, 1)
            for name in ("image_mean", "image_std")
        )
        planes = (planes.astype(kind) - mean) / std
    return planes


def _is_fraction(image: Image) -> bool:
    """Tell whether numbers are parts of 1; others than those and bytes are refused."""
    if image.dtype == np.uint8:
        return False
    low, high = image.min(), image.max()
    is_whole = bool(np.allclose(image, image.astype(int)))
    if low < 0 or high > (255 if is_whole else 1):
        expected = "0 to 255" if is_whole else "0 to 1"
        raise InvalidArgumentError(f"image: expected values of {expected}, found {low} to {high}")
    return not is_whole


PIL = Backend(channels_last_pil, resized_pil, values_pil, tuple(range(6)))

__dir__ = public_names(__name__)
