"""The masks of everything mode, to choose from."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.apps.annotator.values import Mask, PackedMask
from sam_rlx.generator import MaskRecord

_MAX_MASKS = 65535


def found_masks(records: Sequence[MaskRecord]) -> tuple[Mask, ...]:
    """Return what everything mode found, from large to small."""
    ordered = sorted(records, key=lambda record: -record.area)[:_MAX_MASKS]
    return tuple(
        Mask(PackedMask.of(one.mask()), float(one.predicted_iou), "everything") for one in ordered
    )


def apart(masks: Sequence[Mask], taken: NDArray[np.bool_]) -> list[Mask]:
    """Return masks as things of which no two share a pixel, so that each is counted once.

    The best come first; each leaves the pixels of those before it, and those of `taken` (H, W),
    alone. One of which half or less is left is passed over.
    """
    taken = taken.copy()
    kept: dict[int, Mask] = {}
    for at in sorted(range(len(masks)), key=lambda at: -masks[at].score):
        pixels = masks[at].to_mask()
        left = pixels & ~taken
        if 2 * np.count_nonzero(left) > np.count_nonzero(pixels):
            taken |= left
            kept[at] = replace(masks[at], packed=PackedMask.of(left))
    return [kept[at] for at in sorted(kept)]


@dataclass(frozen=True, eq=False)
class Layer:
    """Masks, and which of them is seen where: small ones lie on top.

    Attributes
    ----------
    masks : tuple of Mask
        From large to small.
    labels : uint16 (h, w)
        At the size of a preview: 0, or 1 + the index of the smallest mask there.
    hw : (int, int)
        Size of the image.
    """

    masks: tuple[Mask, ...]
    labels: NDArray[np.uint16]
    hw: tuple[int, int]

    @classmethod
    def of(cls, masks: tuple[Mask, ...], small: tuple[int, int]) -> "Layer":
        """Lay masks over each other, on a grid of size `small`."""
        labels = np.zeros(small, np.uint16)
        hw = masks[0].packed.hw if masks else small
        rows = (np.arange(small[0]) + 0.5) * hw[0] // small[0]
        columns = (np.arange(small[1]) + 0.5) * hw[1] // small[1]
        grid = np.ix_(rows.astype(np.intp), columns.astype(np.intp))
        for number, mask in enumerate(masks):
            labels[mask.to_mask()[grid]] = number + 1
        return cls(masks, labels, hw)

    def at(self, x: float, y: float) -> Mask | None:
        """Return the smallest mask at a position of the image."""
        row = int(y * self.labels.shape[0] / self.hw[0])
        column = int(x * self.labels.shape[1] / self.hw[1])
        if not (0 <= row < self.labels.shape[0] and 0 <= column < self.labels.shape[1]):
            return None
        label = int(self.labels[row, column])
        return self.masks[label - 1] if label else None

    def message(self) -> tuple[dict[str, Any], bytes]:
        """Return head and buffer of a message."""
        height, width = self.labels.shape
        head = {"count": len(self.masks), "size": [width, height], "deflated": [0]}
        return head, zlib.compress(self.labels.astype("<u2").tobytes(), 1)
