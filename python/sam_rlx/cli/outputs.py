"""Result files of a command: of one image, or of several by their names."""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.files.marks import JSON_MARK
from sam_rlx.cli.common import (
    IMAGE_SUFFIXES,
    UsageError,
    is_same_file,
    refuse_foreign,
    remove_stale,
    tell,
)

_MASK_NAME = re.compile(r"mask_\d{3,}\.png")


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that name result files, and ``--dry``."""
    parser.add_argument(
        "--output",
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
        "--overwrite",
        action="store_true",
        help="of several images: do those again that have results; of one: also write over files "
        "that sam-rlx has not written",
    )
    parser.add_argument(
        "--dry", action="store_true", help="check the input, say what would be done, and stop"
    )


@dataclass(frozen=True)
class Files:
    """Files for the results of one image; None for what is not asked for."""

    overlay: Path | None = None
    masks: Path | None = None
    json: Path | None = None
    npz: Path | None = None

    def existing(self) -> Path | None:
        """Return a result that is there already, or None."""
        single = (path for path in (self.overlay, self.json, self.npz) if path is not None)
        return next((path for path in (*single, *self.mask_files()) if path.exists()), None)

    def mask_files(self) -> list[Path]:
        """Return the masks that are in the directory already."""
        if self.masks is None or not self.masks.is_dir():
            return []
        return sorted(path for path in self.masks.iterdir() if _MASK_NAME.fullmatch(path.name))

    def holds(self, path: Path) -> bool:
        """Whether writing the results would replace a file."""
        ours = [each for each in (self.overlay, self.json, self.npz) if each is not None]
        return any(is_same_file(path, each) for each in (*ours, *self.mask_files()))

    def write(self, found: "Found", described: dict[str, Any]) -> list[str]:
        """Write what a command has found on an image. An error leaves no new file.

        Returns
        -------
        list of str
            What was done, one line each.
        """
        new: list[Path] = []
        try:
            return list(self._written(found, described, new))
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise

    def _written(self, found: "Found", described: dict[str, Any], new: list[Path]) -> Iterator[str]:
        def begun(path: Path) -> Path:
            if not path.exists():
                new.append(path)
            return path

        if self.overlay is not None:
            io.write_image(begun(self.overlay), found.overlay)
            yield f"wrote {self.overlay}"
        if self.masks is not None:
            before = self.mask_files()
            written = [self.masks / f"mask_{index:03d}.png" for index in range(len(found.masks))]
            for path in written:
                begun(path)
            io.write_masks(self.masks, found.masks)
            yield from (f"wrote {path}" for path in written)
            yield from remove_stale(self.masks, before, written)
        if self.npz is not None:
            io.write_npz(begun(self.npz), **found.arrays)
            yield f"wrote {self.npz}"
        if self.json is not None:
            io.write_json(begun(self.json), found.document(described))
            yield f"wrote {self.json}"


@dataclass(frozen=True)
class Found:
    """What a command has found on one image.

    Attributes
    ----------
    overlay : ndarray (H, W, 3)
        The image with the masks drawn in.
    masks : list of bool (H, W)
        For PNG files.
    annotations, categories
        For COCO JSON.
    arrays : dict
        For NPZ.
    summary : str
        A few words, such as ``"3 masks"``.
    hint : str
        What may help, if nothing was found; else empty.
    """

    overlay: NDArray[np.uint8]
    masks: list[NDArray[np.bool_]]
    annotations: list[dict[str, Any]]
    arrays: dict[str, Any]
    summary: str
    hint: str = ""
    categories: Sequence[str] = ("object",)

    def document(self, described: dict[str, Any]) -> dict[str, Any]:
        """Return the COCO document of the image."""
        return JSON_MARK | io.coco_document(described, self.annotations, self.categories)


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
        self._npz: Path | None = args.npz
        self._check_kinds()
        if not (args.dry or self._output or self._masks or self._json or self._npz):
            raise UsageError(
                "expected one of --output, --json, --npz, --masks or --dry, found none"
            )
        self._documents: list[dict[str, Any]] = []

    def _check_kinds(self) -> None:
        """Raise `UsageError` for a file where a directory is needed, and for one file twice."""
        output = self._output
        if output is not None and output.suffix and not output.is_dir():
            if self.several and _is_image(output):
                raise UsageError(
                    f"--output: expected a directory for several images, found {output}"
                )
            if not (self.several or _is_image(output)):
                raise UsageError(
                    f"--output: expected a directory or a suffix of {list(IMAGE_SUFFIXES)}, "
                    f"found {output}"
                )
        if self.several and self._npz is not None and self._npz.suffix.lower() == ".npz":
            raise UsageError(f"--npz: expected a directory for several images, found {self._npz}")
        if not self.several:
            files = self.of("")
            single = [files.overlay, files.json, files.npz, self._joint]
            named = [path for path in single if path is not None]
            for index, path in enumerate(named):
                if any(is_same_file(path, other) for other in named[:index]):
                    raise UsageError(
                        f"expected different files for the results, found {path} twice"
                    )

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
        return Files(overlay, masks, as_json, npz)

    def shown(self, name: str) -> str:
        """Return what is written for an image, in words."""
        files = self.of(name)
        masks = None if files.masks is None else files.masks / "mask_*.png"
        every = (files.overlay, files.json, self._json, files.npz, masks)
        return str([str(path) for path in every if path is not None] or "nothing")

    def check(self, inputs: Iterable[Path], names: Iterable[str]) -> None:
        """Raise `UsageError` if a result would replace an input or foreign masks."""
        sources = list(inputs)
        joint = self._joint
        for path in sources:
            if joint is not None and is_same_file(path, joint):
                raise UsageError(f"--json: expected another file than the input, found {path}")
        refuse_foreign("--json", joint, overwrite=self.overwrite)
        # With --output the images that are left have JSON of their own, which is taken in again.
        complete = not self.several or self.overwrite or self._output is not None
        if joint is not None and joint.is_file() and not complete:
            raise UsageError(f"--json: expected no file yet, found {joint}; see --overwrite")
        for name in names:
            files = self.of(name)
            for path in sources:
                if files.holds(path):
                    raise UsageError(
                        f"expected results in other files than the input, found {path} as both"
                    )
            if not self.several:
                self._check_foreign(files)

    def _check_foreign(self, files: Files) -> None:
        for option, path in (("--output", files.overlay), ("--output", files.json),
                             ("--npz", files.npz)):  # fmt: skip
            refuse_foreign(option, path, overwrite=self.overwrite)
        option = "--output" if self._masks is None else "--masks"
        refuse_foreign(option, *files.mask_files(), overwrite=self.overwrite)

    def say(self, text: str) -> None:
        """Print a message: on stdout, or on stderr when stdout carries JSON."""
        tell(text, sys.stderr if self._json == "-" else None)

    def write(self, name: str, found: Found, described: dict[str, Any]) -> list[str]:
        """Write the files of one image; return what was done, one line each."""
        lines = self.of(name).write(found, described)
        if self._json is not None:
            self._documents.append(found.document(described))
        return lines

    def keep(self, name: str) -> None:
        """Take an image that has results into the JSON of all images, from its own JSON."""
        path = self.of(name).json
        if self._json is not None and path is not None and path.is_file():
            self._documents.append(json.loads(path.read_text(encoding="utf-8")))

    def finish(self) -> None:
        """Write the JSON of all images that are done."""
        document = _joined(self._documents)
        if self._json == "-":
            print(json.dumps(document))
        elif self._joint is not None:
            io.write_json(self._joint, document)
            self.say(f"wrote {self._joint}")


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir()


def _joined(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one COCO document of those of single images."""
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for document in documents:
        number = len(images) + 1
        images += [{**document["images"][0], "id": number}]
        for annotation in document["annotations"]:
            ids = {"id": len(annotations) + 1, "image_id": number}
            annotations.append({**annotation, **ids})
    categories = documents[0]["categories"] if documents else [{"id": 1, "name": "object"}]
    return JSON_MARK | {"images": images, "annotations": annotations, "categories": categories}
