"""``sam-rlx segment`` with texts and examples: everything that they describe."""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import viz
from sam_rlx._internal import options
from sam_rlx._internal.progress import terminal_clock
from sam_rlx._internal.results import instances_of
from sam_rlx._internal.weights.sources import PACKAGED
from sam_rlx.apps.batch import examples
from sam_rlx.apps.cli import clicks, generator_options, tiles
from sam_rlx.apps.cli.common import UsageError, utf8
from sam_rlx.apps.cli.images import Say
from sam_rlx.apps.cli.outputs import Found
from sam_rlx.concept import ConceptPrediction, ConceptPredictor
from sam_rlx.model import Model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of texts and examples."""
    group = parser.add_argument_group("texts and examples (SAM 3)")
    add_text_arguments(
        group,
        "find everything that the text names; may be repeated. Boxes and points are examples then",
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
    add_examples_arguments(group)


def add_examples_arguments(parser: argparse._ActionsContainer) -> None:
    """Add ``--examples`` and ``--no-example-positions``."""
    parser.add_argument(
        "--examples",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="examples on other images, for all texts (SAM 3, which was not trained for it): a "
        "COCO document, whose boxes of one category show what is meant, or a file of "
        "ConceptExamples.save; may be repeated",
    )
    parser.add_argument(
        "--no-example-positions",
        dest="example_positions",
        action="store_false",
        help="leave out where the boxes of such documents are and how large",
    )


def add_text_arguments(parser: argparse._ActionsContainer, text_help: str) -> None:
    """Add ``--text``, ``--threshold`` and ``--no-presence``."""
    parser.add_argument(
        "--text", type=utf8, action="append", default=[], metavar="TEXT", help=text_help
    )
    threshold = _threshold()
    parser.add_argument(
        "--threshold",
        type=float,
        default=threshold["default"],
        metavar="SCORE",
        help=f"{threshold['help']} (default {threshold['default']})",
    )
    parser.add_argument(
        "--no-presence",
        dest="presence",
        action="store_false",
        help="scores of instances alone, without that of any being there at all",
    )


def _threshold() -> dict[str, Any]:
    return options.describe("concept", "sam3")["threshold"]


def is_asked_for(args: argparse.Namespace) -> bool:
    """Whether the command is about texts or examples, and not about single objects."""
    return bool(args.text or args.box_label or args.examples)


def check(args: argparse.Namespace) -> None:
    """Raise `UsageError` for options that do not go together."""
    if args.tile is not None and (args.box or args.point or args.box_label):
        raise UsageError("--tile: expected --text alone, found examples, which lie in one tile")
    if args.mask or args.multimask or args.hq_token_only:
        raise UsageError(
            "expected no --mask and --multimask, and no --hq-token-only, beside --text, "
            "--box-label and --examples"
        )
    if args.box_label and len(args.box_label) != len(args.box):
        raise UsageError(
            f"expected one --box-label for each --box, found {len(args.box_label)} for "
            f"{len(args.box)}"
        )
    if expected := options.outside(_threshold(), args.threshold):
        raise UsageError(f"--threshold: expected {expected}, found {args.threshold:g}")


class ConceptFinder:
    """All that texts and examples describe."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._prompts: dict[str, Any] = {}
        if args.text:
            self._prompts["text"] = args.text
        if args.box:
            self._prompts["boxes"] = args.box
        if args.box_label:
            self._prompts["box_labels"] = args.box_label
        if args.point:
            self._prompts["point_coords"] = [point[:2] for point in args.point]
            self._prompts["point_labels"] = [point[2] for point in args.point]

    def check(self, hw: tuple[int, int]) -> None:
        """Refuse examples outside of the image."""
        clicks.check_points(self._args.point, hw)
        clicks.check_boxes(self._args.box, hw)

    def prepare(self, model: Model) -> None:
        """Take the model, which must know texts."""
        if not model.supports_text:
            raise UsageError(
                "--text, --box-label and --examples: expected a checkpoint of SAM 3 as --model, "
                f"found {self._args.model}"
            )
        self._packaged = model.variant in PACKAGED
        self._predictor = ConceptPredictor(model, num_threads=self._args.threads)
        self._options: dict[str, Any] = {
            "threshold": self._args.threshold,
            "presence": self._args.presence,
        }
        self._options |= generator_options.region_area(self._args)
        if self._args.examples:
            self._options["examples"] = examples.encode(
                self._predictor, self._args.examples, positions=self._args.example_positions
            )

    def task(self) -> str:
        """Tell the first prompt and their number."""
        texts = self._args.text
        if not texts:
            files = ", ".join(str(path) for path in self._args.examples)
            return f"examples: {clicks.described(self._args) or files}"
        more = f" (the first of {len(texts)})" if len(texts) > 1 else ""
        return f"text {texts[0]!r}{more}"

    def arguments(self) -> dict[str, Any]:
        """Return the prompts, with what files of examples hold, and the threshold."""
        found = {**self._prompts, **self._options}
        if self._args.examples:
            found["examples"] = [examples.digests(path) for path in self._args.examples]
            found["example_positions"] = self._args.example_positions
        return found

    def plan(self) -> str:
        """Name the prompts."""
        return f"use {', '.join([*self._prompts, *(['examples'] if self._args.examples else [])])}"

    def find(self, image: tiles.Image, say: Say) -> Found:
        """Find all instances."""
        prompts = {**self._prompts, **self._options}
        start = time.perf_counter()
        if isinstance(image, np.ndarray):
            with terminal_clock("encoding"):
                self._predictor.set_image(image)
            middle = time.perf_counter()
            with terminal_clock("finding"):
                found = self._predictor.predict(**prompts)
            end = time.perf_counter()
            say(f"encoded in {middle - start:.2f} s, prompts in {end - middle:.2f} s")
        else:
            prompts.update(tiles.given(self._args))
            found = self._predictor.predict(image, **prompts, progress=True)
            say(f"tiles in {time.perf_counter() - start:.2f} s")
        return self._found(image, found, say)

    def _found(self, image: tiles.Image, found: ConceptPrediction, say: Say) -> Found:
        texts = [str(text) for text in found.texts]
        counts = [int(np.count_nonzero(found.labels == label)) for label in range(len(texts))]
        for count, text in zip(counts, texts, strict=True):
            say(f"found {count} of {text!r}")
        for index, (name, score) in enumerate(zip(found.names, found.scores, strict=True)):
            share = 100.0 * found.masks[index].mean()
            say(f"mask {index}: {name}, score {score:.3f}, {share:.1f} % of the image")
        shown = {key: value for key, value in self._prompts.items() if key != "text"}
        return Found(
            lambda: viz.overlay_concepts(tiles.whole(image), found, **shown),
            lambda: found.masks,
            [
                replace(one, fields={"category_id": int(label) + 1, "text": one.name})
                for one, label in zip(instances_of("found", found), found.labels, strict=True)
            ],
            lambda: {
                "masks": found.masks,
                "boxes_xyxy": found.boxes,
                "scores": found.scores,
                "labels": found.labels,
                "texts": np.array(texts),
                "low_res_masks": found.low_res_masks,
            },
            ", ".join(f"{count} of {text!r}" for count, text in zip(counts, texts, strict=True)),
            "" if len(found.scores) else self._hint(),
            texts,
        )

    def _hint(self) -> str:
        few = "; a packaged model knows few words, see its model card" if self._packaged else ""
        return (
            f"found nothing with a score above {self._args.threshold:g}: a lower --threshold keeps "
            f"more, and another word or a --box as example may fit better{few}"
        )
