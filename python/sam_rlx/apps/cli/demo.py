"""``sam-rlx demo``: the packaged image through the packaged model."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import io, viz
from sam_rlx._internal.media.image_writer import write_pixels
from sam_rlx._internal.progress import terminal_clock
from sam_rlx.apps.cli import common
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.image import ImagePredictor
from sam_rlx.model import load_model

# The image, and the click on it, that the demo shows: see assets/README.md.
IMAGE = Path(__file__).parents[2] / "assets" / "coins.jpg"
POINT = (346.0, 185.0)


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "demo",
        help="segment the packaged image and write an overlay",
        description="Segment an object of the packaged photograph by one click and write an "
        "overlay image. Needs no download.",
        epilog="example: sam-rlx demo --output demo.png",
    )
    common.add_model_arguments(parser)
    parser.add_argument(
        *common.OUTPUT,
        type=Path,
        default=Path("sam_rlx_demo.png"),
        metavar="FILE",
        help="overlay image (sam_rlx_demo.png)",
    )
    common.add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.output.suffix.lower() not in common.IMAGE_SUFFIXES:
        raise UsageError(
            f"--output: expected a suffix of {list(common.IMAGE_SUFFIXES)}, found {args.output}"
        )
    common.refuse_foreign("--output", args.output, overwrite=args.overwrite)
    image = io.read_image(IMAGE)
    start = time.perf_counter()
    with terminal_clock("loading"):
        model = load_model(args.model, **common.load_options(args))
    loaded = time.perf_counter()
    predictor = ImagePredictor(model, num_threads=args.threads)
    with terminal_clock("encoding"):
        predictor.set_image(image)
    encoded = time.perf_counter()
    result = predictor.predict(point_coords=[POINT], point_labels=[1])
    decoded = time.perf_counter()
    best = result.best()
    mask = result.masks[best.index]
    common.tell(f"{common.describe(model)}, loaded in {loaded - start:.2f} s")
    common.tell(
        f"{IMAGE.name}, {image.shape[1]} x {image.shape[0]}: encoded in {encoded - loaded:.2f} s"
    )
    common.tell(
        f"click at {POINT}: {len(result.masks)} masks in {1000 * (decoded - encoded):.0f} ms, best "
        f"has predicted IoU {best.iou_prediction:.3f}, {100.0 * np.mean(mask):.1f} % of the image"
    )
    overlay = viz.overlay(image, [mask], point_coords=[POINT], point_labels=[1])
    write_pixels(args.output, overlay, is_result=True)
    common.tell(f"wrote {args.output}")
