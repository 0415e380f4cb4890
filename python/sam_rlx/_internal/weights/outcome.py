"""What the writers of weights tell; `sam_rlx.conversion.Written` has the same fields."""

from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """The file, its bytes, and what became of the tensors."""

    path: Path
    nbytes: int
    dtypes: dict[str, int]
    fell_back: list[tuple[str, str, str]]
    skipped: list[str]
    source_nbytes: int
    changes: dict[tuple[str, str], int]
