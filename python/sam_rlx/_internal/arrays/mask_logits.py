"""A mask as the logits that prompts take."""

import numpy as np
from numpy.typing import NDArray

from sam_rlx._core import Model

# Families that pad an image to a square; others stretch it.
_PADDED = ("sam",)
# Logit of a position that lies wholly inside of a mask; outside it is the negative.
_LOGIT = 10.0


def mask_logits(mask: NDArray[np.bool_], model: Model) -> NDArray[np.float32]:
    """Return logits (S, S) for `ImagePredictor.predict`, S = `Model.mask_side`.

    Parameters
    ----------
    mask : bool (H, W)
        At the size of the image. A logit follows from the share of its position that it covers.
    model : Model
        The model that gets the logits.
    """
    side = model.mask_side
    padded = model.family in _PADDED
    height, width = (max(mask.shape), max(mask.shape)) if padded else mask.shape
    rows = _overlap(side, height)[:, : mask.shape[0]]
    columns = _overlap(side, width)[:, : mask.shape[1]]
    share = rows @ mask.astype(np.float64) @ columns.T
    return np.ascontiguousarray((2.0 * share - 1.0) * _LOGIT, np.float32)


def _overlap(parts: int, length: int) -> NDArray[np.float64]:
    """Return how much of each of `parts` equal parts each of `length` pixels makes up."""
    edges = np.linspace(0.0, length, parts + 1)[:, np.newaxis]
    pixels = np.arange(length)
    common = np.minimum(edges[1:], pixels + 1) - np.maximum(edges[:-1], pixels)
    shares: NDArray[np.float64] = np.clip(common, 0.0, None) * (parts / length)
    return shares
