"""Checks of what a message or a caller says: typed errors before anything changes."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from sam_rlx._internal.arrays.checks import as_items
from sam_rlx._internal.files.portable_names import portable_name
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator.limits import MAX_POINTS
from sam_rlx.errors import InvalidArgumentError

_MAX_TEXT = 500
_MAX_NAME = 200
_MAX_FILE_NAME = 200  # bytes
_MAX_SHOWN = 200
_FAR = 1e6  # positions beyond any image


def _short(value: Any) -> str:
    """Return a value as an error shows it."""
    return shown(value)[:_MAX_SHOWN]


def position(values: Mapping[str, Any]) -> tuple[float, float]:
    """Return (x, y), finite."""
    return number(values, "x", -_FAR, _FAR), number(values, "y", -_FAR, _FAR)


def label(values: Mapping[str, Any]) -> int:
    """Return 1, the default, or 0."""
    return integer(values, "label", 0, 1, 1)


def number(
    values: Mapping[str, Any], name: str, low: float, high: float, default: float | None = None
) -> float:
    """Return a finite number from `low` to `high`."""
    value = values.get(name, default)
    if isinstance(value, bool) or not _is_real(value) or not low <= float(value) <= high:
        raise InvalidArgumentError(f"{name}: expected {low:g} to {high:g}, found {_short(value)}")
    return float(value)


def _is_real(value: Any) -> bool:
    try:
        return not isinstance(value, str) and math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def integer(
    values: Mapping[str, Any], name: str, low: int, high: int, default: int | None = None
) -> int:
    """Return an integer from `low` to `high`."""
    found = number(values, name, low, high, default)
    if found != int(found):
        raise InvalidArgumentError(f"{name}: expected an integer, found {found}")
    return int(found)


def index(values: Mapping[str, Any], count: int, current: int | None) -> int:
    """Return the index of an object; by default of the current one."""
    if values.get("index") is None:
        if current is None:
            raise InvalidArgumentError("index: expected a current object, found none")
        return current
    if count == 0:
        raise InvalidArgumentError("index: expected an object, found none so far")
    return integer(values, "index", 0, count - 1)


def box(values: Any, name: str = "box") -> tuple[float, float, float, float]:
    """Return (x0, y0, x1, y1) with x0 < x1 and y0 < y1."""
    corners = numbers(values, name, 4)
    x0, y0, x1, y1 = corners
    if not (x0 < x1 and y0 < y1):
        raise InvalidArgumentError(
            f"{name}: expected x0 < x1 and y0 < y1, found {_short(list(corners))}"
        )
    return x0, y0, x1, y1


def numbers(values: Any, name: str, count: int) -> tuple[float, ...]:
    """Return so many finite numbers."""
    try:
        items = as_items(name, values, count)
    except InvalidArgumentError:  # not iterable, or more
        items = []
    if len(items) != count:
        raise InvalidArgumentError(f"{name}: expected {count} numbers, found {_short(values)}")
    return tuple(number({name: item}, name, -_FAR, _FAR) for item in items)


def items(
    values: Mapping[str, Any], name: str, read: Callable[[Any, str], Any], most: int = MAX_POINTS
) -> list[Any]:
    """Return a list of at most so many, each entry read by `read`; an absent one is empty."""
    found = values.get(name)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)):
        found = getattr(found, "tolist", lambda: None)()
    if not isinstance(found, (list, tuple)):
        raise InvalidArgumentError(f"{name}: expected a list, found {_short(values.get(name))}")
    at_most(name, len(found), most)
    return [read(entry, f"{name}[{at}]") for at, entry in enumerate(found)]


def at_most(where: str, count: int, most: int) -> None:
    """Refuse more than `most` of something."""
    if count > most:
        raise InvalidArgumentError(f"{where}: expected at most {most}, found {count}")


def text(values: Mapping[str, Any], name: str, longest: int = _MAX_TEXT) -> str:
    """Return a text, without spaces around it."""
    value = values.get(name)
    if not isinstance(value, str) or len(value) > longest:
        raise InvalidArgumentError(
            f"{name}: expected a text of at most {longest} letters, found {_short(value)}"
        )
    return value.strip()


def name(values: Mapping[str, Any]) -> str:
    """Return a name that is not empty."""
    found = text(values, "name", _MAX_NAME)
    if not found:
        raise InvalidArgumentError("name: expected a name, found an empty one")
    return found


def file_name(values: Mapping[str, Any], name: str) -> str:
    """Return the name of a file or folder that every system can hold: no path, and not hidden."""
    found = text(values, name, _MAX_NAME)
    plain = bool(found) and found.isprintable() and found == portable_name(found)
    if not plain or found.startswith(".") or len(found.encode()) > _MAX_FILE_NAME:
        raise InvalidArgumentError(
            f"{name}: expected the name of a file, without folders, found {_short(found)}"
        )
    return found


def color(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return RGB, 0 to 255 each."""
    found = numbers(values.get("color"), "color", 3)
    red, green, blue = (integer({"color": part}, "color", 0, 255) for part in found)
    return red, green, blue
