"""Options of everything mode."""

import argparse
from typing import Any

from sam_rlx._internal import options as _options
from sam_rlx.apps.cli import common

_OPTIONS = (
    "points_per_side",
    "points_per_batch",
    "pred_iou_thresh",
    "stability_score_thresh",
    "box_nms_thresh",
    "crop_n_layers",
    "min_mask_region_area",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an option for each argument of the generator that the command line offers."""
    options = _options.describe("generator", "sam")
    for name in _OPTIONS:
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=common.number_of(options[name]),
            metavar="N",
            help=f"{options[name]['help']} {_options.default_text('generator', name)}",
        )
    parser.add_argument(
        "--objects-only",
        action="store_true",
        default=None,
        help="one mask for each object, for counting: no parts, no unions, no ground",
    )


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Return those options that were given, as arguments of `MaskGenerator`."""
    values = {name: getattr(args, name) for name in (*_OPTIONS, "objects_only")}
    return {name: value for name, value in values.items() if value is not None}
