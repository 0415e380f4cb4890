"""Masks of one image: of everything, of prompts, of texts."""

import io as standard_io
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core, io
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.job import Job
from sam_rlx.apps.batch.parquet import read_bytes
from sam_rlx.concept import ConceptPredictor
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.generator import MaskGenerator
from sam_rlx.image import ImagePredictor
from sam_rlx.model import Model

# Objects in one call of the decoder, and bytes of their masks.
_MAX_PROMPTS, _MAX_BYTES = 64, 1 << 26
Masks = list[dict[str, Any]]


class Finder(Protocol):
    """What a task does with an image."""

    def find(self, item: Item, image: NDArray[np.uint8]) -> Masks:
        """Return the entries of a row's masks."""


def make(job: Job, model: Model) -> Finder:
    """Return the finder of a job.

    Raises
    ------
    InvalidArgumentError, UnsupportedError
        The model does not do what is asked for, or an option is out of range.
    """
    if job.task == "everything":
        return _Everything(job, model)
    return _Prompts(job, model) if job.task == "prompts" else _Texts(job, model)


def read_image(item: Item) -> NDArray[np.uint8]:
    """Read the image of an item, and check its size if its prompts have one."""
    if item.row is None:
        image = io.read_image(item.path)
    else:
        group, row, column = item.row
        image = io.read_image(standard_io.BytesIO(read_bytes(item.path, group, row, column)))
    check_size(item, (image.shape[0], image.shape[1]))
    return image


def check_size(item: Item, found: tuple[int, int]) -> None:
    """Raise `InvalidArgumentError` if the prompts of an item are for another size."""
    if item.hw is not None and item.hw != found:
        height, width = item.hw
        raise InvalidArgumentError(
            f"{item.path}: expected {width} x {height} pixels, which its prompts are for, found "
            f"{found[1]} x {found[0]}"
        )


def check_prompts(item: Item, hw: tuple[int, int]) -> None:
    """Raise `InvalidArgumentError` for a prompt that is not on the image."""
    for prompt in item.prompts or ():
        points = np.array(prompt.points, np.float64).reshape(-1, 2)
        labels = np.array(prompt.labels, np.int32)
        _core.check_points(prompt.name, points, labels, hw, "an image")
        if prompt.box is not None:
            box = np.array(prompt.box, np.float64).reshape(-1, 4)
            _core.check_boxes(prompt.name, box, hw, "an image")


def entry(mask: NDArray[np.bool_], name: str, score: float, frame: int = 0) -> dict[str, Any]:
    """Return the entry of a mask."""
    found = io.coco_annotation(mask)
    return {
        "frame": frame,
        "object": name,
        "counts": found["segmentation"]["counts"],
        "area": found["area"],
        "bbox": [float(value) for value in found["bbox"]],
        "score": score,
    }


class _Everything:
    """Masks for all objects."""

    def __init__(self, job: Job, model: Model) -> None:
        self._generator = MaskGenerator(model, **job.options, num_threads=job.threads)

    def find(self, item: Item, image: NDArray[np.uint8]) -> Masks:
        records = self._generator.generate(image)
        return [_record(number, record.to_coco()) for number, record in enumerate(records)]


def _record(number: int, described: dict[str, Any]) -> dict[str, Any]:
    return {
        "frame": 0,
        "object": str(number),
        "counts": described["segmentation"]["counts"],
        "area": described["area"],
        "bbox": [float(value) for value in described["bbox"]],
        "score": described["predicted_iou"],
        "stability_score": described["stability_score"],
        "point_coords": [[float(x), float(y)] for x, y in described["point_coords"]],
        "crop_box": [float(value) for value in described["crop_box"]],
    }


class _Prompts:
    """One mask for each prompt: the best of three for a single point."""

    def __init__(self, job: Job, model: Model) -> None:
        self._predictor = ImagePredictor(model, num_threads=job.threads)

    def find(self, item: Item, image: NDArray[np.uint8]) -> Masks:
        check_prompts(item, (image.shape[0], image.shape[1]))
        if not item.prompts:
            return []
        self._predictor.set_image(image)
        by_number: dict[int, dict[str, Any]] = {}
        numbered = sorted(enumerate(item.prompts), key=lambda pair: _form(pair[1]))
        for form, same in groupby(numbered, key=lambda pair: _form(pair[1])):
            group = list(same)
            masks = 3 if _is_ambiguous(form) else 1
            size = max(1, min(_MAX_PROMPTS, _MAX_BYTES // (masks * image[..., 0].size)))
            for first in range(0, len(group), size):
                some = group[first : first + size]
                found = self._predict([prompt for _, prompt in some])
                by_number.update(zip((number for number, _ in some), found, strict=True))
        return [by_number[number] for number in range(len(item.prompts))]

    def _predict(self, prompts: Sequence[Prompt]) -> Masks:
        """Predict prompts of one form in one call."""
        arguments: dict[str, Any] = {}
        points, has_box = _form(prompts[0])
        if points:
            arguments["point_coords"] = np.array([prompt.points for prompt in prompts])
            arguments["point_labels"] = np.array([prompt.labels for prompt in prompts])
        if has_box:
            arguments["box"] = np.array([prompt.box for prompt in prompts])
        ambiguous = _is_ambiguous((points, has_box))
        result = self._predictor.predict(**arguments, multimask_output=ambiguous)
        best = result.best()
        return [
            entry(result.masks[row, index], prompt.name, float(score))
            for row, (prompt, index, score) in enumerate(
                zip(prompts, best.index, best.iou_prediction, strict=True)
            )
        ]


def _form(prompt: Prompt) -> tuple[int, bool]:
    return len(prompt.points), prompt.box is not None


def _is_ambiguous(form: tuple[int, bool]) -> bool:
    """Tell whether prompts of a form get three masks each, of which the best is taken."""
    return form == (1, False)


class _Texts:
    """All instances of texts."""

    def __init__(self, job: Job, model: Model) -> None:
        self._predictor = ConceptPredictor(model, num_threads=job.threads)
        self._texts, self._threshold = job.texts, job.threshold

    def find(self, item: Item, image: NDArray[np.uint8]) -> Masks:
        texts = list(self._texts if item.texts is None else item.texts)
        if not texts:
            return []
        found = self._predictor.predict(image, text=texts, threshold=self._threshold)
        return [
            entry(mask, texts[label], float(score))
            for mask, label, score in zip(found.masks, found.labels, found.scores, strict=True)
        ]
