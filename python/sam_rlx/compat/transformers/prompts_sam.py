"""Points, labels and boxes as the processors of SAM and SAM-HQ take them.

Upstream: transformers 5.24, `models/sam/processing_sam.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.printable import shown
from sam_rlx._internal.public import public_names
from sam_rlx.compat.common.errors import ArgumentTypeError, expects
from sam_rlx.compat.common.tensors import as_result
from sam_rlx.compat.transformers.sizes import Hw, SizeDict, longest_edge_hw
from sam_rlx.errors import InvalidArgumentError

Array = NDArray[Any]

# Axes of prompts in a batch of images.
_AXES = {"input_boxes": 3, "input_points": 4, "input_labels": 3}


@dataclass(frozen=True)
class SamPrompts:
    """How prompts of images become those of the network's input.

    Attributes
    ----------
    side : int
        Longer side of the image in the network's input.
    pad : float or None
        Of points and labels where images have different numbers of points.
    hq : bool
        By the rules of SAM-HQ's processor, which takes empty lists.
    """

    side: int
    pad: float | None
    hq: bool = False

    @expects("nested lists of numbers, one for each image")
    def prompts(
        self, points: Any, labels: Any, boxes: Any, sizes: list[Hw], kind: str | None
    ) -> dict[str, Any]:
        """Return `input_boxes`, `input_points` and `input_labels`, those that are given.

        Parameters
        ----------
        points, labels, boxes : nested list or tensor
            For each image one list, of any depth that makes one array.
        sizes : list of (height, width)
            Of the images. Where there are more or fewer prompts, all are scaled by the first.
        kind : str or None
            "pt" adds an axis of objects where it is missing.
        """
        arrays = {
            "input_points": self._entries("input_points", points),
            "input_labels": self._entries("input_labels", labels),
            "input_boxes": self._entries("input_boxes", boxes, depth=2),
        }
        if boxes is not None:
            arrays["input_boxes"] = [each.astype(np.float32) for each in arrays["input_boxes"]]
            arrays["input_boxes"] = self._in_input(arrays["input_boxes"], sizes, corners=True)
        if points is not None:
            arrays["input_points"] = self._in_input(arrays["input_points"], sizes)
            if labels is not None:
                self._fill(arrays["input_points"], arrays["input_labels"])
        given = {"input_boxes": boxes, "input_points": points, "input_labels": labels}
        return {
            name: self._batch(name, np.array(arrays[name]), kind)
            for name, value in given.items()
            if value is not None
        }

    def _entries(self, name: str, value: Any, depth: int = 1) -> list[Array]:
        """Return one array for each image."""
        if value is None:
            return []
        entries = value.numpy().tolist() if hasattr(value, "numpy") else value
        inner = entries
        for _ in range(depth):
            if self.hq and isinstance(inner, list) and not inner:
                break
            if not isinstance(inner, list) or not isinstance(inner[0], list):
                raise InvalidArgumentError(
                    f"{name}: expected lists in a list, {depth + 1} levels at least, found "
                    f"{shown(value)}"
                )
            inner = inner[0]
        if not isinstance(entries, list):
            raise InvalidArgumentError(f"{name}: expected a list, found {type(value).__name__}")
        return [np.array(entry) for entry in entries]

    def _in_input(
        self, entries: list[Array], sizes: list[Hw], *, corners: bool = False
    ) -> list[Array]:
        """Return points or boxes in pixels of the network's input, float64."""
        own = sizes if len(sizes) == len(entries) else [sizes[0]] * len(entries)
        return [
            _scaled(entry, hw, longest_edge_hw(hw, SizeDict(longest_edge=self.side)), corners)
            for entry, hw in zip(entries, own, strict=True)
        ]

    def _fill(self, points: list[Array], labels: list[Array]) -> None:
        """Fill up points of images with fewer of them, in place; labels get one more each."""
        if all(each.shape == points[0].shape for each in points):
            return
        most = max(each.shape[0] for each in points)
        pad: Any = self.pad  # None is a TypeError below, as upstream
        for i, each in enumerate(points):
            if each.shape[0] != most:
                filler = np.zeros((most - each.shape[0], 2)) + pad
                points[i] = np.concatenate([each, filler], axis=0)
                labels[i] = np.append(labels[i], [pad])

    def _batch(self, name: str, array: Array, kind: str | None) -> Any:
        if kind != "pt":
            return array
        if array.dtype.kind not in "biuf":
            raise ArgumentTypeError(f"{name}: expected numbers, found {array.dtype}")
        axes = _AXES[name]
        lacks = array.ndim < axes if self.hq else array.ndim != axes
        return as_result(array[:, None] if lacks else array)


def _scaled(entry: Array, before: Hw, after: Hw, corners: bool) -> Array:
    coords = entry.astype(np.float64)
    if corners:
        coords = coords.reshape(-1, 2, 2)
    coords[..., 0] = coords[..., 0] * (after[1] / before[1])
    coords[..., 1] = coords[..., 1] * (after[0] / before[0])
    return coords.reshape(-1, 4) if corners else coords


__dir__ = public_names(__name__)
