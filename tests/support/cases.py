"""Cases of a test: a few by default, all of them with ``--full``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

full = False  # --full sets it


def share(count: int) -> int:
    """Return how many of `count` examples are tried: a tenth by default."""
    return count if full else count // 10


def quick(cases: Iterable[Any], *chosen: int) -> list[Any]:
    """Return the cases of a parametrization, all marked slow but those at the chosen positions.

    A tuple is a case with several arguments. Positions below 0 count from the end.
    """
    found, cases = [], list(cases)
    chosen = tuple(position % len(cases) for position in chosen)
    for position, case in enumerate(cases):
        marks = () if position in chosen else (pytest.mark.slow,)
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=marks))
    return found
