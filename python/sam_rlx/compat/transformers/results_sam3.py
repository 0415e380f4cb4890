"""What `Sam3Model` gives as scores, boxes and masks of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError, expects
from sam_rlx.compat.common.tensor import as_tensor
from sam_rlx.compat.common.tensors import as_result, is_torch, numbers
from sam_rlx.compat.transformers.batch import BatchFeature
from sam_rlx.errors import InvalidArgumentError

Floats = NDArray[np.float32]


class SemanticSegmentationPostProcessorOutput(BatchFeature):
    """The map of an image: ``segmentation`` (H, W) and ``segmentation_scores`` (1, H, W)."""


class Sam3Results:
    """Methods of SAM 3's processor and image processor on outputs of `Sam3Model`.

    Scores are products of probabilities: of a query, and of the presence of any instance. Sizes are
    a list of (height, width), one for each image; a tensor is a ``TypeError``.
    """

    def post_process_instance_segmentation(
        self,
        outputs: Any,
        threshold: float = 0.3,
        mask_threshold: float = 0.5,
        target_sizes: Sequence[Sequence[int]] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the instances of each image, in the order of the queries.

        Parameters
        ----------
        outputs : Sam3ImageSegmentationOutput
        threshold : float
            Scores are above it.
        mask_threshold : float
            Probabilities above it are inside. Masks are resized as probabilities.
        target_sizes : list of (int, int), optional
            Heights and widths of the images. Default: masks as they are, boxes as fractions.

        Returns
        -------
        list of dict
            ``scores`` (N,) and ``boxes`` (N, 4), corners, float32; ``masks`` (N, H, W), int64.

        Raises
        ------
        InvalidArgumentError
            There is not one size for each image.
        TypeError
            Sizes are no list of pairs of integers.
        """
        found = self.post_process_object_detection(outputs, threshold, target_sizes)
        scores, logits = _scores(outputs), numbers(outputs.pred_masks)
        for index, result in enumerate(found):
            masks = _probabilities(logits[index][scores[index] > np.float32(threshold)])
            if target_sizes is not None and len(masks):
                inside = _resized(masks, target_sizes[index], mask_threshold)
            else:
                inside = masks > np.float32(mask_threshold)
            result["masks"] = _as_given(inside.astype(np.int64), outputs.pred_masks)
        return found

    @expects("outputs of Sam3Model, a number, and a list of (height, width)")
    def post_process_object_detection(
        self,
        outputs: Any,
        threshold: float = 0.3,
        target_sizes: Sequence[Sequence[int]] | None = None,
    ) -> list[dict[str, Any]]:
        """Return the boxes of each image: as the method above, without masks."""
        scores, boxes = _scores(outputs), numbers(outputs.pred_boxes)
        if target_sizes is not None:
            if len(target_sizes) != len(scores):
                raise InvalidArgumentError(
                    f"target_sizes: expected those of {len(scores)} images, found "
                    f"{len(target_sizes)}"
                )
            boxes = boxes * _corner_scales(target_sizes)[:, None]
        return [
            {
                "scores": _as_given(own[keep], outputs.pred_logits),
                "boxes": _as_given(corners[keep], outputs.pred_logits),
            }
            for own, corners in zip(scores, boxes, strict=True)
            for keep in [own > np.float32(threshold)]
        ]

    def post_process_semantic_segmentation(
        self,
        outputs: Any,
        target_sizes: Sequence[Sequence[int]] | None = None,
        threshold: float = 0.5,
        return_segmentation_scores: bool = False,
    ) -> list[Any]:
        """Return the map of all that the prompt of each image shows.

        Parameters
        ----------
        outputs : Sam3ImageSegmentationOutput
        target_sizes : list of (int, int), optional
            Heights and widths of the images. Default: maps as they are.
        threshold : float
            Probabilities above it are inside.
        return_segmentation_scores : bool
            Whether probabilities are wanted, too.

        Returns
        -------
        list of tensor (H, W), int64
            Or of `SemanticSegmentationPostProcessorOutput`.

        Raises
        ------
        InvalidArgumentError
            There is no map, or not one size for each image.
        TypeError
            Sizes are no list of pairs of integers.
        """
        if outputs.semantic_seg is None:
            raise InvalidArgumentError("outputs: expected semantic_seg, found none")
        maps = _probabilities(numbers(outputs.semantic_seg))
        if target_sizes is not None and len(target_sizes) != len(maps):
            raise InvalidArgumentError(
                f"target_sizes: expected those of {len(maps)} images, found {len(target_sizes)}"
            )
        found = []
        for index, scores in enumerate(maps):
            if target_sizes is not None:
                scores = _resized(scores, target_sizes[index], None)
            inside = (scores[0] > np.float32(threshold)).astype(np.int64)
            found.append(_as_given(inside, outputs.semantic_seg))
            if return_segmentation_scores:
                found[-1] = SemanticSegmentationPostProcessorOutput(
                    {
                        "segmentation": found[-1],
                        "segmentation_scores": _as_given(scores, outputs.semantic_seg),
                    }
                )
        return found


def _probabilities(logits: NDArray[Any]) -> Floats:
    """Return 1 / (1 + exp(-x)) in float32."""
    values = logits.astype(np.float32, copy=False)
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-values)), np.float32)


def _scores(outputs: Any) -> Floats:
    """Return the scores (B, Q) of all queries."""
    scores = _probabilities(numbers(outputs.pred_logits))
    presence = outputs.presence_logits
    return scores if presence is None else scores * _probabilities(numbers(presence))


def _corner_scales(target_sizes: Any) -> Floats:
    """Return width, height, width, height of each image."""
    if not isinstance(target_sizes, (list, tuple)) and not is_torch(target_sizes):
        raise ArgumentTypeError(
            f"target_sizes: expected a list of (height, width), found {type(target_sizes).__name__}"
        )
    rows = [(each[1], each[0], each[1], each[0]) for each in target_sizes]
    return np.asarray(rows, np.float32)


def _resized(maps: Floats, size: Any, threshold: float | None) -> NDArray[Any]:
    """Return maps (K, h, w) at another size, compared with a threshold if there is one."""
    pair = list(size) if isinstance(size, (tuple, list)) else []
    if len(pair) != 2 or not all(isinstance(side, int) for side in pair):
        raise ArgumentTypeError(
            f"target_sizes: expected pairs of integers (height, width), found {size!r}; "
            "a tensor's are those of its tolist()"
        )
    return _core.postprocess_masks(maps, (pair[0], pair[1]), threshold=threshold, num_threads=0)


def _as_given(array: NDArray[Any], given: Any) -> Any:
    """Return an array as a tensor of PyTorch if that is what was given."""
    return as_result(array) if is_torch(given) else as_tensor(array)


__dir__ = public_names(__name__)
