"""One door for the cells of a table: which Arrow types are read, and what their values mean.

`docs/batch.md` has the table. A type that is not read is refused by its name before anything
begins; a value that is wrong is the error of its row.
"""

import ast
import json
import os
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal

from sam_rlx._internal.printable import shown
from sam_rlx.apps.batch.parquet import is_bytes, is_list, is_text, plain_type, pyarrow
from sam_rlx.errors import InvalidArgumentError

Meaning = Literal["points", "labels", "boxes", "text", "name", "path"]
CORNERS = (
    ("x0", "y0", "x1", "y1"),
    ("x1", "y1", "x2", "y2"),
    ("xmin", "ymin", "xmax", "ymax"),
    ("left", "top", "right", "bottom"),
)
# Names of struct members by meaning. Their order in the struct does not matter.
_MEMBERS = {"points": (("x", "y"),), "boxes": CORNERS}
_EXPECTED = {"points": "x and y", "boxes": "x0, y0, x1 and y1"}
# Members without names of their own: ClickHouse, DuckDB's row(), Spark, polars, Beam.
_NUMBERED = re.compile(r"(|element|_|field_|f)(\d)")
_JSON = "arrow.json"


def short(name: str) -> str:
    """Return a name in small letters and digits."""
    return re.sub("[^a-z0-9]", "", name.casefold())


def check(name: str, kind: Any, meaning: Meaning) -> None:
    """Raise `InvalidArgumentError` for a type that cannot have a meaning.

    Parameters
    ----------
    name : str
        Of the column.
    kind : pyarrow.DataType
    meaning : str
        What the column is read as.
    """
    types = pyarrow().types
    given, json_text = kind, _is_json(kind)
    kind = plain_type(kind)
    if json_text or types.is_null(kind) or meaning == "name":
        return
    while is_list(kind):
        kind = plain_type(kind.value_type)
    if meaning in ("text", "path"):
        is_other = isinstance(given, pyarrow().BaseExtensionType) and is_bytes(kind)  # UUIDs
        texts = is_text(kind) or is_bytes(kind) or _is_json(kind) or types.is_null(kind)
        if is_other or not texts:
            raise InvalidArgumentError(f"{name}: expected texts, found {given}")
    elif types.is_struct(kind) and meaning in _MEMBERS:
        _members(name, [member.name for member in kind], meaning)
        for member in kind:
            if not _is_number(plain_type(member.type)):
                raise InvalidArgumentError(
                    f"{name}: expected numbers in a struct, found {member.type} in {member.name}"
                )
    elif types.is_nested(kind) or types.is_temporal(kind):  # a struct, a map, a union
        raise InvalidArgumentError(f"{name}: expected lists of numbers, found {kind}")


def is_number(kind: Any) -> bool:
    """Tell whether a column has numbers, or only nulls, also as dictionary or decimals."""
    return _is_number(plain_type(kind))


def _is_number(kind: Any) -> bool:
    types = pyarrow().types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
    )


def _is_json(kind: Any) -> bool:
    return getattr(kind, "extension_name", None) == _JSON


def _members(name: str, members: list[str], meaning: str) -> list[int]:
    """Return which members of a struct are the numbers of a point or box, in order."""
    plain = [short(member) for member in members]
    for names in _MEMBERS[meaning]:
        if sorted(plain) == sorted(names):
            return [plain.index(member) for member in names]
    numbered = [_NUMBERED.fullmatch(member) for member in members]
    if len(members) == len(_MEMBERS[meaning][0]) and all(numbered):
        parts = [(match[1], int(match[2])) for match in numbered if match is not None]
        first = parts[0][1]
        if first in (0, 1) and parts == [(parts[0][0], first + at) for at in range(len(parts))]:
            return list(range(len(members)))
    raise InvalidArgumentError(
        f"{name}: expected lists of numbers, or structs of {_EXPECTED[meaning]}, found a struct of "
        f"{shown(members)}"
    )


def read(name: str, kind: Any, meaning: Meaning, value: Any) -> Any:
    """Return what a cell says: lists of numbers, texts; None for null.

    Raises
    ------
    InvalidArgumentError
        It is not what the column means.
    """
    if _is_json(kind) and isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"{name}: expected JSON, found {error}") from error
    if value is None:
        return None
    if meaning in ("points", "labels", "boxes"):
        return _numbers(name, meaning, value)
    if meaning == "text":
        return _texts(name, value)
    return os.fsdecode(value) if isinstance(value, bytes) else value


def _numbers(name: str, meaning: str, value: Any) -> Any:
    """Return numbers in lists, as they are nested."""
    if isinstance(value, list):
        return [_numbers(name, meaning, one) for one in value]
    if isinstance(value, Mapping):
        members = list(value)
        if meaning not in _MEMBERS:
            raise InvalidArgumentError(f"{name}: expected numbers, found {shown(value)}")
        found = [value[members[at]] for at in _members(name, members, meaning)]
        if any(isinstance(one, (list, Mapping)) for one in found):
            raise InvalidArgumentError(f"{name}: expected numbers, found {shown(value)}")
        return [_numbers(name, meaning, one) for one in found]
    if isinstance(value, Decimal):
        return float(value)
    if value is None or not isinstance(value, (int, float)):
        raise InvalidArgumentError(f"{name}: expected numbers, found {shown(value)}")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    try:
        texts = [one.decode("utf-8") if isinstance(one, bytes) else one for one in values]
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"{name}: expected text or a list of texts, found bytes that are no UTF-8"
        ) from error
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgumentError(
                f"{name}: expected text or a list of texts, found {shown(value)}"
            )
        if not text.strip():
            raise InvalidArgumentError(f"{name}: expected a text, found an empty one")
        if _is_written_list(text):
            raise InvalidArgumentError(
                f"{name}: expected text or a list of texts, found the text {shown(text)}, which is "
                "a list in letters: give the column the type JSON or list"
            )
    return tuple(texts)


def _is_written_list(text: str) -> bool:
    """Tell whether a text is a list or dict as JSON or Python (pandas, dask) writes it."""
    if not (text.lstrip()[:1] in "[{(" and text.rstrip()[-1:] in "]})"):
        return False
    for read in (json.loads, ast.literal_eval):
        try:
            return isinstance(read(text.strip()), (list, dict, tuple))
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    return False
