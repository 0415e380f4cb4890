"""Everything mode with transformers' words: ``pipeline("mask-generation")``."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.devices import CPU, check_device
from sam_rlx.compat.common.errors import (
    ArgumentAttributeError,
    ArgumentIndexError,
    ArgumentRuntimeError,
    ArgumentTypeError,
)
from sam_rlx.compat.common.everything import number
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.image_utils import load_image
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.errors import InvalidArgumentError

# Of grids and crops, of filters, and of both areas, in upstream's order.
_GRID = (
    "crops_n_layers",
    "crop_overlap_ratio",
    "points_per_crop",
    "crop_n_points_downscale_factor",
)
_FILTERS = (
    "pred_iou_thresh",
    "stability_score_thresh",
    "stability_score_offset",
    "mask_threshold",
)
_AREAS = ("max_hole_area", "max_sprinkle_area")
_DEFAULTS: dict[str, Any] = {
    "points_per_batch": 64,
    **dict(zip(_GRID, (0, 512 / 1500, 32, 1), strict=True)),
    **dict(zip(_FILTERS, (0.88, 0.95, 1, 0), strict=True)),
    **dict.fromkeys(_AREAS),
    "timeout": None,
    "crops_nms_thresh": 0.7,
    "output_rle_mask": False,
    "output_bboxes_mask": False,
}
# Names that programs write and upstream passes over, with what they mean.
_MEANT = {
    "points_per_side": "points_per_crop",
    "output_rle_masks": "output_rle_mask",
    "output_bboxes_masks": "output_bboxes_mask",
    "crop_n_layers": "crops_n_layers",
    "crop_nms_thresh": "crops_nms_thresh",
    "box_nms_thresh": "crops_nms_thresh",
}


class MaskGenerationPipeline:
    """Finds all masks of images: a grid of points on each, filters, one suppression of boxes.

    Parameters
    ----------
    model : SamModel, SamHQModel, Sam2Model, EdgeTamModel or Sam3TrackerModel
    tokenizer, feature_extractor, video_processor : optional
        Without effect.
    image_processor : SamImageProcessor or its likes, optional
        That of the model. Or:
    processor : SamProcessor or its likes, optional
        Has one.
    task : str
        Without effect.
    device : int or str, optional
        "cpu"; a number is the CPU, where there is no other device.
    binary_output : bool
        Without effect.
    **kwargs
        Defaults of the arguments of a call.

    Raises
    ------
    UnsupportedError
        Another device.
    """

    task = "mask-generation"

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        feature_extractor: Any = None,
        image_processor: Any = None,
        video_processor: Any = None,
        processor: Any = None,
        task: str = "",
        device: Any = None,
        binary_output: bool = False,
        **kwargs: Any,
    ) -> None:
        if not isinstance(device, int):
            check_device(device)
        self.model, self.tokenizer, self.processor = model, tokenizer, processor
        self.feature_extractor, self.video_processor = feature_extractor, video_processor
        self.image_processor = image_processor
        if image_processor is None:
            self.image_processor = getattr(processor, "image_processor", feature_extractor)
        self.task, self.binary_output, self.device = task or self.task, binary_output, CPU
        self.call_count = 0
        for name in ("dtype", "torch_dtype", "args_parser"):
            kwargs.pop(name, None)
        self._batch_size = kwargs.pop("batch_size", None)
        self._num_workers = kwargs.pop("num_workers", None)
        self._defaults = _DEFAULTS | _known(kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {type(self.model).__name__}>"

    @property
    def dtype(self) -> Any:
        """The type of the model's results."""
        return self.model.dtype

    def __call__(self, image: Any, *args: Any, **kwargs: Any) -> Any:
        """Find the masks of an image, or of each image of a list or a generator.

        Parameters
        ----------
        image : str or PIL image, or a list of them
            A path, a URL or base64. A list gives a list, a generator an iterator.
        *args
            Without effect, with a warning.
        points_per_batch : int or None
            Without effect but its check: 64.
        points_per_crop : int
            Points along each side of a grid: 32.
        crops_n_layers : int
            Layer i has 2^i x 2^i crops beside the whole image: 0.
        crop_overlap_ratio : float
            Overlap of crops, as a part of the shorter side: 512 / 1500.
        crop_n_points_downscale_factor : float
            1; another value with crops is a ``RuntimeError``.
        pred_iou_thresh, stability_score_thresh : float
            Scores are above them: 0.88, 0.95.
        stability_score_offset : float
            Thresholds of the stability lie so much above and below: 1.
        mask_threshold : float
            Logits above it are inside: 0.
        crops_nms_thresh : float
            IoU of boxes above which the mask with the lower score goes: 0.7.
        max_hole_area, max_sprinkle_area : float, optional
            Without effect; for SAM a ``TypeError``.
        output_rle_mask, output_bboxes_mask : bool
            Whether codes and boxes are wanted, too.
        timeout : float, optional
            Seconds for each wait for a URL.
        num_workers, batch_size : int, optional
            Without effect; a batch size from 2 on is an error, as upstream.

        Returns
        -------
        dict, or list or iterator of dict
            ``masks``: list of tensor (H, W), bool, best first; ``scores`` (N,), float32;
            ``rle_mask``: list of ``{"size", "counts"}``; ``bounding_boxes`` (N, 4), int64: corners,
            both inside.

        Raises
        ------
        InvalidArgumentError, TypeError, IndexError, RuntimeError
            An argument has another form or range.
        """
        if args:
            warn_once("arguments behind the image have no effect, as in transformers")
        batch_size = kwargs.pop("batch_size", None) or self._batch_size or 1
        kwargs.pop("num_workers", None)
        options = self._defaults | _known(kwargs)
        if batch_size != 1:
            raise ArgumentRuntimeError(f"batch_size: expected 1, found {batch_size}")
        self.call_count += 1
        if isinstance(image, types.GeneratorType):
            return self._each(image, options)
        if isinstance(image, (list, tuple)) and not image:
            raise ArgumentIndexError("image: expected at least one, found none")
        if isinstance(image, list):
            return list(self._each(image, options))
        return self._run(image, options)

    def _each(self, images: Any, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for image in images:
            yield self._run(image, options)

    def _run(self, source: Any, options: dict[str, Any]) -> dict[str, Any]:
        image = load_image(source, timeout=options.get("timeout"))
        processor, size = self.image_processor, self.image_processor.size
        target = size.get("longest_edge") or size.get("height")
        boxes, points, crops, _ = processor.generate_crop_boxes(
            image, target, *(options[name] for name in _GRID)
        )
        grids = np.asarray(points)[0].swapaxes(0, 1)  # (C, N, 2)
        batch = _batch_of(options["points_per_batch"], grids.shape[1])
        found = _Found((image.height, image.width), options)
        for crop, box, grid in zip(crops, np.asarray(boxes).tolist(), grids, strict=True):
            features = processor(images=[crop], return_tensors="np")
            found.check_areas("reshaped_input_sizes" in features)
            reshaped = features.get("reshaped_input_sizes", [(0, 0)])[0]
            masks = self._masks_of_points(
                np.asarray(features["pixel_values"]),
                np.ascontiguousarray(grid),
                points_per_batch=batch,
                crop_box=tuple(map(int, box)),
                input_hw=tuple(map(int, reshaped)),
                **found.rules,
            )
            found.add(masks)
        return found.result(processor)

    @property
    def _masks_of_points(self) -> Any:
        found = getattr(self.model, "masks_of_points", None)
        if found is None:
            raise ArgumentAttributeError(
                f"model: expected one that takes points, found {type(self.model).__name__}"
            )
        return found


class _Found:
    """Masks of all crops of an image (H, W), as codes."""

    def __init__(self, size: tuple[int, int], options: dict[str, Any]) -> None:
        self._size, self._options = size, options
        self.rules = {name: number(name, options[name]) for name in _FILTERS} | {"orig_hw": size}
        self._rles: list[dict[str, Any]] = []
        self._scores: list[NDArray[np.float32]] = []
        self._boxes: list[NDArray[Any]] = []

    def check_areas(self, is_sam: bool) -> None:
        """Refuse areas for SAM, as upstream."""
        hole, sprinkle = (self._options[name] for name in _AREAS)
        if is_sam and (hole is not None or (sprinkle is not None and sprinkle > 0)):
            raise ArgumentTypeError(
                f"{_AREAS[0] if hole is not None else _AREAS[1]}: expected none for SAM, found one"
            )

    def add(self, masks: _core.PointMasks) -> None:
        """Add the masks of a crop."""
        size = list(self._size)
        self._rles += [{"size": size, "counts": counts} for counts in masks.counts]
        self._scores.append(masks.scores)
        # As upstream, whose boxes of a batch without good and stable masks are float32.
        boxes = masks.boxes
        self._boxes.append(boxes.astype(np.float32) if masks.has_empty_batch else boxes)

    def result(self, processor: Any) -> dict[str, Any]:
        """Suppress masks whose boxes overlap, and return the others."""
        is_float = any(part.dtype == np.float32 for part in self._boxes)
        boxes = np.concatenate(self._boxes).astype(np.float32 if is_float else np.int64)
        masks, scores, rles, corners = processor.post_process_for_mask_generation(
            self._rles,
            as_result(np.concatenate(self._scores)),
            as_result(boxes),
            number("crops_nms_thresh", self._options["crops_nms_thresh"]),
        )
        found = {"masks": masks, "scores": scores}
        if self._options["output_rle_mask"]:
            found["rle_mask"] = [
                {"size": list(rle["size"]), "counts": rle["counts"].tolist()} for rle in rles
            ]
        if self._options["output_bboxes_mask"]:
            found["bounding_boxes"] = corners
        return found


def _known(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that there are, and warn once about each of the others."""
    for name in arguments:
        if name not in _DEFAULTS:
            meant = f"; {_MEANT[name]} is what it should be called" if name in _MEANT else ""
            warn_once(
                f"{name}: it is no argument of the pipeline and has no effect, as in "
                f"transformers{meant}",
                stacklevel=4,
            )
    return {name: value for name, value in arguments.items() if name in _DEFAULTS}


def _batch_of(points_per_batch: Any, count: int) -> int:
    """Return the points of a batch, which decides about nothing but the type of empty boxes."""
    batch = count if points_per_batch is None else points_per_batch
    if not batch > 0:
        raise InvalidArgumentError(
            f"points_per_batch: expected 1 or more, or None for all points, found {batch}"
        )
    return int(batch)


__dir__ = public_names(__name__)
