"""``sam-rlx segment`` with phrases and examples: everything that they describe."""

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _options, io, viz
from sam_rlx._concept_types import ConceptPrediction
from sam_rlx.cli.common import Outputs, UsageError
from sam_rlx.concept import ConceptPredictor
from sam_rlx.model import Model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of phrases and examples."""
    group = parser.add_argument_group("phrases and examples (SAM 3)")
    group.add_argument(
        "--text",
        action="append",
        default=[],
        metavar="PHRASE",
        help="find everything that the phrase names; may be repeated. Boxes and points are "
        "examples then",
    )
    group.add_argument(
        "--box-label",
        action="append",
        default=[],
        type=int,
        choices=(0, 1),
        metavar="LABEL",
        help="makes the boxes examples: 1 of what is meant, 0 of what is not; one for each --box",
    )
    threshold = _threshold()
    group.add_argument(
        "--threshold",
        type=float,
        default=threshold["default"],
        metavar="SCORE",
        help=f"{threshold['help']} (default {threshold['default']})",
    )


def _threshold() -> dict[str, Any]:
    return _options.describe("concept", "sam3")["threshold"]


def is_asked_for(args: argparse.Namespace) -> bool:
    """Whether the command is about phrases or examples, and not about single objects."""
    return bool(args.text or args.box_label)


def check(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that do not go together."""
    if args.mask or args.multimask:
        raise UsageError("expected no --mask and --multimask beside --text and --box-label")
    if args.box_label and len(args.box_label) != len(args.box):
        raise UsageError(
            f"expected one --box-label for each --box, found {len(args.box_label)} for "
            f"{len(args.box)}"
        )
    if expected := _options.outside(_threshold(), args.threshold):
        raise UsageError(f"--threshold: expected {expected}, found {args.threshold:g}")


def run(args: argparse.Namespace, outputs: Outputs, model: Model, image: NDArray[np.uint8]) -> None:
    """Run the command."""
    if not model.supports_text:
        raise UsageError(
            f"--text and --box-label: expected a checkpoint of SAM 3 as --model, found {args.model}"
        )
    prompts = _prompts(args)
    if args.dry:
        outputs.say(f"would use {', '.join(prompts)} and write {outputs.files() or 'nothing'}")
        return
    predictor = ConceptPredictor(model, num_threads=args.threads)
    start = time.perf_counter()
    predictor.set_image(image)
    middle = time.perf_counter()
    found = predictor.predict(**prompts, threshold=args.threshold)
    end = time.perf_counter()
    outputs.say(f"encoded in {middle - start:.2f} s, prompts in {end - middle:.2f} s")
    _report(args, outputs, image, found)


def _prompts(args: argparse.Namespace) -> dict[str, Any]:
    prompts: dict[str, Any] = {}
    if args.text:
        prompts["text"] = args.text
    if args.box:
        prompts["boxes"] = args.box
    if args.box_label:
        prompts["box_labels"] = args.box_label
    if args.point:
        prompts["point_coords"] = [point[:2] for point in args.point]
        prompts["point_labels"] = [point[2] for point in args.point]
    return prompts


def _report(
    args: argparse.Namespace, outputs: Outputs, image: NDArray[np.uint8], found: ConceptPrediction
) -> None:
    phrases = [str(phrase) for phrase in found.phrases]
    for label, phrase in enumerate(phrases):
        outputs.say(f"found {np.count_nonzero(found.labels == label)} of {phrase!r}")
    for index, (name, score) in enumerate(zip(found.names, found.scores, strict=True)):
        share = 100.0 * found.masks[index].mean()
        outputs.say(f"mask {index}: {name}, score {score:.3f}, {share:.1f} % of the image")
    examples = {key: value for key, value in _prompts(args).items() if key != "text"}
    described = {"file_name": args.image.name, "height": image.shape[0], "width": image.shape[1]}
    annotations = [
        io.coco_annotation(
            mask, category_id=int(label) + 1, phrase=phrases[label], score=float(score)
        )
        for mask, label, score in zip(found.masks, found.labels, found.scores, strict=True)
    ]
    arrays = {
        "masks": found.masks,
        "boxes_xyxy": found.boxes,
        "scores": found.scores,
        "labels": found.labels,
        "phrases": np.array(phrases),
        "low_res_masks": found.low_res_masks,
    }
    outputs.write(
        viz.overlay_concepts(image, found, **examples),
        list(found.masks),
        io.coco_document(described, annotations, phrases),
        arrays,
    )
