"""``sam-rlx export``: the work of a project in the form of another program."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.files.suffixes import images_of
from sam_rlx._internal.media.frames import open_frames
from sam_rlx.apps.annotator import exports
from sam_rlx.apps.annotator.exports.collect import Source, clip_work, image_work
from sam_rlx.apps.annotator.exports.work import Clip, Options, Still, Work
from sam_rlx.apps.annotator.history import History
from sam_rlx.apps.annotator.identity import relative
from sam_rlx.apps.annotator.store import FOLDER_PROJECT, load
from sam_rlx.apps.annotator.values import Item
from sam_rlx.apps.cli import common
from sam_rlx.apps.cli.common import UsageError

_EXAMPLES = """examples:
  sam-rlx export photos/ --form yolo --output dataset/
  sam-rlx export cup.jpg.sam_rlx.json --form coco --output cup/
"""
_RATE = 25.0  # frames a second of a clip that says none


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "export",
        help="the work of a project in the form of another program",
        description="Write what was made on the page or in a notebook as files of another "
        "program. The images are read where the form needs them.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument(
        "project",
        type=Path,
        metavar="PROJECT",
        help=f"a folder with {FOLDER_PROJECT}, or a project file",
    )
    parser.add_argument(
        "--form", required=True, choices=sorted(exports.FORMS), help="what is written"
    )
    parser.add_argument(
        *common.OUTPUT,
        type=Path,
        required=True,
        metavar="FOLDER",
        help="new folder, or a file that ends in .zip; it appears complete or not at all",
    )
    parser.add_argument(
        "--images",
        choices=("done", "some", "all"),
        default="some",
        help="images that are done, those with objects, or all (default: some)",
    )
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        metavar="NAME",
        help="write objects of this class alone; may be given several times",
    )
    parser.add_argument(
        "--tolerance",
        type=_not_negative,
        metavar="PIXELS",
        help="of outlines, which are written instead of run lengths then",
    )
    parser.add_argument(
        "--task",
        choices=("segment", "detect"),
        default="segment",
        help="masks, or boxes alone (default: segment)",
    )
    parser.add_argument(
        "--split",
        type=_part,
        metavar="PART",
        help="part of the images that is for validation, 0 to 1",
    )
    common.add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def _not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, found {text!r}")
    return value


def _part(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected 0 to 1, found {text!r}")
    return value


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    snapshot = args.project / FOLDER_PROJECT if args.project.is_dir() else args.project
    if not snapshot.is_file():
        raise UsageError(f"PROJECT: expected a project, found no file {snapshot}")
    history = load(snapshot).history
    folder = snapshot.parent
    clips = [one for one in history.project.items if one.kind == "clip"]
    options = Options(args.tolerance, args.task, args.split)
    if clips:
        work = _clip(history, clips[0], folder, args.classes)
    else:
        items = list(history.project.items)
        files = _files(folder) if snapshot.name == FOLDER_PROJECT else {}
        if args.images == "all":  # those too that nobody has opened yet
            known = {one.path for one in items}
            items += [Item(path, path) for path in files if path not in known]
        sources = [_source(item, files.get(item.path, folder / item.path)) for item in items]
        work = image_work(history.project, history.document, sources, args.images, args.classes)
    if not work.stills:
        raise UsageError(f"--images: expected some that are {args.images}, found none")
    written = exports.write(args.output, args.form, work, options, overwrite=args.overwrite)
    counted = common.counted(len(work.stills), "frame" if clips else "image")
    common.tell(f"wrote {written}: {counted}")


def _files(folder: Path) -> dict[str, Path]:
    """Return the images of a folder by the paths that its project has for them."""
    return {relative(path, folder): path for path in images_of(folder).files}


def _source(item: Item, path: Path) -> Source:

    def read() -> NDArray[np.uint8]:
        return io.read_image(path)

    def hw() -> tuple[int, int]:
        pixels = read()
        return pixels.shape[0], pixels.shape[1]

    return Source(item.key, item.path, hw, read, path if path.is_file() else None)


def _clip(history: History, item: Item, folder: Path, classes: list[str] | None) -> Work:
    hw = item.hw or (1, 1)
    path = folder / item.path
    source = open_frames(path) if path.exists() else None

    def read(frame: int) -> NDArray[np.uint8]:
        if source is None:
            raise FileNotFoundError(f"expected the clip of the project, found none at {path}")
        return source.read(frame)

    def clip(stills: tuple[Still, ...]) -> Clip:
        rate = float(getattr(source, "rate", _RATE))
        return Clip(item.path, hw, item.frames, rate, stills, item.key, read)

    document = history.document(item.key)
    return clip_work(history.project, document, clip, item.path, hw, read, classes)
