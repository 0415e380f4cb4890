"""How a decoded frame is turned so that it stands upright, as players show it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Orientation:
    """Transpose first, then reverse the columns, then the rows."""

    transposed: bool = False
    columns_reversed: bool = False
    rows_reversed: bool = False

    def apply(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return pixels (H, W, 3) upright and contiguous."""
        if self.transposed:
            pixels = pixels.transpose(1, 0, 2)
        rows = slice(None, None, -1 if self.rows_reversed else 1)
        columns = slice(None, None, -1 if self.columns_reversed else 1)
        return np.ascontiguousarray(pixels[rows, columns])

    @property
    def filters(self) -> list[tuple[str, str]]:
        """Name and arguments of the filters of FFmpeg that do the same."""
        steps = (
            # cclock_flip is the plain transposition.
            (self.transposed, ("transpose", "cclock_flip")),
            (self.columns_reversed, ("hflip", "")),
            (self.rows_reversed, ("vflip", "")),
        )
        return [step for wanted, step in steps if wanted]


def orientation(frame: Any) -> Orientation:
    """Read the display matrix of a frame of PyAV.

    The matrix takes (column, row) to (a * column + c * row, b * column + d * row), in fixed point.
    Multiples of 90 degrees and mirrored images are followed, other angles are not: nobody's
    camera writes them.
    """
    matrix = frame.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return Orientation()
    a, b, _, c, d = np.frombuffer(bytes(matrix), np.int32)[:5].tolist()
    if (a, d) == (0, 0) and b and c:
        return Orientation(True, c < 0, b < 0)
    if (b, c) == (0, 0) and a and d:
        return Orientation(False, a < 0, d < 0)
    return Orientation()


def upright_hw(frame: Any) -> tuple[int, int]:
    """Return the height and the width that a frame of PyAV has when it stands upright."""
    hw = (frame.height, frame.width)
    return hw[::-1] if orientation(frame).transposed else hw
