"""What every result can become: images, files, tables and the objects of other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.axes import in_order
from sam_rlx._internal.arrays.checks import (
    as_choice,
    as_flag,
    as_integer,
    as_items,
    as_number,
    as_path,
    as_path_text,
    as_text,
    as_texts,
    holds_texts,
)
from sam_rlx._internal.arrays.foreign import as_array, is_array
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.arrays.masks import as_bools
from sam_rlx._internal.files.inputs import file_name
from sam_rlx._internal.files.marks import JSON_MARK
from sam_rlx._internal.files.results import write_document, write_text
from sam_rlx._internal.files.targets import check_folder
from sam_rlx._internal.formats import coco, cutouts, detections, geojson, tables, yolo
from sam_rlx._internal.formats.instances import OBJECT, Instance
from sam_rlx._internal.formats.label_images import label_image
from sam_rlx.errors import InvalidArgumentError

Format: TypeAlias = Literal[
    "coco", "masks", "overlay", "cutouts", "labels", "csv", "geojson", "yolo"
]
FORMATS = ("coco", "masks", "overlay", "cutouts", "labels", "csv", "geojson", "yolo")
# Formats that are one file for all objects.
FILES = {
    "coco": "masks.json",
    "overlay": "overlay.png",
    "labels": "labels.png",
    "csv": "masks.csv",
    "geojson": "masks.geojson",
    "yolo": "masks.txt",
}
_OF_IMAGE = ("overlay", "cutouts")
_MAX_TOLERANCE = 1e6  # pixels


@dataclass(frozen=True)
class Words:
    """What a result does not know of itself: names of its image and objects, its map."""

    file_name: str = ""
    names: str | Sequence[str] | None = None
    transform: Any = None
    crs: Any = None


class ResultForms:
    """Methods of results. Objects are in the order of the result, and numbered from 0.

    `names` of a method, a str for all or one for each object, says what the objects are. Default:
    the texts that named them, else "object".
    """

    def _instances(self) -> list[Instance]:
        raise NotImplementedError

    def _hw(self) -> tuple[int, int] | None:
        """Return height and width of the image, None if it is not known."""
        raise NotImplementedError

    def _named(self, names: str | Sequence[str] | None) -> list[Instance]:
        instances = self._instances()
        if names is None:
            return instances
        if isinstance(names, str):
            each = [as_text("names", names)] * len(instances)
        else:
            each = as_texts("names", names)
        if len(each) != len(instances):
            raise InvalidArgumentError(f"names: expected {len(instances)}, found {len(each)}")
        return [
            replace(instance, name=name) for instance, name in zip(instances, each, strict=True)
        ]

    def _size(self) -> tuple[int, int]:
        hw = self._hw()
        if hw is None:
            raise InvalidArgumentError(
                "expected a result that knows the size of its image, found one without masks"
            )
        return hw

    def _pixels(self, image: Any) -> NDArray[np.uint8]:
        """Return an image as RGB, and check that it is as large as the masks."""
        pixels = as_rgb(image)
        hw = self._hw()
        if hw is not None and pixels.shape[:2] != hw:
            raise InvalidArgumentError(
                f"image: expected shape {hw} as the masks have, found {pixels.shape[:2]}"
            )
        return pixels

    # ---------------------------------------------------------------- images

    def cutout(
        self,
        image: Any,
        *,
        index: int | None = None,
        crop: bool = True,
        soft_edge: float = 0.0,
    ) -> NDArray[np.uint8]:
        """Cut objects out of their image: what the masks do not cover becomes transparent.

        Parameters
        ----------
        image : ndarray or PIL image
            The image of the result, as for `ImagePredictor.set_image`.
        index : int, optional
            Number of one object. Default: what all masks cover together.
        crop : bool
            True: only the box around the masks. False: as large as the image.
        soft_edge : float
            Standard deviation in pixels of a Gaussian filter on the opacity; 0 leaves a hard edge.
            The box then has room for it, 3 times as wide.

        Returns
        -------
        ndarray (h, w, 4), uint8
            RGBA, colours not multiplied by the opacity; black where it is 0. Shape (0, 0, 4) for
            empty masks with `crop`.

        Raises
        ------
        InvalidArgumentError
            The image has another size, or there is no such object.
        """
        pixels, instances = self._pixels(image), self._instances()
        if index is not None:
            instances = [instances[as_integer("index", index, 0, len(instances) - 1)]]
        return cutouts.cutout(
            pixels,
            instances,
            crop=as_flag("crop", crop),
            soft_edge=as_number("soft_edge", soft_edge, 0.0, 1000.0),
        )

    def plot(
        self,
        image: Any,
        *,
        names: str | Sequence[str] | None = None,
        captions: bool = True,
        opacity: float = 0.5,
    ) -> NDArray[np.uint8]:
        """Draw the masks over their image, large ones below small ones.

        Parameters
        ----------
        image : ndarray or PIL image
            The image of the result.
        names : str or sequence of str, optional
            What the objects are.
        captions : bool
            True: objects that have a name are captioned with it and their score. Needs Pillow.
        opacity : float
            Of the filling, 0 to 1.

        Returns
        -------
        ndarray (H, W, 3), uint8
            A new image.

        Raises
        ------
        InvalidArgumentError
            The image has another size.
        MissingExtraError
            There are captions, and Pillow is not installed.
        """
        from sam_rlx._internal.drawing.overlay import color, drawn

        pixels, instances = self._pixels(image), self._named(names)
        order = sorted(range(len(instances)), key=lambda index: -instances[index].area)
        words = [_caption(instances[index]) for index in order]
        with_words = as_flag("captions", captions) and any(words)
        return drawn(
            pixels,
            [instances[index].counts for index in order],
            [color(_identity(index, instances[index])) for index in order],
            words if with_words else None,
            opacity=as_number("opacity", opacity, 0.0, 1.0),
        )

    def label_image(self) -> NDArray[Any]:
        """Return one array for all masks: 0 for the ground, i + 1 for object i.

        Where masks overlap, the smaller one is on top; of equal ones the later.

        Returns
        -------
        ndarray (H, W), uint16
            uint32 with over 65,535 objects.

        Raises
        ------
        InvalidArgumentError
            The result has no masks and does not know the size of its image.
        """
        return label_image(self._instances(), self._size())

    # ---------------------------------------------------------------- outlines

    def polygons(self, tolerance: float = 0.0) -> list[list[list[NDArray[np.int32]]]]:
        """Return the outlines of each mask along the edges of its pixels.

        Pixel (x, y) covers x to x + 1 and y to y + 1. A mask is a list of parts; a part is a list
        of rings: ``shapely.Polygon(part[0], part[1:])``. Pixels that share only a corner are two
        parts, unless others join them. Rings neither cross nor touch themselves, and touch each
        other in single corners at most: parts are valid for shapely, and together a valid
        MultiPolygon.

        Parameters
        ----------
        tolerance : float
            In pixels. 0: the outlines cover exactly the mask's pixels. Above: corners are left out
            that lie within this distance of the line that replaces them, those that cost least
            first, as long as no line comes to touch or cross another one.

        Returns
        -------
        list of list of list of ndarray (N, 2), int32
            For each object its parts; of a part the outer ring and those of its holes, as corners
            (x, y). The first corner is not repeated. Outer rings are clockwise on the screen.
        """
        limit = as_tolerance(tolerance)
        return [instance.outlines(limit) for instance in self._instances()]

    def to_geojson(
        self,
        *,
        transform: Any = None,
        crs: Any = None,
        names: str | Sequence[str] | None = None,
        tolerance: float = 0.0,
    ) -> dict[str, Any]:
        """Return the outlines as a GeoJSON FeatureCollection, in pixels or on a map.

        Parameters
        ----------
        transform : 6 numbers (a, b, c, d, e, f), or an ``affine.Affine``, optional
            Where the corner (x, y) of pixels lies: (a x + b y + c, d x + e y + f), as
            ``rasterio``'s ``dataset.transform``. Default: pixels, y downwards.
        crs : str, or an object with ``to_string``, optional
            Reference system of the coordinates, such as "EPSG:32633"; becomes the member ``crs``,
            which GDAL reads. Readers that know RFC 7946 alone expect degrees of WGS 84.
        names : str or sequence of str, optional
            What the objects are.
        tolerance : float
            As for `polygons`.

        Returns
        -------
        dict
            For ``json``. A feature has the object's number as ``id`` and the properties ``name``,
            ``area`` (pixels) and, where known, ``score``, ``object`` and ``frame``. Objects with an
            empty mask have none. Outer rings run counterclockwise.

        Raises
        ------
        InvalidArgumentError
            A transform has other numbers or no inverse.
        """
        return geojson.collection(
            self._named(names),
            geojson.as_transform(transform),
            geojson.as_crs(crs),
            as_tolerance(tolerance),
        )

    # ---------------------------------------------------------------- annotations

    def to_coco(
        self,
        file_name: str | os.PathLike[str] = "",
        *,
        image_id: int = 1,
        ids: Sequence[int] | None = None,
        names: str | Sequence[str] | None = None,
        categories: Sequence[str | Mapping[str, Any]] | None = None,
        polygons: bool = False,
        tolerance: float = 0.0,
    ) -> dict[str, Any]:
        """Return a COCO document of one image. Objects with an empty mask are not in it.

        `io.coco_joined` makes one document of several images or frames.

        Parameters
        ----------
        file_name : str or path
            Of the image.
        image_id : int
            Its number.
        ids : sequence of int, optional
            Numbers of the annotations, one an object. Default: 1, 2, ...
        names : str or sequence of str, optional
            What the objects are.
        categories : sequence of str or mappings, optional
            Names, which get the numbers 1, 2, ..., or COCO's dicts of ``id`` and ``name``. Default:
            the names of the objects in their order.
        polygons : bool
            True: ``segmentation`` is a list of outlines, one a part, holes cut open. False:
            compressed run lengths.
        tolerance : float
            Of the outlines, as for `polygons`.

        Returns
        -------
        dict
            ``images``, ``annotations`` and ``categories``; ``pycocotools`` reads it. Annotations
            have a ``score`` where there is one, and of videos the object's name as ``track_id``.

        Raises
        ------
        InvalidArgumentError
            The result has no masks and does not know the size of its image, an object's name is not
            among the categories, or numbers are not unique.
        """
        height, width = self._size()
        image: dict[str, Any] = {
            "id": image_id,
            "file_name": _as_file_name(file_name),
            "height": height,
            "width": width,
        }
        instances = self._named(names)
        frame = next((one.frame for one in instances if one.frame is not None), None)
        if frame is not None:
            image["frame_index"] = frame
        return coco.of_instances(
            image,
            instances,
            ids=None if ids is None else as_items("ids", ids),
            categories=None if categories is None else as_items("categories", categories),
            polygons=as_flag("polygons", polygons),
            tolerance=as_tolerance(tolerance),
        )

    def to_yolo(
        self,
        *,
        names: str | Sequence[str] | None = None,
        categories: Sequence[str] | None = None,
        box: bool = False,
        tolerance: float = 0.0,
    ) -> str:
        """Return the text of a YOLO label file: one line an object, numbers 0 to 1.

        Objects with an empty mask have no line. `io.write_yolo` writes a folder to train with.

        Parameters
        ----------
        names : str or sequence of str, optional
            What the objects are.
        categories : sequence of str, optional
            Names in the order of YOLO's numbers 0, 1, ... Default: those of the objects in their
            order.
        box : bool
            True: ``class cx cy width height``. False: ``class x0 y0 x1 y1 ...``, the outline; parts
            and holes are joined by lines there and back.
        tolerance : float
            Of the outlines, as for `polygons`.

        Raises
        ------
        InvalidArgumentError
            An object's name is not among the categories.
        """
        instances = self._named(names)
        known = names_of(instances) if categories is None else as_texts("categories", categories)
        return yolo.lines(
            instances, known, box=as_flag("box", box), tolerance=as_tolerance(tolerance)
        )

    # ---------------------------------------------------------------- tables

    def to_csv(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        image: Any = None,
        names: str | Sequence[str] | None = None,
    ) -> str:
        """Return a table of the objects as CSV, and write it if a file is named.

        Parameters
        ----------
        path : str or path, optional
            Ends in ``.csv``. Appears complete or not at all.
        image : ndarray or PIL image, optional
            The image of the result: gives ``red, green, blue``, the mean value (0 to 255) under the
            mask.
        names : str or sequence of str, optional
            What the objects are.

        Returns
        -------
        str
            Columns ``index, name, object, frame, score, area`` (pixels), ``x, y, width, height``
            (box in pixels), ``centroid_x, centroid_y`` (mean pixel index). What is not known is
            empty.

        Raises
        ------
        InvalidArgumentError
            The image has another size, or the suffix is one of another kind.
        """
        text = tables.csv_text(self._table(image, names))
        if path is not None:
            write_text(path, text, "CSV")
        return text

    def to_pandas(self, *, image: Any = None, names: str | Sequence[str] | None = None) -> Any:
        """Return a table of the objects as a ``pandas.DataFrame``.

        Parameters and columns are those of `to_csv`.

        Raises
        ------
        InvalidArgumentError
            The image has another size.
        MissingExtraError
            pandas is not installed.
        """
        return tables.data_frame(self._table(image, names))

    def _table(self, image: Any, names: str | Sequence[str] | None) -> dict[str, list[Any]]:
        pixels = None if image is None else self._pixels(image)
        return tables.columns(self._named(names), pixels)

    def to_supervision(self, *, names: str | Sequence[str] | None = None) -> Any:
        """Return the objects that are not empty as ``supervision.Detections``.

        Boxes are (x0, y0, x1, y1) of the first and last pixels, as supervision makes them of masks.
        Names are in ``data["class_name"]`` and numbered in their order. Objects of a video are
        ``tracker_id`` where all are called by whole numbers, else texts in ``data["object"]``.

        Raises
        ------
        MissingExtraError
            supervision is not installed.
        """
        return detections.detections(self._named(names))

    # ---------------------------------------------------------------- files

    def save(
        self,
        folder: str | os.PathLike[str],
        formats: Format | Sequence[Format] = ("coco", "masks"),
        *,
        image: Any = None,
        name: str | None = None,
        names: str | Sequence[str] | None = None,
        transform: Any = None,
        crs: Any = None,
    ) -> list[Path]:
        """Write the result as files, called as those of the command line.

        Parameters
        ----------
        folder : str or path
            Is made if there is none.
        formats : str or sequence of str
            ``"coco"``: masks.json. ``"masks"``: mask_000.png, ... (0 and 255), one an object.
            ``"overlay"``: overlay.png. ``"cutouts"``: cutout_000.png, ..., one an object.
            ``"labels"``: labels.png, of 16 bits. ``"csv"``: masks.csv. ``"geojson"``:
            masks.geojson. ``"yolo"``: masks.txt.
        image : ndarray or PIL image, optional
            The image of the result; ``"overlay"`` and ``"cutouts"`` need it.
        name : str, optional
            Of the image: the files get a folder of this name, so that those of several images lie
            in one folder. Also the ``file_name`` in COCO.
        names : str or sequence of str, optional
            What the objects are.
        transform, crs : optional
            Of ``"geojson"``, as for `to_geojson`.

        Returns
        -------
        list of Path
            The files. Each appears complete or not at all.

        Raises
        ------
        InvalidArgumentError
            A format is unknown or needs the image, or the image has another size.
        MissingExtraError
            Pillow is not installed, for PNG files.
        """
        wanted = _as_formats(formats)
        pixels = None if image is None else self._pixels(image)
        if pixels is None and (needy := [form for form in wanted if form in _OF_IMAGE]):
            raise InvalidArgumentError(f"image: expected the image for {needy}, found None")
        target = as_path(folder)
        check_folder(target)
        called = "" if name is None else as_text("name", name)
        if called:
            target = target / file_name(called)
        words = Words(called, names, transform, crs)
        return [path for form in wanted for path in form_files(self, form, target, pixels, words)]

    def _write(
        self, form: str, folder: Path, pixels: NDArray[np.uint8] | None, words: Words
    ) -> Iterator[Path]:
        """Write the files of one format; yield each before it is written."""
        from sam_rlx._internal.media.image_writer import write_pixels

        names = words.names
        if form in FILES:
            yield (path := folder / FILES[form])
            if form == "coco":
                write_document(path, JSON_MARK | self.to_coco(words.file_name, names=names))
            elif form == "csv":
                self.to_csv(path, image=pixels, names=names)
            elif form == "geojson":
                on_map = {"transform": words.transform, "crs": words.crs}
                write_document(path, self.to_geojson(**on_map, names=names), "GeoJSON")
            elif form == "yolo":
                write_text(path, self.to_yolo(names=names), "text")
            elif form == "labels":
                write_pixels(path, self.label_image(), is_result=True)
            else:
                write_pixels(path, self.plot(pixels, names=names), is_result=True)
            return
        for index, instance in enumerate(self._instances()):
            if form == "masks":
                yield (path := folder / f"mask_{index:03d}.png")
                write_pixels(path, instance.mask())
            elif instance.area:
                yield (path := folder / f"cutout_{index:03d}.png")
                write_pixels(path, self.cutout(pixels, index=index), is_result=True)


def form_files(
    result: ResultForms, form: str, folder: Path, pixels: NDArray[np.uint8] | None, words: Words
) -> Iterator[Path]:
    """Write the files of one of `FORMATS`; yield each before it is written."""
    return result._write(form, folder, pixels, words)


def names_of(instances: Iterable[Instance]) -> list[str]:
    """Return the names of objects, each once, in their order."""
    return list(dict.fromkeys(instance.name for instance in instances))


def instances_of(name: str, masks: Any, hw: tuple[int, int] | None = None) -> list[Instance]:
    """Return the objects of a result, of several, or of masks.

    Parameters
    ----------
    name : str
        Of the argument, for errors.
    masks : result, bool array (H, W), (K, H, W) or (N, K, H, W), or an iterable of these
        An iterable may make one at a time: only run lengths are kept.
    hw : (int, int), optional
        The size that all must have.

    Raises
    ------
    InvalidArgumentError
        It is something else, or of another size.
    """
    if isinstance(masks, ResultForms):
        found = masks._instances()
    else:
        if is_array(masks):
            masks = as_array(name, in_order(name, masks, others=2))
            masks = masks[None] if masks.ndim == 2 else masks
        parts = as_items(name, masks, convert=lambda index, one: _part(f"{name}[{index}]", one, hw))
        found = [instance for part in parts for instance in part]
    for index, instance in enumerate(found):
        if hw is not None and tuple(instance.size) != hw:
            raise InvalidArgumentError(
                f"{name}[{index}]: expected shape {hw}, found {tuple(instance.size)}"
            )
    return found


def _part(name: str, one: Any, hw: tuple[int, int] | None) -> list[Instance]:
    """Return the objects of an entry: one, or of a result, or of masks (H, W) or (K, H, W)."""
    if isinstance(one, Instance):
        return [one]
    if isinstance(one, ResultForms) or (isinstance(one, np.ndarray) and one.ndim == 3):
        return instances_of(name, one, hw)
    mask = as_bools(name, one)
    return [of_mask(mask)]


def of_mask(mask: NDArray[Any], **known: Any) -> Instance:
    """Return the object of a mask (H, W): bool, or logits above 0."""
    bools = mask if mask.dtype == np.bool_ else mask > 0
    size = (bools.shape[0], bools.shape[1])
    return Instance(_core.rle_encode(np.ascontiguousarray(bools)), size, **known)


class HasCounts(Protocol):
    """Masks of which only run lengths are kept."""

    counts: tuple[NDArray[np.uint32], ...]


def counts_of(masks: NDArray[Any] | HasCounts) -> list[NDArray[np.uint32]]:
    """Return the run lengths of each mask of ([B,] K, H, W): bool, or logits above 0."""
    if not isinstance(masks, np.ndarray):
        return list(masks.counts)
    return [of_mask(mask).counts for mask in masks.reshape(-1, *masks.shape[-2:])]


def _caption(instance: Instance) -> str:
    words = [] if instance.name == OBJECT else [instance.name]
    if instance.track is not None:
        words.append(str(instance.track))
    if words and instance.score is not None and instance.track is None:
        words.append(f"{instance.score:.2f}")
    return " ".join(words)


def _identity(index: int, instance: Instance) -> int:
    """Return the number that chooses an object's colour: the same on all frames of a video."""
    track = instance.track
    return int(track) if isinstance(track, (int, np.integer)) else index


def as_tolerance(tolerance: float) -> float:
    """Return the tolerance of outlines in pixels."""
    return as_number("tolerance", tolerance, 0.0, _MAX_TOLERANCE)


def _as_file_name(name: Any) -> str:
    """Return the name of an image's file; there may be none."""
    return "" if isinstance(name, str) and not name else as_path_text("file_name", name)


def _as_formats(formats: Any) -> list[str]:
    wanted = as_texts("formats", formats) if holds_texts(formats) else as_items("formats", formats)
    return [as_choice("formats", form, FORMATS) for form in wanted]
