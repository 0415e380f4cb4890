"""The masks of everything mode, to choose from."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx.generator import MaskRecord

_MAX_MASKS = 65535


@dataclass(frozen=True, eq=False)
class Layer:
    """Masks, and which of them is seen where: small ones lie on top.

    Attributes
    ----------
    records : list of MaskRecord
        From large to small.
    labels : uint16 (h, w)
        At the size of a preview: 0, or 1 + the index of the smallest mask there.
    hw : (int, int)
        Size of the image.
    """

    records: list[MaskRecord]
    labels: NDArray[np.uint16]
    hw: tuple[int, int]

    @classmethod
    def of(cls, records: Sequence[MaskRecord], small: tuple[int, int]) -> "Layer":
        """Lay masks over each other, on a grid of size `small`."""
        ordered = sorted(records, key=lambda record: -record.area)[:_MAX_MASKS]
        labels = np.zeros(small, np.uint16)
        hw = ordered[0].size if ordered else small
        rows = (np.arange(small[0]) + 0.5) * hw[0] // small[0]
        columns = (np.arange(small[1]) + 0.5) * hw[1] // small[1]
        grid = np.ix_(rows.astype(np.intp), columns.astype(np.intp))
        for number, record in enumerate(ordered):
            labels[record.mask()[grid]] = number + 1
        return cls(ordered, labels, hw)

    def at(self, x: float, y: float) -> MaskRecord | None:
        """Return the smallest mask at a position of the image."""
        row = int(y * self.labels.shape[0] / self.hw[0])
        column = int(x * self.labels.shape[1] / self.hw[1])
        if not (0 <= row < self.labels.shape[0] and 0 <= column < self.labels.shape[1]):
            return None
        label = int(self.labels[row, column])
        return self.records[label - 1] if label else None

    def message(self) -> tuple[dict[str, Any], bytes]:
        """Return head and buffer of a message."""
        height, width = self.labels.shape
        head = {"count": len(self.records), "size": [width, height]}
        return head, zlib.compress(self.labels.astype("<u2").tobytes(), 1)
