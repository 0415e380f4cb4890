"""Names of objects as text: JSON with a tag for what JSON cannot tell."""

import json
import re
from collections.abc import Hashable
from typing import Any

import numpy as np

_MAX_DEPTH = 8
_MAX_DIGITS = 1000
# Names as the first format has them, in Python's notation: numbers, and text without escapes.
_OLD = re.compile(r"(?P<number>-?\d{1,18})|'(?P<single>[^'\\]*)'|\"(?P<double>[^\"\\]*)\"")


def to_text(name: Hashable) -> str:
    """Return a text from which `from_text` makes an equal name.

    Raises
    ------
    ValueError
        The name is no str, int, float, bool, None, bytes, or tuple of these.
    """
    text = json.dumps(_encode(name, 0), separators=(",", ":"))
    if from_text(text) != name:
        raise ValueError("another value when it is read back")
    return text


def from_text(text: str) -> Hashable:
    """Return the name; `ValueError`, `OverflowError` or `RecursionError` for any other text."""
    return _decode(json.loads(text), 0)


def from_old_text(text: str) -> Hashable:
    """Return the name of a text of the first format; `ValueError` for what is not simple."""
    found = _OLD.fullmatch(text)
    if found is None:
        raise ValueError(f"the name {text[:40]!r} in the notation of an old file")
    if found["number"] is not None:
        return int(found["number"])
    return found["single"] if found["single"] is not None else found["double"]


def _encode(value: Any, depth: int) -> Any:
    """Return str, bool and None as they are, and a list of tag and content for the rest."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"tuples in tuples, over {_MAX_DEPTH} deep")
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, np.integer)):
        digits = hex(int(value))
        if len(digits) > _MAX_DIGITS:
            raise ValueError(f"an integer of over {_MAX_DIGITS} digits")
        return ["int", digits]
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, tuple):
        return ["tuple", [_encode(item, depth + 1) for item in value]]
    raise ValueError(type(value).__name__)


def _decode(value: Any, depth: int) -> Hashable:
    if value is None or isinstance(value, (str, bool)):
        return value
    if depth > _MAX_DEPTH or not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"a name of {type(value).__name__}")
    tag, content = value
    if tag == "tuple" and isinstance(content, list):
        return tuple(_decode(item, depth + 1) for item in content)
    if isinstance(content, str) and len(content) <= _MAX_DIGITS:
        if tag == "int":
            return int(content, 16)
        if tag == "float":
            return float.fromhex(content)
    if tag == "bytes" and isinstance(content, str):
        return bytes.fromhex(content)
    raise ValueError(f"a name of kind {tag!r}")
