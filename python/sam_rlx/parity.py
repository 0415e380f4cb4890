"""The same checkpoint through Meta's PyTorch code and through ours (extra ``parity``).

`check` runs both and compares every layer that both have, then masks and scores. The report names
the first layer that differs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.arrays.checks import as_items, as_number
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.weights.sources import find_checkpoint
from sam_rlx.apps.parity import choice, networks, schema
from sam_rlx.apps.parity import stages as stage_module
from sam_rlx.apps.parity.comparison import Key, compared
from sam_rlx.apps.parity.measure import BOUNDS, Layer, Masks
from sam_rlx.apps.parity.report import Report
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model, load_model

__all__ = ["SCHEMA", "Layer", "Masks", "Report", "check"]

SCHEMA: dict[str, Any] = schema.SCHEMA
"""The JSON Schema (draft 2020-12) of the files that `Report.write_json` writes."""


@also(model="checkpoint", frames="clip")
def check(
    checkpoint: str | os.PathLike[str] | Model,
    images: Any = None,
    *,
    clip: Any = None,
    reference: choice.Choice = "auto",
    reference_checkpoint: str | os.PathLike[str] | None = None,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
    stages: Literal["all"] | Sequence[str] = "all",
    text: str = stage_module.TEXT,
    tolerance: float | None = None,
    num_threads: int | None = None,
    key: str | None = None,
    lora: str | os.PathLike[str] | None = None,
    progress: bool | Progress = False,
) -> Report:
    """Run a checkpoint through the reference and through ours, and compare.

    Parameters
    ----------
    checkpoint : str, path or Model
        A checkpoint file or folder, a hub id, or a packaged model such as ``"sam2-nano"``.
    images : path, ndarray or sequence of them, optional
        Image files, or uint8 (H, W, 3) RGB. Default: a photograph of the package.
    clip : path, array or sequence of images, optional
        What the stages of videos run on, as `VideoPredictor` takes it; its first eight frames.
        Default: each image moves through four frames.
    reference : {"auto", "meta", "transformers"}
        ``meta``: Meta's packages ``segment-anything``, ``sam2`` or ``sam3``, by the family.
        ``transformers``: its classes; `Report.notes` names where these differ from Meta's code by
        design, and what is not compared for that. ``auto``: Meta's where it is installed.
    reference_checkpoint : str or path, optional
        Another file with the weights for the reference. Default: the same.
    precision : {"float32", "bfloat16", "int8"}
        In which ours computes. Bounds of reduced precisions are wider, and are against PyTorch's
        float32: `sam_rlx.apps.parity.measure.BOUNDS`.
    stages : "all" or sequence of str
        Of SAM and SAM 2: ``image``, ``point``, ``box``, ``mask``, ``everything``; of SAM 3:
        ``image``, ``point``, ``box``, ``mask``, ``text``, ``example``. Of SAM 2 and SAM 3 also
        ``video``: what is in the middle of the first frame of the clip; of SAM 3 ``video_text``:
        all that a text names on it.
    text : str
        What ``text`` and ``video_text`` look for.
    tolerance : float, optional
        Bound of each layer's largest difference, in parts of its largest value. Default: four
        times the error of PyTorch's float32 against float64, which is run for this; where memory
        is too small for float64, 0.001.
    num_threads : int, optional
        Of ours. Default: the cores this process may use.
    key : str, optional
        Which of several models in the checkpoint, as `load_model` takes it.
    lora : str or path, optional
        Adapter that is merged into the weights of both sides, as `load_model` takes it; with
        `reference_checkpoint` into ours alone.
    progress : bool or callable
        A callable gets (steps done, steps to do) after each. True shows a bar on a terminal and in
        Jupyter if ``tqdm`` is installed, else nothing.

    Returns
    -------
    Report
        `Report.same` tells whether all is within the bounds.

    Raises
    ------
    MissingExtraError
        PyTorch or the reference's package is not installed.
    UnsupportedError
        The reference has no such network.
    InvalidArgumentError
        A stage, a precision, a tolerance or an image is not valid, or a clip has no stage.
    CheckpointError
        The file is damaged, or the adapter does not fit.
    """
    if not isinstance(precision, str) or precision not in BOUNDS:
        raise InvalidArgumentError(
            f"precision: expected one of {list(BOUNDS)}, found {shown(precision)}"
        )
    bound = None if tolerance is None else as_number("tolerance", tolerance, 0)
    model = _model(checkpoint, precision, key, lora)
    kind = choice.reference_of(model, reference)
    chosen = _stages(stages, kind.stages)
    inputs = _inputs(_images(images), clip, chosen)
    network = kind(model, _reference_weights(model, reference_checkpoint))
    with reporter(progress, "stage") as report:
        return compared(model, network, inputs, text, bound, num_threads, report)


def _model(
    checkpoint: Any,
    precision: Literal["float32", "bfloat16", "int8"],
    key: str | None,
    lora: str | os.PathLike[str] | None,
) -> Model:
    if not isinstance(checkpoint, Model):
        given: Any = None if precision == "float32" else precision
        return load_model(checkpoint, precision=given, key=key, lora=lora)
    if precision not in ("float32", checkpoint.precision):
        raise InvalidArgumentError(
            f"precision: expected that of the model, {checkpoint.precision!r}, found {precision!r}"
        )
    for name, value in (("key", key), ("lora", lora)):
        if value is not None:
            raise InvalidArgumentError(
                f"{name}: expected none for a loaded model, found {shown(value)}"
            )
    return checkpoint


def _reference_weights(
    model: Model, reference_checkpoint: str | os.PathLike[str] | None
) -> networks.Weights:
    if reference_checkpoint is None:
        return networks.read_weights(model.source, model.key, model.lora)
    return networks.read_weights(str(find_checkpoint(reference_checkpoint)))


def _images(images: Any) -> dict[str, NDArray[np.uint8]]:
    if images is None:
        images = Path(__file__).parent / "assets" / "coffee.jpg"
    many = images if isinstance(images, list | tuple) else [images]
    if not many:
        raise InvalidArgumentError("images: expected at least one, found none")
    found = {}
    for number, image in enumerate(many):
        if isinstance(image, str | os.PathLike):
            found[f"{number}: {Path(image).name}"] = io.read_image(image)
        else:
            found[f"{number}: array"] = as_rgb(image)
    return found


def _inputs(
    images: dict[str, NDArray[np.uint8]], clip: Any, stages: Sequence[str]
) -> dict[Key, NDArray[np.uint8]]:
    """Return by image and stage what it runs on: an image, or frames (T, H, W, 3)."""
    videos = [stage for stage in stages if stage in stage_module.CLIPS]
    found = {}
    for name, image in images.items():
        found.update({(name, stage): image for stage in stages if stage not in videos})
        if clip is None and videos:
            found.update(
                dict.fromkeys(((name, each) for each in videos), stage_module.moving(image))
            )
    if clip is not None and not videos:
        raise InvalidArgumentError(
            f"clip: expected one of the stages {list(stage_module.CLIPS)}, found {list(stages)}"
        )
    if clip is not None:
        name = Path(clip).name if isinstance(clip, str | os.PathLike) else "clip"
        found.update(dict.fromkeys(((name, each) for each in videos), stage_module.read_clip(clip)))
    return found


def _stages(stages: str | Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    if stages == "all":
        return tuple(known)
    wanted = [stages] if isinstance(stages, str) else as_items("stages", stages)
    if not wanted:
        raise InvalidArgumentError(f"stages: expected some of {list(known)}, found none")
    for stage in wanted:
        if stage not in known:
            raise InvalidArgumentError(f"stages: expected some of {list(known)}, found {stage!r}")
    if set(wanted) & set(stage_module.CLICKS):
        wanted.append("image")
    return tuple(stage for stage in known if stage in wanted)


__dir__ = public_names(__name__)
