"""What is exported: images and frames with their objects, read one after the other."""

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.formats.instances import Instance
from sam_rlx.apps.annotator.values import ClassDef, Color, Mask, Object
from sam_rlx.errors import InvalidArgumentError

Task: TypeAlias = Literal["segment", "detect"]
_MAX_NAME = 80  # letters of a name of a file made from one of an object


@dataclass(frozen=True, eq=False)
class Shown:
    """An object on one image or frame."""

    one: Object
    of_class: ClassDef
    mask: Mask

    @property
    def number(self) -> int:
        """Its number, the same on all frames."""
        return self.one.number

    @property
    def color(self) -> Color:
        """RGB, as its class has it."""
        return self.of_class.color

    def instance(self) -> Instance:
        """Return it as formats have it, called by its class."""
        packed = self.mask.packed
        return Instance(
            packed.run_lengths(), packed.hw, name=self.of_class.name, score=self.mask.score
        )

    def pixels(self) -> NDArray[np.bool_]:
        """Return its mask: a new bool (H, W)."""
        return self.mask.to_mask()


@dataclass(frozen=True, eq=False)
class Still:
    """A still: an image, or a frame of a clip.

    Attributes
    ----------
    name : str
        Its path below the project's folder; of a frame ``CLIP/000012.jpg``.
    hw : (int, int)
    objects : tuple of Shown
        In the order of their numbers, without those that are left out.
    key : str
        Of its content, "" for none.
    read : callable
        Returns the pixels (H, W, 3).
    file : Path, optional
        That has these pixels.
    frame : int, optional
        Of a clip.
    """

    name: str
    hw: tuple[int, int]
    objects: tuple[Shown, ...]
    key: str
    read: Callable[[], NDArray[np.uint8]]
    file: Path | None = None
    frame: int | None = None

    def largest_first(self) -> list[Shown]:
        """Return the objects in the order in which they are painted: small ones are on top."""
        return sorted(self.objects, key=lambda each: -each.instance().area)


@dataclass(frozen=True, eq=False)
class Clip:
    """A clip: its frames with masks, and how many it has."""

    name: str
    hw: tuple[int, int]
    count: int
    rate: float
    stills: tuple[Still, ...]
    key: str
    read: Callable[[int], NDArray[np.uint8]]

    @cached_property
    def numbers(self) -> list[int]:
        """The numbers of its objects."""
        return sorted({one.number for still in self.stills for one in still.objects})

    def track(self, number: int) -> dict[int, Shown]:
        """Return an object by frame."""
        return {
            still.frame: one
            for still in self.stills
            for one in still.objects
            if one.number == number and still.frame is not None
        }


@dataclass(frozen=True, eq=False)
class Work:
    """All that one export writes.

    Attributes
    ----------
    classes : tuple of ClassDef
        Those that are written, with and without objects.
    stills : tuple of Still
        Images; for a clip its frames with masks.
    clip : Clip, optional
    """

    classes: tuple[ClassDef, ...]
    stills: tuple[Still, ...]
    clip: Clip | None = None

    @cached_property
    def stems(self) -> dict[str, str]:
        """By name of a still: its path without suffix, or with it where two would be equal."""
        found: dict[str, str] = {}
        names = [still.name for still in self.stills]
        short = [safe(str(Path(name).with_suffix(""))) for name in names]
        count = Counter(short)
        for name, stem in zip(names, short, strict=True):
            found[name] = stem if count[stem] == 1 else safe(name)
        return found

    def stem(self, still: Still) -> str:
        """Return the path of a still's files, without a suffix."""
        return self.stems[still.name]

    def index(self, one: Shown) -> int:
        """Return the index of the class of an object, from 0."""
        return self.classes.index(one.of_class)


@dataclass(frozen=True)
class Options:
    """What a person chooses.

    Attributes
    ----------
    tolerance : float, optional
        Of outlines, in pixels; None for the exact form, run lengths where a format has them.
    task : {"segment", "detect"}
        Masks, or boxes alone.
    split : float, optional
        Part of the images that are for validation, 0 to 1.
    """

    tolerance: float | None = None
    task: Task = "segment"
    split: float | None = None

    def is_validation(self, still: Still) -> bool:
        """Tell of which part a still is: the same at each export."""
        digest = hashlib.sha256((still.key or still.name).encode()).digest()
        return self.split is not None and digest[0] / 256 < self.split


def safe(path: str) -> str:
    """Return a path below a folder that every file system takes."""
    parts = [re.sub(r'[\x00-\x1f<>:"|?*\\]', "_", part).strip(" .") for part in path.split("/")]
    return "/".join(part or "_" for part in parts if part not in ("", "..")) or "_"


def safe_name(name: str) -> str:
    """Return a name as a part of a file's name."""
    kept = "".join(char if char.isalnum() or char in "-_ " else "_" for char in name)
    return kept.strip()[:_MAX_NAME] or "object"


def put_image(still: Still, folder: Path, stem: str) -> Path:
    """Put a still into a folder: the file itself where there is one; return its path there."""
    if still.file is not None:
        target = below(folder, stem + still.file.suffix)
        shutil.copyfile(still.file, target)
        return target
    target = below(folder, stem + ".png")
    io.pillow("Image").fromarray(still.read()).save(target, compress_level=1)
    return target


def put_png(folder: Path, name: str, pixels: NDArray[Any], palette: bytes | None = None) -> Path:
    """Write an array as PNG; with a palette as indices of its colours."""
    target = below(folder, name)
    image = io.pillow("Image").fromarray(pixels)
    if palette is not None:
        image.putpalette(palette)
    image.save(target, "PNG", compress_level=1)
    return target


def below(folder: Path, name: str) -> Path:
    """Return the path of a file below a folder, which has its folders then."""
    target = folder / name
    if not target.resolve().is_relative_to(folder.resolve()):
        raise InvalidArgumentError(f"name: expected one below the folder, found {name!r}")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def chosen(classes: Sequence[ClassDef], names: Sequence[str] | None) -> tuple[ClassDef, ...]:
    """Return the classes with some names, or all."""
    if names is None:
        return tuple(classes)
    there = {one.name for one in classes}
    wrong = next((name for name in names if name not in there), None)
    if wrong is not None:
        raise InvalidArgumentError(f"classes: expected some of {sorted(there)}, found {wrong!r}")
    return tuple(one for one in classes if one.name in names)


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder in the order of their names; links are not followed."""
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            yield Path(root) / name
