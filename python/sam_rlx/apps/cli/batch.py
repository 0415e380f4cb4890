"""``sam-rlx batch``: many images and clips, into Parquet files."""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from sam_rlx import io
from sam_rlx._internal.files.marks import JSON_MARK
from sam_rlx.apps.cli import clicks, common, concepts, generator_options, outputs, tiles
from sam_rlx.apps.cli.common import Unfulfilled, UsageError
from sam_rlx.errors import InvalidArgumentError

_EXAMPLES = """examples:
  sam-rlx batch photos/ --output results/ --model sam2.1_hiera_tiny.pt
  sam-rlx batch coco.json --images train2017/ --output results/ --model sam_vit_b_01ec64.pth
  sam-rlx batch 'clips/*.mp4' --point 210,350 --output results/
  sam-rlx batch table.parquet --text "yellow taxi" --model sam3.pt --engine ray --output results/
  sam-rlx batch photos/ --text taxi --examples taxis.json --model sam3.pt --output results/
"""
_SHOWN = 20  # failures
_MARK = JSON_MARK["info"]


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "batch",
        help="many images and clips, into Parquet files",
        description="Segment many images and clips: everything, what prompts show, or, with SAM 3, "
        "what texts name. Results are rows of Parquet files with COCO RLE. A run that was "
        "interrupted or killed goes on where it was when the command is repeated.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    _add_inputs(parser)
    common.add_model_arguments(parser, "sam2-nano", "sam3-nano")
    clicks.add_arguments(parser, ", on images without own prompts")
    concepts.add_text_arguments(parser, "find everything that the text names (SAM 3)")
    concepts.add_examples_arguments(parser)
    generator_options.add_arguments(parser)
    tiles.add_arguments(parser)
    _add_work(parser)
    parser.set_defaults(run=run)


def _add_inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "images",
        metavar="INPUT",
        nargs="*",
        default=[],
        help="image, clip, folder with all below it, quoted pattern, @list.txt, Parquet table of "
        "paths or bytes, COCO document, or JSON list of views and named points",
    )
    parser.add_argument(
        "--list",
        action="append",
        default=[],
        metavar="FILE",
        help="inputs that a file names, one on each line; - reads standard input",
    )
    parser.add_argument(
        "--prompts",
        action="append",
        default=[],
        metavar="FILE",
        help="the same as INPUT, for a JSON document of images and prompts",
    )
    parser.add_argument(
        "--images",
        dest="folder",
        type=Path,
        metavar="DIR",
        help="where the images are that documents and tables name (default: beside them)",
    )
    parser.add_argument(
        *common.OUTPUT, type=Path, required=True, metavar="DIR", help="folder of results"
    )


def _add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="processes on this machine (default), or Ray",
    )
    for name, text in (
        ("workers", "processes (default: as many as fill the cores)"),
        ("block", "images in one Parquet file (default: by their number, at most 64)"),
        ("keep-every", "frames of a clip between two saves of its session (100)"),
    ):
        parser.add_argument(f"--{name}", type=common.positive, metavar="N", help=text)
    parser.add_argument(
        "--masks",
        action=argparse.BooleanOptionalAction,
        help="write a PNG for each mask (default: for views with named points)",
    )
    parser.add_argument(
        "--retry-failed", action="store_true", help="do images again that failed in earlier runs"
    )
    common.add_memory_rule_argument(parser)
    parser.add_argument("--json", metavar="FILE", help="write a summary; - prints it on stdout")
    parser.add_argument(
        "--coco",
        type=Path,
        metavar="FILE",
        help="write all masks as COCO JSON; a COCO document that is the only input keeps its "
        "numbers, names and categories",
    )
    outputs.add_polygons_argument(parser)
    common.add_overwrite_argument(parser)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    from sam_rlx import batch

    if args.json not in (None, "-"):
        common.refuse_foreign("--json", Path(args.json), overwrite=args.overwrite)
    common.refuse_foreign("--coco", args.coco, overwrite=args.overwrite)
    points = [point[:2] for point in args.point] or None
    try:
        result = batch.run(
            [*args.images, *args.prompts],
            args.output,
            model=args.model,
            **common.load_options(args),
            images=args.folder,
            lists=args.list,
            point_coords=points,
            point_labels=[point[2] for point in args.point] or None,
            boxes=args.box or None,
            text=args.text or None,
            threshold=args.threshold,
            examples=args.examples,
            example_positions=args.example_positions,
            options=generator_options.given(args),
            **tiles.given(args),
            memory_rule=args.memory_rule,
            masks=args.masks,
            engine=args.engine,
            workers=args.workers,
            num_threads=args.threads,
            block=args.block,
            keep_every=args.keep_every or 100,
            retry_failed=args.retry_failed,
            progress=True,
            tell=partial(common.tell, file=sys.stderr),
        )
    except InvalidArgumentError as error:  # of arguments; those of images are in the result
        raise UsageError(str(error)) from error
    if args.coco is not None:
        document = batch.to_coco(
            args.output, _only_document(args), images=args.folder, polygons=args.json_polygons
        )
        io.write_json(args.coco, {**document, "info": {**document.get("info", {}), **_MARK}})
    _tell(args, result)


def _only_document(args: argparse.Namespace) -> Path | None:
    """Return the COCO document that is the only input, None if there is another one."""
    given = [*args.images, *args.prompts]
    if len(given) != 1 or args.list or Path(given[0]).suffix.lower() != ".json":
        return None
    document = json.loads(Path(given[0]).read_text(encoding="utf-8-sig"))
    return Path(given[0]) if isinstance(document, dict) else None


def _tell(args: argparse.Namespace, result: Any) -> None:
    failures = [vars(failure) for failure in result.failures]
    document = JSON_MARK | {
        "out": str(result.output),
        "parts": [str(path) for path in result.parts],
        "items": result.items,
        "done_before": result.done_before,
        "failures": failures,
        "seconds": result.seconds,
        "notes": result.notes,
    }
    if args.json == "-":
        common.print_json(document)
    elif args.json is not None:
        io.write_json(args.json, document)
    for failure in result.failures[:_SHOWN]:
        common.complain("batch", failure.error)
    done = result.items - len(failures)
    line = (
        f"{done} of {common.counted(result.items, 'image')} done, {result.done_before} of them "
        f"before, in {result.seconds:.1f} s: {result.output / 'parts'}"
    )
    common.tell(line, sys.stderr if args.json == "-" else None)
    if failures:
        raise Unfulfilled(f"{len(failures)} failed; their rows have an error")
