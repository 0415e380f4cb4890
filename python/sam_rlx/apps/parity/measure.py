"""Distances between our results and the reference's, and what they may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIN_MASK_IOU = 0.999
MAX_SCORE_DIFFERENCE = 1e-3

# Errors of float32 against float64: at most so many times PyTorch's own, plus a part of the largest
# value. Rounding adds up along a network, so PyTorch's error is the largest one so far.
ERROR_FACTOR, ERROR_PART = 4.0, 1e-6
# Where float64 does not fit into memory: against PyTorch's float32, in parts of the largest value.
SINGLE_PART = 1e-3


@dataclass(frozen=True)
class Bounds:
    """What results may differ by.

    Attributes
    ----------
    relative : float or None
        Of layers, in parts of the reference's largest value; None: by PyTorch's own error.
    cosine : float
        Smallest cosine of a layer with the reference's.
    iou : float
        Smallest intersection over union of a mask.
    score : float
        Largest difference of a score.
    """

    relative: float | None = None
    cosine: float = 0.0
    iou: float = MIN_MASK_IOU
    score: float = MAX_SCORE_DIFFERENCE


# Of float32, and of the reduced precisions against PyTorch's float32: docs/precision.md has what
# they cost. Layers are held by their cosine, since rounding moves every number a little.
BOUNDS = {
    "float32": Bounds(),
    "bfloat16": Bounds(math.inf, 0.99, 0.95, 0.05),
    "int8": Bounds(math.inf, 0.95, 0.85, 0.1),
}


@dataclass(frozen=True)
class Layer:
    """Distance of one layer's result from the reference's.

    Attributes
    ----------
    stage : str
        When it was computed: ``"image"``, ``"point"``, ...
    path : str
        Of the layer, as in Meta's checkpoint.
    max_abs : float
        Largest difference.
    relative : float
        The same, in parts of the reference's largest value.
    cosine : float
        Cosine between the two results as vectors.
    reference_error : float
        Of PyTorch's float32 against float64, in the same parts; NaN where float64 was not run.
    allowed : float
        What `relative` may be.
    same : bool
        Whether the layer is within its bounds.
    """

    stage: str
    path: str
    max_abs: float
    relative: float
    cosine: float
    reference_error: float
    allowed: float
    same: bool


@dataclass(frozen=True)
class Masks:
    """Distance of the masks of one call.

    Attributes
    ----------
    stage : str
        ``"point"``, ``"video"``, ...
    item : str
        Image, object or frame.
    count, reference_count : int
        Number of masks.
    iou : float
        Smallest intersection over union of a mask with the reference's; 1 where both are empty.
    score : float
        Largest difference of a score, or NaN where there is none.
    same : bool
        Whether numbers, masks and scores are within their bounds.
    """

    stage: str
    item: str
    count: int
    reference_count: int
    iou: float
    score: float
    same: bool


def relative_error(found: NDArray[Any], truth: NDArray[Any]) -> float:
    """Return the largest difference in parts of the largest value of `truth`."""
    if not found.size:
        return 0.0
    scale = float(np.abs(truth).max())
    error = float(np.abs(found.astype(np.float64) - truth).max())
    return error / scale if scale else error


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Return the cosine between two arrays as vectors."""
    x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    norm = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norm if norm else 1.0


class LayerJudge:
    """Compares layers in their order.

    Parameters
    ----------
    bounds : Bounds
        What layers may differ by.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._largest = 0.0  # of PyTorch's own errors so far

    def layer(
        self,
        name: tuple[str, str],
        ours: NDArray[Any],
        single: NDArray[Any],
        exact: NDArray[Any] | None,
    ) -> Layer:
        """Compare one layer, given as (stage, path), with PyTorch's float32 and float64."""
        truth = single if exact is None else exact
        own = math.nan if exact is None else relative_error(single, exact)
        relative = relative_error(ours, truth)
        if exact is None:
            allowed = SINGLE_PART
        else:
            self._largest = max(self._largest, own)
            allowed = ERROR_FACTOR * self._largest + ERROR_PART
        if self._bounds.relative is not None:
            allowed = self._bounds.relative
        near = cosine(ours, truth)
        largest = float(np.abs(ours.astype(np.float64) - truth).max()) if ours.size else 0.0
        same = bool(relative <= allowed and near >= self._bounds.cosine)
        return Layer(*name, largest, relative, near, own, allowed, same)


def mask_iou(ours: NDArray[np.bool_], theirs: NDArray[np.bool_]) -> float:
    """Return the smallest intersection over union of pairs of masks (K, H, W)."""
    if not len(ours):
        return 1.0
    both = (ours & theirs).sum(axis=(-2, -1))
    union = (ours | theirs).sum(axis=(-2, -1))
    return float(np.where(union > 0, both / np.maximum(union, 1), 1.0).min())


def compare_masks(
    name: tuple[str, str],
    ours: tuple[NDArray[np.bool_], NDArray[Any] | None],
    theirs: tuple[NDArray[np.bool_], NDArray[Any] | None],
    bounds: Bounds,
) -> Masks:
    """Compare masks (K, H, W) and scores (K,) of one call, given as (stage, item)."""
    masks, scores = ours
    reference, reference_scores = theirs
    if len(masks) != len(reference):
        return Masks(*name, len(masks), len(reference), 0.0, math.nan, False)
    iou, score = mask_iou(masks, reference), math.nan
    if scores is not None and reference_scores is not None and scores.size:
        score = float(np.abs(scores - reference_scores).max())
    same = iou >= bounds.iou and not score > bounds.score
    return Masks(*name, len(masks), len(reference), iou, score, bool(same))
