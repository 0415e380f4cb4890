"""``sam-rlx parity``: a checkpoint through Meta's PyTorch code and through ours."""

import argparse
from pathlib import Path
from typing import Any

from sam_rlx.apps.cli import common
from sam_rlx.apps.cli.common import Unfulfilled, UsageError, tell
from sam_rlx.errors import InvalidArgumentError

_EXAMPLES = """examples:
  sam-rlx parity sam2.1_hiera_tiny.pt --image cup.jpg
  sam-rlx parity sam3-nano --stage text --text "red cup" --json report.json --junit report.xml
"""


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "parity",
        help="compare a checkpoint with Meta's PyTorch code",
        description="Run a checkpoint through Meta's PyTorch code and through this library, and "
        "compare every layer, then masks and scores. Needs the extra `parity`. Exit status: 0 the "
        "same, 1 different or failed, 2 wrong usage.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", metavar="MODEL", help="checkpoint, hub id or packaged model")
    common.add_key_argument(parser)
    common.add_lora_argument(parser)
    parser.add_argument(
        "--image",
        action="append",
        metavar="IMAGE",
        help="an image file; may be repeated (default: a photograph of the package)",
    )
    parser.add_argument(
        "--clip",
        metavar="CLIP",
        help="a video file or a folder of images for the stages of videos (default: the images, "
        "moving)",
    )
    parser.add_argument(
        "--reference",
        choices=("auto", "meta", "transformers"),
        default="auto",
        help="what to compare with (default: Meta's package, or transformers where it alone is "
        "installed)",
    )
    parser.add_argument(
        "--reference-checkpoint", metavar="FILE", help="weights of the reference (default: MODEL)"
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16", "int8"),
        default="float32",
        help="in which this library computes (default: float32)",
    )
    parser.add_argument(
        "--stage", action="append", metavar="STAGE", help="only this stage; may be repeated"
    )
    parser.add_argument(
        "--text", default="the object", help="what the stages `text` and `video_text` look for"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="X",
        help="largest difference of a layer in parts of its largest value (default: four times "
        "the error of PyTorch's float32)",
    )
    parser.add_argument(
        "--threads", type=common.threads, metavar="N", help="threads (default: all cores)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit file")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with images")
    common.add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    from sam_rlx import parity

    _check_outputs(args)
    try:
        report = parity.check(
            args.checkpoint,
            args.image,
            clip=args.clip,
            reference=args.reference,
            reference_checkpoint=args.reference_checkpoint,
            precision=args.precision,
            stages=args.stage or "all",
            text=args.text,
            tolerance=args.tolerance,
            num_threads=args.threads,
            key=args.key,
            lora=args.lora,
            progress=True,
        )
    except InvalidArgumentError as error:
        raise UsageError(str(error)) from error
    for path, write in (
        (args.json, report.write_json),
        (args.junit, report.write_junit),
        (args.html, report.write_html),
    ):
        if path is not None:
            write(path)
    for line in str(report).splitlines():
        tell(line)
    if not report.same:
        raise Unfulfilled(report.verdict)


def _check_outputs(args: argparse.Namespace) -> None:
    """Raise `UsageError`, before the work, for a report that would replace another file."""
    given = [args.checkpoint, args.reference_checkpoint, args.lora, args.clip, *(args.image or [])]
    taken = [Path(source) for source in given if source is not None]
    for option in ("json", "junit", "html"):
        path = getattr(args, option)
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"--{option}: expected a file, found the folder {path}")
        if any(common.is_same_file(path, other) for other in taken):
            raise UsageError(
                f"--{option}: expected another file than inputs and other reports, found {path}"
            )
        common.refuse_foreign(f"--{option}", path, overwrite=args.overwrite)
        taken.append(path)
