"""Result files of a command: of one image, or of several by their names."""

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.files import marks
from sam_rlx._internal.files.marks import JSON_MARK
from sam_rlx._internal.files.results import write_arrays
from sam_rlx._internal.formats import coco
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.media.image_writer import write_pixels
from sam_rlx._internal.results import FILES, FORMATS, ResultForms, Words, form_files
from sam_rlx.apps.cli import tiles
from sam_rlx.apps.cli.common import (
    IMAGE_SUFFIXES,
    OUTPUT,
    Sources,
    UsageError,
    check_directory,
    print_json,
    refuse_foreign,
    refuse_twice,
    remove_stale,
    tell,
    tell_aside,
)
from sam_rlx.apps.cli.inputs import Input

# What `save` of results writes, and --output does not unasked.
FURTHER = tuple(form for form in FORMATS if form not in ("coco", "masks", "overlay"))
_MASK_NAME = re.compile(r"mask_\d{3,}\.png")
_CUTOUT_NAME = re.compile(r"cutout_\d{3,}\.png")


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name result files, and ``--dry``."""
    parser.add_argument(
        *OUTPUT,
        type=Path,
        metavar="DIR|FILE",
        help="image file (.png, .jpg, .webp) for the overlay; or a directory, which gets "
        "overlay.png, masks.json and mask_000.png ...; of several images each has a directory of "
        "its name in it",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write COCO JSON with RLE masks, of all images; - prints it on stdout",
    )
    add_polygons_argument(parser)
    parser.add_argument(
        "--npz",
        type=Path,
        metavar="FILE",
        help="write masks and scores as NPZ; with several images a directory",
    )
    parser.add_argument(
        "--masks", type=Path, metavar="DIR", help="write one PNG for each mask; see --output"
    )
    parser.add_argument(
        "--formats",
        type=_formats,
        default=(),
        metavar="NAME[,NAME]",
        help=f"further files in the directory of --output: {', '.join(FURTHER)} (of a GeoTIFF "
        "with --tile in coordinates of its map)",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="of several images: do those again that have results; of one: also write over files "
        "that sam-rlx has not written",
    )
    parser.add_argument(
        "--dry", action="store_true", help="check the input, say what would be done, and stop"
    )


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    if not set(names) <= set(FURTHER):
        raise argparse.ArgumentTypeError(f"expected some of {list(FURTHER)}, found {text!r}")
    return names


def add_polygons_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--json-polygons``."""
    parser.add_argument(
        "--json-polygons",
        action="store_true",
        help="in COCO JSON: masks as polygons, for programs that do not read run lengths",
    )


@dataclass(frozen=True)
class Files:
    """Files for the results of one image; None for what is not asked for."""

    overlay: Path | None = None
    masks: Path | None = None
    json: Path | None = None
    npz: Path | None = None
    polygons: bool = False  # in JSON, instead of run lengths
    further: Path | None = None  # folder of --formats
    formats: tuple[str, ...] = ()

    def singles(self) -> list[Path]:
        """Return the files that are asked for, but the masks."""
        return [path for path in (self.overlay, self.json, self.npz) if path is not None]

    def existing(self) -> list[Path]:
        """Return the results that are there already."""
        return [path for path in (*self.singles(), *self.mask_files()) if os.path.lexists(path)]

    def mask_files(self) -> list[Path]:
        """Return the masks that are in the directory already."""
        return _called(self.masks, _MASK_NAME)

    def further_images(self) -> list[Path]:
        """Return the images of --formats that are in the directory already."""
        if self.further is None:
            return []
        found = _called(self.further, _CUTOUT_NAME) if "cutouts" in self.formats else []
        labels = self.further / FILES["labels"]
        return [*found, *([labels] if "labels" in self.formats and labels.is_file() else [])]

    def are_made_from(self, source: Path, origin: str) -> bool:
        """Tell whether all results are there, from this input and these arguments.

        Raises `UsageError` if there are some from another one.
        """
        existing = self.existing()
        for path in existing:
            if found := marks.other_origin(origin, marks.origin_of(path)):
                raise UsageError(
                    f"{path}: expected results of {source} with these arguments, found {found}: "
                    "choose another folder, or --overwrite"
                )
        # How many masks there are is known from the other files alone.
        wanted = self.singles() or self.mask_files()[:1]
        return bool(wanted) and set(wanted) <= set(existing)

    def write(
        self, found: "Found", described: dict[str, Any], image: tiles.Image, origin: str = ""
    ) -> list[str]:
        """Write what a command has found on an image. An error leaves no new file.

        `origin` is part of the marks; see `marks.origin`.

        Returns
        -------
        list of str
            What was done, one line each.
        """
        new: list[Path] = []
        try:
            return list(self._written(found, described, image, origin, new))
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise

    def _written(
        self,
        found: "Found",
        described: dict[str, Any],
        image: tiles.Image,
        origin: str,
        new: list[Path],
    ) -> Iterator[str]:
        def noted(path: Path) -> Path:
            target = Path(os.path.realpath(path))  # a link stays
            if not os.path.lexists(target):
                new.append(target)
            return path

        if self.overlay is not None:
            write_pixels(noted(self.overlay), found.overlay(), is_result=True, origin=origin)
            yield f"wrote {self.overlay}"
        if self.masks is not None:
            before = self.mask_files()
            written = []
            for index, mask in enumerate(found.masks()):
                written.append(noted(self.masks / f"mask_{index:03d}.png"))
                write_pixels(written[-1], mask, origin=origin)
            yield from (f"wrote {path}" for path in written)
            yield from remove_stale(self.masks, before, written)
        if self.npz is not None:
            write_arrays(noted(self.npz), found.arrays(), origin=origin)
            yield f"wrote {self.npz}"
        if self.further is not None and self.formats:
            before = self.further_images()
            kept = []
            for path in found.further(self.formats, self.further, image):
                kept.append(noted(path))
            yield from (f"wrote {path}" for path in kept)
            yield from remove_stale(self.further, before, kept, "cut-out")
        if self.json is not None:
            io.write_json(
                noted(self.json), found.document(described, origin, polygons=self.polygons)
            )
            yield f"wrote {self.json}"


@dataclass(frozen=True)
class Found:
    """What a command has found on one image.

    Attributes
    ----------
    overlay, masks, arrays : callable
        Make the image (H, W, 3) with the masks drawn in, the masks bool (H, W) one after the other,
        and the arrays of an NPZ file. Each is called where a file of it is asked for.
    instances, categories
        The masks and what is known of them, for COCO JSON; empty masks are not in it.
    summary : str
        A few words, such as ``"3 masks"``.
    hint : str
        What may help, if nothing was found; else empty.
    """

    overlay: Callable[[], NDArray[np.uint8]]
    masks: Callable[[], Iterable[NDArray[np.bool_]]]
    instances: list[Instance]
    arrays: Callable[[], dict[str, Any]]
    summary: str
    hint: str = ""
    categories: Sequence[str] = ("object",)

    def document(
        self, described: dict[str, Any], origin: str = "", *, polygons: bool = False
    ) -> dict[str, Any]:
        """Return the COCO document of the image."""
        document = coco.of_instances(
            described, self.instances, categories=self.categories, polygons=polygons
        )
        return marks.json_mark(origin) | document

    def further(self, formats: Iterable[str], folder: Path, image: tiles.Image) -> Iterator[Path]:
        """Write files of further formats; yield each before it is written."""
        result = _Instances(self.instances, (image.shape[0], image.shape[1]))
        words = Words(transform=getattr(image, "transform", None), crs=getattr(image, "crs", None))
        for form in formats:
            pixels = tiles.whole(image) if form in ("cutouts", "csv") else None
            yield from form_files(result, form, folder, pixels, words)


class _Instances(ResultForms):
    """A result of single objects."""

    def __init__(self, instances: list[Instance], hw: tuple[int, int]) -> None:
        self._each = instances
        self._shape = hw

    def _instances(self) -> list[Instance]:
        return self._each

    def _hw(self) -> tuple[int, int]:
        return self._shape


def _called(folder: Path | None, name: re.Pattern[str]) -> list[Path]:
    """Return the files of a folder that have such names."""
    if folder is None or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if name.fullmatch(path.name))


class Outputs:
    """Result files of one command, and where its messages go.

    Parameters
    ----------
    args : Namespace
        With the options of `add_output_arguments`.
    several : bool
        Whether each image has files of its own name.
    """

    def __init__(self, args: argparse.Namespace, several: bool = False) -> None:
        self.several = several
        self.overwrite: bool = args.overwrite
        self._output: Path | None = args.output
        self._masks: Path | None = args.masks
        self._json: str | None = args.json
        self._polygons: bool = args.json_polygons
        self._formats: tuple[str, ...] = args.formats
        self._npz: Path | None = args.npz
        self._check_kinds()
        if not (args.dry or self._output or self._masks or self._json or self._npz):
            raise UsageError(
                "expected one of --output, --json, --npz, --masks or --dry, found none"
            )
        if self._formats and (self._output is None or self.of("").further is None):
            raise UsageError(f"--formats: expected a directory as --output, found {self._output}")
        self._documents: list[dict[str, Any]] = []

    def _check_kinds(self) -> None:
        """Raise `UsageError` for names of another kind of file, and for one file twice."""
        output = self._output
        several = " for several images" if self.several else ""
        if output is not None and output.suffix and not output.is_dir():
            if self.several and _is_image(output):
                raise UsageError(f"--output: expected a directory{several}, found {output}")
            if not (self.several or _is_image(output)):
                raise UsageError(
                    f"--output: expected a directory or a suffix of {list(IMAGE_SUFFIXES)}, "
                    f"found {output}"
                )
        for option, folder in (
            ("--output", output if self.several else None),
            ("--masks", self._masks),
            ("--npz", self._npz if self.several else None),
        ):
            check_directory(option, folder, several)
        if not self.several:
            refuse_twice((*self.of("").singles(), self._joint))

    @property
    def _joint(self) -> Path | None:
        """The JSON file of all images."""
        return None if self._json in (None, "-") else Path(str(self._json))

    def of(self, name: str) -> Files:
        """Return the files of the image with this name."""
        folder, overlay = self._output, None
        if folder is not None and not self.several and _is_image(folder):
            folder, overlay = None, folder
        own = Path(name if self.several else "")
        if folder is not None:
            folder = folder / own
            overlay = folder / "overlay.png"
        masks = folder if self._masks is None else self._masks / own
        as_json = None
        if folder is not None and (self.several or self._json is None):
            as_json = folder / "masks.json"
        npz = self._npz / f"{name}.npz" if self._npz is not None and self.several else self._npz
        return Files(overlay, masks, as_json, npz, self._polygons, folder, self._formats)

    def shown(self, name: str) -> str:
        """Return what is written for an image, in words."""
        files = self.of(name)
        masks = None if files.masks is None else files.masks / "mask_*.png"
        every = (files.overlay, files.json, self._json, files.npz, masks)
        shown = [str(path) for path in every if path is not None]
        if files.further is not None:
            shown += [str(files.further / form) for form in files.formats]
        return str(shown or "nothing")

    def check(self, inputs: Iterable[Path], names: Iterable[str]) -> None:
        """Raise `UsageError` if a result would replace an input or foreign masks."""
        sources = Sources(inputs)
        joint = self._joint
        if joint is not None and (path := sources.same_as(joint)):
            raise UsageError(f"--json: expected another file than the input, found {path}")
        if not self.several:
            self._check_inputs(sources, self.of(""))
        refuse_foreign("--json", joint, overwrite=self.overwrite)
        # With --output the images that are left have JSON of their own, which is taken in again.
        complete = not self.several or self.overwrite or self._output is not None
        if joint is not None and joint.is_file() and not complete:
            raise UsageError(f"--json: expected no file yet, found {joint}; see --overwrite")
        for name in names:
            files = self.of(name)
            self._check_inputs(sources, files)
            if not self.several:
                self._check_foreign(files)

    @staticmethod
    def _check_inputs(sources: Sources, files: Files) -> None:
        for result in (*files.existing(), *files.further_images()):
            if path := sources.same_as(result):
                raise UsageError(
                    f"expected results in other files than the input, found {path} as both"
                )

    def has(self, given: Input, origin: str) -> bool:
        """Tell whether an image of several has all its results, and take them in if it has.

        Raises `UsageError` if it has results of another input or other arguments.
        """
        files = self.of(given.name)
        if not files.are_made_from(given.path, origin):
            return False
        if self._json is None:
            return True
        document = None if files.json is None else _document_of(files.json)
        if document is None:
            return False
        document["images"][0]["file_name"] = str(given.path)
        self._documents.append(document)
        return True

    def _check_foreign(self, files: Files) -> None:
        for option, path in (("--output", files.overlay), ("--output", files.json),
                             ("--npz", files.npz)):  # fmt: skip
            refuse_foreign(option, path, overwrite=self.overwrite)
        refuse_foreign("--output", *files.further_images(), overwrite=self.overwrite)
        option = "--output" if self._masks is None else "--masks"
        refuse_foreign(option, *files.mask_files(), overwrite=self.overwrite)

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        if self._json == "-":
            tell_aside(text)
        else:
            tell(text)

    def write(
        self,
        name: str,
        found: Found,
        described: dict[str, Any],
        image: tiles.Image,
        origin: str = "",
    ) -> list[str]:
        """Write the files of one image; return what was done, one line each."""
        lines = self.of(name).write(found, described, image, origin)
        if self._json is not None:
            self._documents.append(found.document(described, polygons=self._polygons))
        return lines

    def finish(self) -> None:
        """Write the JSON of all images that are done."""
        document = JSON_MARK | coco.joined(self._documents)
        if self._json == "-":
            print_json(document)
        elif self._joint is not None:
            io.write_json(self._joint, document)
            self.say(f"wrote {self._joint}")


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir()


def _document_of(path: Path) -> dict[str, Any] | None:
    """Return the document of one image, None if it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        coco.document(document["images"][0], document["annotations"], document["categories"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return dict(document)
