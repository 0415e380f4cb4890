"""Gestures that write what was made in the forms of other programs, and read such forms."""

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sam_rlx.apps.annotator import exports, imports
from sam_rlx.apps.annotator.exports.work import Options, Work
from sam_rlx.apps.annotator.gestures import (
    Flag,
    FromPython,
    OptionalFileName,
    OptionalPart,
    OptionalTexts,
    OptionalTolerance,
    Words,
    gesture,
)
from sam_rlx.apps.annotator.imports import FoundObject, FoundStill
from sam_rlx.apps.annotator.repair_gestures import RepairGestures
from sam_rlx.apps.annotator.session import EXPORTS, UNCOLORED, by_view
from sam_rlx.apps.annotator.values import Document, Object, Project
from sam_rlx.errors import InvalidArgumentError, MediaWarning


class ExportGestures(RepairGestures):
    """Exports and imports, each by the name of a form."""

    kind: str  # image, clip

    def work(self, images: str, classes: Sequence[str] | None) -> Work:
        """Return what an export writes."""
        raise NotImplementedError

    def forms(self) -> list[dict[str, Any]]:
        """Return what a dialog says of the forms."""
        return [
            {"name": form.name, "title": form.title, "loses": form.loses}
            for form in exports.FORMS.values()
            if self.kind in form.kinds
        ]

    @gesture("export", key="Ctrl+E", edits=False)
    def do_export_as(
        self,
        form: Words,
        images: Words = "some",
        classes: OptionalTexts = None,
        tolerance: OptionalTolerance = None,
        task: Words = "segment",
        split: OptionalPart = None,
        name: OptionalFileName = None,
        overwrite: Flag = False,
        path: FromPython = None,
    ) -> Path | None:
        """Write the project in a form; a view gets it as a ZIP.

        With a `name` the project of a folder writes ``exports/NAME`` in it instead.
        """
        if task not in ("segment", "detect"):
            raise InvalidArgumentError(f"task: expected segment or detect, found {task!r}")
        options = Options(tolerance, "detect" if task == "detect" else "segment", split)
        if name is not None:
            path = self._export_path(name)
        work = self.work(images, classes)
        if not work.stills and work.clip is None:
            raise InvalidArgumentError(f"images: expected some that are {images!r}, found none")
        with self._working("exporting"):
            if path is not None:
                written = exports.write(path, form, work, options, overwrite=overwrite)
                if name is not None:
                    self._say_written(name, len(work.stills))
                return written
            with tempfile.TemporaryDirectory() as folder:
                file = exports.write(Path(folder) / f"{form}.zip", form, work, options)
                self._hand_over(file.name, "application/zip", file.read_bytes())
        return None

    def _export_path(self, name: str) -> Path:
        """Return the path of an export with a name: in the folder of the project."""
        folder = self.exports_folder
        if folder is None:
            raise InvalidArgumentError(
                f"name: expected the project of a folder, found one elsewhere, for {name!r}"
            )
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise InvalidArgumentError(f"name: expected a folder, found another thing at {folder}")
        return folder / name

    def _say_written(self, name: str, count: int) -> None:
        noun = "image" if self.kind == "image" else "frame"
        said = f"Wrote {EXPORTS}/{name}: {count} {noun}{'' if count == 1 else 's'}."
        view, answer = self._asks
        self.send({"type": "note", "text": said, "about": "export", "answer": answer}, [], view)

    @gesture("import", of_views=False)
    def do_import_from(self, path: FromPython, form: Words) -> list[str]:
        """Add the objects of files of another program; return names of images not found here."""
        with self._working("importing"):
            found = imports.read(path, form, self.size_named)
        placed, absent = self.placed(found)
        if not placed:
            some = ", ".join(absent[:5])
            raise InvalidArgumentError(f"{path}: expected images that are here, found {some}")

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents: dict[str, Document] = {}
            for key, objects in placed.items():
                added = []
                for one, category in objects:
                    project, made = self.with_class(project, category)
                    added.append(replace(one, class_number=made.number))
                document = self.project.document(key)
                documents[key] = document.with_objects(*self.numbered_in(project, document, added))
            return project, documents

        self.project.edit_all(change, self._doing, f"import {form}", by_view(*self._asks))
        self.on_imported()
        self.broadcast(self._asks[1])
        if absent:
            some = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
            warnings.warn(f"{path}: {len(absent)} are not here: {some}", MediaWarning, stacklevel=2)
        return absent

    def size_named(self, name: str) -> tuple[int, int] | None:
        """Return the size (H, W) of an open image by its name or stem."""
        raise NotImplementedError

    def placed(
        self, found: Sequence[FoundStill]
    ) -> tuple[dict[str, list[tuple[Object, str]]], list[str]]:
        """Return objects and their classes by key, and names of images that are not here."""
        raise NotImplementedError

    def on_imported(self) -> None:
        """Show what was added."""


def without_number(one: FoundObject, **values: Any) -> Object:
    """Return an object of a file, without a number and a name."""
    return Object(0, "", UNCOLORED, note=one.note, **values)
