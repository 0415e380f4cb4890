"""Gestures that write what was made in the forms of other programs, and read such forms."""

import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.suffixes import EXPORTS
from sam_rlx.apps.annotator import exports, imports
from sam_rlx.apps.annotator.exports.work import Options, Work
from sam_rlx.apps.annotator.gestures import (
    Contents,
    FileName,
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
from sam_rlx.apps.annotator.session import UNCOLORED, by_view
from sam_rlx.apps.annotator.values import Document, Object, Project
from sam_rlx.errors import InvalidArgumentError, MediaWarning

_MAX_LISTED = 5  # names of images in an error
_MAX_TOLD = 50  # classes and names that a view is told


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
    def do_import_from(self, path: FromPython, form: FromPython = None) -> list[str]:
        """Add the objects of files of another program; return names of images not found here."""
        with self._working("importing"):
            form, placed = self._found_in(path, form)
        absent = placed.absent
        self._import(form, placed)
        if absent:
            some = ", ".join(absent[:5]) + (", ..." if len(absent) > 5 else "")
            warnings.warn(f"{path}: {len(absent)} are not here: {some}", MediaWarning, stacklevel=2)
        return absent

    @gesture("import objects of another program")
    def do_import_as(self, name: FileName, contents: Contents, add: Flag = False) -> None:
        """Tell a view what files would add: to which images, of which classes, what is left over.

        The files are a ZIP of a folder, or the one file of a form. With `add` they do add it, in
        one edit.
        """
        view, answer = self._asks
        with self._working("importing"), tempfile.TemporaryDirectory() as made:
            path = imports.unpack(name, contents, Path(made))
            form, placed = self._found_in(path, None)
        head = {"type": "import", **self._described_import(form, placed), "added": add}
        if add:
            self._import(form, placed)
        self.send({**head, "answer": answer}, [], view)

    def _found_in(self, path: Path, form: Any) -> tuple[str, "Placed"]:
        """Read files of a form, by default the one that they have; nothing changes."""
        self.begin_import()
        chosen = imports.form_of(path) if form is None and path.exists() else form
        placed = self.placed(imports.read(path, chosen, self.size_named))
        if not placed.objects:
            some = ", ".join(placed.absent[:_MAX_LISTED])
            raise InvalidArgumentError(f"{path.name}: expected images that are here, found {some}")
        return chosen, placed

    def _described_import(self, form: str, placed: "Placed") -> dict[str, Any]:
        """Return what a view is told of an import before it is one."""
        classes = Counter(name for some in placed.objects.values() for _, name in some)
        known = {one.name for one in self.classes}
        return {
            "form": form,
            "matched": dict(placed.matched),
            "objects": classes.total(),
            "classes": [
                {"name": name, "objects": count, "new": name not in known}
                for name, count in classes.most_common(_MAX_TOLD)
            ],
            "absent": placed.absent[:_MAX_TOLD],
            "absent_count": len(placed.absent),
        }

    def _import(self, form: str, placed: "Placed") -> None:
        """Add what files have, in one edit."""

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents: dict[str, Document] = {}
            for key, objects in placed.objects.items():
                added = []
                for one, category in objects:
                    project, made = self.with_class(project, category)
                    added.append(replace(one, class_number=made.number))
                document = self.project.document(key)
                documents[key] = document.with_objects(*self.numbered_in(project, document, added))
            return project, documents

        self.project.edit_all(change, self._doing, f"import {form}", by_view(*self._asks))
        self.on_imported()
        self.broadcast(None)

    def begin_import(self) -> None:
        """Take note of what files are matched with."""

    def size_named(self, name: str) -> tuple[int, int] | None:
        """Return the size (H, W) of an open image by its key, its path, its name or its stem."""
        raise NotImplementedError

    def placed(self, found: Sequence[FoundStill]) -> "Placed":
        """Return where the objects of files go."""
        raise NotImplementedError

    def on_imported(self) -> None:
        """Show what was added."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the objects of files go.

    Attributes
    ----------
    objects : dict of str to list of (Object, str)
        Objects and the names of their classes, by keys of items.
    absent : list of str
        Names of images of the files that are not here.
    matched : Counter of str
        Images by what they were found by: their key, path or name; the frames of a clip.
    """

    objects: dict[str, list[tuple[Object, str]]] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    matched: Counter[str] = field(default_factory=Counter)


def without_number(one: FoundObject, **values: Any) -> Object:
    """Return an object of a file, without a number."""
    return Object(0, one.name, UNCOLORED, note=one.note, **values)
