"""Number formats of checkpoints: their sizes, and which hold all numbers of which."""

from collections import Counter
from collections.abc import Iterable, Sequence

from sam_rlx._internal.progress import Progress
from sam_rlx._internal.weights.gguf import file as gguf_file

Tensor = tuple[str, str, tuple[int, ...]]

# Bytes of a number in safetensors.
ITEM_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2}
ITEM_BYTES |= {"I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}

_WHOLE = frozenset({"I64", "I32", "I16", "I8", "U8", "BOOL"})
_BYTES = frozenset({"F8_E4M3", "F8_E5M2", "I8", "U8", "BOOL"})
# Formats whose numbers each holds, besides its own.
_HELD = {"F32": _BYTES | {"F16", "BF16", "I16"}, "F16": _BYTES, "BF16": _BYTES}


def is_packed(dtype: str) -> bool:
    """Tell whether a format packs several numbers into a block."""
    return dtype not in ITEM_BYTES and dtype != "C64"


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
    """Return the bytes of tensors as they are stored, 0 if a format has no known size."""
    total = 0
    for _, dtype, shape in tensors:
        if dtype in ITEM_BYTES:
            total += count(shape) * ITEM_BYTES[dtype]
        elif dtype in gguf_file.FORMATS:
            form = gguf_file.FORMATS[dtype]
            total += count(shape) // form.numbers * form.bytes
        else:
            return 0
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
