"""``sam-rlx track``: masks of objects through a video."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io, viz
from sam_rlx._video.clip_writer import ClipWriter
from sam_rlx._video.frames import ClipFrames, FrameSource, open_frames
from sam_rlx._video.types import VideoFrame
from sam_rlx.cli import common
from sam_rlx.cli.common import UsageError
from sam_rlx.cli.segment import parse_box, parse_point
from sam_rlx.video import VideoPredictor

_PACKAGED = ("sam2-nano", "sam3-nano")
_EXAMPLES = """examples:
  sam-rlx track clip.mp4 --model sam2.1_hiera_tiny.pt --point 210,350 --output results/
  sam-rlx track clip.mp4 --model sam2.1_hiera_tiny.pt --frame 12 --object cat --box 10,20,90,80 \\
      --object dog --point 300,200 --point 320,90,0 --json - > masks.json
  sam-rlx track clip.mp4 --model sam3.pt --text person --text "red car" --output tracked.mp4
"""
_RATE = 25.0


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
        "end: those that clicks, boxes and masks show, or, with SAM 3, all that phrases name. "
        "--object and --frame hold for the prompts after them; a single one of them holds for "
        "all prompts. Ctrl-C ends the files at the last finished frame.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
        ("mask", Path, "FILE", "an image of the object's mask: not black inside"),
        ("text", str, "PHRASE", "follow everything that the phrase names (SAM 3)"),
        ("object", str, "NAME", "the object of the prompts after this (default: 1)"),
        ("frame", _frame, "N", "the frame of the prompts after this, from 0 (default: 0)"),
    ):
        parser.add_argument(f"--{name}", type=kind, action=_InOrder, metavar=metavar, help=text)
    parser.add_argument(
        "--threshold",
        type=_score,
        metavar="SCORE",
        help="with --text: follow what is found with a score above it (default: 0.7 for new "
        "objects, 0.5 to confirm them)",
    )
    parser.add_argument(
        "--max-frames", type=common.positive, metavar="N", help="stop after so many frames"
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR|FILE",
        help="video file (.mp4) with the masks drawn in; or a directory, which gets overlay.mp4, "
        "masks.json and masks/NAME_00000.png ...",
    )
    parser.add_argument("--json", metavar="FILE", help="write COCO JSON; - prints it")
    parser.add_argument("--masks", type=Path, metavar="DIR", help="write PNGs by frame and object")
    parser.set_defaults(run=run)


def _frame(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a frame from 0 on, found {text}")
    return value


def _score(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise argparse.ArgumentTypeError(f"expected 0 to 1, found {text}")
    return value


@dataclass
class _Prompts:
    """Prompts of single objects by frame and object, and phrases with their frames."""

    objects: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    phrases: list[tuple[int, str]] = field(default_factory=list)

    @property
    def first_frame(self) -> int:
        return min([frame for frame, _ in [*self.objects, *self.phrases]])


def _grouped(prompts: list[tuple[str, Any]]) -> _Prompts:
    """Return the prompts by frame and object."""
    state: dict[str, Any] = {"frame": 0, "object": "1"}
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
            result.phrases.append((state["frame"], value))
            continue
        group = result.objects.setdefault((state["frame"], state["object"]), {"point": []})
        if kind == "point":
            group["point"].append(value)
        elif kind in group:
            raise UsageError(f"--{kind}: expected one for each object and frame, found two")
        else:
            group[kind] = value
    for group in result.objects.values():
        if "mask" in group and (group["point"] or "box" in group):
            raise UsageError("--mask: expected it without points and box on the same frame")
    if not result.objects and not result.phrases:
        raise UsageError("expected --point, --box, --mask or --text, found none")
    return result


class _Outputs:
    """Result files of the command."""

    def __init__(self, args: argparse.Namespace, phrases: list[str]) -> None:
        self.categories = ["object", *dict.fromkeys(phrases)]
        self.video: Path | None = args.output
        self.masks: Path | None = args.masks
        self.json: str | None = args.json
        if self.video is not None and self.video.suffix.lower() != ".mp4":
            directory = self.video
            if directory.suffix and not directory.is_dir():
                raise UsageError(f"--output: expected a directory or .mp4, found {directory}")
            self.video = directory / "overlay.mp4"
            self.masks = self.masks or directory / "masks"
            self.json = self.json or str(directory / "masks.json")
        if not (self.video or self.masks or self.json):
            raise UsageError("expected one of --output, --json or --masks, found none")
        self.identities: dict[str, int] = {}  # an object keeps its colour when others leave
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        common.tell(text, sys.stderr if self.json == "-" else None)

    def add(self, frame: VideoFrame, writer: ClipWriter | None, pixels: NDArray[np.uint8]) -> None:
        """Write the masks of one frame."""
        names = [str(name) for name in frame.masks]
        masks = list(frame.masks.values())
        if writer is not None:
            identities = [self.identities.setdefault(name, len(self.identities)) for name in names]
            captions = None if len(self.categories) == 1 else _captions(frame)
            writer.add(viz.overlay(pixels, masks, identities=identities, captions=captions))
        if self.masks is not None:
            for name, mask in zip(names, masks, strict=True):
                io.write_image(self.masks / f"{_file_name(name)}_{frame.frame_index:05d}.png", mask)
        height, width = pixels.shape[:2]
        number = len(self.images) + 1
        self.images.append(
            {
                "id": number,
                "file_name": f"{frame.frame_index:05d}",
                "frame_index": frame.frame_index,
                "height": height,
                "width": width,
            }
        )
        for name, (obj_id, mask) in zip(names, frame.masks.items(), strict=True):
            category, fields = 1, {"object": name, "object_score": frame.scores[obj_id]}
            if obj_id in frame.phrases:
                phrase = frame.phrases[obj_id]
                category = 1 + self.categories.index(phrase)
                fields = {"object": name, "phrase": phrase, "score": frame.scores[obj_id]}
            annotation = io.coco_annotation(mask, **fields)
            head = {"id": len(self.annotations) + 1, "image_id": number, "category_id": category}
            self.annotations.append({**head, "iscrowd": 0, **annotation})

    def finish(self) -> None:
        """Write what is written once."""
        document = {
            "images": self.images,
            "annotations": self.annotations,
            "categories": [
                {"id": number, "name": name} for number, name in enumerate(self.categories, 1)
            ],
        }
        if self.json == "-":
            print(json.dumps(document))
        elif self.json is not None:
            io.write_json(self.json, document)
        for path in (self.video, self.masks, None if self.json == "-" else self.json):
            if path is not None and self.images:
                self.say(f"wrote {path}")


def _captions(frame: VideoFrame) -> list[str]:
    """Return what is written on each mask: its name, or its phrase, number and score."""
    return [
        f"{frame.phrases[obj_id]} {obj_id} {frame.scores[obj_id]:.2f}"
        if obj_id in frame.phrases
        else str(obj_id)
        for obj_id in frame.masks
    ]


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-." else "_" for c in name)


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    prompts = _grouped(args.prompts or [])
    outputs = _Outputs(args, [phrase for _, phrase in prompts.phrases])
    source = open_frames(args.video)
    # With phrases results come late: their frames are decoded a second time, not out of order.
    shown = open_frames(args.video) if prompts.phrases else source
    args.model = args.model or _PACKAGED[bool(prompts.phrases)]
    model = common.load(args, outputs)
    if prompts.phrases and not model.supports_text:
        raise UsageError(f"--text: expected a checkpoint of SAM 3 as --model, found {args.model}")
    session = VideoPredictor(
        model, source, num_threads=args.threads, phrase_options=_phrase_options(args.threshold)
    )
    for (frame, name), group in prompts.objects.items():
        session.add_prompt(frame, name, **_arguments(group))
    for frame, phrase in prompts.phrases:
        session.add_text(phrase, frame_index=frame)
    height, width = session.orig_hw or (0, 0)
    outputs.say(f"video {args.video}: {session.num_frames} frames of {width} x {height} pixels")
    start, done = time.perf_counter(), 0
    rate = source.rate if isinstance(source, ClipFrames) else _RATE
    try:
        with ExitStack() as stack:
            writer = None
            if outputs.video is not None:
                writer = stack.enter_context(ClipWriter(outputs.video, rate))
            frames = session.propagate(max_frames=args.max_frames)
            for result in _progress(frames, _length(prompts, args, source)):
                outputs.add(result, writer, shown.read(result.frame_index))
                done += 1
    finally:
        seconds = time.perf_counter() - start
        if done:
            outputs.say(f"tracked {done} frames in {seconds:.1f} s, {done / seconds:.2f} a second")
            outputs.finish()


def _phrase_options(threshold: float | None) -> dict[str, float]:
    if threshold is None:
        return {}
    return {"score_threshold_detection": threshold, "new_det_thresh": threshold}


def _arguments(group: dict[str, Any]) -> dict[str, Any]:
    if "mask" in group:
        return {"mask": io.read_mask(group["mask"])}
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


def _progress(frames: Iterator[VideoFrame], total: int | None) -> Iterator[VideoFrame]:
    """Show a bar with frames per second on a terminal."""
    if not sys.stderr.isatty():
        return frames
    try:
        from tqdm import tqdm
    except ImportError:
        return frames
    bar: Iterator[VideoFrame] = iter(tqdm(frames, total=total, unit="frame"))
    return bar
