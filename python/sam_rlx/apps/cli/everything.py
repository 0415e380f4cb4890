"""``sam-rlx everything``: masks for all objects of an image."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from sam_rlx import viz
from sam_rlx._internal import options
from sam_rlx._internal.results import instances_of
from sam_rlx.apps.cli import common, generator_options, images, inputs, outputs, tiles
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.apps.cli.images import Say
from sam_rlx.apps.cli.outputs import Found
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.generator import MaskGenerator, MaskRecord
from sam_rlx.model import Model

_EXAMPLES = """examples:
  sam-rlx everything street.jpg --model sam_vit_b_01ec64.pth --output street_overlay.png
  sam-rlx everything street.jpg --points-per-side 16 --pred-iou-thresh 0.6 \\
      --stability-score-thresh 0.8 --json street.json
  sam-rlx everything photos/ 'more/*.png' --output results/
  sam-rlx everything scene.tif --tile 1024 --overlap 128 --objects-only --json scene.json
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "everything",
        help="masks for all objects of an image",
        description="Find masks for everything on images, from a grid of points. The defaults are "
        "upstream's; the packaged models have lower thresholds. Of several images each gets a "
        "directory of its name under --output.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    inputs.add_arguments(parser)
    common.add_model_arguments(parser)
    generator_options.add_arguments(parser)
    tiles.add_arguments(parser)
    outputs.add_output_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    images.run(args, _EverythingFinder(args))


class _EverythingFinder:
    """Masks for all objects."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args

    def check(self, hw: tuple[int, int]) -> None:
        """Every image will do."""

    def prepare(self, model: Model) -> None:
        """Take the model, whose family decides what is not given."""
        defaults = options.defaults("generator", model.core)
        self._options = {**defaults, **generator_options.given(self._args)}
        try:
            self._generator = MaskGenerator(model, **self._options, num_threads=self._args.threads)
        except InvalidArgumentError as error:
            raise UsageError(str(error)) from error

    def task(self) -> str:
        """There is no prompt."""
        return "everything"

    def arguments(self) -> dict[str, Any]:
        """Return the options."""
        return self._options

    def plan(self) -> str:
        """Tell the number of points."""
        return f"ask {self._options['points_per_side'] ** 2} points"

    def find(self, image: tiles.Image, say: Say) -> Found:
        """Generate masks."""
        start = time.perf_counter()
        records = self._generator.generate(image, **tiles.given(self._args), progress=True)
        say(f"found {len(records)} masks in {time.perf_counter() - start:.2f} s")
        return Found(
            lambda: viz.overlay_records(tiles.whole(image), records),
            lambda: (record.mask() for record in records),
            instances_of("records", records),
            lambda: _arrays(records, (image.shape[0], image.shape[1])),
            common.counted(len(records), "mask"),
            "" if records else self._hint(),
        )

    def _hint(self) -> str:
        quality = self._options["pred_iou_thresh"]
        stability = self._options["stability_score_thresh"]
        return (
            f"found nothing: lower --pred-iou-thresh ({quality:g}) and --stability-score-thresh "
            f"({stability:g}) keep more masks, more --points-per-side find smaller objects"
        )


def _arrays(records: Sequence[MaskRecord], hw: tuple[int, int]) -> dict[str, Any]:
    masks = np.empty((len(records), *hw), np.bool_)
    for mask, record in zip(masks, records, strict=True):
        mask[:] = record.mask()
    boxes = [record.to_coco()["bbox"] for record in records]
    return {
        "masks": masks,
        "iou_predictions": np.asarray([r.predicted_iou for r in records], np.float32),
        "stability_scores": np.asarray([r.stability_score for r in records], np.float32),
        "boxes_xywh": np.asarray(boxes, np.float32).reshape(-1, 4),
    }
