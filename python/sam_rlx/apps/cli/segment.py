"""``sam-rlx segment``: masks for points, boxes or a mask, or for what a text names."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import viz
from sam_rlx._internal.files.marks import digest
from sam_rlx._internal.progress import terminal_clock
from sam_rlx._internal.results import of_mask
from sam_rlx.apps.cli import (
    clicks,
    common,
    concepts,
    generator_options,
    images,
    inputs,
    mask_files,
    outputs,
    tiles,
)
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.apps.cli.images import Say
from sam_rlx.apps.cli.outputs import Found
from sam_rlx.image import ImagePredictor, MaskPrediction
from sam_rlx.model import Model

_PACKAGED = ("sam-nano", "sam3-nano")
_EMPTY = (
    "found nothing: every mask is empty. Try a point nearer to the middle of the object, a box "
    "around it, or --multimask"
)
_EXAMPLES = """examples:
  sam-rlx segment cup.jpg --point 300,120 --output cup_overlay.png
  sam-rlx segment cup.jpg --box 160,20,420,330 --point 390,60,0 --json cup.json
  sam-rlx segment street.jpg --model sam_vit_b_01ec64.pth --box 10,20,90,80 --box 200,30,260,99 \\
      --output results/
  sam-rlx segment street.jpg --model sam3.pt --text "yellow taxi" --text person --output found.png
  sam-rlx segment photos/ more/*.png --model sam3.pt --text person --output results/
  sam-rlx segment photos/ --model sam3.pt --text taxi --examples taxis.json --output results/
  sam-rlx segment scene.tif --model sam3.pt --text ship --tile 1024 --json ships.json
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "segment",
        help="masks for points, boxes, a mask or texts on an image",
        description="Segment what points, boxes or a mask show on an image. Points, a mask and "
        "one box together describe one object; several boxes are several objects. With --text, "
        "--box-label or --examples, and a checkpoint of SAM 3, find everything that texts and "
        "examples describe. Coordinates are pixels of the upright image (an EXIF orientation is "
        "applied). Several images get the same prompts, and each a directory of its name under "
        "--output.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    inputs.add_arguments(parser)
    common.add_model_arguments(parser, *_PACKAGED)
    clicks.add_arguments(parser)
    parser.add_argument("--mask", type=Path, metavar="FILE", help=mask_files.HELP)
    parser.add_argument(
        "--multimask",
        action="store_true",
        help="give three candidates (SAM-HQ: the best of three); the overlay shows the best",
    )
    concepts.add_arguments(parser)
    generator_options.add_region_area(parser)
    generator_options.add_hq_token_only(parser)
    tiles.add_arguments(parser)
    outputs.add_output_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    finds = concepts.is_asked_for(args)
    args.model = args.model or _PACKAGED[finds]
    if finds:
        concepts.check(args)
        images.run(args, concepts.ConceptFinder(args), args.examples)
        return
    if not (args.point or args.box or args.mask):
        raise UsageError("expected --point, --box, --mask or --text, or --examples, found none")
    if len(args.box) > 1 and (args.point or args.mask):
        raise UsageError("expected several boxes alone, or points and a mask with at most one box")
    if args.mask and args.tile is not None:
        raise UsageError("--mask: expected none beside --tile, found one")
    images.run(args, _PromptFinder(args), [args.mask] if args.mask else [])


class _PromptFinder:
    """Masks of the objects that points, boxes and a mask show."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._mask = None if args.mask is None else mask_files.read(args.mask)
        self._prompts: dict[str, Any] = {}
        if args.point:
            self._prompts["point_coords"] = [point[:2] for point in args.point]
            self._prompts["point_labels"] = [point[2] for point in args.point]
        if args.box:
            self._prompts["box"] = args.box if len(args.box) > 1 else args.box[0]

    def check(self, hw: tuple[int, int]) -> None:
        """Refuse prompts outside of the image."""
        clicks.check_points(self._args.point, hw)
        clicks.check_boxes(self._args.box, hw)

    def prepare(self, model: Model) -> None:
        """Take the model."""
        self._predictor = ImagePredictor(model, num_threads=self._args.threads)

    def task(self) -> str:
        """Tell the first prompt and their number."""
        return clicks.described(self._args) or f"mask {self._args.mask}"

    def arguments(self) -> dict[str, Any]:
        """Return the prompts."""
        args = self._args
        mask = None if args.mask is None else digest(args.mask)
        return {
            "point": args.point,
            "box": args.box,
            "mask": mask,
            "multimask": args.multimask,
            **generator_options.region_area(args),
            **generator_options.hq_token_only(args),
        }

    def plan(self) -> str:
        """Count the prompts."""
        given = (("point", self._args.point), ("box", self._args.box))
        parts = [common.counted(len(values), kind) for kind, values in given if values]
        return f"use {', '.join([*parts, *(['a mask'] if self._mask else [])])}"

    def find(self, image: tiles.Image, say: Say) -> Found:
        """Predict masks."""
        prompts = self._prompts | generator_options.region_area(self._args)
        prompts |= generator_options.hq_token_only(self._args)
        if self._mask is not None:
            hw = (image.shape[0], image.shape[1])
            prompts["mask_input"] = self._mask.as_logits(self._predictor.model, hw)
        prompts["multimask_output"] = self._args.multimask
        start = time.perf_counter()
        if isinstance(image, np.ndarray):
            with terminal_clock("encoding"):
                self._predictor.set_image(image)
            middle = time.perf_counter()
            result = self._predictor.predict(**prompts)
            end = time.perf_counter()
            say(f"encoded in {middle - start:.2f} s, prompts in {1000 * (end - middle):.0f} ms")
        else:
            prompts.update(tiles.given(self._args))
            result = self._predictor.predict(**prompts, image=image, progress=True)
            say(f"tiles in {time.perf_counter() - start:.2f} s")
        return self._found(image, result, say)

    def _found(self, image: tiles.Image, result: MaskPrediction, say: Say) -> Found:
        masks, scores = common.flatten(result)
        for index, (mask, score) in enumerate(zip(masks, scores, strict=True)):
            share = 100.0 * mask.mean()
            say(f"mask {index}: predicted IoU {score:.3f}, {share:.1f} % of the image")
        per_set = result.masks.shape[-3]
        best = [
            first + int(np.argmax(scores[first : first + per_set]))
            for first in range(0, len(masks), per_set)
        ]
        filled = sum(bool(mask.any()) for mask in masks)
        return Found(
            lambda: viz.overlay(
                tiles.whole(image),
                [masks[index] for index in best],
                point_coords=self._prompts.get("point_coords"),
                point_labels=self._prompts.get("point_labels"),
                boxes=self._args.box or None,
            ),
            lambda: masks,
            [
                of_mask(mask, score=score, fields={"predicted_iou": score})
                for mask, score in zip(masks, scores, strict=True)
            ],
            lambda: {
                "masks": result.masks,
                "iou_predictions": result.iou_predictions,
                "low_res_masks": result.low_res_masks,
            },
            common.counted(filled, "mask"),
            "" if filled else _EMPTY,
        )
