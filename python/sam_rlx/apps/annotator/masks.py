"""Masks as the packed bits of their boxes: what is kept of them, and what views get."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core


@dataclass(frozen=True, eq=False)
class PackedMask:
    """A mask (H, W) as the bits of its box.

    Attributes
    ----------
    hw : (int, int)
        Height and width of the whole grid.
    box : (int, int, int, int)
        (x0, y0, x1, y1), the end excluded; all 0 for an empty mask.
    bits : uint8 (y1 - y0, (x1 - x0 + 7) // 8)
        As ``numpy.packbits`` gives them along the rows.
    """

    hw: tuple[int, int]
    box: tuple[int, int, int, int]
    bits: NDArray[np.uint8]

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> "PackedMask":
        """Pack a mask bool (H, W)."""
        hw = (mask.shape[0], mask.shape[1])
        box = _core.mask_to_box(np.ascontiguousarray(mask))
        x0, y0, x1, y1 = box.x0, box.y0, box.x1, box.y1
        if not mask[y0, x0 : x1 + 1].any():  # an empty mask has the box 0, 0, 0, 0 too
            return cls(hw, (0, 0, 0, 0), np.zeros((0, 0), np.uint8))
        part = mask[y0 : y1 + 1, x0 : x1 + 1]
        return cls(hw, (x0, y0, x1 + 1, y1 + 1), np.packbits(part, axis=1))

    def to_mask(self) -> NDArray[np.bool_]:
        """Return a new bool (H, W)."""
        mask = np.zeros(self.hw, np.bool_)
        x0, y0, x1, y1 = self.box
        if self.bits.size:
            rows = np.unpackbits(self.bits, axis=1, count=x1 - x0)
            mask[y0:y1, x0:x1] = rows.view(np.bool_)
        return mask

    def every(self, step: int) -> "PackedMask":
        """Return each `step`-th pixel of each `step`-th row."""
        return self if step == 1 else PackedMask.of(self.to_mask()[::step, ::step])

    def head(self, number: int) -> dict[str, Any]:
        """Return what a message says of the mask; `bits` are its buffer."""
        height, width = self.hw
        return {"id": number, "size": [width, height], "box": list(self.box)}
