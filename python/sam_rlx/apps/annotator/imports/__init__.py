"""Imports: each form is a function that reads a folder or file; they stand in one table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from sam_rlx.apps.annotator.imports import forms
from sam_rlx.apps.annotator.imports.found import FoundObject, FoundStill, SizeOf
from sam_rlx.apps.annotator.imports.unpacked import form_of, unpack
from sam_rlx.errors import InvalidArgumentError

ReadName: TypeAlias = Literal[
    "coco", "panoptic", "yolo", "label_studio", "cvat", "labelme", "isat", "voc", "labels", "masks",
    "mots", "youtube_vis", "davis",
]  # fmt: skip
Reader: TypeAlias = Callable[[Path, SizeOf], Iterator[FoundStill]]
READERS: dict[str, Reader] = {
    "coco": forms.read_coco,
    "panoptic": forms.read_panoptic,
    "yolo": forms.read_yolo,
    "label_studio": forms.read_label_studio,
    "cvat": forms.read_cvat,
    "labelme": forms.read_labelme,
    "isat": forms.read_isat,
    "voc": forms.read_voc,
    "labels": forms.read_label_images,
    "masks": forms.read_masks,
    "mots": forms.read_mots,
    "youtube_vis": forms.read_youtube_vis,
    "davis": forms.read_davis,
}


def read(path: Path, form: str, size_of: SizeOf) -> list[FoundStill]:
    """Return the images, or frames, of a folder or file with their objects.

    Parameters
    ----------
    path : Path
        A folder as `exports` writes it, or the one file of the form.
    form : str
        Of `READERS`.
    size_of : callable
        Takes the name of an image of the files, or its stem; returns its size (H, W), or None.

    Raises
    ------
    InvalidArgumentError
        The files are something else, damaged, or beyond a limit.
    FileNotFoundError
        There is nothing at `path`.
    """
    if form not in READERS:
        raise InvalidArgumentError(f"form: expected one of {list(READERS)}, found {form!r}")
    if not path.exists():
        raise FileNotFoundError(f"path: expected a file or folder, found none at {path}")
    return list(READERS[form](path, size_of))


__all__ = ["READERS", "FoundObject", "FoundStill", "ReadName", "form_of", "read", "unpack"]
