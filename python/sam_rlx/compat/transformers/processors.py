"""Processors of models that take clicks and boxes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.batch import BatchFeature, tensor_kind
from sam_rlx.compat.transformers.image_processors import (
    Sam2ImageProcessor,
    Sam3ImageProcessor,
    SamImageProcessor,
)
from sam_rlx.compat.transformers.masks import listed
from sam_rlx.compat.transformers.notes import warn_once
from sam_rlx.compat.transformers.processing import Processor, SquareProcessor
from sam_rlx.compat.transformers.prompts_nested import NestedPrompts
from sam_rlx.compat.transformers.prompts_sam import SamPrompts


class SamProcessor(Processor):
    """Images and prompts for `SamModel`.

    Parameters
    ----------
    image_processor : SamImageProcessor
        Its `size` tells how prompts are scaled.

    Attributes
    ----------
    image_processor : SamImageProcessor
    target_size : int
        Longer side of the image in the network's input.
    """

    parts: ClassVar[Mapping[str, Any]] = {"image_processor": SamImageProcessor}
    point_pad_value: float | None = -10
    image_processor: Any
    _hq = False

    def __init__(self, image_processor: Any) -> None:
        self._set_parts(image_processor=image_processor)
        self.target_size = image_processor.size["longest_edge"]

    def __call__(
        self,
        images: Any = None,
        text: Any = None,
        segmentation_maps: Any = None,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Prepare images and prompts.

        Parameters
        ----------
        images, segmentation_maps
            As `ImageProcessor.preprocess` takes them.
        text
            Without effect, as upstream.
        input_points : nested list or tensor
            [image, point, (x, y)] or [image, object, point, (x, y)], pixels of the image.
        input_labels : nested list or tensor
            As points: 1 inside, 0 outside. Images with fewer points need them.
        input_boxes : nested list or tensor
            [image, box, (x0, y0, x1, y1)].
        **kwargs
            Settings of images, also as a dictionary `images_kwargs`; `return_tensors`; and
            `point_pad_value`. Others have no effect.

        Returns
        -------
        BatchFeature
            `pixel_values`, `original_sizes`, `reshaped_input_sizes`, and of the prompts that are
            given `input_boxes` float64 (B, N, 4), `input_points` float64 (B, P, N, 2) and
            `input_labels` (B, P, N). With ``return_tensors="pt"`` alone an axis of objects is
            added where it is missing.

        Raises
        ------
        ValueError
            Prompts are no nested lists, or have different lengths. Ours, as all errors here.
        IndexError
            Prompts are empty.
        TypeError, ValueError
            As `ImageProcessor.preprocess` says.
        """
        settings, others = self._sorted(kwargs)
        if text is not None:
            warn_once("text: it has no effect on SamProcessor, as in transformers")
        given = {
            "segmentation_maps": segmentation_maps,
            "input_points": input_points,
            "input_labels": input_labels,
            "input_boxes": input_boxes,
        }
        given |= {name: settings.pop(name) for name in given if name in settings}
        batch: BatchFeature = self.image_processor(
            images, segmentation_maps=given["segmentation_maps"], **settings
        )
        prompts = SamPrompts(
            self.target_size, others.get("point_pad_value", self.point_pad_value), self._hq
        )
        found = prompts.prompts(
            given["input_points"],
            given["input_labels"],
            given["input_boxes"],
            np.asarray(batch["original_sizes"]).tolist(),
            tensor_kind(settings.get("return_tensors")),
        )
        batch.update(found)
        return batch

    def _sorted(self, kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return keywords for images, and others."""
        given = {**kwargs.get("common_kwargs", {}), **kwargs, **kwargs.get("images_kwargs", {})}
        known = {*self.image_processor.names, *kwargs.get("images_kwargs", {})}
        settings = {name: value for name, value in given.items() if name in known}
        if "point_pad_value" in settings:
            given["point_pad_value"] = settings.pop("point_pad_value")
        others = {name: value for name, value in given.items() if name not in settings}
        for name in others:
            if name != "point_pad_value" and not name.endswith("_kwargs"):
                warn_once(
                    f"{name}: it is no setting of {type(self).__name__} and has no effect, as in "
                    "transformers"
                )
        return settings, others

    def post_process_masks(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Do as the image processor's method."""
        found: list[Any] = self.image_processor.post_process_masks(*args, **kwargs)
        return found

    @property
    def model_input_names(self) -> list[str]:
        """Names of what a call gives for images."""
        return [*self.image_processor.model_input_names, "original_sizes", "reshaped_input_sizes"]


class SamHQProcessor(SamProcessor):
    """Images and prompts for `SamHQModel`: as `SamProcessor`, but points have no default pad."""

    point_pad_value = None
    _hq = True


class Sam2Processor(SquareProcessor):
    """Images and prompts for `Sam2Model` and `EdgeTamModel`.

    Parameters
    ----------
    image_processor : Sam2ImageProcessor
    target_size : int, optional
        Side of the network's input, which prompts are scaled to. Default: that of the image
        processor.
    point_pad_value : int
        Of points and labels that fill up a batch.

    Attributes
    ----------
    image_processor, target_size, point_pad_value
        The parameters.
    """

    parts: ClassVar[Mapping[str, Any]] = {"image_processor": Sam2ImageProcessor}

    def __init__(
        self, image_processor: Any, target_size: int | None = None, point_pad_value: int = -10
    ) -> None:
        self._set_parts(image_processor=image_processor)
        self.point_pad_value = point_pad_value
        self._set_target_size(target_size)

    def __call__(
        self,
        images: Any = None,
        segmentation_maps: Any = None,
        input_points: Any = None,
        input_labels: Any = None,
        input_boxes: Any = None,
        original_sizes: Any = None,
        return_tensors: Any = None,
        **kwargs: Any,
    ) -> BatchFeature:
        """Prepare images and prompts, or prompts alone for embeddings that were kept.

        Parameters
        ----------
        images, segmentation_maps
            As `ImageProcessor.preprocess` takes them.
        input_points : nested list, array or tensor, 4 levels
            [image, object, point, (x, y)], pixels of the image. Objects and points of different
            counts are filled up.
        input_labels : nested list, array or tensor, 3 levels
            [image, object, point]: 1 inside, 0 outside.
        input_boxes : nested list, array or tensor, 3 levels
            [image, box, (x0, y0, x1, y1)], as many for each image.
        original_sizes : (B, 2), optional
            Heights and widths, where images are not given.
        return_tensors : str, optional
            "pt", "np" or None, of pixels and sizes. Prompts are tensors always.
        **kwargs
            Settings of images.

        Returns
        -------
        BatchFeature
            `pixel_values` and `original_sizes`, and of the prompts that are given `input_points`
            float32 (B, P, N, 2), `input_labels` int64 (B, P, N), `input_boxes` float32 (B, N, 4).
            Prompts beyond the images are not scaled, as upstream.

        Raises
        ------
        ValueError
            Neither images nor sizes, or prompts of another depth or of lengths that do not fit
            together. Ours, as all errors here.
        TypeError
            Tuples or texts inside of prompts, or an unknown keyword.
        """
        batch = self._images_or_sizes(
            images, segmentation_maps, original_sizes, return_tensors, kwargs
        )
        prompts = NestedPrompts(self.target_size, self.point_pad_value)
        sizes = listed(batch["original_sizes"])
        found = prompts.prompts(input_points, input_labels, input_boxes, sizes)
        batch.update({name: as_result(value) for name, value in found.items()})
        return batch

    def post_process_masks(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Do as the image processor's method."""
        found: list[Any] = self.image_processor.post_process_masks(*args, **kwargs)
        return found


class Sam3TrackerProcessor(Sam2Processor):
    """Images and prompts for `Sam3TrackerModel`; parameters and methods are `Sam2Processor`'s."""

    parts: ClassVar[Mapping[str, Any]] = {"image_processor": Sam3ImageProcessor}


__dir__ = public_names(__name__)
