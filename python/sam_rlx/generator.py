"""Everything mode: masks for all objects of an image."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal import options as _options
from sam_rlx._internal.arrays.checks import (
    as_choice,
    as_flag,
    as_integer,
    as_items,
    as_num_threads,
    as_number,
)
from sam_rlx._internal.arrays.coordinates import as_coordinates
from sam_rlx._internal.arrays.images import as_rgb
from sam_rlx._internal.files import embeddings as embedding_file
from sam_rlx._internal.files import saved_tensors
from sam_rlx._internal.formats import coco, outlines
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.image_embeddings import encoded_image
from sam_rlx._internal.media.windows import WindowReader, as_windows
from sam_rlx._internal.printable import with_model
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import ResultForms, as_tolerance
from sam_rlx._internal.tiling import Report, TileMasks, Tiling, as_tiling, of_tile
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model, as_model

__all__ = ["MaskGenerator", "MaskRecord", "MaskRecords"]

_MAX_POINTS_PER_SIDE = 4096
OUTPUT_MODES = ("binary_mask", "uncompressed_rle", "coco_rle")


class MaskRecord(ResultForms, Mapping[str, Any]):
    """One mask of everything mode. Reads like upstream's dict, and has attributes.

    The keys are ``segmentation, area, bbox, predicted_iou, point_coords, stability_score,
    crop_box``. The mask is kept run-length encoded; `segmentation` decodes it at its first use.

    Attributes
    ----------
    counts : ndarray of uint32
        Run lengths in column-major order, beginning with zeros.
    size : (int, int)
        Height and width of the image.
    area : int
        Pixels of the mask.
    bbox : list of 4 numbers
        [x, y, w, h] in pixels; w and h are differences of inclusive pixel indices.
    predicted_iou : float
        The network's estimate of the mask's IoU.
    point_coords : list
        [[x, y]]: the grid point that gave the mask, in pixels.
    stability_score : float
        IoU of the mask at a higher and at a lower logit threshold, 0 to 1.
    crop_box : list of 4 numbers
        [x, y, w, h] of the crop that the mask was found in.
    """

    KEYS = (
        "segmentation",
        "area",
        "bbox",
        "predicted_iou",
        "point_coords",
        "stability_score",
        "crop_box",
    )

    def __init__(self, fields: Mapping[str, Any], output_mode: str = "binary_mask") -> None:
        self.counts: NDArray[np.uint32] = fields["counts"]
        self.size: tuple[int, int] = tuple(fields["size"])
        self.area: int = fields["area"]
        self.bbox: list[int] = fields["bbox"]
        self.predicted_iou: float = fields["predicted_iou"]
        self.point_coords: list[list[float]] = fields["point_coords"]
        self.stability_score: float = fields["stability_score"]
        self.crop_box: list[float] = fields["crop_box"]
        self._output_mode = output_mode

    def __getitem__(self, key: str) -> Any:
        if key not in self.KEYS:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.KEYS)

    def __len__(self) -> int:
        return len(self.KEYS)

    def __repr__(self) -> str:
        return f"<MaskRecord area={self.area} bbox={self.bbox} iou={self.predicted_iou:.3f}>"

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the mask."""
        from sam_rlx._internal.drawing.previews import panels

        return panels([self.mask()], [f"{self.predicted_iou:.2f}"])

    @cached_property
    def segmentation(self) -> Any:
        """The mask in the generator's `output_mode`.

        ``"binary_mask"``: bool (H, W). ``"uncompressed_rle"``: dict of ``size`` [H, W] and
        ``counts``, a list of int. ``"coco_rle"``: the same with ``counts`` as COCO's string.
        """
        if self._output_mode == "binary_mask":
            return self.mask()
        if self._output_mode == "uncompressed_rle":
            return {"size": list(self.size), "counts": self.counts.tolist()}
        return self._coco_segmentation()

    def mask(self) -> NDArray[np.bool_]:
        """Return a new bool (H, W) array, whatever the output mode."""
        return _core.rle_decode(self.counts, self.size)

    def _coco_segmentation(self) -> dict[str, Any]:
        return coco.run_lengths(self.counts, self.size)

    def _instances(self) -> list[Instance]:
        fields = {"stability_score": self.stability_score, "point_coords": self.point_coords}
        fields |= {"predicted_iou": self.predicted_iou, "crop_box": self.crop_box}
        return [Instance(self.counts, self.size, score=self.predicted_iou, fields=fields)]

    def _hw(self) -> tuple[int, int]:
        return self.size

    def to_coco(  # type: ignore[override]  # one annotation, no document
        self, *, polygons: bool = False, tolerance: float = 0.0
    ) -> dict[str, Any]:
        """Return a dict that ``json`` can write, with ``segmentation`` as compressed COCO RLE.

        It is the annotation alone; `MaskRecords.to_coco` makes a document of all.

        Parameters
        ----------
        polygons : bool
            True: ``segmentation`` is a list of outlines, one a part, holes cut open.
        tolerance : float
            Of the outlines, as for `polygons`.

        Returns
        -------
        dict
            ``segmentation`` {``size``, ``counts``: str} and the other six keys. ``bbox`` is COCO's,
            as pycocotools' ``toBbox`` gives it: its w and h count pixels, one more each than those
            of `bbox`; 0 for an empty mask.
        """
        others = {key: getattr(self, key) for key in self.KEYS if key != "segmentation"}
        [instance] = self._instances()
        drawn = coco.annotation(
            instance, polygons=as_flag("polygons", polygons), tolerance=as_tolerance(tolerance)
        )
        return {**others, **{key: drawn[key] for key in ("segmentation", "area", "bbox")}}

    def polygons(self, tolerance: float = 0.0) -> list[list[float]]:  # type: ignore[override]
        """Return the outlines as COCO polygons: lists [x0, y0, x1, y1, ...] in pixels.

        One for each part of the mask; without a tolerance filling them gives the mask. A hole is
        cut open: its outline is part of that of the mask around it, joined by a vertical line there
        and back. `MaskRecords.polygons` gives rings, which keep holes, of all masks.
        """
        return outlines.flat_polygons(self._instances()[0], as_tolerance(tolerance))


class MaskRecords(ResultForms, list[MaskRecord]):
    """The masks of an image: a list of `MaskRecord` with the methods of results.

    Parameters
    ----------
    records : iterable of MaskRecord
        The masks.
    size : (int, int), optional
        Height and width of the image. Default: those of the first mask.

    Attributes
    ----------
    size : (int, int) or None
        Height and width of the image; None if there is no mask that tells.
    """

    def __init__(
        self, records: Iterable[MaskRecord] = (), size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(records)
        self.size = self[0].size if size is None and self else size

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return MaskRecords(found, self.size) if isinstance(index, slice) else found

    def __reduce__(self) -> tuple[Any, ...]:
        return MaskRecords, (list(self), self.size)

    def _instances(self) -> list[Instance]:
        return [instance for record in self for instance in record._instances()]

    def _hw(self) -> tuple[int, int] | None:
        return self.size


class MaskGenerator:
    """Find masks for everything in an image, from a grid of points.

    Arguments and defaults are those of upstream's ``SamAutomaticMaskGenerator`` and, for SAM 2,
    ``SAM2AutomaticMaskGenerator``. The packaged models predict lower scores than Meta's, and have
    lower thresholds by default. A generator serves one call at a time; a second thread gets a
    `StateError`.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`.
    points_per_side : int or None
        Points along each side of the grid, >= 1. Exactly one of this and `point_grids`.
    points_per_batch : int
        Points per decoder call, >= 1; more take more memory.
    pred_iou_thresh : float, optional
        Keep masks with a predicted IoU above this; 0 keeps all. Default: 0.88 for SAM, 0.8 for
        SAM 2, 0.7 for packaged models.
    stability_score_thresh : float, optional
        Keep masks with at least this stability, 0 to 1; 0 keeps all. Default: 0.95, 0.8 for
        packaged models.
    stability_score_offset : float
        Shift of the logit threshold for the stability score.
    box_nms_thresh : float
        Box IoU, 0 to 1, above which the weaker of two masks of a crop is dropped.
    crop_n_layers : int
        With L > 0, also run on 2**i x 2**i crops for i = 1 .. L.
    crop_nms_thresh : float
        As `box_nms_thresh`, between crops.
    crop_overlap_ratio : float
        Overlap of crops, as a part of the shorter side; 0 to 1.
    crop_n_points_downscale_factor : int
        In layer i, `points_per_side` is divided by this to the power i.
    point_grids : list of arrays (n, 2), optional
        Own grids for the layers 0 .. `crop_n_layers`, (x, y) in 0 .. 1.
    min_mask_region_area : int
        With a value > 0, holes and islands smaller than this many pixels are removed.
    multimask_output : bool
        Three candidate masks for each point, or one. SAM-HQ gives one: as for
        `ImagePredictor.predict`.
    use_m2m : bool
        SAM 2: give each mask to the model once more as a prompt, with its point, and keep what
        comes out.
    mask_threshold : float, optional
        Logit above which a pixel belongs to a mask. Default: the model's, 0.
    output_mode : {"binary_mask", "uncompressed_rle", "coco_rle"}
        Form of `MaskRecord.segmentation`.
    objects_only : bool
        One mask for each object, for counting: parts of objects, unions of several objects and the
        ground go. Holes count as filled. What reaches all four edges of the image is ground. From
        the largest mask to the smallest: if at least two masks inside of it, apart from each other,
        cover 0.8 of it, it is a union of objects, and goes; else it is an object, and all masks of
        which 0.8 lie inside of it go as its parts. A ring and the disc in it are one object: of
        masks with an IoU of 0.8 the one with the most pixels stays; those beside its largest part
        count against it. A mask of separate parts loses those that other masks have alone.
    hq_token_only : bool
        SAM-HQ and HQ-SAM 2 alone: the masks of their own token, as for `ImagePredictor.predict`.
    num_threads : int, optional
        Threads for computing. Default: the cores this process may use.

    Raises
    ------
    InvalidArgumentError
        An argument has the wrong type or range.

    Examples
    --------
    >>> import numpy as np, sam_rlx
    >>> model = sam_rlx.load_model("sam-nano")
    >>> generator = sam_rlx.MaskGenerator(model, points_per_side=2)
    >>> records = generator.generate(np.zeros((40, 60, 3), np.uint8))
    >>> all(record["segmentation"].shape == (40, 60) for record in records)
    True
    """

    def __init__(
        self,
        model: Model,
        *,
        points_per_side: int | None = 32,
        points_per_batch: int = 64,
        pred_iou_thresh: float | None = None,
        stability_score_thresh: float | None = None,
        stability_score_offset: float = 1.0,
        box_nms_thresh: float = 0.7,
        crop_n_layers: int = 0,
        crop_nms_thresh: float = 0.7,
        crop_overlap_ratio: float = 512 / 1500,
        crop_n_points_downscale_factor: int = 1,
        point_grids: Sequence[ArrayLike] | None = None,
        min_mask_region_area: int = 0,
        multimask_output: bool = True,
        use_m2m: bool = False,
        mask_threshold: float | None = None,
        output_mode: Literal["binary_mask", "uncompressed_rle", "coco_rle"] = "binary_mask",
        objects_only: bool = False,
        hq_token_only: bool = False,
        num_threads: int | None = None,
    ) -> None:
        as_model(model)
        if (points_per_side is None) == (point_grids is None):
            raise InvalidArgumentError(
                "MaskGenerator: expected exactly one of points_per_side and point_grids, found "
                f"{'neither' if point_grids is None else 'both'}"
            )
        if points_per_side is not None:
            as_integer("points_per_side", points_per_side, 1, most=_MAX_POINTS_PER_SIDE)
        output_mode = as_choice("output_mode", output_mode, OUTPUT_MODES)
        if mask_threshold is not None:
            mask_threshold = as_number("mask_threshold", mask_threshold, -math.inf)
        values = {
            "points_per_side": points_per_side,
            "points_per_batch": points_per_batch,
            "pred_iou_thresh": pred_iou_thresh,
            "stability_score_thresh": stability_score_thresh,
            "stability_score_offset": stability_score_offset,
            "box_nms_thresh": box_nms_thresh,
            "crop_n_layers": crop_n_layers,
            "crop_nms_thresh": crop_nms_thresh,
            "crop_overlap_ratio": crop_overlap_ratio,
            "crop_n_points_downscale_factor": crop_n_points_downscale_factor,
            "min_mask_region_area": min_mask_region_area,
        }
        optional = ("points_per_side", "pred_iou_thresh", "stability_score_thresh")
        options = _options.checked("generator", model.family, values, optional, model.core)
        if points_per_side is None:
            options["points_per_side"] = None
        grids = None if point_grids is None else _as_grids(point_grids, options["crop_n_layers"])
        switches = (
            as_flag("multimask_output", multimask_output),
            as_flag("use_m2m", use_m2m),
            mask_threshold,
            True,
            as_flag("hq_token_only", hq_token_only),
        )
        arguments = (as_num_threads(num_threads), options, grids, *switches)
        self._set_up(
            model, output_mode, arguments, objects_only=as_flag("objects_only", objects_only)
        )

    def _set_up(
        self,
        model: Model,
        output_mode: str,
        arguments: tuple[Any, ...],
        max_region_area: float = 0,
        objects_only: bool = False,
    ) -> None:
        """Make the core of its arguments behind the model."""
        self._model = model
        self._objects_only = objects_only
        self._output_mode = output_mode
        self._arguments = arguments
        self._layers = int(arguments[1]["crop_n_layers"])
        self._core = _core.MaskGenerator(model.core, *arguments)
        if max_region_area:
            self._core.max_region_area = max_region_area
        self._exclusive = _core.Exclusive("MaskGenerator")

    def __repr__(self) -> str:
        side = self._arguments[1]["points_per_side"]
        points = "own points" if side is None else f"{side} x {side} points"
        crops = [f"crop layers: {self._layers}"] if self._layers else []
        return with_model(self, self._model, points, *crops)

    def __reduce__(self) -> tuple[Any, ...]:
        area = self._core.max_region_area
        return prepared, (
            *(self._model, self._output_mode, self._arguments, area),
            self._objects_only,
        )

    @property
    def model(self) -> Model:
        """The model that this generator runs."""
        return self._model

    def generate(
        self,
        image: Any = None,
        *,
        embedding: ArrayLike | Sequence[ArrayLike] | str | os.PathLike[str] | None = None,
        orig_hw: tuple[int, int] | None = None,
        tile: int | None = None,
        overlap: int | None = None,
        progress: bool | Progress = False,
    ) -> MaskRecords:
        """Find the masks of an image.

        With `tile` the grid of points is laid on each tile, and objects that the edges of tiles cut
        are put together: masks of two tiles are of one object if their IoU, within the overlap of
        the tiles, is at least 0.5. A mask that no edge cuts is preferred to pieces; without one,
        the mask is the union of the pieces. Memory holds one tile, and the run lengths of all
        masks.

        Parameters
        ----------
        image : ndarray or PIL image, optional
            As for `ImagePredictor.set_image`. Exactly one of this and `embedding`.
        embedding : array, sequence of arrays, or path, optional
            What the encoder gave for the image, so that it need not run again:
            `ImagePredictor.image_embeddings` of a predictor with the same weights, or a file of
            `ImagePredictor.save_embedding`. Only without crops, which have pixels of their own.
        orig_hw : (int, int), optional
            Height and width of the image, beside arrays; a file knows them.
        tile : int, optional
            Side of tiles in pixels, 32 to 32768, for images that are large, or larger than memory.
            `image` may then be what `sam_rlx.io.open_windows` returns, or an array of which windows
            can be read (mapped files, zarr, dask).
        overlap : int, optional
            Pixels that neighbouring tiles share, 0 to half of `tile`. An object that is shorter
            lies whole in a tile; with 0, pieces are not put together. Default: an eighth of `tile`.
        progress : bool or callable
            A callable gets (points done, points in all) after each batch of points. True shows a
            bar on a terminal and in Jupyter if ``tqdm`` is installed, else nothing.

        Returns
        -------
        MaskRecords
            A list of `MaskRecord`, in the order of the last suppression step, with `tile` by tiles;
            empty if nothing was found. With `tile`, `crop_box` is the tile, or what holds the tiles
            of all pieces; scores and point are those of the best piece.

        Raises
        ------
        InvalidArgumentError
            The image or the embedding has a wrong type, shape, dtype or range, or the generator
            has crops and there is no image.
        CheckpointError
            The file of the embedding is damaged, or another model's.
        StateError
            The generator is in use by another thread.
        """
        tiling = as_tiling(tile, overlap)
        if embedding is None and orig_hw is None:
            with self._exclusive, reporter(progress, "point", text="encoding") as report:
                if tiling is not None:
                    windows = as_windows(image)
                    return self._as_records(self._in_tiles(windows, tiling, report), windows.shape)
                pixels = as_rgb(image)
                found = self._core.generate(pixels, report)
            return self._as_records(found, (pixels.shape[0], pixels.shape[1]))
        if image is not None:
            raise InvalidArgumentError("generate: expected image or embedding, found both")
        if self._layers > 0 or tiling is not None:
            reason = "tile" if tiling is not None else f"crop_n_layers={self._layers}"
            raise InvalidArgumentError(
                "generate: expected an image for crops and tiles, found an embedding, which is of "
                f"the whole image alone, and {reason}"
            )
        identity = saved_tensors.identity(self._model.core, self._model.source)
        arrays, hw = encoded_image(embedding_file.IMAGE, identity, embedding, orig_hw)
        with self._exclusive, reporter(progress, "point", text="encoding") as report:
            found = self._core.generate_encoded(arrays, hw, report)
        return self._as_records(found, hw)

    def _in_tiles(
        self, image: WindowReader, tiling: Tiling, report: Report | None
    ) -> list[dict[str, Any]]:
        """Return the fields of the records of a large image."""
        tiles = tiling.tiles(image.shape)
        masks = TileMasks(image.shape, tiles, self._model.mask_side)
        found: list[dict[str, Any]] = []
        for index, tile in enumerate(tiles):
            part = of_tile(report, index, len(tiles))
            for fields in self._core.generate(image.read(*tile), part):
                masks.add(index, fields.pop("counts"), fields["predicted_iou"])
                found.append(fields)
        return [_merged(each, found, masks) for each in masks.merged()]

    def _as_records(self, found: list[dict[str, Any]], hw: tuple[int, int]) -> MaskRecords:
        if self._objects_only:
            counts = _core.without_other_objects([fields["counts"] for fields in found], hw)
            kept = _core.keep_objects(counts, hw).tolist()
            found = [{**found[index], **_of_mask(counts[index], hw)} for index in kept]
        return MaskRecords((MaskRecord(fields, self._output_mode) for fields in found), hw)


def _merged(
    mask: _core.MergedMask, found: Sequence[Mapping[str, Any]], masks: TileMasks
) -> dict[str, Any]:
    """Return the fields of a mask of the image from those of its best piece, in its tile."""
    best = mask.members[0]
    corner = masks.tiles[masks.tile_of[best]]
    tile = masks.around(mask.members)
    crop_box = [tile.x0, tile.y0, tile.x1 - tile.x0, tile.y1 - tile.y0]
    if len(mask.members) == 1:
        x, y, *size = found[best]["crop_box"]
        crop_box = [x + corner.x0, y + corner.y0, *size]
    return {
        **found[best],
        **_of_mask(mask.counts, masks.hw),
        "point_coords": [[x + corner.x0, y + corner.y0] for x, y in found[best]["point_coords"]],
        "crop_box": crop_box,
    }


def _of_mask(counts: NDArray[np.uint32], hw: tuple[int, int]) -> dict[str, Any]:
    """Return the fields of a record that its mask alone decides."""
    box = _core.rle_to_box(counts, hw)
    return {
        "counts": counts,
        "size": hw,
        "area": int(counts[1::2].sum(dtype=np.int64)),
        "bbox": [box.x0, box.y0, box.x1 - box.x0, box.y1 - box.y0],
    }


def prepared(
    model: Model,
    output_mode: str,
    arguments: tuple[Any, ...],
    max_region_area: float = 0,
    objects_only: bool = False,
) -> MaskGenerator:
    """Return a generator of arguments that were checked before, as the core takes them."""
    generator = MaskGenerator.__new__(MaskGenerator)
    generator._set_up(model, output_mode, arguments, max_region_area, objects_only)
    return generator


def _as_grids(point_grids: Sequence[ArrayLike], layers: int) -> list[NDArray[np.float64]]:
    given = as_items("point_grids", point_grids)
    if len(given) < layers + 1:
        raise InvalidArgumentError(
            f"point_grids: expected {layers + 1} grids for crop_n_layers={layers}, found "
            f"{len(given)}"
        )
    grids = [
        as_coordinates(f"point_grids[{index}]", grid, 2).astype(np.float64, "C")
        for index, grid in enumerate(given)
    ]
    for index, grid in enumerate(grids):
        if grid.ndim != 2 or grid.shape[1] != 2 or len(grid) == 0:
            raise InvalidArgumentError(
                f"point_grids[{index}]: expected shape (n, 2), found {grid.shape}"
            )
        if not ((grid >= 0.0) & (grid <= 1.0)).all():
            raise InvalidArgumentError(f"point_grids[{index}]: expected values in 0 to 1")
    return grids


__dir__ = public_names(__name__)
