"""The table of gestures: what a person can do, as methods of a session.

The signature of a gesture is its message, and its check: names of parameters are names of fields,
and each annotation says what a field may be. `Session.gestures` has the rows of a class; messages
of views, calls of programs and the methods of widgets all go through it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.limits import (
    MAX_FRAMES,
    MAX_ITEMS,
    MAX_LEVEL,
    MAX_OBJECTS,
    MAX_PATH,
    MAX_POINTS_PER_SIDE,
    MAX_RADIUS,
    MAX_SIDE,
    MAX_SMOOTH,
    MAX_TILES,
)
from sam_rlx.errors import InvalidArgumentError

_FAR = 1e6  # positions beyond any image
_MAX_NUMBER = 1 << 53
_MAX_NOTE = 4000
_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True)
class Check:
    """What a field may be: `read` returns a value that is right, or raises."""

    said: str
    read: Callable[[str, Any], Any]
    of_views: bool = True


def _optional(check: Check) -> Check:
    def read(name: str, value: Any) -> Any:
        return None if value is None else check.read(name, value)

    return Check(f"{check.said} or null", read, check.of_views)


def _number(low: float, high: float) -> Check:
    return Check(f"{low:g} to {high:g}", lambda at, v: fields.number({at: v}, at, low, high))


def _integer(low: int, high: int) -> Check:
    return Check(f"{low} to {high}", lambda at, v: fields.integer({at: v}, at, low, high))


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name}: expected true or false, found {shown(value)[:80]}")
    return value


def _options(name: str, value: Any) -> dict[str, Any]:
    """Read the options of everything mode that a view may choose."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not set(value) <= {"points_per_side"}:
        raise InvalidArgumentError(f"{name}: expected points_per_side alone, found others")
    read = fields.integer
    return {key: read(value, key, 1, MAX_POINTS_PER_SIDE) for key in value}


def _boxes(name: str, value: Any) -> list[Any]:
    return fields.items({name: value}, name, fields.box)


def _labels(name: str, value: Any) -> list[int]:
    return fields.items({name: value}, name, lambda one, at: fields.integer({at: one}, at, 0, 1))


def _contents(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes) or not value:
        raise InvalidArgumentError(f"{name}: expected a file, found nothing in it")
    return value


def _path(name: str, value: Any) -> list[tuple[float, ...]]:
    found = fields.items({name: value}, name, lambda one, at: fields.numbers(one, at, 2), MAX_PATH)
    if not found:
        raise InvalidArgumentError(f"{name}: expected positions, found none")
    return found


def _tiles(name: str, value: Any) -> list[tuple[int, int]]:
    def one(entry: Any, at: str) -> tuple[int, int]:
        column, row = fields.numbers(entry, at, 2)
        return (
            fields.integer({at: column}, at, 0, MAX_SIDE),
            fields.integer({at: row}, at, 0, MAX_SIDE),
        )

    return fields.items({name: value}, name, one, MAX_TILES)


def _integers(low: int, most: int) -> Check:
    def read(name: str, value: Any) -> list[int]:
        def one(entry: Any, at: str) -> int:
            return fields.integer({at: entry}, at, low, _MAX_NUMBER)

        return fields.items({name: value}, name, one, most)

    return Check("numbers", read)


def _texts(name: str, value: Any) -> list[str]:
    return fields.items({name: value}, name, lambda one, at: fields.text({at: one}, at), MAX_ITEMS)


def _digit(name: str, value: Any) -> str:
    found = fields.text({name: value}, name, 1)
    if found and not found.isalnum():
        raise InvalidArgumentError(f"{name}: expected a digit or letter, found {found!r}")
    return found


def _scope(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in ("image", "all"):
        raise InvalidArgumentError(f"{name}: expected image or all, found {shown(value)[:80]}")
    return value


_NAME = Check("a name", lambda at, v: fields.name({"name": v}))
_RGB = Check("[r, g, b]", lambda at, v: fields.color({"color": v}))
_PYTHON = Check("of callers in Python", lambda name, value: value, of_views=False)

Coordinate = Annotated[float, _number(-_FAR, _FAR)]
Label = Annotated[int, _integer(0, 1)]
BoxField = Annotated[
    tuple[float, float, float, float], Check("[x0, y0, x1, y1]", lambda at, v: fields.box(v, at))
]
Boxes = Annotated[list[Any], Check("boxes", _boxes)]
Labels = Annotated[list[int], Check("labels, 0 or 1", _labels)]
Number = Annotated[int, _integer(1, _MAX_NUMBER)]
OptionalNumber = Annotated[int | None, _optional(_integer(1, _MAX_NUMBER))]
Choice = Annotated[int, _integer(0, 2)]
Index = Annotated[int, _integer(0, _MAX_NUMBER)]
OptionalIndex = Annotated[int | None, _optional(_integer(0, _MAX_NUMBER))]
Frame = Annotated[int, _integer(0, MAX_FRAMES)]
OptionalFrame = Annotated[int | None, _optional(_integer(0, MAX_FRAMES))]
Threshold = Annotated[float, _number(0, 1)]
Name = Annotated[str, _NAME]
OptionalName = Annotated[str | None, _optional(_NAME)]
Note = Annotated[str, Check("a text", lambda at, v: fields.text({at: v}, at, _MAX_NOTE))]
Words = Annotated[str, Check("a text", lambda at, v: fields.text({at: v}, at))]
RGB = Annotated[tuple[int, int, int], _RGB]
OptionalRGB = Annotated[tuple[int, int, int] | None, _optional(_RGB)]
OptionalDigit = Annotated[str | None, _optional(Check("a digit or letter", _digit))]
PathField = Annotated[list[tuple[float, float]], Check("[[x, y], ...]", _path)]
OptionalPath = Annotated[list[tuple[float, float]] | None, _optional(Check("[[x, y], ...]", _path))]
Radius = Annotated[float, _number(1, MAX_RADIUS)]
SmoothRadius = Annotated[float, _number(1, MAX_SMOOTH)]
Level = Annotated[int, _integer(0, MAX_LEVEL)]
Tiles = Annotated[Sequence[tuple[int, int]], Check("[[column, row], ...]", _tiles)]
Area = Annotated[float, _number(0, MAX_SIDE**2)]
OptionalArea = Annotated[float | None, _optional(_number(0, MAX_SIDE**2))]
Numbers = Annotated[list[int], _integers(1, MAX_OBJECTS)]
OptionalIndices = Annotated[list[int] | None, _optional(_integers(0, MAX_OBJECTS))]
OptionalTolerance = Annotated[float | None, _optional(_number(0, MAX_SIDE))]
OptionalPart = Annotated[float | None, _optional(_number(0, 1))]
OptionalTexts = Annotated[list[str] | None, _optional(Check("texts", _texts))]
OptionalFileName = Annotated[
    str | None, _optional(Check("the name of a file", lambda at, v: fields.file_name({at: v}, at)))
]
FileName = Annotated[str, Check("the name of a file", lambda at, v: fields.file_name({at: v}, at))]
Scope = Annotated[str, Check("image or all", _scope)]
Key = Annotated[str, Check("the key of an item", lambda at, v: fields.text({at: v}, at))]
OptionalKey = Annotated[
    str | None,
    _optional(Check("the key of an item", lambda at, v: fields.text({at: v}, at))),
]
Keys = Annotated[list[str], Check("keys of items", _texts)]
Flag = Annotated[bool, Check("true or false", _flag)]
Options = Annotated[dict[str, Any] | None, Check("{points_per_side}", _options)]
Contents = Annotated[bytes, Check("buffers[0]: a file", _contents)]
FromPython = Annotated[Any, _PYTHON]


@dataclass(frozen=True)
class Gesture:
    """One row: its name, what undo's button says of it, its key, and its fields."""

    name: str
    title: str
    key: str
    method: str
    fields: Mapping[str, Check]
    required: frozenset[str]
    edits: bool
    of_views: bool
    later: bool

    def values(self, given: Mapping[str, Any], *, of_view: bool) -> dict[str, Any]:
        """Return the arguments of the method; `InvalidArgumentError` for what is wrong."""
        if of_view and not self.of_views:
            raise InvalidArgumentError(f"{self.name}: expected a caller in Python, found a view")
        unknown = sorted(shown(name)[:40] for name in given if name not in self.fields)
        if unknown:
            raise InvalidArgumentError(
                f"{self.name}: expected the fields {', '.join(self.fields) or 'of no name'}, "
                f"found {', '.join(unknown[:5])}"
            )
        found = {}
        for name, check in self.fields.items():
            if name not in given and name not in self.required:
                continue
            if of_view and not check.of_views:
                raise InvalidArgumentError(f"{name}: expected a caller in Python, found a view")
            python_options = check is _OPTIONS and not of_view
            value = given.get(name)
            found[name] = value if python_options else check.read(name, value)
        return found


_OPTIONS = get_args(Options)[-1]


def gesture(
    title: str,
    *,
    key: str = "",
    edits: bool = True,
    of_views: bool = True,
    later: bool = False,
) -> Callable[[_Method], _Method]:
    """Make a method ``do_NAME`` of a session a row of the table.

    Parameters
    ----------
    title : str
        What it does, in a few words.
    key : str
        That the front end has for it.
    edits : bool
        Whether it changes the project: refused where that is read-only.
    of_views : bool
        Whether views may ask for it.
    later : bool
        Whether gestures that come after it go first: it only shows something.
    """

    def decorate(method: _Method) -> _Method:
        method.gesture = (title, key, edits, of_views, later)  # type: ignore[attr-defined]
        return method

    return decorate


def table_of(session: type) -> dict[str, Gesture]:
    """Return the rows of a class of sessions by their names."""
    rows = {}
    for attribute in dir(session):
        method = getattr(session, attribute)
        said = getattr(method, "gesture", None)
        if said is not None:
            name = attribute.removeprefix("do_")
            rows[name] = _row(name, attribute, method, *said)
    return rows


def _row(
    name: str,
    attribute: str,
    method: Any,
    title: str,
    key: str,
    edits: bool,
    of_views: bool,
    later: bool,
) -> Gesture:
    hints = get_type_hints(method, include_extras=True)
    parameters = list(inspect.signature(method).parameters.values())[1:]  # without `self`
    checks = {one.name: get_args(hints[one.name])[-1] for one in parameters}
    required = frozenset(one.name for one in parameters if one.default is one.empty)
    return Gesture(name, title, key, attribute, checks, required, edits, of_views, later)


def messages_text(tables: Mapping[str, Mapping[str, Gesture]]) -> str:
    """Return the page that lists all rows, by the names of the tables that have them."""
    lines = [
        "# Messages of views",
        "",
        "Made from the table of gestures: `python -m sam_rlx.apps.annotator.messages`.",
        "",
        "| type | fields | key | what it does | of |",
        "| --- | --- | --- | --- | --- |",
    ]
    names = sorted({name for table in tables.values() for name in table})
    for name in names:
        of = [kind for kind, table in tables.items() if name in table]
        row = tables[of[0]][name]
        said = [
            f"`{field}`{'' if field in row.required else '?'}: {check.said}"
            for field, check in row.fields.items()
            if check.of_views
        ]
        where = ", ".join(of) if row.of_views else "Python"
        cells = (f"`{name}`", "; ".join(said), row.key, row.title, where)
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join([*lines, ""])
