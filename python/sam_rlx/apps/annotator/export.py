"""The objects of a session as files."""

import io as streams
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.files.marks import PNG_MARK, PNG_RESULT
from sam_rlx._internal.files.suffixes import WRITTEN
from sam_rlx._internal.formats import coco
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.formats.outlines import flat_polygons
from sam_rlx._internal.results import ResultForms
from sam_rlx.apps.annotator.saved import LABELS_KEY
from sam_rlx.apps.annotator.sources import encoded
from sam_rlx.apps.annotator.values import Object, Project
from sam_rlx.errors import InvalidArgumentError

Format: TypeAlias = Literal["coco", "png", "labels", "npz", "polygons"]


@dataclass(frozen=True, eq=False)
class Annotated(ResultForms):
    """An image of a session: its path, size (H, W), objects, and the key of its content.

    The key is "" for an image that is no file. Objects are called by their class, and have their
    own names in their fields.
    """

    name: str
    hw: tuple[int, int]
    objects: Sequence[Object]
    key: str = ""
    project: Project = field(default_factory=Project)

    def described(self) -> dict[str, Any]:
        """Return what a document says of the image."""
        height, width = self.hw
        said = {"file_name": self.name, "height": height, "width": width}
        return {**said, "sam_rlx": {"key": self.key}} if self.key else said

    def _instances(self) -> list[Instance]:
        return list(map(self.instance, self.objects))

    def instance(self, one: Object) -> Instance:
        """Return an object as formats have it."""
        said: dict[str, Any] = {"name": one.name, "color": list(one.color)}
        for name, value in (("text", one.text), ("note", one.note)):
            if value:
                said[name] = value
        packed = one.packed
        return Instance(
            packed.run_lengths(),
            packed.hw,
            name=self.project.class_of(one).name,
            score=one.score,
            fields=said,
        )

    def categories(self) -> list[dict[str, Any]]:
        """Return the classes of the project as COCO has them."""
        return [{"id": one.number, "name": one.name} for one in self.project.classes]

    def _hw(self) -> tuple[int, int]:
        return self.hw


@dataclass(frozen=True)
class ExportedFile:
    """A file: name, media type and contents."""

    name: str
    mime: str
    contents: bytes

    @property
    def kind(self) -> str:
        """Its kind, of `suffixes.WRITTEN`."""
        return next(kind for kind, ends in WRITTEN.items() if self.name.endswith(ends))


def export(form: str, current: Annotated, every: Sequence[Annotated]) -> ExportedFile:
    """Write the objects of the current image; ``"coco"`` writes those of every image.

    Parameters
    ----------
    form : {"coco", "png", "labels", "npz", "polygons"}
        COCO's JSON; a ZIP of a PNG for each object; one PNG whose values are 0 and 1, 2, ... for
        the objects (as `label_image` of results); NumPy arrays; JSON with outlines.
    current : Annotated
        The image that is shown.
    every : sequence of Annotated
        All images with objects.
    """
    writers = {
        "coco": lambda: ExportedFile(
            "objects.json", "application/json", _json(coco_document(every))
        ),
        "png": lambda: ExportedFile("masks.zip", "application/zip", _pngs(current)),
        "labels": lambda: ExportedFile("labels.png", "image/png", _labels(current)),
        "npz": lambda: ExportedFile("objects.npz", "application/octet-stream", _npz(current)),
        "polygons": lambda: ExportedFile(
            "polygons.json", "application/json", _json(_polygons(current))
        ),
    }
    if form not in writers:
        raise InvalidArgumentError(f"format: expected one of {list(writers)}, found {form!r}")
    return writers[form]()


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def coco_document(images: Sequence[Annotated]) -> dict[str, Any]:
    """Return one COCO document; its categories are the classes of the project."""
    return coco.joined(
        coco.of_instances(image.described(), image._instances(), categories=image.categories())
        for image in images
    )


def _pngs(image: Annotated) -> bytes:
    file = streams.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number, one in enumerate(image.objects):
            kept = "".join(char if char.isalnum() or char in "-_ " else "_" for char in one.name)
            pixels = one.mask.astype(np.uint8) * np.uint8(255)
            archive.writestr(f"{number + 1:03d}_{kept.strip()}.png", encoded(pixels, "PNG"))
    return file.getvalue()


def _labels(image: Annotated) -> bytes:
    labels = image.label_image()
    small = len(image.objects) < 256
    said = {
        str(number + 1): {"name": one.name, "color": list(one.color), "score": one.score}
        for number, one in enumerate(image.objects)
    }
    text = io.pillow("PngImagePlugin").PngInfo()
    text.add_text(*PNG_MARK)
    text.add_text(*PNG_RESULT)
    text.add_itxt(LABELS_KEY, json.dumps(said), zip=True)
    file = streams.BytesIO()
    pixels = io.pillow("Image").fromarray(labels.astype(np.uint8) if small else labels)
    pixels.save(file, "PNG", pnginfo=text, compress_level=1)
    return file.getvalue()


def arrays(image: Annotated) -> dict[str, NDArray[Any]]:
    """Return ``masks`` (N, H, W), ``scores``, ``names``, ``colors`` (N, 3), ``labels`` (H, W)."""
    masks = [one.mask for one in image.objects]
    return {
        "masks": np.stack(masks) if masks else np.zeros((0, *image.hw), np.bool_),
        **_values(image),
        "labels": image.label_image(),
    }


def _values(image: Annotated) -> dict[str, NDArray[Any]]:
    return {
        "scores": np.array([one.score for one in image.objects], np.float32),
        "names": np.array([one.name for one in image.objects], np.str_),
        "colors": np.array([one.color for one in image.objects], np.uint8).reshape(-1, 3),
    }


def _npz(image: Annotated) -> bytes:
    """Write what `arrays` returns, one mask after the other."""
    file = streams.BytesIO()
    others = {**_values(image), "labels": image.label_image()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("masks.npy", "w", force_zip64=True) as member:
            shape = (len(image.objects), *image.hw)
            head = {"descr": "|b1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, head)  # type: ignore[no-untyped-call]
            for one in image.objects:
                member.write(one.mask.tobytes())
        for name, values in others.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)  # type: ignore[no-untyped-call]
    return file.getvalue()


def _polygons(image: Annotated) -> dict[str, Any]:
    return {
        **image.described(),
        "objects": [
            {**one.fields, "score": one.score, "polygons": flat_polygons(one)}
            for one in image._instances()
        ],
    }
