"""Prompts on single images: clicks, boxes and masks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.arrays.checks import as_flag, as_numbers
from sam_rlx._internal.arrays.foreign import as_array
from sam_rlx._internal.arrays.images import as_hw
from sam_rlx._internal.arrays.masks import as_bools, as_region_area, clean_
from sam_rlx._internal.arrays.prompts import Prompts, as_prompts
from sam_rlx._internal.files import embeddings as _embedding_file
from sam_rlx._internal.formats.instances import Instance
from sam_rlx._internal.image_embeddings import ImageEmbeddings
from sam_rlx._internal.media.windows import WindowReader, as_windows
from sam_rlx._internal.printable import shown
from sam_rlx._internal.progress import Progress, reporter
from sam_rlx._internal.public import public_names
from sam_rlx._internal.results import ResultForms, counts_of, instances_of
from sam_rlx._internal.synonyms import also
from sam_rlx._internal.tiling import Report, Tiling, as_tiling, check_prompts, windows_of
from sam_rlx.errors import InvalidArgumentError, StateError
from sam_rlx.model import Model, as_model

__all__ = ["Best", "ImagePredictor", "MaskPrediction", "Objects", "RunLengthMasks"]

_MAX_MASK_BYTES = 1 << 26  # of one call of the decoder, in a tile

# What the encoder gives: the image embedding (1, C, h, w); SAM 2 and 3 add two finer maps.
_Embeddings: TypeAlias = tuple[NDArray[np.float32], ...]
# They and the (H, W) of their image.
_EncodedImage: TypeAlias = tuple[_Embeddings, tuple[int, int]]


class RunLengthMasks(Sequence[Any]):
    """Masks ([B,] K, H, W) of which only run lengths are kept, decoded where they are asked for.

    ``masks[i]`` and a loop give bool arrays (H, W), or the masks of a set if there is an axis B;
    slices give masks of the same kind; ``numpy.asarray(masks)`` decodes all.

    Attributes
    ----------
    counts : tuple of ndarray of uint32
        Run lengths of each mask in column-major order, beginning with zeros; sets one after the
        other.
    shape : tuple of int
        ([B,] K, H, W).
    """

    dtype = np.dtype(np.bool_)

    def __init__(self, counts: Sequence[NDArray[np.uint32]], shape: Sequence[int]) -> None:
        self.counts = tuple(counts)
        self.shape = tuple(shape)
        expected = math.prod(self.shape[:-2])
        if len(self.counts) != expected:
            raise InvalidArgumentError(
                f"counts: expected {expected} masks for shape {self.shape}, found "
                f"{len(self.counts)}"
            )

    @property
    def ndim(self) -> int:
        """Number of axes, 3 or 4."""
        return len(self.shape)

    @property
    def areas(self) -> NDArray[np.int64]:
        """Pixels of each mask, ([B,] K)."""
        areas = [int(counts[1::2].sum(dtype=np.int64)) for counts in self.counts]
        return np.array(areas, np.int64).reshape(self.shape[:-2])

    def select(self, index: NDArray[np.integer[Any]]) -> RunLengthMasks:
        """Return one mask of each set: number `index` ([B]) of its K; ([B,] 1, H, W)."""
        number = self.shape[-3]
        counts = [self.counts[row * number + k] for row, k in enumerate(index.ravel().tolist())]
        return RunLengthMasks(counts, (*self.shape[:-3], 1, *self.shape[-2:]))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple):
            first, *rest = index
            found = self[first]
            return found[tuple(rest)] if rest else found
        number = math.prod(self.shape[1:-2])
        if isinstance(index, slice):
            rows = range(len(self))[index]
            counts = [
                each for row in rows for each in self.counts[row * number : (row + 1) * number]
            ]
            return RunLengthMasks(counts, (len(rows), *self.shape[1:]))
        row = range(len(self))[index]  # IndexError beyond the end
        counts = list(self.counts[row * number : (row + 1) * number])
        if self.ndim > 3:
            return RunLengthMasks(counts, self.shape[1:])
        return _core.rle_decode(counts[0], (self.shape[-2], self.shape[-1]))

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("RunLengthMasks: expected copy=True or None, found False")
        hw = (self.shape[-2], self.shape[-1])
        masks = np.empty((len(self.counts), *hw), np.bool_)
        for mask, counts in zip(masks, self.counts, strict=True):
            mask[:] = _core.rle_decode(counts, hw)
        return masks.reshape(self.shape).astype(dtype or np.bool_, copy=False)

    def __repr__(self) -> str:
        sizes = " x ".join(map(str, self.shape))
        return f"<RunLengthMasks {sizes}>"


class Best(NamedTuple):
    """Index and value of the highest predicted IoU; arrays (B,) for a batch of prompts."""

    index: Any
    iou_prediction: Any

    def __repr__(self) -> str:
        if isinstance(self.index, int):
            return f"Best(index={self.index}, iou_prediction={self.iou_prediction:.3f})"
        return f"<Best of {len(self.index)} prompt sets>"


@dataclass(frozen=True, eq=False)
class MaskPrediction(ResultForms):
    """Masks for one prompt set, or with an axis B in front for a batch of sets.

    The methods that draw, write and convert (`plot`, `save`, `to_coco` and so on) take the best
    mask of each prompt set as one object; `select` chooses others.

    Attributes
    ----------
    masks : ndarray ([B,] K, H, W), or RunLengthMasks
        bool at the size of the image; float32 logits with `return_logits`. With `tile` they are
        `RunLengthMasks`, which are decoded one at a time. K is 3 with `multimask_output`, else 1;
        always 1 from SAM-HQ, and with `hq_token_only`. From SAM 3, holes of at most 256 positions
        of the low-resolution mask are filled, as upstream does.
    iou_predictions : ndarray ([B,] K), float32
        The network's own estimate of each mask's IoU. Not clamped: may pass 1.
    low_res_masks : ndarray ([B,] K, S, S), float32
        Logits at the network's resolution, S = `Model.mask_side`; a valid `mask_input`. From
        SAM 2 and SAM 3 they are clamped to -32 .. 32. With `tile` there are none: (0, S, S).
    """

    masks: NDArray[Any] | RunLengthMasks
    iou_predictions: NDArray[np.float32]
    low_res_masks: NDArray[np.float32]

    def best(self) -> Best:
        """Return index and value of the highest predicted IoU; the first one of equals.

        Returns
        -------
        Best
            `index` int and `iou_prediction` float; arrays (B,) for a batch.
        """
        index = self.iou_predictions.argmax(axis=-1)
        value = self.iou_predictions.max(axis=-1)
        if self.iou_predictions.ndim == 1:
            return Best(int(index), float(value))
        return Best(index, value)

    def select(self, index: int | ArrayLike) -> MaskPrediction:
        """Return the prediction with one mask of each prompt set.

        Parameters
        ----------
        index : int, or array (B,) of int
            Number of the mask in its set, from 0; an array has one for each set of a batch.

        Returns
        -------
        MaskPrediction
            K is 1. Arrays are copies.

        Raises
        ------
        InvalidArgumentError
            There is no such mask, or not one number for each set.
        """
        count = self.iou_predictions.shape[-1]
        chosen = as_array("index", index)
        sets = self.iou_predictions.shape[:-1]
        if chosen.dtype.kind not in "iu" or chosen.shape not in ((), sets):
            raise InvalidArgumentError(
                f"index: expected an int, or one for each of {sets}, found shape {chosen.shape} "
                f"of {chosen.dtype}"
            )
        if ((chosen < 0) | (chosen >= count)).any():
            raise InvalidArgumentError(f"index: expected 0 to {count - 1}, found {shown(index)}")
        where = np.broadcast_to(chosen, sets)

        def taken(values: NDArray[Any], axes: int) -> NDArray[Any]:
            return np.take_along_axis(values, where.reshape(sets + (1,) * (axes + 1)), len(sets))

        scores = taken(self.iou_predictions, 0)
        if isinstance(self.masks, RunLengthMasks):
            return MaskPrediction(self.masks.select(where), scores, self.low_res_masks)
        return MaskPrediction(taken(self.masks, 2), scores, taken(self.low_res_masks, 2))

    def _instances(self) -> list[Instance]:
        chosen = self.select(self.iou_predictions.argmax(axis=-1))
        found = zip(counts_of(chosen.masks), chosen.iou_predictions.ravel().tolist(), strict=True)
        return [Instance(counts, self._hw(), score=score) for counts, score in found]

    def _hw(self) -> tuple[int, int]:
        return self.masks.shape[-2], self.masks.shape[-1]

    def __repr__(self) -> str:
        sets = self.iou_predictions.shape[:-1]
        values = self.iou_predictions.ravel()[:6]
        shown = " ".join(f"{value:.2f}" for value in values)
        more = " ..." if self.iou_predictions.size > len(values) else ""
        height, width = self.masks.shape[-2:]
        batch = f"{sets[0]} x " if sets else ""
        return (
            f"<MaskPrediction {batch}{self.iou_predictions.shape[-1]} masks of {height} x {width}, "
            f"predicted IoU {shown}{more}>"
        )

    def _repr_png_(self) -> bytes | None:
        """Show a notebook the masks: of a batch, the best one of each set."""
        from sam_rlx._internal.drawing.previews import panels

        index = np.arange(self.iou_predictions.shape[-1])
        masks, values = list(self.masks), self.iou_predictions
        if values.ndim == 2:
            index, best = np.arange(len(values)), self.best()
            masks = [chosen[k] for chosen, k in zip(masks, best.index, strict=True)]
            values = best.iou_prediction
        return panels(masks, [f"{k}: {value:.2f}" for k, value in zip(index, values, strict=True)])


class Objects(ResultForms):
    """Masks from anywhere with the methods of results, such as `plot`, `save` and `to_coco`.

    Parameters
    ----------
    masks : bool array (H, W), (K, H, W) or (N, K, H, W), result, or an iterable of these
        One an object. Kept as run lengths.
    names : str or sequence of str, optional
        What the objects are.
    scores : sequence of float, optional
        One an object.
    size : (int, int), optional
        Height and width of the image; where there may be no mask that tells.

    Raises
    ------
    InvalidArgumentError
        Masks have different shapes, or there are not as many names or scores.

    Examples
    --------
    >>> import numpy as np, sam_rlx
    >>> mask = np.zeros((40, 60), bool)
    >>> mask[10:20, 30:50] = True
    >>> sam_rlx.Objects([mask], names="cup", scores=[0.9]).to_yolo(box=True).split()
    ['0', '0.666667', '0.375', '0.333333', '0.25']
    """

    def __init__(
        self,
        masks: Any,
        *,
        names: str | Sequence[str] | None = None,
        scores: ArrayLike | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        size = None if size is None else as_hw("size", size)
        found = instances_of("masks", masks, size)
        self.size = size or (found[0].size if found else None)
        for index, one in enumerate(found):
            if tuple(one.size) != self.size:
                raise InvalidArgumentError(
                    f"masks[{index}]: expected shape {self.size}, found {tuple(one.size)}"
                )
        if scores is not None:
            values = as_numbers("scores", scores)
            if values.shape != (len(found),):
                raise InvalidArgumentError(
                    f"scores: expected shape ({len(found)},), found {values.shape}"
                )
            found = [
                replace(one, score=score) for one, score in zip(found, values.tolist(), strict=True)
            ]
        self._found = found
        self._found = self._named(names)

    def __len__(self) -> int:
        return len(self._found)

    def __repr__(self) -> str:
        return f"<Objects, {len(self._found)} masks of {self.size}>"

    def _instances(self) -> list[Instance]:
        return self._found

    def _hw(self) -> tuple[int, int] | None:
        return self.size


class ImagePredictor(ImageEmbeddings):
    """Segment objects in an image by points, boxes and masks.

    The image is encoded once, by `set_image`; every `predict` after that is cheap. A predictor
    serves one call at a time: a second thread gets a `StateError`. Make one predictor for each
    thread; they may share the model.

    Parameters
    ----------
    model : Model
        From `sam_rlx.load_model`.
    num_threads : int, optional
        Threads for computing, at least 1. Default: the cores this process may use. Results do not
        depend on it.
    resize : {"float", "integer"}
        How SAM 3 gets images of its input's size: as upstream does on a GPU (default), or as it
        does on a CPU. Some pixels differ by one grey level. Other families know "float" only.

    Raises
    ------
    InvalidArgumentError
        An argument has the wrong type or range.
    UnsupportedError
        The checkpoint is of SAM 3's detector alone, which takes no clicks.

    Examples
    --------
    >>> import numpy as np, sam_rlx
    >>> predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
    >>> predictor.set_image(np.zeros((60, 80, 3), np.uint8))
    >>> predictor.predict(point_coords=[[40, 30]], point_labels=[1]).masks.shape
    (3, 60, 80)
    """

    _EMBEDDING_FILE = _embedding_file.IMAGE
    _CORE = _core.ImagePredictor

    def __init__(
        self,
        model: Model,
        *,
        num_threads: int | None = None,
        resize: Literal["float", "integer"] = "float",
    ) -> None:
        self._model = as_model(model)
        super().__init__(model.core, model.source, num_threads, resize)

    @property
    def model(self) -> Model:
        """The model that this predictor runs."""
        return self._model

    def __reduce__(self) -> tuple[Any, ...]:
        with self._exclusive:
            images = (self._current(), self._encoded)
        return _restored, (type(self), self._model, self._arguments, *images)

    @property
    def input_hw(self) -> tuple[int, int] | None:
        """Height and width of the current image after the resize, or None."""
        input_hw: tuple[int, int] | None = self._core.input_hw
        return input_hw

    def _current(self) -> _EncodedImage | None:
        orig_hw = self._core.orig_hw
        return None if orig_hw is None else (self._core.image_embeddings, orig_hw)

    def _restore(self, encoded_image: _EncodedImage | None) -> None:
        if encoded_image is None:
            self._core.reset_image()
        else:
            self._core.set_image_embeddings(*encoded_image)

    @also(boxes="box")
    def predict(
        self,
        *,
        point_coords: ArrayLike | None = None,
        point_labels: ArrayLike | None = None,
        box: ArrayLike | None = None,
        mask_input: ArrayLike | None = None,
        multimask_output: bool = True,
        return_logits: bool = False,
        hq_token_only: bool = False,
        min_mask_region_area: int = 0,
        image: Any = None,
        tile: int | None = None,
        overlap: int | None = None,
        progress: bool | Progress = False,
    ) -> MaskPrediction:
        """Predict masks for prompts on the current image, or in tiles of a large one.

        One prompt set may hold points, a box and a mask at once. With an axis B in front of every
        prompt, B sets are computed in one call; the result then has that axis too and equals the
        loop over the sets, bit for bit.

        With `tile` each set is answered in one tile of `image`: the one that has its box and points
        farthest from those edges that are not edges of the image. Its masks end with the tile. A
        set that is too large, so that no tile has a quarter of its longer side around it, gets a
        window of its own, one and a half times as long as it and at least a tile, which is reduced
        to the size of a tile; the masks are enlarged again. Each tile with prompts is encoded once.
        Memory holds one tile, and the run lengths of all masks. The current image stays.

        Parameters
        ----------
        point_coords : array ([B,] N, 2), optional
            Points (x, y) in pixels of the original image, finite. N may be 0, as before the first
            click on what a box is around.
        point_labels : array ([B,] N), optional
            1 foreground, 0 background, -1 ignored (pads sets of unequal length). Required with
            `point_coords`.
        box : array ([B,] 4), optional
            (x0, y0, x1, y1) in pixels of the original image.
        mask_input : array ([B,] S, S), optional
            Logits of an earlier mask, from `low_res_masks`; S = `Model.mask_side`.
        multimask_output : bool
            True: three candidate masks for an ambiguous prompt. False: one mask. SAM-HQ gives one
            mask: the best of the three, or the one, and the logits of its own token on top.
            HQ-SAM 2 has those on top of each of the three.
        return_logits : bool
            True: `masks` holds float32 logits instead of bool.
        hq_token_only : bool
            SAM-HQ and HQ-SAM 2 alone. True: one mask, the logits of their own token without those
            of SAM's mask; its IoU is that of the best of the three, or of the one. Their authors
            advise it for images of one object.
        min_mask_region_area : int
            With a value > 0, holes and islands of a mask smaller than this many pixels are removed,
            as `MaskGenerator` does; `low_res_masks` stay. Not with `return_logits`.
        image : array, or Windows of `sam_rlx.io.open_windows`
            The large image; given together with `tile`, else neither.
        tile, overlap : int, optional
            As for `MaskGenerator.generate`; not with `mask_input` and `return_logits`.
        progress : bool or callable
            With `tile`: a callable gets (sets done, sets in all) after each tile. True shows a bar
            on a terminal and in Jupyter if ``tqdm`` is installed, else nothing.

        Returns
        -------
        MaskPrediction
            `masks`, `iou_predictions` and `low_res_masks`.

        Raises
        ------
        StateError
            No image is set, or the predictor is in use by another thread.
        InvalidArgumentError
            No prompt is given, a shape, label or value is wrong, or `hq_token_only` is asked of a
            model that is neither SAM-HQ nor HQ-SAM 2.
        """
        prompts = as_prompts(point_coords, point_labels, box, mask_input, self._weights.mask_side)
        wanted = {
            "multimask_output": as_flag("multimask_output", multimask_output),
            "hq_token_only": as_flag("hq_token_only", hq_token_only),
        }
        logits = as_flag("return_logits", return_logits)
        area = as_region_area(min_mask_region_area, logits)
        tiling = as_tiling(tile, overlap)
        if tiling is not None or image is not None:
            if tiling is None or image is None:
                raise InvalidArgumentError(
                    "predict: expected image and tile together, found one of them; set_image takes "
                    "an image that is encoded whole"
                )
            if logits or prompts.mask_input is not None:
                raise InvalidArgumentError(
                    "tile: expected points and boxes, without mask_input and return_logits, found "
                    "others"
                )
            windows = as_windows(image)
            with self._exclusive, reporter(progress, "prompt", text="encoding") as report:
                return self._in_tiles(windows, tiling, prompts, wanted, area, report)
        with self._exclusive:
            if self._core.orig_hw is None:
                raise StateError("predict: expected an image from set_image, found none")
            result = self._predict(prompts, wanted, logits)
        clean_(np.asarray(result.masks), area)
        return result

    def _in_tiles(
        self,
        image: WindowReader,
        tiling: Tiling,
        prompts: Prompts,
        wanted: dict[str, bool],
        area: int,
        report: Report | None,
    ) -> MaskPrediction:
        check_prompts(prompts, image.shape)
        counts: list[list[NDArray[np.uint32]]] = [[]] * prompts.count
        scores: list[NDArray[np.float32]] = [np.empty(0, np.float32)] * prompts.count
        before, done = self._current(), 0
        try:
            for window, sets in windows_of(prompts, image.shape, tiling).items():
                pixels = window.read(image)
                self._core.set_image(pixels)
                size = max(1, _MAX_MASK_BYTES // pixels.size)
                for part in (sets[i : i + size] for i in range(0, len(sets), size)):
                    found = self._core.predict(
                        **window.prompts(prompts, part),
                        mask_input=None,
                        **wanted,
                        return_logits=False,
                    )
                    clean_(found.masks, -(-area // window.factor**2))
                    for row, index in enumerate(part):
                        counts[index] = window.placed(found.masks[row], image.shape)
                        scores[index] = found.iou_predictions[row]
                    done += len(part)
                    if report is not None:
                        report(done, prompts.count)
        finally:
            self._restore(before)
        number = self._core.num_masks(**wanted)
        shape = (prompts.count, number, *image.shape)
        masks = RunLengthMasks([each for row in counts for each in row], shape)
        side = self._weights.mask_side
        return MaskPrediction(
            masks if prompts.batched else masks[0],
            np.array(scores, np.float32).reshape(shape[:2]) if prompts.batched else scores[0],
            np.empty((0, side, side), np.float32),
        )

    def _predict(
        self, prompts: Prompts, wanted: dict[str, bool], return_logits: bool
    ) -> MaskPrediction:
        found = self._core.predict(
            prompts.point_coords,
            prompts.point_labels,
            prompts.boxes,
            prompts.mask_input,
            return_logits=return_logits,
            **wanted,
        )
        arrays = (found.masks, found.iou_predictions, found.low_res_masks)
        return MaskPrediction(*(arrays if prompts.batched else (array[0] for array in arrays)))

    @property
    def image_embedding(self) -> NDArray[np.float32]:
        """Copy of the encoder's output for the current image, float32 (1, C, h, w).

        Raises `StateError` if no image is set.
        """
        return self.image_embeddings[0]

    def features(self, mask: ArrayLike | None = None) -> NDArray[np.float32]:
        """Return what the encoder tells about a part of the current image, as one vector.

        It is the mean of `image_embedding`, in which each of its positions counts by the part of
        its cell that the mask covers: a cell is 1/h by 1/w of the network's input, and a pixel of
        the image has the area that it has there after the resize. What the network pads counts
        for nothing.

        Parameters
        ----------
        mask : array (H, W), optional
            Of bool, or of 0 and 1; as large as the image. Default: all of the image.

        Returns
        -------
        ndarray (C,) float32
            Neither centred nor scaled.

        Raises
        ------
        StateError
            No image is set, or the predictor is in use by another thread.
        InvalidArgumentError
            The mask has another size, no pixel, or other values.

        Examples
        --------
        >>> import numpy as np, sam_rlx
        >>> predictor = sam_rlx.ImagePredictor(sam_rlx.load_model("sam-nano"))
        >>> predictor.set_image(np.zeros((60, 80, 3), np.uint8))
        >>> predictor.features().shape == predictor.image_embedding.shape[1:2]
        True
        """
        found = None if mask is None else as_bools("mask", mask)
        with self._exclusive:
            features: NDArray[np.float32] = self._core.features(found)
        return features


def _restored(
    kind: type[ImagePredictor],
    model: Model,
    arguments: dict[str, Any],
    current: _EncodedImage | None,
    encoded: list[_EncodedImage],
) -> ImagePredictor:
    """Return the predictor of a pickle or a copy, with its images."""
    predictor = kind(model, **arguments)
    predictor._restore(current)
    predictor._encoded = list(encoded)
    return predictor


__dir__ = public_names(__name__)
