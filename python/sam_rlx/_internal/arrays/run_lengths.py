"""Masks of large images: run lengths that look like an array of bool."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sam_rlx import _core
from sam_rlx.errors import InvalidArgumentError


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
