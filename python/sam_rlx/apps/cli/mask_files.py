"""Masks of ``--mask``: images, and arrays of logits or masks."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sam_rlx import io
from sam_rlx._internal.arrays.mask_logits import mask_logits
from sam_rlx._internal.files import saved_arrays
from sam_rlx.apps.cli.common import UsageError
from sam_rlx.errors import InvalidArgumentError
from sam_rlx.model import Model

HELP = (
    "mask of an object: an image of it alone (white on black, one label, or a cut-out); a file of "
    "--npz, whose best mask is taken; or a .npy file of logits or of a mask"
)

_NUMBERS = saved_arrays.Field("biuf", range(6))
_ARRAYS: saved_arrays.Schema = {
    "iou_predictions": saved_arrays.Field("f", range(6), required=False),
    "scores": saved_arrays.Field("f", range(6), required=False),
    "low_res_masks": saved_arrays.Field("f", range(2, 6), required=False),
    "masks": saved_arrays.Field("biuf", range(2, 6), required=False),
}


@dataclass(frozen=True)
class MaskFile:
    """What a file holds: logits at the network's resolution, a mask in pixels, or both."""

    path: Path
    logits: NDArray[np.float32] | None = None
    mask: NDArray[np.bool_] | None = None

    def as_logits(self, model: Model, hw: tuple[int, int]) -> NDArray[np.float32]:
        """Return logits (S, S) for `ImagePredictor.predict`, on an image of size (H, W)."""
        side = model.mask_side
        if self.logits is not None and self.logits.shape == (side, side):
            return self.logits
        mask = self._in_pixels(hw)
        if mask is None:
            raise self._other_size(hw, side)
        return mask_logits(mask, model.core)

    def as_mask(self, model: Model, hw: tuple[int, int]) -> NDArray[np.bool_]:
        """Return a mask (H, W) for `VideoPredictor.add_prompt`."""
        mask = self._in_pixels(hw)
        if mask is not None:
            return mask
        side = model.mask_side
        if self.logits is None or self.logits.shape != (side, side) or self.mask is not None:
            raise self._other_size(hw, side)
        image = io.pillow("Image").fromarray(self.logits)
        resized = image.resize((hw[1], hw[0]), io.pillow("Image").Resampling.BILINEAR)
        return np.asarray(resized) > 0

    def _in_pixels(self, hw: tuple[int, int]) -> NDArray[np.bool_] | None:
        if self.mask is not None and self.mask.shape == hw:
            return self.mask
        if self.logits is not None and self.logits.shape == hw:
            return self.logits > 0
        return None

    def _other_size(self, hw: tuple[int, int], side: int) -> UsageError:
        found = [array.shape for array in (self.mask, self.logits) if array is not None]
        sizes = " and ".join(f"{width} x {height}" for height, width in found)
        return UsageError(
            f"--mask: expected a mask of {hw[1]} x {hw[0]} pixels or logits of {side} x {side} in "
            f"{self.path}, found {sizes}"
        )


def read(path: Path) -> MaskFile:
    """Read a file of ``--mask``; `UsageError` if it is none.

    The kind follows from the first bytes, not from the suffix.
    """
    try:
        with path.open("rb") as file:
            start = file.read(6)
            file.seek(0)
            if start.startswith(b"PK"):
                return _from_npz(path, file)
            if start.startswith(b"\x93NUMPY"):
                return _from_array(
                    path, saved_arrays.read_array(file, "array", "numbers", _NUMBERS)
                )
        return MaskFile(path, mask=io.read_mask(path))
    except (InvalidArgumentError, ValueError, KeyError) as error:
        words = str(error).removeprefix(f"{path}: ")
        raise UsageError(
            f"--mask: expected an image of a mask, a file of --npz, or logits as .npy in {path}, "
            f"found another file: {words}"
        ) from error


def _from_array(path: Path, array: NDArray[Any]) -> MaskFile:
    if array.ndim > 2 and array.size == array.shape[-2] * array.shape[-1]:
        array = array.reshape(array.shape[-2:])
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise ValueError(f"expected one array (H, W) of numbers, found {array.dtype} {array.shape}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError("expected finite logits, found NaN or infinity")
        return MaskFile(path, logits=np.ascontiguousarray(array, np.float32))
    return MaskFile(path, mask=np.asarray(array != 0))


def _from_npz(path: Path, file: BinaryIO) -> MaskFile:
    """Return the best mask of a file that ``--npz`` wrote."""
    arrays = saved_arrays.read_masks(file, "archive", "masks", _ARRAYS)
    scores = arrays["iou_predictions" if "iou_predictions" in arrays else "scores"]
    if scores.size == 0:
        raise ValueError("expected at least one mask, found none")
    best = int(scores.argmax())
    parts = {}
    for name in ("low_res_masks", "masks"):
        if name in arrays:
            stack = arrays[name].reshape(scores.size, *arrays[name].shape[-2:])
            parts[name] = stack[best]
    if not parts:
        raise KeyError("masks")
    return MaskFile(
        path,
        _from_array(path, parts["low_res_masks"]).logits if "low_res_masks" in parts else None,
        parts["masks"] > 0 if "masks" in parts else None,
    )
