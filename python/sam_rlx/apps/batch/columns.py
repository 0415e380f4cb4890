"""What the columns of a table say: names, prompts and texts, by the names of the columns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sam_rlx.apps.batch.documents import whole
from sam_rlx.apps.batch.items import Prompt
from sam_rlx.apps.batch.parquet import ImageTable, pyarrow
from sam_rlx.apps.batch.prompts import objects
from sam_rlx.errors import InvalidArgumentError

NAMES = ("name", "id", "item")
# Names in small letters and digits, and the meaning they have.
_MEANINGS = {
    **dict.fromkeys(("points", "point", "pointcoords"), "points"),
    **dict.fromkeys(("labels", "pointlabels"), "labels"),
    **dict.fromkeys(("boxes", "box"), "boxes"),
    **dict.fromkeys(("text", "texts"), "text"),
}
_CORNERS = (
    ("x0", "y0", "x1", "y1"),
    ("x1", "y1", "x2", "y2"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
)
# Four columns of a box that may mean this or that.
_UNCLEAR = ({"x", "y", "w", "h"}, {"x", "y", "width", "height"}, {"cx", "cy", "w", "h"})
_BOX = re.compile(
    r"(bounding|gt|pred(icted)?|detect(ed|ions?)|objects?|input|prompt)?b?box(es)?"
    r"(xyxy|xywh|cxcywh|yxyx|n|norm(alized)?)?|(rect(angle)?|roi)s?"
)
_OTHER_PROMPT = re.compile(
    r"(input|prompt|click)?points?(coords?|xy|labels?)?|clicks?|(text|image)?prompts?"
)
_ADVICE = (
    "expected prompts in columns points and labels, boxes (corners x0, y0, x1, y1 in pixels), or "
    "x0, y0, x1 and y1, or text"
)


@dataclass
class Columns:
    """The columns of a table that are read.

    Attributes
    ----------
    of : dict
        Column of each meaning: points, labels, boxes, text.
    corners : tuple of str
        Four columns of one box, or none.
    other : list of str
        What is not read.
    """

    of: dict[str, str] = field(default_factory=dict)
    corners: tuple[str, ...] = ()
    other: list[str] = field(default_factory=list)

    @property
    def has_prompts(self) -> bool:
        """Whether the table is about points or boxes."""
        return bool(self.corners or {"points", "boxes"} & self.of.keys())

    @property
    def read(self) -> list[str]:
        """All columns that tell of prompts or texts."""
        return [*self.of.values(), *self.corners]

    def prompts(self, row: Mapping[str, Any]) -> tuple[Prompt, ...] | None:
        """Return the objects of a row: none for empty lists; None if it says nothing about any."""
        points, labels, boxes = (row.get(name) for name in self._names)
        if self.corners and row[self.corners[0]] is not None:
            boxes = [row[name] for name in self.corners]
        if points is None and boxes is None:
            return None
        if not points:
            points = labels = None
        elif labels is not None:
            labels = _whole(self._names[1], labels)
        return tuple(objects(points, labels, boxes or None, self._names))

    @cached_property
    def _names(self) -> tuple[str, str, str]:
        """Names of points, labels and boxes."""
        of = self.of
        return of.get("points", ""), of.get("labels", ""), of.get("boxes", "box of four columns")

    def texts(self, row: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Return the texts of a row; None if it says nothing about any."""
        text = row.get(self.of.get("text", ""))
        if text is None:
            return None
        texts = [text] if isinstance(text, str) else text
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise InvalidArgumentError(
                f"{self.of['text']}: expected text or a list of texts, found {text!r}"
            )
        return tuple(texts)


def _whole(name: str, labels: Any) -> Any:
    """Return labels as integers; tables may have them as floats."""
    try:
        if isinstance(labels, list):
            return [one if isinstance(one, bool) else whole(one) for one in labels]
        return whole(labels)
    except ValueError as error:
        raise InvalidArgumentError(f"{name}: expected 1 or 0, found {error}") from error


def choose(table: ImageTable) -> Columns:
    """Return which columns of a table are read.

    Raises
    ------
    InvalidArgumentError
        A column looks like a prompt, and what it means is not known; or two have one meaning.
    """
    columns = Columns()
    plain = {name: _plain(name) for name in table.names if _may_be_prompt(table.type_of(name))}
    for name, short in plain.items():
        if meaning := _MEANINGS.get(short):
            if meaning in columns.of:
                raise _refused(table, f"both {columns.of[meaning]} and {name}")
            columns.of[meaning] = name
    if "points" not in columns.of:  # labels of something else, such as classes
        columns.of.pop("labels", None)
    columns.corners = _corners(table)
    if columns.corners and "boxes" in columns.of:
        raise _refused(table, f"both {columns.of['boxes']} and {', '.join(columns.corners)}")
    used = {table.column, *NAMES, *columns.read}
    for name, short in plain.items():
        if name not in used and (_BOX.fullmatch(short) or _OTHER_PROMPT.fullmatch(short)):
            raise _refused(table, name)
    for name in table.names:
        if name != table.column and (inner := _inner_box(name, table.type_of(name))):
            raise _refused(table, inner)
    columns.other = [name for name in table.names if name not in used]
    return columns


def _plain(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.casefold())


def _refused(table: ImageTable, found: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{table.path}: {_ADVICE}, found {found}: rename or remove what is no prompt"
    )


def _may_be_prompt(kind: Any) -> bool:
    """Whether values of a type can be prompts: lists, structs, texts; not numbers."""
    types = pyarrow().types
    return bool(
        types.is_nested(kind)
        or types.is_null(kind)
        or types.is_dictionary(kind)
        or not (types.is_primitive(kind) or types.is_decimal(kind))
    )


def _corners(table: ImageTable) -> tuple[str, ...]:
    """Return four columns of numbers that are the corners of a box."""
    types = pyarrow().types
    numbers = {}
    for name in table.names:
        kind = table.type_of(name)
        if types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind):
            numbers[_plain(name)] = name
    for corners in _CORNERS:
        if numbers.keys() >= set(corners):
            return tuple(numbers[corner] for corner in corners)
    for unclear in _UNCLEAR:
        if numbers.keys() >= unclear:
            raise _refused(table, ", ".join(numbers[name] for name in sorted(unclear)))
    return ()


def _inner_box(name: str, kind: Any) -> str | None:
    """Return the member of a struct that looks like a box."""
    types = pyarrow().types
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    if not types.is_struct(kind):
        return None
    for member in kind:
        if _BOX.fullmatch(_plain(member.name)):
            return f"{name}.{member.name}"
        if inner := _inner_box(f"{name}.{member.name}", member.type):
            return inner
    return None
