"""Options of predictors, as the core describes them: defaults, ranges and a line of help."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

from sam_rlx import _core
from sam_rlx._arrays import as_integer, as_number

Kind = Literal["image", "concept", "generator", "video", "text"]


def describe(kind: Kind, family: str) -> dict[str, dict[str, Any]]:
    """Return ``default``, ``min``, ``max`` and ``help`` of each option of a kind of predictor."""
    return _core.options(kind, family)


def outside(option: Mapping[str, Any], value: float) -> str | None:
    """Return the range of a number's option if the value is not in it."""
    low, high = option["min"], option["max"]
    return None if low <= value <= high else f"{low:g} to {high:g}"


def checked(
    kind: Kind, family: str, values: Mapping[str, Any], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the values with the types of the defaults, which stand in for None of an `optional`.

    Raises
    ------
    InvalidArgumentError
        A value has the wrong type or is out of the option's range.
    """
    options = describe(kind, family)
    return {
        name: options[name]["default"]
        if value is None and name in optional
        else _as_option(name, options[name], value)
        for name, value in values.items()
    }


def _as_option(name: str, option: Mapping[str, Any], value: Any) -> Any:
    default = option["default"]
    if isinstance(default, bool):
        return bool(value)
    if isinstance(default, str):
        return str(value)  # the core knows which there are
    if isinstance(default, int):
        return as_integer(name, value, int(option["min"]), option["max"])
    return as_number(name, value, option["min"], option["max"])
