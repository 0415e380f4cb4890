"""``sam-rlx segment``: masks for points, boxes or a mask, or for what a phrase names."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io, viz
from sam_rlx.cli import common, concepts
from sam_rlx.cli.common import Outputs, UsageError
from sam_rlx.image import ImagePredictor, MaskPrediction
from sam_rlx.model import Model

_PACKAGED = ("sam-nano", "sam3-nano")
_EXAMPLES = """examples:
  sam-rlx segment cup.jpg --point 300,120 --output cup_overlay.png
  sam-rlx segment cup.jpg --box 160,20,420,330 --point 390,60,0 --json cup.json
  sam-rlx segment street.jpg --model sam_vit_b_01ec64.pth --box 10,20,90,80 --box 200,30,260,99 \\
      --output results/
  sam-rlx segment street.jpg --model sam3.pt --text "yellow taxi" --text person --output found.png
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "segment",
        help="masks for points, boxes, a mask or phrases on an image",
        description="Segment what points, boxes or a mask show on an image. Points, a mask and "
        "one box together describe one object; several boxes are several objects. With --text or "
        "--box-label, and a checkpoint of SAM 3, find everything that phrases and examples "
        "describe. Coordinates are pixels of the upright image (an EXIF orientation is applied).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("image", metavar="IMAGE", type=Path, help="image file")
    common.add_model_arguments(parser, *_PACKAGED)
    parser.add_argument(
        "--point",
        action="append",
        default=[],
        type=parse_point,
        metavar="X,Y[,LABEL]",
        help="a pixel of the object (label 1, default) or of its surroundings (label 0)",
    )
    parser.add_argument(
        "--box", action="append", default=[], type=parse_box, metavar="X0,Y0,X1,Y1", help="a box"
    )
    parser.add_argument(
        "--mask",
        type=Path,
        metavar="FILE",
        help="logits of an earlier mask: a file of --npz, whose best mask is taken, or a .npy file",
    )
    parser.add_argument(
        "--multimask", action="store_true", help="give three candidates; the overlay shows the best"
    )
    concepts.add_arguments(parser)
    common.add_output_arguments(parser)
    parser.set_defaults(run=run)


def _numbers(text: str, counts: tuple[int, ...], form: str) -> list[float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in counts or not np.isfinite(values).all():
        raise argparse.ArgumentTypeError(f"expected {form}, found {text!r}")
    return values


def parse_point(text: str) -> tuple[float, float, int]:
    """Argument type: X,Y or X,Y,LABEL."""
    x, y, label = [*_numbers(text, (2, 3), "X,Y or X,Y,LABEL"), 1.0][:3]
    if label not in (0.0, 1.0):
        raise argparse.ArgumentTypeError(f"expected label 1 or 0, found {text!r}")
    return x, y, int(label)


def parse_box(text: str) -> list[float]:
    """Argument type: X0,Y0,X1,Y1."""
    x0, y0, x1, y1 = _numbers(text, (4,), "X0,Y0,X1,Y1")
    if x1 < x0 or y1 < y0:
        raise argparse.ArgumentTypeError(f"expected X0 <= X1 and Y0 <= Y1, found {text!r}")
    return [x0, y0, x1, y1]


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    finds = concepts.is_asked_for(args)
    args.model = args.model or _PACKAGED[finds]
    if finds:
        concepts.check(args)
    elif not (args.point or args.box or args.mask):
        raise UsageError("expected --point, --box, --mask or --text, found none")
    elif len(args.box) > 1 and (args.point or args.mask):
        raise UsageError("expected several boxes alone, or points and a mask with at most one box")
    outputs = Outputs(args)
    image = io.read_image(args.image)
    height, width = image.shape[:2]
    for x, y, _ in args.point:
        if not (0 <= x < width and 0 <= y < height):
            raise UsageError(f"--point: expected a pixel of {width} x {height}, found {x:g},{y:g}")
    model = common.load(args, outputs)
    outputs.say(f"image {args.image}: {width} x {height} pixels")
    if finds:
        concepts.run(args, outputs, model, image)
    else:
        _run(args, outputs, model, image)


def _run(
    args: argparse.Namespace, outputs: Outputs, model: Model, image: NDArray[np.uint8]
) -> None:
    prompts = _prompts(args)
    if args.dry:
        outputs.say(f"would use {', '.join(prompts)} and write {outputs.files() or 'nothing'}")
        return
    predictor = ImagePredictor(model, num_threads=args.threads)
    start = time.perf_counter()
    predictor.set_image(image)
    middle = time.perf_counter()
    result = predictor.predict(multimask_output=args.multimask, **prompts)
    end = time.perf_counter()
    outputs.say(f"encoded in {middle - start:.2f} s, prompts in {1000 * (end - middle):.0f} ms")
    _report(args, outputs, image, result)


def _prompts(args: argparse.Namespace) -> dict[str, Any]:
    prompts: dict[str, Any] = {}
    if args.point:
        prompts["point_coords"] = [point[:2] for point in args.point]
        prompts["point_labels"] = [point[2] for point in args.point]
    if args.box:
        prompts["box"] = args.box if len(args.box) > 1 else args.box[0]
    if args.mask:
        prompts["mask_input"] = _read_logits(args.mask)
    return prompts


def _read_logits(path: Path) -> NDArray[Any]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            low_res, iou = loaded["low_res_masks"], loaded["iou_predictions"]
        low_res = low_res.reshape(-1, *low_res.shape[-2:])
        logits: NDArray[Any] = low_res[int(iou.argmax())]
    except (ValueError, KeyError, EOFError, IndexError) as error:
        raise UsageError(f"--mask: expected mask logits in {path}, found {error}") from error
    return logits


def _report(
    args: argparse.Namespace, outputs: Outputs, image: NDArray[np.uint8], result: MaskPrediction
) -> None:
    masks, scores = common.flatten(result)
    for index, (mask, score) in enumerate(zip(masks, scores, strict=True)):
        share = 100.0 * mask.mean()
        outputs.say(f"mask {index}: predicted IoU {score:.3f}, {share:.1f} % of the image")
    per_set = result.masks.shape[-3]
    best = [
        first + int(np.argmax(scores[first : first + per_set]))
        for first in range(0, len(masks), per_set)
    ]
    overlay = viz.overlay(
        image,
        [masks[index] for index in best],
        point_coords=[point[:2] for point in args.point] if args.point else None,
        point_labels=[point[2] for point in args.point] if args.point else None,
        boxes=args.box or None,
    )
    described = {"file_name": args.image.name, "height": image.shape[0], "width": image.shape[1]}
    document = io.coco_document(described, common.annotations(masks, scores))
    arrays = {
        "masks": result.masks,
        "iou_predictions": result.iou_predictions,
        "low_res_masks": result.low_res_masks,
    }
    outputs.write(overlay, masks, document, arrays)
