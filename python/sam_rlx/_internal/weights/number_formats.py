"""Number formats of checkpoints: their sizes, and which hold all numbers of which."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sam_rlx import _core
from sam_rlx._internal.progress import Progress

Tensor = tuple[str, str, tuple[int, ...]]

_TABLE = _core.number_formats()
# Bytes of a number in safetensors.
ITEM_BYTES = {name: size for name, _, _, size, _, held in _TABLE if held}
_BLOCKS = {name: (numbers, size) for name, _, numbers, size, _, _ in _TABLE}
_WHOLE = frozenset(name for name, _, _, _, whole, _ in _TABLE if whole)
_BYTES = frozenset({"F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"})
# Formats whose numbers each holds, besides its own.
_HELD = {
    "F32": _BYTES | {"F8_E8M0", "F16", "BF16", "I16", "U16"},
    "F16": _BYTES,
    "BF16": _BYTES | {"F8_E8M0"},
}


def is_packed(dtype: str) -> bool:
    """Tell whether a format packs several numbers into a block."""
    return _BLOCKS[dtype][0] > 1


def is_exact(source: str, target: str) -> bool:
    """Tell whether `target` holds every number of `source`."""
    if source == target or (target == "F32" and is_packed(source)):
        return True
    return source in _HELD.get(target, ())


def is_float(dtype: str) -> bool:
    """Tell whether numbers of a format are no whole numbers by their format."""
    return dtype not in _WHOLE


def count(shape: Iterable[int]) -> int:
    """Return how many numbers a shape has."""
    product = 1
    for size in shape:
        product *= size
    return product


def stored_bytes(tensors: Sequence[Tensor]) -> int:
    """Return the bytes of tensors as they are stored."""
    total = 0
    for _, dtype, shape in tensors:
        numbers, size = _BLOCKS[dtype]
        total += count(shape) // numbers * size
    return total


def changes(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Count tensors by the formats that they had and have."""
    return dict(Counter(pairs))


class Meter:
    """Counts bytes and tells about them."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self._done, self._progress = total, 0, progress

    def add(self, size: int) -> None:
        """Count bytes that are written."""
        self._done += size
        if self._progress is not None:
            self._progress(self._done, self.total)
