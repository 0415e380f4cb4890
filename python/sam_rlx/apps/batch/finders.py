"""Masks of one image: of everything, of prompts, of texts."""

import io as standard_io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core, io
from sam_rlx._internal.formats import coco
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.results import instances_of
from sam_rlx.apps.batch import examples
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
# An image that is read whole, or by windows for tiles.
Image = NDArray[np.uint8] | io.Windows


class Finder(Protocol):
    """What a task does with an image."""

    def find(self, item: Item, image: Image) -> Masks:
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


@contextmanager
def opened(item: Item, *, in_tiles: bool) -> Iterator[Image]:
    """Give the image of an item, after a check of its size if its prompts have one."""
    with ExitStack() as stack:
        image: Image
        if item.row is not None:
            group, row, column = item.row
            image = io.read_image(standard_io.BytesIO(read_bytes(item.path, group, row, column)))
        elif in_tiles:
            image = stack.enter_context(io.open_windows(item.path))
        else:
            image = io.read_image(item.path)
        check_size(item, (image.shape[0], image.shape[1]))
        yield image


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


def entry(instance: Instance, name: str, score: float, frame: int = 0) -> dict[str, Any]:
    """Return the entry of an object."""
    found = coco.annotation(instance)
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
        self._tiles = job.tiles

    def find(self, item: Item, image: Image) -> Masks:
        records = self._generator.generate(image, **self._tiles)
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
        self._tiles, self._options = job.tiles, job.options
        if job.options.get("hq_token_only") and not model.core.has_hq_token:
            raise InvalidArgumentError(
                "hq_token_only: expected false, or a model of SAM-HQ or HQ-SAM 2, found "
                f"{model.family} {model.variant}"
            )

    def find(self, item: Item, image: Image) -> Masks:
        check_prompts(item, (image.shape[0], image.shape[1]))
        if not item.prompts:
            return []
        given = {"image": image, **self._tiles} if self._tiles else {}
        if not given:
            self._predictor.set_image(image)
        by_number: dict[int, dict[str, Any]] = {}
        numbered = sorted(enumerate(item.prompts), key=lambda pair: _form(pair[1]))
        for form, same in groupby(numbered, key=lambda pair: _form(pair[1])):
            group = list(same)
            masks = 3 if _is_ambiguous(form) else 1
            size = max(
                1, min(_MAX_PROMPTS, _MAX_BYTES // (masks * image.shape[0] * image.shape[1]))
            )
            if given:  # each tile is encoded once a call, and masks are run lengths
                size = len(group)
            for first in range(0, len(group), size):
                some = group[first : first + size]
                found = self._predict([prompt for _, prompt in some], given)
                by_number.update(zip((number for number, _ in some), found, strict=True))
        return [by_number[number] for number in range(len(item.prompts))]

    def _predict(self, prompts: Sequence[Prompt], given: Mapping[str, Any]) -> Masks:
        """Predict prompts of one form in one call; `given` says which tiles of what."""
        arguments: dict[str, Any] = {**given, **self._options}
        points, has_box = _form(prompts[0])
        if points:
            arguments["point_coords"] = np.array([prompt.points for prompt in prompts])
            arguments["point_labels"] = np.array([prompt.labels for prompt in prompts])
        if has_box:
            arguments["box"] = np.array([prompt.box for prompt in prompts])
        ambiguous = _is_ambiguous((points, has_box))
        result = self._predictor.predict(**arguments, multimask_output=ambiguous)
        best = zip(prompts, instances_of("result", result), result.best()[1], strict=True)
        return [entry(instance, prompt.name, float(score)) for prompt, instance, score in best]


def _form(prompt: Prompt) -> tuple[int, bool]:
    return len(prompt.points), prompt.box is not None


def _is_ambiguous(form: tuple[int, bool]) -> bool:
    """Tell whether prompts of a form get three masks each, of which the best is taken."""
    return form == (1, False)


class _Texts:
    """All instances of texts."""

    def __init__(self, job: Job, model: Model) -> None:
        self._predictor = ConceptPredictor(model, num_threads=job.threads)
        self._texts = job.texts
        self._options = {"threshold": job.threshold, "presence": job.presence, **job.tiles}
        if job.examples:
            self._options["examples"] = examples.encode(
                self._predictor, map(Path, job.examples), positions=job.example_positions
            )

    def find(self, item: Item, image: Image) -> Masks:
        texts = list(self._texts if item.texts is None else item.texts)
        if not texts:
            return []
        found = self._predictor.predict(image, text=texts, **self._options)
        parts = zip(instances_of("found", found), found.labels, found.scores, strict=True)
        return [entry(instance, texts[label], float(score)) for instance, label, score in parts]
