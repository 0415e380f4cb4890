"""The helpers of upstream's ``utils.amg`` that programs import, on NumPy arrays and tensors.

Upstream's take tensors and give tensors. Here arrays give arrays too.
"""

from __future__ import annotations

import sys
from collections.abc import ItemsView, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx import _core
from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import expects, require
from sam_rlx.compat.common.tensors import as_result, is_torch
from sam_rlx.errors import InvalidArgumentError

_MAX_LAYERS = 64  # of crops: each has four times as many crops as the one before


def _like(given: Any, found: NDArray[Any]) -> Any:
    """Return an array, or a tensor where a tensor was given."""
    return as_result(found) if is_torch(given) else found


class MaskData:
    """Lists, arrays and tensors with one entry for each mask, filtered and joined together."""

    def __init__(self, **kwargs: Any) -> None:
        self._stats: dict[str, Any] = {}
        for key, value in kwargs.items():
            self[key] = value

    def __setitem__(self, key: str, item: Any) -> None:
        require(
            isinstance(item, (list, np.ndarray)) or is_torch(item),
            f"MaskData: expected a list, an array or a tensor, found {type(item).__name__}",
        )
        self._stats[key] = item

    def __delitem__(self, key: str) -> None:
        del self._stats[key]

    def __getitem__(self, key: str) -> Any:
        return self._stats[key]

    def items(self) -> ItemsView[str, Any]:
        """Return the names with their lists, arrays and tensors."""
        return self._stats.items()

    @expects("a bool array, or an array of indices")
    def filter(self, keep: Any) -> None:
        """Keep the entries of a bool array, or those of an index array in its order."""
        indices = np.asarray(keep.cpu() if is_torch(keep) else keep)
        indices = np.flatnonzero(indices) if indices.dtype == np.bool_ else indices
        for key, value in self._stats.items():
            if isinstance(value, list):
                self._stats[key] = [value[index] for index in indices.tolist()]
            else:
                self._stats[key] = value[_like(value, indices)]

    @expects("another MaskData with entries of the same types")
    def cat(self, new_stats: MaskData) -> None:
        """Append the entries of another object."""
        for key, value in new_stats.items():
            if self._stats.get(key) is None:
                self._stats[key] = deepcopy(value)
            elif isinstance(value, list):
                self._stats[key] = self._stats[key] + deepcopy(value)
            elif is_torch(value):
                self._stats[key] = sys.modules["torch"].cat([self._stats[key], value])
            else:
                self._stats[key] = np.concatenate([self._stats[key], value])

    def to_numpy(self) -> None:
        """Turn the tensors into arrays."""
        for key, value in self._stats.items():
            if is_torch(value):
                self._stats[key] = value.detach().cpu().numpy()


@expects("boxes (M, 4), two boxes [x0, y0, x1, y1], and a distance")
def is_box_near_crop_edge(
    boxes: ArrayLike, crop_box: Sequence[int], orig_box: Sequence[int], atol: float = 20.0
) -> NDArray[np.bool_]:
    """Tell which boxes (M, 4) come within `atol` pixels of a crop edge inside the image."""
    corners = np.asarray(boxes, np.float32)
    near: NDArray[np.bool_] = _core.is_box_near_crop_edge(corners, crop_box, orig_box, atol)
    result: NDArray[np.bool_] = _like(boxes, near)
    return result


@expects("a box (4,) of numbers")
def box_xyxy_to_xywh(box_xyxy: ArrayLike) -> NDArray[Any]:
    """Convert one box (4,) from two corners to corner and size.

    As upstream, the first axis is taken for the corners' coordinates, whatever the shape.
    """
    box = np.asarray(box_xyxy).copy()
    box[2] -= box[0]
    box[3] -= box[1]
    result: NDArray[Any] = _like(box_xyxy, box)
    return result


def batch_iterator(batch_size: int, *args: Any) -> Iterator[list[Any]]:
    """Yield slices of `batch_size` entries of all arguments together."""
    for piece in _pieces(batch_size, args):
        yield [arg[piece] for arg in args]


@expects("a batch size from 1 on, and arguments with a length")
def _pieces(batch_size: int, args: tuple[Any, ...]) -> list[slice]:
    sizes = {len(arg[:]) for arg in args}
    require(
        len(sizes) == 1,
        f"batch_iterator: expected arguments of one length, found {sorted(sizes)}",
    )
    starts = range(0, len(args[0]), batch_size)
    return [slice(start, start + batch_size) for start in starts]


@expects("masks (B, H, W)")
def mask_to_rle_pytorch(tensor: ArrayLike) -> list[dict[str, Any]]:
    """Encode bool masks (B, H, W) as uncompressed column-major RLE, zeros first."""
    masks = np.asarray(tensor, np.bool_)
    size = list(masks.shape[1:])
    return [
        {"size": list(size), "counts": _core.rle_encode(np.ascontiguousarray(mask)).tolist()}
        for mask in masks
    ]


@expects("RLE: size [H, W], and counts that are integers from 0 on")
def rle_to_mask(rle: dict[str, Any]) -> NDArray[np.bool_]:
    """Decode uncompressed RLE to a bool mask (H, W)."""
    height, width = rle["size"]
    return _core.rle_decode(np.asarray(rle["counts"], np.uint32), (height, width))


@expects("RLE: size [H, W], and counts that are integers from 0 on")
def area_from_rle(rle: dict[str, Any]) -> int:
    """Count the pixels of a mask in uncompressed RLE."""
    return sum(rle["counts"][1::2])


@expects("RLE: size [H, W], and counts that are integers from 0 on")
def coco_encode_rle(uncompressed_rle: dict[str, Any]) -> dict[str, Any]:
    """Compress RLE to COCO's string form, as ``str``."""
    counts = _core.rle_to_string(np.asarray(uncompressed_rle["counts"], np.uint32))
    return {"size": list(uncompressed_rle["size"]), "counts": counts.decode("ascii")}


@expects("logits (..., H, W) and two numbers")
def calculate_stability_score(
    masks: ArrayLike, mask_threshold: float, threshold_offset: float
) -> NDArray[np.float32]:
    """IoU of logits (..., H, W) cut at a higher and at a lower threshold; NaN for empty masks."""
    logits = np.asarray(masks, np.float32)
    scores = np.zeros(logits.shape[:-2], np.float32)
    for index in np.ndindex(scores.shape):
        scores[index] = _core.stability_score(logits[index], mask_threshold, threshold_offset)
    result: NDArray[np.float32] = _like(masks, scores)
    return result


@expects("a number of points")
def build_point_grid(n_per_side: int) -> NDArray[np.float64]:
    """Return n * n evenly spaced points (x, y) in 0 .. 1, x fastest."""
    return _core.build_point_grid(n_per_side)


@expects("three integers")
def build_all_layer_point_grids(
    n_per_side: int, n_layers: int, scale_per_layer: int
) -> list[NDArray[np.float64]]:
    """Return the grids of the layers 0 .. `n_layers`."""
    if n_layers > _MAX_LAYERS:
        raise InvalidArgumentError(
            f"n_layers: expected at most {_MAX_LAYERS}, found {shown(n_layers)}"
        )
    return [
        build_point_grid(int(n_per_side / scale_per_layer**layer)) for layer in range(n_layers + 1)
    ]


@expects("a size (H, W), a number of layers, and a ratio")
def generate_crop_boxes(
    im_size: tuple[int, ...], n_layers: int, overlap_ratio: float
) -> tuple[list[list[int]], list[int]]:
    """Return crop boxes [x0, y0, x1, y1] for an image (H, W), and the layer of each."""
    crops = _core.generate_crop_boxes((im_size[0], im_size[1]), n_layers, overlap_ratio)
    return [[crop.x0, crop.y0, crop.x1, crop.y1] for crop in crops], [crop.layer for crop in crops]


@expects("boxes (M, 4) and a box [x0, y0, x1, y1]")
def uncrop_boxes_xyxy(boxes: ArrayLike, crop_box: Sequence[float]) -> NDArray[Any]:
    """Move boxes (M, 4) from a crop's pixels to the image's."""
    x0, y0 = crop_box[:2]
    return _moved(boxes, [x0, y0, x0, y0])


@expects("points (M, 2) and a box [x0, y0, x1, y1]")
def uncrop_points(points: ArrayLike, crop_box: Sequence[float]) -> NDArray[Any]:
    """Move points (M, 2) from a crop's pixels to the image's."""
    return _moved(points, list(crop_box[:2]))


def _moved(values: ArrayLike, by: list[float]) -> NDArray[Any]:
    """Add numbers to the last axis; a tensor keeps its type, as upstream, if the numbers fit."""
    plain = np.asarray(values)
    moved = np.add(plain, by)
    kept = moved.astype(plain.dtype) if is_torch(values) and plain.dtype.kind == "f" else moved
    result: NDArray[Any] = _like(values, kept)
    return result


@expects("masks (M, h, w), a box [x0, y0, x1, y1] in the image, and its size")
def uncrop_masks(
    masks: ArrayLike, crop_box: Sequence[int], orig_h: int, orig_w: int
) -> NDArray[Any]:
    """Pad masks (M, h, w) of a crop with zeros to the image's size."""
    x0, y0, x1, y1 = crop_box
    padded = np.pad(np.asarray(masks), ((0, 0), (y0, orig_h - y1), (x0, orig_w - x1)))
    result: NDArray[Any] = _like(masks, padded)
    return result


@expects("a mask (H, W) and an area")
def remove_small_regions(
    mask: NDArray[np.bool_], area_thresh: float, mode: str
) -> tuple[NDArray[np.bool_], bool]:
    """Fill small holes or drop small islands of a mask; also tell whether it changed."""
    require(
        isinstance(mode, str) and mode in ("holes", "islands"),
        f"mode: expected holes or islands, found {shown(mode)}",
    )
    cleaned = _core.remove_small_regions(np.ascontiguousarray(mask, np.bool_), area_thresh, mode)
    return cleaned.mask, cleaned.is_changed


@expects("masks (..., H, W)")
def batched_mask_to_box(masks: ArrayLike) -> NDArray[np.int64]:
    """Return boxes (..., 4) of masks (..., H, W), with inclusive corners; 0 for empty masks."""
    pixels = np.asarray(masks, np.bool_)
    boxes = np.zeros((*pixels.shape[:-2], 4), np.int64)
    for index in np.ndindex(pixels.shape[:-2]):
        box = _core.mask_to_box(pixels[index])
        boxes[index] = box.x0, box.y0, box.x1, box.y1
    result: NDArray[np.int64] = _like(masks, boxes)
    return result


__dir__ = public_names(__name__)
