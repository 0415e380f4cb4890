"""``sam-rlx track``: masks of objects through a video."""

import argparse
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sam_rlx._internal import options
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import ClipFrames, FolderFrames, FrameSource, open_frames
from sam_rlx._internal.progress import terminal_bar, terminal_clock
from sam_rlx.apps.cli import common, generator_options, mask_files
from sam_rlx.apps.cli.clicks import check_boxes, check_points, parse_box, parse_point, parse_range
from sam_rlx.apps.cli.common import Unfulfilled, UsageError
from sam_rlx.apps.cli.outputs import add_polygons_argument
from sam_rlx.apps.cli.track_outputs import UNNAMED, TrackOutputs
from sam_rlx.model import Model
from sam_rlx.video import VideoPredictor

_PACKAGED = ("sam2-nano", "sam3-nano")
_EXAMPLES = """examples:
  sam-rlx track clip.mp4 --model sam2.1_hiera_tiny.pt --point 210,350 --output results/
  sam-rlx track clip.mp4 --model sam2.1_hiera_tiny.pt --frame 12 --object cat --box 10,20,90,80 \\
      --object dog --point 300,200 --point 320,90,0 --json - > masks.json
  sam-rlx track clip.mp4 --model sam3.pt --text person --text "red car" --output tracked.mp4
"""
_RATE = 25.0
# Options of texts: scores of what confirms an object, and of what is a new one.
_KNOWN, _NEW = "score_threshold_detection", "new_det_thresh"
_EMPTY = (
    "found nothing: the objects are on no frame. Try a point nearer to the middle of the object, a "
    "box around it, or another --frame"
)
_EMPTY_TEXT = (
    "found nothing on any frame: a lower --threshold keeps more, and another word may fit better"
)


class _InOrder(argparse.Action):
    """Keep the order of prompts, objects and frames on the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        namespace.prompts = [*(namespace.prompts or []), (self.dest, values)]


def add_parser(commands: Any) -> None:
    """Add the sub-command to the parser."""
    parser = commands.add_parser(
        "track",
        help="masks of objects through a video",
        description="Follow objects through a video, from the first frame with a prompt to the "
        "end: those that clicks, boxes and masks show, or, with SAM 3, all that texts name. "
        "--object and --frame hold for the prompts after them; a single one of them holds for "
        "all prompts. Ctrl-C ends the files at the last finished frame.",
        epilog=_EXAMPLES,
        formatter_class=common.HelpFormatter,
    )
    parser.add_argument("video", metavar="VIDEO", type=Path, help="video file, or folder of frames")
    common.add_model_arguments(parser, *_PACKAGED)
    parser.set_defaults(prompts=None)
    for name, kind, metavar, text in (
        (
            "point",
            parse_point,
            "X,Y[,LABEL]",
            "a pixel of the object (1, default) or not (0)",
        ),
        ("box", parse_box, "X0,Y0,X1,Y1", "a box around the object"),
        ("mask", Path, "FILE", mask_files.HELP),
        ("text", str, "TEXT", "follow everything that the text names (SAM 3)"),
        ("object", str, "NAME", "the object of the prompts after this (default: 1)"),
        ("frame", _frame, "N", "the frame of the prompts after this, from 0 (default: 0)"),
    ):
        parser.add_argument(f"--{name}", type=kind, action=_InOrder, metavar=metavar, help=text)
    scores = options.describe("text", "sam3")
    parser.add_argument(
        "--threshold",
        type=common.number_of(options.describe("concept", "sam3")["threshold"]),
        metavar="SCORE",
        help="with --text: follow what is found with a score above it (default: "
        f"{scores[_NEW]['default']} for new objects, {scores[_KNOWN]['default']} to confirm them)",
    )
    common.add_memory_rule_argument(parser)
    generator_options.add_region_area(parser)
    parser.add_argument(
        "--channel",
        type=int,
        metavar="N",
        help="which channel of a TIFF stack with several, from 0",
    )
    parser.add_argument(
        "--range",
        type=parse_range,
        metavar="LOW,HIGH",
        help="values that become black and white in all frames, for volumes and frames of more "
        "than 8 bits: --range=-200,300",
    )
    parser.add_argument(
        "--max-frames", type=common.positive, metavar="N", help="stop after so many frames"
    )
    parser.add_argument(
        *common.OUTPUT,
        type=Path,
        metavar="DIR|FILE",
        help="video file (.mp4) with the masks drawn in; or a directory, which gets overlay.mp4, "
        "masks.json and masks/NAME_00000.png ...",
    )
    parser.add_argument("--json", metavar="FILE", help="write COCO JSON; - prints it")
    add_polygons_argument(parser)
    parser.add_argument("--masks", type=Path, metavar="DIR", help="write PNGs by frame and object")
    parser.add_argument(
        "--mattes",
        type=Path,
        metavar="DIR",
        help="write a folder for each object with a PNG for each frame, DIR/NAME/000000.png, ..., "
        "black where it is not seen: FFmpeg reads DIR/NAME/%%06d.png",
    )
    common.add_overwrite_argument(parser)
    parser.set_defaults(run=run)


def _frame(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a frame from 0 on, found {text}")
    return value


@dataclass
class _Prompts:
    """Prompts of single objects by frame and object, and texts with their frames."""

    objects: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    texts: list[tuple[int, str]] = field(default_factory=list)

    def check(self, count: int | None, hw: tuple[int, int]) -> None:
        """Raise an error for prompts that are outside of the video or of its frames."""
        for frame, _ in [*self.objects, *self.texts]:
            if count is not None and frame >= count:
                raise UsageError(f"--frame: expected 0 to {count - 1}, found {frame}")
        for group in self.objects.values():
            check_points(group["point"], hw)
            check_boxes([group["box"]] if "box" in group else [], hw)

    def mask_files(self) -> list[Path]:
        """Return the files of ``--mask``."""
        return [group["mask"].path for group in self.objects.values() if "mask" in group]

    def described(self) -> str:
        """Return the first prompt in words, and the number of objects and texts."""
        (_, name), group = next(iter(self.objects.items()), ((0, ""), {}))
        number = len({name for _, name in self.objects}) + len(self.texts)
        kinds = [kind for kind in ("point", "box", "mask") if group.get(kind)]
        first = f"text {self.texts[0][1]!r}" if not group else f"{' and '.join(kinds)} of {name!r}"
        return first + (f" (the first of {number})" if number > 1 else "")

    @property
    def first_frame(self) -> int:
        return min([frame for frame, _ in [*self.objects, *self.texts]])


def _grouped(prompts: list[tuple[str, Any]]) -> _Prompts:
    """Return the prompts by frame and object."""
    state: dict[str, Any] = {"frame": 0, "object": UNNAMED}
    for kind in state:
        given = [value for name, value in prompts if name == kind]
        if len(given) == 1:
            state[kind] = given[0]
    result = _Prompts()
    for kind, value in prompts:
        if kind in state:
            state[kind] = value
            continue
        if kind == "text":
            result.texts.append((state["frame"], value))
            continue
        group = result.objects.setdefault((state["frame"], state["object"]), {"point": []})
        if kind == "point":
            group["point"].append(value)
        elif kind in group:
            raise UsageError(f"--{kind}: expected one for each object and frame, found two")
        else:
            group[kind] = mask_files.read(value) if kind == "mask" else value
    for group in result.objects.values():
        if "mask" in group and (group["point"] or "box" in group):
            raise UsageError("--mask: expected it without points and box on the same frame")
    if not result.objects and not result.texts:
        raise UsageError("expected --point, --box, --mask or --text, found none")
    return result


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    prompts = _grouped(args.prompts or [])
    outputs = TrackOutputs(
        args,
        [text for _, text in prompts.texts],
        [name for _, name in prompts.objects],
        prompts.mask_files(),
    )
    args.model = args.model or _PACKAGED[bool(prompts.texts)]
    given = {"channel": args.channel, "value_range": args.range}
    source = open_frames(args.video, **given)
    # With texts results come late: their frames are decoded a second time, not out of order.
    shown = open_frames(args.video, **given) if prompts.texts else source
    outputs.refuse_frames(source)
    if isinstance(source, FolderFrames):
        work = f"{common.counted(len(source.files), 'frame')}, {prompts.described()}, {args.model}"
        common.announce(args.command, work, source.passed_over)
    height, width = source.read(0).shape[:2]
    prompts.check(source.count, (height, width))
    model = common.load(args, outputs)
    if not model.supports_video:
        raise UsageError(
            "--model: expected a checkpoint of SAM 2 or SAM 3 with weights for memory, found "
            f"{args.model}"
        )
    if prompts.texts and not model.supports_text:
        raise UsageError(f"--text: expected a checkpoint of SAM 3 as --model, found {args.model}")
    session = VideoPredictor(
        model,
        source,
        num_threads=args.threads,
        memory_rule=args.memory_rule,
        text_options=_text_options(args.threshold),
        **generator_options.region_area(args),
    )
    with terminal_clock("encoding"):
        for (frame, name), group in prompts.objects.items():
            session.add_prompt(frame, name, **_arguments(group, model, (height, width)))
        for frame, text in prompts.texts:
            session.add_text(text, frame_index=frame)
    outputs.say(f"video {args.video}: {session.num_frames} frames of {width} x {height} pixels")
    start, done = time.perf_counter(), 0
    try:
        with ExitStack() as stack:
            writer = None
            if outputs.video is not None:
                writer = stack.enter_context(_writer(outputs.video, source))
            frames = session.propagate(max_frames=args.max_frames)
            length = _length(prompts, args, source)
            progress = stack.enter_context(terminal_bar("frame"))
            for result in frames:
                index = result.frame_index
                file = source.files[index] if isinstance(source, FolderFrames) else None
                shown_at = shown.time(index)
                outputs.add(result, writer, shown.read(index), source.name(index), file, shown_at)
                done += 1
                if progress is not None:
                    progress(done, length or 0)
    finally:
        seconds = time.perf_counter() - start
        if done:
            outputs.say(f"tracked {done} frames in {seconds:.1f} s, {done / seconds:.2f} a second")
            outputs.finish()
    if outputs.found_nothing:
        raise Unfulfilled(_EMPTY_TEXT if prompts.texts else _EMPTY)


def _writer(path: Path, source: FrameSource) -> ClipWriter:
    """Return the writer of a clip that is shown as its source is."""
    if isinstance(source, ClipFrames):
        return ClipWriter(path, source.rate, source.files, source.pixel_aspect)
    return ClipWriter(path, _RATE, source.files)


def _text_options(threshold: float | None) -> dict[str, float]:
    if threshold is None:
        return {}
    return {_KNOWN: threshold, _NEW: threshold}


def _arguments(group: dict[str, Any], model: Model, hw: tuple[int, int]) -> dict[str, Any]:
    if "mask" in group:
        return {"mask": group["mask"].as_mask(model, hw)}
    arguments: dict[str, Any] = {}
    if group["point"]:
        arguments["point_coords"] = [point[:2] for point in group["point"]]
        arguments["point_labels"] = [point[2] for point in group["point"]]
    if "box" in group:
        arguments["box"] = group["box"]
    return arguments


def _length(prompts: _Prompts, args: argparse.Namespace, source: FrameSource) -> int | None:
    if source.count is None:
        return None
    left = source.count - prompts.first_frame
    return left if args.max_frames is None else min(left, args.max_frames)
