"""Texts and boxes for SAM 3: what ``Sam3Processor`` makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentRuntimeError, expects
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.compat.transformers.batch import BatchFeature
from sam_rlx.compat.transformers.image_processors import Sam3ImageProcessor
from sam_rlx.compat.transformers.processing import SquareProcessor
from sam_rlx.compat.transformers.results_sam3 import Sam3Results
from sam_rlx.compat.transformers.text import CLIPTokenizer
from sam_rlx.errors import InvalidArgumentError

_LENGTH = 32  # ids of a text at least
_VISUAL = "visual"  # the text of boxes alone


class Sam3Processor(Sam3Results, SquareProcessor):
    """Images, texts and boxes for `Sam3Model`.

    Parameters
    ----------
    image_processor : Sam3ImageProcessor
    tokenizer : CLIPTokenizer
    target_size : int, optional
        Side of the network's input. Default: that of the image processor.
    point_pad_value : int
        Coordinates of boxes that fill up a batch, and their labels.

    Attributes
    ----------
    image_processor, tokenizer, target_size, point_pad_value
        The parameters.
    """

    parts: ClassVar[Mapping[str, Any]] = {
        "image_processor": Sam3ImageProcessor,
        "tokenizer": CLIPTokenizer,
    }
    tokenizer: Any

    def __init__(
        self,
        image_processor: Any,
        tokenizer: Any,
        target_size: int | None = None,
        point_pad_value: int = -10,
    ) -> None:
        self._set_parts(image_processor=image_processor, tokenizer=tokenizer)
        self.point_pad_value = point_pad_value
        self._set_target_size(target_size)

    def __call__(
        self,
        images: Any = None,
        text: Any = None,
        segmentation_maps: Any = None,
        input_boxes: Any = None,
        input_boxes_labels: Any = None,
        original_sizes: Any = None,
        return_tensors: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Prepare images, texts and boxes: one text, or boxes, or both for each image.

        Parameters
        ----------
        images, segmentation_maps
            As for the image processor, which gets further keywords.
        text : str or list of str, optional
            Neither repaired nor cut. None in a list: that of boxes alone, ``"visual"``.
        input_boxes : list of list of (x0, y0, x1, y1), optional
            Pixels, for each image a list or None.
        input_boxes_labels : list of list of int, optional
            1 for boxes around what is meant, 0 around what is not. Default: 1.
        original_sizes : list of (int, int), optional
            Heights and widths, where images are not given.
        return_tensors : str, optional
            "pt", "np" or None.

        Returns
        -------
        BatchFeature or None
            What the arguments ask for; None without any.

        Raises
        ------
        InvalidArgumentError, RuntimeError, TypeError
            Arguments do not fit together, or have another form.
        """
        encoding = self._images(
            images, segmentation_maps, original_sizes, input_boxes, return_tensors, kwargs
        )
        text = _with_visual(text, input_boxes)
        if text is not None:
            ids = ids_of(self.tokenizer, text, return_tensors)
            encoding = ids if encoding is None else encoding
            encoding.update(ids)
        if input_boxes is not None:
            assert encoding is not None
            boxes, labels = self._boxes(input_boxes, input_boxes_labels)
            sizes = np.asarray(encoding["original_sizes"], np.float32).reshape(-1, 2)
            encoding["input_boxes"] = as_result(self._as_fractions(boxes, sizes))
            encoding["input_boxes_labels"] = as_result(labels)
        return encoding

    @property
    def model_input_names(self) -> list[str]:
        """Names of what a call gives."""
        own = ["input_ids", "attention_mask", "original_sizes"]
        return [*self.image_processor.model_input_names, *own]

    def _images(
        self,
        images: Any,
        segmentation_maps: Any,
        original_sizes: Any,
        input_boxes: Any,
        return_tensors: Any,
        options: dict[str, Any],
    ) -> BatchFeature | None:
        if images is not None:
            found: BatchFeature = self.image_processor(
                images,
                segmentation_maps=segmentation_maps,
                return_tensors=return_tensors,
                **options,
            )
            return found
        if original_sizes is not None:
            sizes = original_sizes.tolist() if hasattr(original_sizes, "tolist") else original_sizes
            return BatchFeature({"original_sizes": sizes}, return_tensors)
        if input_boxes is not None:
            raise InvalidArgumentError(
                "input_boxes: expected images or original_sizes beside them, found neither"
            )
        return None

    def _boxes(
        self, input_boxes: Any, input_boxes_labels: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return boxes (B, N, 4) in pixels and labels (B, N), both filled up."""
        boxes = _nested("boxes", input_boxes, 3)
        labels = [None if own is None else [1] * len(own) for own in boxes]
        if input_boxes_labels is not None:
            labels = _nested("labels", input_boxes_labels, 2)
        sides = [_sides(boxes), _sides(labels)]
        if sides[0] != sides[1]:
            raise InvalidArgumentError(
                f"input_boxes_labels: expected one for each box, (images, boxes) {sides[0]}, "
                f"found {sides[1]}"
            )
        count, most = sides[0]
        found = np.full((count, most, 4), self.point_pad_value, np.float32)
        marks = np.full((count, most), self.point_pad_value, np.int64)
        for index in range(count):
            for each, box in enumerate(boxes[index] or ()):
                found[index, each, : len(_four(box))] = box
            own = labels[index] or ()
            marks[index, : len(own)] = own
        return found, marks

    def _as_fractions(
        self, boxes: NDArray[np.float32], sizes: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return centre, width and height as fractions; those with a padding number stay pixels."""
        is_whole = (boxes != self.point_pad_value).all(axis=2, keepdims=True)
        count = min(len(sizes), len(boxes))
        scales = np.ones((len(boxes), 1, 4), np.float32)
        scales[:count, 0] = sizes[:count][:, [1, 0, 1, 0]]
        corners = np.where(is_whole, boxes / scales, boxes)
        low, high = corners[..., :2], corners[..., 2:]
        return np.concatenate([(low + high) / np.float32(2), high - low], axis=2)


def ids_of(tokenizer: Any, text: Any, return_tensors: Any) -> BatchFeature:
    """Return the ids of texts, filled up to 32, and which of them count."""
    ids: BatchFeature = tokenizer(
        text, return_tensors=return_tensors, padding="max_length", max_length=_LENGTH
    )
    return ids


def _with_visual(text: Any, input_boxes: Any) -> Any:
    """Return the texts, with that of boxes alone where there is none."""
    has_boxes = _truth(input_boxes)
    if text is None:
        return _VISUAL if has_boxes else None
    if not isinstance(text, (list, tuple)):
        return text
    if has_boxes and len(text) != len(input_boxes):
        raise InvalidArgumentError(
            f"text: expected one for each of {len(input_boxes)} lists of boxes, found {len(text)}"
        )
    return [
        _VISUAL if each is None and has_boxes and input_boxes[index] is not None else each
        for index, each in enumerate(text)
    ]


def _truth(input_boxes: Any) -> bool:
    """Tell whether boxes are given, as upstream asks: several numbers have no truth value."""
    if is_torch(input_boxes) and input_boxes.numel() > 1:
        raise ArgumentRuntimeError(
            "input_boxes: expected a list of lists of boxes, found a tensor; its tolist() is one"
        )
    if isinstance(input_boxes, np.ndarray) and input_boxes.size > 1:
        raise InvalidArgumentError(
            "input_boxes: expected a list of lists of boxes, found an array; its tolist() is one"
        )
    return bool(input_boxes)


@expects("lists of numbers, as deep as the name says, with None for an image without")
def _nested(name: str, values: Any, depth: int) -> list[Any]:
    """Return values as nested lists; lists count along their first entries, arrays by their axes.

    Raises
    ------
    InvalidArgumentError
        Another depth, or an entry that is neither a list nor a number.
    """
    found = _depth(values)
    if found != depth or not isinstance(values, list):
        raise InvalidArgumentError(
            f"input_boxes: expected {name} as lists in {depth} levels, image, box"
            f"{', coordinates' if depth > 2 else ''}, found {found} levels"
        )
    return [None if each is None else _plain(each, depth - 1) for each in values]


def _depth(values: Any) -> int:
    if isinstance(values, np.ndarray) or is_torch(values):
        return int(values.ndim)
    if not isinstance(values, list):
        return 0
    first = next((each for each in values if each is not None), None)
    return 1 if first is None else 1 + _depth(first)


def _plain(values: Any, depth: int) -> Any:
    if isinstance(values, np.ndarray) or is_torch(values):
        return values.tolist()
    if isinstance(values, list):
        return [_plain(each, depth - 1) for each in values] if depth else values
    if isinstance(values, (int, float)):
        return values
    raise InvalidArgumentError(
        f"input_boxes: expected lists and numbers, found {type(values).__name__}"
    )


def _sides(values: Iterable[Any]) -> tuple[int, int]:
    """Return the number of images, and the largest number of entries of one."""
    rows = list(values)
    return len(rows), max((len(own) for own in rows if own is not None), default=0)


def _four(box: Any) -> Any:
    """Return a box, whose missing coordinates are filled up; more than four do not fit."""
    if len(box) > 4:
        raise InvalidArgumentError(f"input_boxes: expected 4 coordinates, found {len(box)}")
    return box


__dir__ = public_names(__name__)
