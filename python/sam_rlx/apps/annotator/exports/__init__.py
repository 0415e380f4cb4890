"""Exports: each form is a function that writes a folder; they stand in one table, `FORMS`."""

import os
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx.apps.annotator.exports import (
    coco_form,
    images_form,
    text_forms,
    tools_forms,
    video_forms,
)
from sam_rlx.apps.annotator.exports.work import Options, Work, walk
from sam_rlx.errors import InvalidArgumentError

FormName: TypeAlias = Literal[
    "coco", "panoptic", "yolo", "label_studio", "cvat", "labelme", "isat", "voc", "labels",
    "masks", "cutouts", "overlay", "csv", "geojson", "npz", "mots", "youtube_vis", "davis",
    "overlay_clip", "alpha_clip", "alpha_frames",
]  # fmt: skip
_BOTH: tuple[str, ...] = ("image", "clip")


@dataclass(frozen=True)
class Form:
    """One form of files.

    Attributes
    ----------
    name : str
        What callers say.
    title : str
        What people read.
    write : callable
        ``write(folder, work, options)`` fills an empty folder.
    kinds : tuple of str
        What it is for: image, clip.
    loses : str
        What it cannot say.
    """

    name: str
    title: str
    write: Callable[[Path, Work, Options], None]
    kinds: tuple[str, ...] = _BOTH
    loses: str = ""


_OVERLAP = "of masks that overlap the larger one loses pixels"
_ALL = (
    Form("coco", "COCO: annotations.json", coco_form.write_instances),
    Form("panoptic", "COCO panoptic", coco_form.write_panoptic, loses=_OVERLAP),
    Form("yolo", "YOLO: data.yaml, images, labels", text_forms.write_yolo, loses="scores, notes"),
    Form("label_studio", "Label Studio: tasks.json", tools_forms.write_label_studio),
    Form("cvat", "CVAT 1.1: annotations.xml", tools_forms.write_cvat, loses="scores, notes"),
    Form("labelme", "labelme: JSON beside images", tools_forms.write_labelme),
    Form("isat", "ISAT: JSON beside images", tools_forms.write_isat, loses="scores"),
    Form("voc", "PASCAL VOC", images_form.write_voc, loses=_OVERLAP),
    Form("labels", "label images", images_form.write_labels, loses=_OVERLAP),
    Form("masks", "a PNG for each object", images_form.write_masks),
    Form("cutouts", "objects cut out, RGBA", images_form.write_cutouts),
    Form("overlay", "images with masks", images_form.write_overlays),
    Form("csv", "table of objects", text_forms.write_csv, loses="masks"),
    Form("geojson", "GeoJSON, in pixels", text_forms.write_geojson),
    Form("npz", "NumPy archives", text_forms.write_npz),
    Form("mots", "MOTS text", text_forms.write_mots, ("clip",), _OVERLAP),
    Form("youtube_vis", "YouTube-VIS", coco_form.write_youtube_vis, ("clip",)),
    Form("davis", "DAVIS: a PNG for each frame", images_form.write_davis, ("clip",), _OVERLAP),
    Form("overlay_clip", "clip with masks, MP4", video_forms.write_overlay_clip, ("clip",)),
    Form("alpha_clip", "clip with opacity, MOV", video_forms.write_alpha_clip, ("clip",)),
    Form("alpha_frames", "frames with opacity", video_forms.write_alpha_frames, ("clip",)),
)
FORMS: dict[str, Form] = {form.name: form for form in _ALL}


def form_of(name: object, kind: str) -> Form:
    """Return a form by its name; `InvalidArgumentError` if it is none for this kind of work."""
    there = [form.name for form in _ALL if kind in form.kinds]
    if not isinstance(name, str) or name not in there:
        raise InvalidArgumentError(f"form: expected one of {there} for a {kind}, found {name!r}")
    return FORMS[name]


def write(path: Path, form: str, work: Work, options: Options, *, overwrite: bool = False) -> Path:
    """Write a folder, or a ZIP where the path ends so; it appears complete or not at all.

    Parameters
    ----------
    path : Path
        Of a folder or ZIP that is not there, unless `overwrite`.
    form : str
        Of `FORMS`.
    work : Work
    options : Options
    overwrite : bool
        True: what is there goes, if it is an export too: a folder with the file that `write` leaves
        in each one.

    Raises
    ------
    InvalidArgumentError
        Something else is there, or the form cannot hold the work.
    """
    wanted = form_of(form, "image" if work.clip is None else "clip")
    _check_free(path, overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.stem}-", dir=path.parent) as made:
        folder = Path(made) / "export"
        folder.mkdir()
        wanted.write(folder, work, options)
        if path.suffix.lower() == ".zip":
            _zip(folder, path)
        else:
            (folder / _MARK).write_text(f"{form}\n", "utf-8")
            if path.exists():
                path.rename(Path(made) / "before")
            folder.rename(path)
    return path


_MARK = ".sam_rlx_export"  # a file of each folder, by which it is known again


def _check_free(path: Path, overwrite: bool) -> None:
    if not os.path.lexists(path):
        return
    ours = (path / _MARK).is_file() or (path.suffix.lower() == ".zip" and path.is_file())
    if not overwrite or not ours:
        said = "a free name, or overwrite" if ours else "a free name"
        raise InvalidArgumentError(f"path: expected {said}, found {path} there")


def _zip(folder: Path, path: Path) -> None:
    with atomic_write(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in walk(folder):
            archive.write(each, each.relative_to(folder).as_posix())


def names_of(kind: str) -> Sequence[str]:
    """Return the names of the forms for a kind of work."""
    return [form.name for form in _ALL if kind in form.kinds]


__all__ = ["FORMS", "Form", "FormName", "Options", "Work", "form_of", "names_of", "write"]
