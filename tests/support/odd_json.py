"""Odd values in documents of JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Values that parsers and checks have stumbled on.
ODD: list[Any] = [
    *(None, True, 0, -1, 10**400, 1e999, float("nan"), "", "a", "\ud800", "\0", "9" * 5000),
    *([], {}, [[]], [None], [[1]], {"a": 1}, [{}], [[1, 2, 3]], "[", "http://[::1", "\u2028"),
]


def changed(value: Any, odd: list[Any]) -> Iterator[Any]:
    """Yield a value of JSON with one part after the other made odd."""
    yield from odd
    if isinstance(value, dict):
        for key, part in value.items():
            for other in changed(part, odd):
                yield {**value, key: other}
    elif isinstance(value, list):
        for at, part in enumerate(value):
            for other in changed(part, odd):
                yield [*value[:at], other, *value[at + 1 :]]
