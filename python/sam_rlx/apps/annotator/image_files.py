"""Files of images: exports, imports, and objects of images whose content has changed."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sam_rlx.apps.annotator.export import Annotated, ExportedFile, export
from sam_rlx.apps.annotator.export_gestures import ExportGestures, Placed, without_number
from sam_rlx.apps.annotator.exports.collect import Source, image_work
from sam_rlx.apps.annotator.exports.work import Work
from sam_rlx.apps.annotator.gestures import Contents, Flag, Words, gesture
from sam_rlx.apps.annotator.imports import FoundStill
from sam_rlx.apps.annotator.saved import OpenImages, from_saved
from sam_rlx.apps.annotator.saved_documents import read_saved
from sam_rlx.apps.annotator.session import by_view, numbered
from sam_rlx.apps.annotator.sources import HELD_ASIDE, ImageSource
from sam_rlx.apps.annotator.values import Document, Mask, Object, Project
from sam_rlx.errors import InvalidArgumentError, MediaWarning

FRAME = 0  # of an image


class ImageFiles(ExportGestures):
    """What is written of a queue of images, and what is read for them."""

    sources: ImageSource
    index: int  # of the image that is shown
    notes: list[str]  # that views are told at the beginning

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._names: list[tuple[str, dict[str, int | None]]] = []  # of the images, for an import

    def annotated_indices(self) -> list[int]:
        """Return the numbers of the images with objects."""
        keys = [self.sources.known_key(at) for at in range(len(self.sources))]
        return [at for at, key in enumerate(keys) if key and self.project.document(key).objects]

    def annotated(self, index: int) -> Annotated:
        """Return an image with its objects."""
        key = self.sources.known_key(index)
        objects = self.project.document(key).objects
        item = self.project.history.project.item(key)
        hw = objects[0].packed.hw if objects else item.hw if item and item.hw else self.hw
        project = self.project.history.project
        path, content = self.sources.path(index), self.sources.file_key(index)
        return Annotated(path, hw, objects, content, project)

    @gesture("export", edits=False)
    def do_export(self, format: Words) -> ExportedFile:
        """Write the objects as a file."""
        with self._lock:
            every = [self.annotated(at) for at in self.annotated_indices()]
            current = self.annotated(self.index)
        file = export(format, current, every)
        self._hand_over(file.name, file.mime, file.contents)
        return file

    def work(self, images: str, classes: Sequence[str] | None) -> Work:
        """Return the images that an export writes."""
        known = self.sources.known_key
        wanted = [at for at in range(len(self.sources)) if images == "all" or known(at)]
        return image_work(
            self.project.history.project,
            self.project.document,
            [self._source(at) for at in wanted],
            images,
            classes,
        )

    def _source(self, index: int) -> Source:
        sources = self.sources
        return Source(
            sources.known_key(index),
            sources.path(index),
            lambda: self._size_of(index),
            lambda: sources.read(index),
            sources.file(index),
        )

    def size_named(self, name: str) -> tuple[int, int] | None:
        """Return the size (H, W) of an image by its key, its path, its name, or its stem."""
        found = self._named(name)
        return None if found is None else self._size_of(found[0])

    def _named(self, name: str) -> tuple[int, str] | None:
        """Return the index of the only image of a name, and what it was found by.

        A key of a content, a path, a name, or either without suffix. Exports write ``a/b.jpg`` as
        ``a_b`` too.
        """
        for by, known in self._names:
            at = known.get(name)
            if at is not None:
                return at, by
        return self._named(Path(name).name) if "/" in name else None

    def begin_import(self) -> None:
        """Take note of the names of the images."""
        paths = [self.sources.path(at) for at in range(len(self.sources))]
        stems = [str(Path(path).with_suffix("")) for path in paths]
        self._names = [
            (by, _only_ones(names))
            for by, names in (
                ("key", [self.sources.file_key(at) for at in range(len(paths))]),
                ("path", paths),
                ("path", stems),
                ("path", [stem.replace("/", "_") for stem in stems]),
                ("name", [Path(path).name for path in paths]),
                ("name", [Path(path).stem for path in paths]),
            )
        ]

    def placed(self, found: Sequence[FoundStill]) -> Placed:
        """Return where the objects of files go: to images by their key, path or name."""
        placed = Placed()
        for found_still in found:
            known = self._named(found_still.key) or self._named(found_still.name)
            if known is None:
                placed.absent.append(found_still.name)
                continue
            at, by = known
            placed.matched[by] += 1
            hw = self._size_of(at)
            objects = []
            for one in found_still.objects:
                if one.mask.hw != hw:
                    raise InvalidArgumentError(
                        f"{found_still.name}: expected masks of {hw[1]} x {hw[0]} pixels, found "
                        f"{one.mask.hw[1]} x {one.mask.hw[0]}"
                    )
                made = without_number(one, masks={FRAME: Mask(one.mask, 1.0, "file")})
                objects.append((made, one.category))
            key = self.sources.key(at, self.project)
            placed.objects.setdefault(key, []).extend(objects)
        return placed

    @gesture("load objects")
    def do_load(self, name: Words, contents: Contents) -> list[str]:
        """Add the objects of a file to their images; return those of its images that are not open.

        A view that asked is told how many these are.
        """
        view, answer = self._asks
        with self._working("Loading objects"):
            saved = read_saved(name, contents, self._open_images())
        if saved.passed_over:
            warnings.warn(_without_masks(name, saved.passed_over), MediaWarning, stacklevel=2)
        keys = {self.sources.key(index, self.project): o for index, o in saved.objects.items()}

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents = {}
            for key, objects in keys.items():
                document, added = self.project.document(key), []
                for one in objects:
                    made = None
                    if one.category is not None:
                        project, made = self.with_class(project, one.category)
                    number = self.class_number if made is None else made.number
                    added.append(replace(from_saved(one), class_number=number))
                documents[key] = document.with_objects(*numbered(document, added, project))
            return project, documents

        self.project.edit_all(change, "load", f"load {name}")
        self._select(None)
        self.broadcast(answer)
        if view is not None:
            head = {
                "type": "loaded",
                "objects": sum(map(len, saved.objects.values())),
                "absent": saved.absent,
                "passed_over": len(saved.passed_over),
                "answer": answer,
            }
            self.send(head, [], view)
        return saved.absent

    def _open_images(self) -> OpenImages:
        count = len(self.sources)
        return OpenImages(
            [self.sources.path(at) for at in range(count)],
            self.index,
            self._size_of,
            [self.sources.file_key(at) for at in range(count)],
        )

    def _size_of(self, index: int) -> tuple[int, int]:
        item = self.project.history.project.item(self.sources.known_key(index))
        if item is None or item.hw is None:
            height, width = self.sources.read(index).shape[:2]
            return height, width
        return item.hw

    @gesture("keep objects of images whose content has changed")
    def do_keep_changed(self, on: Flag = True) -> None:
        """Give images whose files have changed the objects that they had, or hold these aside.

        Objects of an image of another size are held aside in any case.
        """
        found: dict[str, tuple[Object, ...]] = {}
        aside: list[str] = []
        for before, index in self.sources.changed if on else ():
            objects = self.project.document(before).objects
            hw = self.sources.read(index).shape[:2]
            if all(one.packed.hw == hw for one in objects):
                found[self.sources.key(index, self.project)] = objects
            else:
                aside.append(self.sources.name(index))

        def change(project: Project) -> tuple[Project, dict[str, Document]]:
            documents = {key: self.project.document(key) for key in found}
            return project, {
                key: one.with_objects(*self.numbered_in(project, one, found[key]))
                for key, one in documents.items()
            }

        if found:
            title = "keep objects of changed images"
            self.project.edit_all(change, self._doing, title, by_view(*self._asks))
        self.sources.changed = ()
        self.notes = [one for one in self.notes if not one.endswith(HELD_ASIDE)]
        self.notes += [f"{name} has another size than before: {HELD_ASIDE}" for name in aside]
        if aside:
            self.send({"type": "note", "text": "; ".join(self.notes[-len(aside) :][:5])}, [], None)
        self.broadcast(self._asks[1])


def _only_ones(names: Sequence[str]) -> dict[str, int | None]:
    """Return the index of each name; None for a name that several have."""
    found: dict[str, int | None] = {"": None}
    for at, name in enumerate(names):
        found[name] = None if name in found else at
    return found


def _without_masks(name: str, passed_over: list[str]) -> str:
    some = ", ".join(passed_over[:3]) + (", ..." if len(passed_over) > 3 else "")
    return f"{name}: {len(passed_over)} annotations have no mask, and are passed over: {some}"
