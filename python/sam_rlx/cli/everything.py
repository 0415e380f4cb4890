"""``sam-rlx everything``: masks for all objects of an image."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import _options, io, viz
from sam_rlx.cli import common
from sam_rlx.cli.common import Outputs, UsageError
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.generator import MaskGenerator

_OPTIONS = (
    "points_per_side",
    "points_per_batch",
    "pred_iou_thresh",
    "stability_score_thresh",
    "box_nms_thresh",
    "crop_n_layers",
    "min_mask_region_area",
)
_EXAMPLES = """examples:
  sam-rlx everything street.jpg --model sam_vit_b_01ec64.pth --output street_overlay.png
  sam-rlx everything street.jpg --points-per-side 16 --pred-iou-thresh 0.6 \\
      --stability-score-thresh 0.8 --json street.json
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "everything",
        help="masks for all objects of an image",
        description="Find masks for everything on an image, from a grid of points. The defaults "
        "are upstream's; the packaged sam-nano needs lower thresholds.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="image file")
    common.add_model_arguments(parser)
    options = _options.describe("generator", "sam")
    for name in _OPTIONS:
        default, low = options[name]["default"], options[name]["min"]
        whole = common.positive if low else int
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=whole if isinstance(default, int) else float,
            default=default,
            metavar="N",
            help=f"{options[name]['help']} ({default})",
        )
    common.add_output_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    outputs = Outputs(args)
    image = io.read_image(args.image)
    height, width = image.shape[:2]
    model = common.load(args, outputs)
    try:
        generator = MaskGenerator(
            model,
            **{name: getattr(args, name) for name in _OPTIONS},
            num_threads=args.threads,
        )
    except InvalidArgumentError as error:
        raise UsageError(str(error)) from error
    outputs.say(f"image {args.image}: {width} x {height} pixels")
    if args.dry:
        outputs.say(
            f"would ask {args.points_per_side**2} points and write {outputs.files() or 'nothing'}"
        )
        return
    start = time.perf_counter()
    records = generator.generate(image, progress=True)
    outputs.say(f"found {len(records)} masks in {time.perf_counter() - start:.2f} s")
    masks = [record.mask() for record in records]
    described = {"file_name": args.image.name, "height": height, "width": width}
    arrays = {
        "masks": np.asarray(masks, np.bool_).reshape(-1, height, width),
        "iou_predictions": np.asarray([r.predicted_iou for r in records], np.float32),
        "stability_scores": np.asarray([r.stability_score for r in records], np.float32),
        "boxes_xywh": np.asarray([r.bbox for r in records], np.float32).reshape(-1, 4),
    }
    document = io.coco_document(described, [record.to_coco() for record in records])
    outputs.write(viz.overlay_records(image, records), masks, document, arrays)
