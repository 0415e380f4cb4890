"""JSON of any size, while other threads run."""

import json
from json import decoder, scanner
from typing import Any

_LARGE = 1 << 20  # letters from which the parser in C would hold up other threads for long


class _Yielding(json.JSONDecoder):
    """The parser of Python's json that is written in Python: other threads run in between."""

    def __init__(self) -> None:
        super().__init__()
        self.parse_array = decoder.JSONArray  # type: ignore[attr-defined]
        self.scan_once = scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def read_json(text: str) -> Any:
    """Return what JSON says; ValueError or RecursionError for what is none."""
    return json.loads(text) if len(text) < _LARGE else _Yielding().decode(text)
