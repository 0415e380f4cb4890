"""Checks of arguments: what callers pass is of the right type and in its range, or refused.

Whatever an object does when it is asked (``__bool__``, ``__iter__``, ``__hash__``, ``__fspath__``
may be the caller's own code), the caller gets an `InvalidArgumentError`.
"""

import math
import os
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sam_rlx._internal.arrays.foreign import as_array, described, has, unwrapped
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError

_MAX_ITEMS = 1 << 20
MAX_NUMBERS = 1 << 28  # of a prompt: 4096 masks of 256 x 256
_MAX_NUMBER = sys.float_info.max
_MAX_INTEGER = 2**63 - 1  # of the core
MAX_THREADS = 4096
# A `str`, or what a signature says of it: a `Literal`.
_Text = TypeVar("_Text", bound=str)


def as_flag(name: str, value: Any) -> bool:
    """Return True or False for a bool, also one of NumPy, or for 1 or 0."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)) and value in (0, 1):
        return bool(value)
    raise InvalidArgumentError(f"{name}: expected True or False, found {shown(value)}")


def as_text(name: str, value: Any, errors: str = "strict") -> str:
    """Return a str that can be written as UTF-8, also of a cell of an Arrow table.

    errors : as of `str.encode`; "surrogatepass" takes halves of surrogate pairs.
    """
    value = unwrapped(value)
    if isinstance(value, str):
        try:
            value.encode(errors=errors)
        except UnicodeEncodeError:
            pass
        else:
            return str(value)
    way_out = "; bytes(it).decode() makes a text of letters" if _is_bytes(value) else ""
    raise InvalidArgumentError(f"{name}: expected a text, found {shown(value)}{way_out}")


def _is_bytes(value: Any) -> bool:
    """Tell whether an object is a buffer of single bytes, and no array: letters, as it seems."""
    if isinstance(value, (bytes, bytearray)):
        return True
    try:
        view = memoryview(value)
    except (TypeError, ValueError):  # no buffer, or one of another library's numbers
        return False
    return view.itemsize == 1 and view.ndim == 1 and not isinstance(value, np.ndarray)


def holds_texts(values: Any) -> bool:
    """Tell whether something is a text, or a sequence or column of texts: of str or of bytes."""
    values = unwrapped(values)
    if isinstance(values, str) or _is_bytes(values):
        return True
    if not has(values, "__len__") or isinstance(values, Mapping) or has(values, "columns"):
        return False
    try:
        first = unwrapped(next(iter(values))) if len(values) else None
    except Exception:  # of the caller's object; what reads it next tells it
        return False
    return isinstance(first, str) or _is_bytes(first)


def as_optional_text(name: str, value: _Text | None) -> _Text | None:
    """Return None, or what `as_text` does."""
    return None if value is None else cast(_Text, as_text(name, value))


def as_choice(name: str, value: _Text, choices: Collection[str]) -> _Text:
    """Return one of several texts."""
    if isinstance(value, str) and value in choices:
        return cast(_Text, str(value))
    raise InvalidArgumentError(f"{name}: expected one of {list(choices)}, found {shown(value)}")


def as_items(
    name: str,
    values: Any,
    most: int = _MAX_ITEMS,
    convert: Callable[[int, Any], Any] = lambda _, entry: entry,
) -> list[Any]:
    """Return the entries of an iterable that a user gives, `most` of them: it may have no end.

    Each is replaced by `convert(index, entry)` before the next one is taken.
    """
    entries = each_item(name, values, most)
    return [convert(index, unwrapped(entry)) for index, entry in enumerate(entries)]


def each_item(name: str, values: Any, most: int = _MAX_ITEMS) -> Iterator[Any]:
    """Return the entries of an iterable one at a time.

    Raises
    ------
    InvalidArgumentError
        At once: it is no iterable, or an array with over `most` entries. Later: there are over
        `most`.
    """
    too_many = f"{name}: expected at most {most} entries, found more"
    try:
        entries = iter(values)
        # A memoryview with two axes has no entries. Errors of a generator are its own.
        first = [] if isinstance(values, Iterator) else list(islice(entries, 1))
    except Exception as error:
        found = type(values).__name__
        raise InvalidArgumentError(f"{name}: expected an iterable, found {found}") from error
    if isinstance(values, np.ndarray) and len(values) > most:
        raise InvalidArgumentError(too_many)

    def limited() -> Iterator[Any]:
        for index, entry in enumerate(chain(first, entries)):
            if index == most:
                raise InvalidArgumentError(too_many)
            yield entry

    return limited()


def as_texts(name: str, values: Any, errors: str = "strict") -> list[str]:
    """Return the entries of a sequence or column of texts; one text alone is one entry."""
    values = unwrapped(values)
    if isinstance(values, str) or _is_bytes(values):
        return [as_text(name, values, errors)]
    found = type(values).__name__
    if isinstance(values, Mapping) or has(values, "columns"):
        raise InvalidArgumentError(f"{name}: expected texts, found {found}: give one column of it")
    if isinstance(values, AbstractSet):
        raise InvalidArgumentError(f"{name}: expected texts in an order, found {found}")
    items = as_items(name, values)
    return [as_text(f"{name}[{index}]", one, errors) for index, one in enumerate(items)]


def as_mapping(name: str, values: Any) -> dict[str, Any]:
    """Return a dict of what a user gives by name; None is none."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidArgumentError(f"{name}: expected a mapping of names, found {shown(values)}")
    return dict(values)


def as_name(name: str, value: Any) -> Hashable:
    """Return an object that can be the key of a dict."""
    try:
        hash(value)
        value == value  # noqa: B015  # an object's own method
    except Exception as error:
        raise InvalidArgumentError(f"{name}: expected a hashable, found {shown(value)}") from error
    return value  # type: ignore[no-any-return]


def as_path_text(name: str, value: Any) -> str:
    """Return the path that a user gives, as it is; `InvalidArgumentError` if it can be none."""
    value = unwrapped(value)
    if not isinstance(value, (str, os.PathLike)):
        found = type(value).__name__
        raise InvalidArgumentError(f"{name}: expected str or path, found {found}")
    try:
        path = os.fspath(value)
        os.fsencode(path)
    except Exception as error:
        raise InvalidArgumentError(
            f"{name}: expected the name of a file, found {shown(value)}"
        ) from error
    if not isinstance(path, str) or "\0" in path or not path:
        raise InvalidArgumentError(f"{name}: expected the name of a file, found {shown(path)}")
    return path


def as_path(path: Any) -> Path:
    """Return a path that a user gives; `InvalidArgumentError` if it can be none."""
    return Path(as_path_text("path", path))


def as_progress(value: Any) -> Any:
    """Return a callable, or whether a bar is wanted: the argument `progress`."""
    return value if callable(value) else value is not None and as_flag("progress", value)


def as_integer(
    name: str, value: Any, low: int, high: float = math.inf, *, most: int = _MAX_INTEGER
) -> int:
    """Return `value` as an int if it is an integer (no bool) from `low` to `high`.

    `most` is a limit that only an error of a larger value tells.
    """
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not integer or not low <= value <= min(high, most):
        beyond = integer and value > most
        bounded = f"from {low} to {int(min(high, most))}"
        expected = bounded if beyond or high != math.inf else f">= {low}"
        raise InvalidArgumentError(f"{name}: expected an int {expected}, found {shown(value)}")
    return int(value)


def as_number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number from `low` to `high`."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not number or not low <= value <= min(high, _MAX_NUMBER):
        raise InvalidArgumentError(
            f"{name}: expected a number from {low} to {high}, found {shown(value)}"
        )
    return float(value)


def as_numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return an array of ints or floats."""
    array = as_array(name, values, MAX_NUMBERS)
    if array.dtype.kind not in "iuf":
        raise InvalidArgumentError(f"{name}: expected numbers, found {described(array)}")
    return array


def as_frame_index(index: int, count: int) -> None:
    """Check the number of a frame of a video of `count` frames."""
    if not 0 <= index < count:
        raise InvalidArgumentError(f"frame_index: expected 0 to {count - 1}, found {index}")


def as_num_threads(num_threads: int | None) -> int:
    """Return the core's thread count: 0, all cores this process may use, for None."""
    return 0 if num_threads is None else as_integer("num_threads", num_threads, 1, most=MAX_THREADS)
