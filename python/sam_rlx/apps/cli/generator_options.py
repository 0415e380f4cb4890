"""Options of everything mode."""

import argparse
from typing import Any

from sam_rlx._internal import options as _options
from sam_rlx.apps.cli import common

_REGION_AREA = "min_mask_region_area"
_HQ_TOKEN_ONLY = "hq_token_only"
_OPTIONS = (
    "points_per_side",
    "points_per_batch",
    "pred_iou_thresh",
    "stability_score_thresh",
    "box_nms_thresh",
    "crop_n_layers",
    _REGION_AREA,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add an option for each argument of the generator that the command line offers."""
    for name in _OPTIONS:
        _add(parser, name)
    parser.add_argument(
        "--objects-only",
        action="store_true",
        default=None,
        help="one mask for each object, for counting: no parts, no unions, no ground",
    )
    add_hq_token_only(parser)


def _add(parser: argparse.ArgumentParser, name: str) -> None:
    option = _options.describe("generator", "sam")[name]
    parser.add_argument(
        f"--{name.replace('_', '-')}",
        type=common.number_of(option),
        metavar="N",
        help=f"{option['help']} {_options.default_text('generator', name)}",
    )


def add_region_area(parser: argparse.ArgumentParser) -> None:
    """Add ``--min-mask-region-area``, which all predictors have."""
    _add(parser, _REGION_AREA)


def region_area(args: argparse.Namespace) -> dict[str, Any]:
    """Return it if it was given, as an argument of predictors."""
    value = getattr(args, _REGION_AREA)
    return {} if value is None else {_REGION_AREA: value}


def add_hq_token_only(parser: argparse.ArgumentParser) -> None:
    """Add ``--hq-token-only``, which predictors of images have."""
    parser.add_argument(
        "--hq-token-only",
        action="store_true",
        default=None,
        help="SAM-HQ, HQ-SAM 2: the mask of their own token alone, for images of one object",
    )


def hq_token_only(args: argparse.Namespace) -> dict[str, Any]:
    """Return it if it was given, as an argument of predictors."""
    return {_HQ_TOKEN_ONLY: True} if getattr(args, _HQ_TOKEN_ONLY) else {}


def given(args: argparse.Namespace) -> dict[str, Any]:
    """Return those options that were given, as arguments of `MaskGenerator`."""
    values = {name: getattr(args, name) for name in (*_OPTIONS, "objects_only", _HQ_TOKEN_ONLY)}
    return {name: value for name, value in values.items() if value is not None}
