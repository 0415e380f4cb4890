"""Result files of ``sam-rlx track``: a video, masks by object and frame, and JSON."""

import argparse
import re
from collections.abc import Hashable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io, viz
from sam_rlx._internal.files.inputs import file_name as file_name
from sam_rlx._internal.files.marks import JSON_MARK
from sam_rlx._internal.formats import coco
from sam_rlx._internal.media.clip_writer import ClipWriter
from sam_rlx._internal.media.frames import FrameSource
from sam_rlx._internal.results import of_mask
from sam_rlx.apps.cli import common
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.video import VideoFrame

_MASK_NAME = re.compile(r".+_.+\.png")  # of an object on a frame
_NUMBER = re.compile(r"\d{5,}")
UNNAMED = "1"  # what an object is called when there is no ``--object``


class TrackOutputs:
    """Result files of the command."""

    def __init__(
        self,
        args: argparse.Namespace,
        texts: Iterable[str],
        objects: Iterable[str],
        mask_files: Iterable[Path],
    ) -> None:
        self.categories = ["object", *dict.fromkeys(texts)]
        self.video: Path | None = args.output
        self.masks: Path | None = args.masks
        self.json: str | None = args.json
        self._polygons: bool = args.json_polygons
        self.mattes = None if args.mattes is None else Mattes(args.mattes)
        self._owns_masks = False  # the folder holds masks of this command alone
        if self.video is not None and self.video.suffix.lower() != ".mp4":
            directory = self.video
            if directory.suffix and not directory.is_dir():
                raise UsageError(f"--output: expected a directory or .mp4, found {directory}")
            self.video = directory / "overlay.mp4"
            self._owns_masks = self.masks is None
            self.masks = self.masks or directory / "masks"
            self.json = self.json or str(directory / "masks.json")
        if not (self.video or self.masks or self.json or self.mattes):
            raise UsageError("expected one of --output, --json, --masks or --mattes, found none")
        named = None if self.json in (None, "-") else Path(str(self.json))
        common.check_directory("--masks", self.masks)
        common.check_directory("--mattes", args.mattes)
        common.refuse_twice((self.video, named))
        self._refuse([args.video, *mask_files])
        given = list(objects)
        self.names = Names(given)
        self._refuse_foreign(args.overwrite)
        # The one object of a call that names none needs no caption.
        self._captioned = len(self.categories) > 1 or set(given) != {UNNAMED}
        self.identities: dict[str, int] = {}  # an object keeps its colour when others leave
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self._before = _mask_files(self.masks)
        self._written: set[str] = set()
        self._frames: set[str] = set()  # names of frames that this run has results of

    def refuse_frames(self, source: FrameSource) -> None:
        """Raise `UsageError` if a result would replace a frame of the video."""
        frames = common.Sources(source.files)
        for path in (self.video, *self._before):
            if path is not None and (frame := frames.same_as(path)):
                raise UsageError(f"expected results in other files than the input, found {frame}")

    def _refuse(self, sources: list[Path]) -> None:
        """Raise `UsageError` if a result would replace an input."""
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

    def _refuse_foreign(self, overwrite: bool) -> None:
        named = None if self.json in (None, "-") else Path(str(self.json))
        for option, paths in (
            ("--output", [self.video]),
            ("--json", [named]),
            ("--masks", [path for path in _mask_files(self.masks) if self._may_write(path)]),
        ):
            common.refuse_foreign(option, *paths, overwrite=overwrite)

    def _may_write(self, mask: Path) -> bool:
        """Whether a mask is called as one of this run: by an object, or by a number of texts."""
        has_texts = len(self.categories) > 1
        names = tuple(f"{file_name(name)}_" for name in self.names.all())
        return mask.stem.startswith(names) or (has_texts and mask.stem[:1].isdigit())

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        if self.json == "-":
            common.tell_aside(text)
        else:
            common.tell(text)

    def add(
        self,
        frame: VideoFrame,
        writer: ClipWriter | None,
        pixels: NDArray[np.uint8],
        frame_name: str,
        file: Path | None = None,
        time: Fraction | None = None,
    ) -> None:
        """Write the masks of one frame, under its name.

        `file` is the image that it comes from, `time` when the video shows it.
        """
        self._frames.add(file_name(frame_name))
        names = [self.names.of(obj_id) for obj_id in frame.masks]
        masks = list(frame.masks.values())
        identities = [self.identities.setdefault(name, len(self.identities)) for name in names]
        if writer is not None:
            captions = _captions(frame) if self._captioned else None
            drawn = viz.overlay(pixels, masks, identities=identities, captions=captions)
            writer.add(drawn, time)
        if self.masks is not None:
            for name, mask in zip(names, masks, strict=True):
                path = self.masks / f"{file_name(name)}_{file_name(frame_name)}.png"
                io.write_image(path, mask)
                self._written.add(path.name)
        if self.mattes is not None:
            shown = dict(zip(names, masks, strict=True))
            self.mattes.add(frame.frame_index, shown, (pixels.shape[0], pixels.shape[1]))
        height, width = pixels.shape[:2]
        number = len(self.images) + 1
        self.images.append(
            {
                "id": number,
                "file_name": frame_name if file is None else file.name,
                "frame_index": frame.frame_index,
                "height": height,
                "width": width,
            }
        )
        for name, (obj_id, mask) in zip(names, frame.masks.items(), strict=True):
            if not mask.any():  # to judges, an object of area 0 is one that nothing matches
                continue
            category, score = 1, frame.scores[obj_id]
            fields = {"object": name, "track_id": self.identities[name] + 1}
            if obj_id in frame.texts:
                text = frame.texts[obj_id]
                category = 1 + self.categories.index(text)
                fields |= {"text": text, "score": score}
            else:
                fields["object_score"] = score
            annotation = coco.annotation(of_mask(mask, fields=fields), polygons=self._polygons)
            head = {"id": len(self.annotations) + 1, "image_id": number, "category_id": category}
            self.annotations.append({**head, "iscrowd": 0, **annotation})

    def finish(self) -> None:
        """Write what is written once."""
        document = JSON_MARK | {
            "images": self.images,
            "annotations": self.annotations,
            "categories": [
                {"id": number, "name": name} for number, name in enumerate(self.categories, 1)
            ],
        }
        if self.json == "-":
            common.print_json(document)
        elif self.json is not None:
            io.write_json(self.json, document)
        mattes = None if self.mattes is None else self.mattes.folder
        for path in (self.video, self.masks, mattes, None if self.json == "-" else self.json):
            if path is not None and self.images:
                self.say(f"wrote {path}")
        if self.masks is not None:
            for line in common.remove_stale(self.masks, self._stale(), map(Path, self._written)):
                self.say(line)

    def _stale(self) -> list[Path]:
        """Return masks that were there before: of any object, or where others may be, of ours."""
        if self._owns_masks:
            return self._before
        ours = {file_name(name) for name in self.names.all()}
        return [path for path in self._before if self._is_of(path.stem, ours)]

    def _is_of(self, stem: str, ours: set[str]) -> bool:
        """Whether a mask is called as one of our objects on a frame, by number or by name."""
        cuts = [at for at, letter in enumerate(stem) if letter == "_" and stem[:at] in ours]
        return any(
            stem[at + 1 :] in self._frames or _NUMBER.fullmatch(stem[at + 1 :]) for at in cuts
        )

    @property
    def found_nothing(self) -> bool:
        """Whether no object was seen on any frame."""
        return not self.annotations


class Mattes:
    """A PNG of each object for each frame from the first one on, black where it is not seen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._frames: list[int] = []
        self._names: set[str] = set()

    def add(
        self, frame_index: int, masks: dict[str, NDArray[np.bool_]], hw: tuple[int, int]
    ) -> None:
        """Write the mattes of one frame; an object that is new has black ones for those before."""
        black = np.zeros(hw, np.bool_)
        for name in masks.keys() - self._names:
            for index in self._frames:
                self._write(name, index, black)
        self._names |= masks.keys()
        self._frames.append(frame_index)
        for name in self._names:
            self._write(name, frame_index, masks.get(name, black))

    def _write(self, name: str, frame_index: int, mask: NDArray[np.bool_]) -> None:
        io.write_image(self.folder / file_name(name) / f"{frame_index:06d}.png", mask)


def _captions(frame: VideoFrame) -> list[str]:
    """Return what is written on each mask: its name, or its text, number and score."""
    return [
        f"{frame.texts[obj_id]} {obj_id} {frame.scores[obj_id]:.2f}"
        if obj_id in frame.texts
        else str(obj_id)
        for obj_id in frame.masks
    ]


class Names:
    """A name for each object, which no other object has.

    Objects that texts name are numbers; an object of ``--object`` may be called so too.
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


def _mask_files(folder: Path | None) -> list[Path]:
    """Return the files in a folder that are called as masks are."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if _MASK_NAME.fullmatch(path.name))
