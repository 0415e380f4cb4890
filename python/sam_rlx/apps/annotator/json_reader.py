"""JSON of any size, while other threads run."""

import json
from json import decoder, scanner
from typing import Any

from sam_rlx.errors import InvalidArgumentError

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


def check_values(where: str, text: bytes, most: int) -> None:
    """Refuse JSON with more values than `most`, before it is parsed: by its commas and brackets.

    Commas in texts count too. The parser of Python's json lets no other thread run meanwhile.
    """
    count = sum(map(text.count, (b",", b"[", b"{")))
    # An escaped character costs as much as a value, and some programs escape each slash of base64.
    if count > most or text.count(b"\\") > 10 * most:
        raise InvalidArgumentError(f"{where}: expected JSON of at most {most} values, found more")
