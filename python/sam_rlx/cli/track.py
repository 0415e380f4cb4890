"""``sam-rlx track``: masks of objects through a video."""

import argparse
import hashlib
import json
import re
import sys
import time
from collections.abc import Hashable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _options, io, viz
from sam_rlx._progress import terminal_bar, terminal_clock
from sam_rlx._video.clip_writer import ClipWriter
from sam_rlx._video.frames import ClipFrames, FrameSource, open_frames
from sam_rlx._video.types import VideoFrame
from sam_rlx.cli import common, mask_files
from sam_rlx.cli.common import Unfulfilled, UsageError
from sam_rlx.cli.segment import check_boxes, check_points, parse_box, parse_point
from sam_rlx.errors import InvalidArgumentError
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
_MASK_NAME = re.compile(r".+_\d{5,}\.png")
_MAX_NAME = 150  # bytes of a file's name that are the object's
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
        "end: those that clicks, boxes and masks show, or, with SAM 3, all that phrases name. "
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
        ("text", str, "PHRASE", "follow everything that the phrase names (SAM 3)"),
        ("object", str, "NAME", "the object of the prompts after this (default: 1)"),
        ("frame", _frame, "N", "the frame of the prompts after this, from 0 (default: 0)"),
    ):
        parser.add_argument(f"--{name}", type=kind, action=_InOrder, metavar=metavar, help=text)
    scores = _options.describe("text", "sam3")
    parser.add_argument(
        "--threshold",
        type=_score,
        metavar="SCORE",
        help="with --text: follow what is found with a score above it (default: "
        f"{scores[_NEW]['default']} for new objects, {scores[_KNOWN]['default']} to confirm them)",
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
    if expected := _options.outside(_options.describe("concept", "sam3")["threshold"], value):
        raise argparse.ArgumentTypeError(f"expected {expected}, found {text}")
    return value


@dataclass
class _Prompts:
    """Prompts of single objects by frame and object, and phrases with their frames."""

    objects: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    phrases: list[tuple[int, str]] = field(default_factory=list)

    def check(self, count: int | None, hw: tuple[int, int]) -> None:
        """Raise an error for prompts that are outside of the video or of its frames."""
        for frame, _ in [*self.objects, *self.phrases]:
            if count is not None and frame >= count:
                raise InvalidArgumentError(f"--frame: expected 0 to {count - 1}, found {frame}")
        for group in self.objects.values():
            check_points(group["point"], hw)
            check_boxes([group["box"]] if "box" in group else [], hw)

    def mask_files(self) -> list[Path]:
        """Return the files of ``--mask``."""
        return [group["mask"].path for group in self.objects.values() if "mask" in group]

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
            group[kind] = mask_files.read(value) if kind == "mask" else value
    for group in result.objects.values():
        if "mask" in group and (group["point"] or "box" in group):
            raise UsageError("--mask: expected it without points and box on the same frame")
    if not result.objects and not result.phrases:
        raise UsageError("expected --point, --box, --mask or --text, found none")
    return result


class _Outputs:
    """Result files of the command."""

    def __init__(self, args: argparse.Namespace, prompts: _Prompts) -> None:
        phrases = [phrase for _, phrase in prompts.phrases]
        self.categories = ["object", *dict.fromkeys(phrases)]
        self.video: Path | None = args.output
        self.masks: Path | None = args.masks
        self.json: str | None = args.json
        self._owns_masks = False  # the folder holds masks of this command alone
        if self.video is not None and self.video.suffix.lower() != ".mp4":
            directory = self.video
            if directory.suffix and not directory.is_dir():
                raise UsageError(f"--output: expected a directory or .mp4, found {directory}")
            self.video = directory / "overlay.mp4"
            self._owns_masks = self.masks is None
            self.masks = self.masks or directory / "masks"
            self.json = self.json or str(directory / "masks.json")
        if not (self.video or self.masks or self.json):
            raise UsageError("expected one of --output, --json or --masks, found none")
        self._refuse([args.video, *prompts.mask_files()])
        self.names = _Names(name for _, name in prompts.objects)
        self.identities: dict[str, int] = {}  # an object keeps its colour when others leave
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self._before = _mask_files(self.masks)
        self._written: set[str] = set()

    def _refuse(self, sources: list[Path]) -> None:
        """Raise `UsageError` if a result would take the place of an input."""
        as_json = None if self.json in (None, "-") else Path(str(self.json))
        for path in sources:
            for option, result in (
                ("--output", self.video),
                ("--json", as_json),
                ("--masks", self.masks),
            ):
                if result is not None and common.is_same_file(path, result):
                    raise UsageError(
                        f"{option}: expected another file or folder than the input, found {result}"
                    )
            if any(common.is_same_file(path, mask) for mask in _mask_files(self.masks)):
                raise UsageError(f"--masks: expected a folder without the input {path}")

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        common.tell(text, sys.stderr if self.json == "-" else None)

    def add(self, frame: VideoFrame, writer: ClipWriter | None, pixels: NDArray[np.uint8]) -> None:
        """Write the masks of one frame."""
        names = [self.names.of(obj_id) for obj_id in frame.masks]
        masks = list(frame.masks.values())
        if writer is not None:
            identities = [self.identities.setdefault(name, len(self.identities)) for name in names]
            captions = None if len(self.categories) == 1 else _captions(frame)
            writer.add(viz.overlay(pixels, masks, identities=identities, captions=captions))
        if self.masks is not None:
            for name, mask in zip(names, masks, strict=True):
                file_name = f"{_file_name(name)}_{frame.frame_index:05d}.png"
                io.write_image(self.masks / file_name, mask)
                self._written.add(file_name)
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
        if self.masks is not None:
            for line in common.remove_stale(self.masks, self._stale(), map(Path, self._written)):
                self.say(line)

    def _stale(self) -> list[Path]:
        """Return masks that were there before: of any object, or where others may be, of ours."""
        if self._owns_masks:
            return self._before
        ours = {_file_name(name) for name in self.names.all()}
        return [path for path in self._before if path.stem.rpartition("_")[0] in ours]

    @property
    def found_nothing(self) -> bool:
        """Whether no object was seen on any frame."""
        return not any(annotation["area"] for annotation in self.annotations)


def _captions(frame: VideoFrame) -> list[str]:
    """Return what is written on each mask: its name, or its phrase, number and score."""
    return [
        f"{frame.phrases[obj_id]} {obj_id} {frame.scores[obj_id]:.2f}"
        if obj_id in frame.phrases
        else str(obj_id)
        for obj_id in frame.masks
    ]


class _Names:
    """A name for each object, which no other object has.

    Objects that phrases name are numbers; an object of ``--object`` may be called so too.
    """

    def __init__(self, given: Iterable[str]) -> None:
        self._names: dict[tuple[type, Hashable], str] = {(str, name): name for name in given}

    def of(self, obj_id: Hashable) -> str:
        """Return the name of an object."""
        key = (type(obj_id), obj_id)
        if key not in self._names:
            name, number = str(obj_id), 2
            while name in self._names.values():
                name, number = f"{obj_id}-{number}", number + 1
            self._names[key] = name
        return self._names[key]

    def all(self) -> list[str]:
        """Return all names so far."""
        return list(self._names.values())


def _file_name(name: str) -> str:
    """Return how files of an object begin: other characters become the hexadecimal of their bytes.

    Two names never give the same beginning. Long ones end in a hash.
    """
    plain = "".join(
        c
        if c.isalnum() or c in "-_" or (c == "." and index)
        else "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "surrogateescape"))
        for index, c in enumerate(name)
    )
    if len(plain.encode()) <= _MAX_NAME:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{plain.encode()[:_MAX_NAME].decode('utf-8', 'ignore')}%{digest}"


def _mask_files(folder: Path | None) -> list[Path]:
    """Return the files in a folder that are called as masks are."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _MASK_NAME.fullmatch(path.name))


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    prompts = _grouped(args.prompts or [])
    outputs = _Outputs(args, prompts)
    source = open_frames(args.video)
    # With phrases results come late: their frames are decoded a second time, not out of order.
    shown = open_frames(args.video) if prompts.phrases else source
    height, width = source.read(0).shape[:2]
    prompts.check(source.count, (height, width))
    args.model = args.model or _PACKAGED[bool(prompts.phrases)]
    model = common.load(args, outputs)
    if prompts.phrases and not model.supports_text:
        raise UsageError(f"--text: expected a checkpoint of SAM 3 as --model, found {args.model}")
    session = VideoPredictor(
        model, source, num_threads=args.threads, phrase_options=_phrase_options(args.threshold)
    )
    with terminal_clock("encoding"):
        for (frame, name), group in prompts.objects.items():
            session.add_prompt(frame, name, **_arguments(group, model, (height, width)))
        for frame, phrase in prompts.phrases:
            session.add_text(phrase, frame_index=frame)
    outputs.say(f"video {args.video}: {session.num_frames} frames of {width} x {height} pixels")
    start, done = time.perf_counter(), 0
    rate = source.rate if isinstance(source, ClipFrames) else _RATE
    try:
        with ExitStack() as stack:
            writer = None
            if outputs.video is not None:
                writer = stack.enter_context(ClipWriter(outputs.video, rate))
            frames = session.propagate(max_frames=args.max_frames)
            length = _length(prompts, args, source)
            progress = stack.enter_context(terminal_bar("frame"))
            for result in frames:
                outputs.add(result, writer, shown.read(result.frame_index))
                done += 1
                if progress is not None:
                    progress(done, length or 0)
    finally:
        seconds = time.perf_counter() - start
        if done:
            outputs.say(f"tracked {done} frames in {seconds:.1f} s, {done / seconds:.2f} a second")
            outputs.finish()
    if outputs.found_nothing:
        raise Unfulfilled(_EMPTY_TEXT if prompts.phrases else _EMPTY)


def _phrase_options(threshold: float | None) -> dict[str, float]:
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
