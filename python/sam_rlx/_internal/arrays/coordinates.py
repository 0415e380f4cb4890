"""Points and boxes: by the names of their columns, by the form that they tell, or by position."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_numbers
from sam_rlx._internal.arrays.foreign import has, unwrapped
from sam_rlx.errors import InvalidArgumentError

# Names that say nothing: 0, "1", and those that NumPy and Polars give.
_NO_NAME = re.compile(r"(column|col|field|f|v)?\d+")
# Names without case and signs: x_min is xmin, bbox-0 (of scikit-image, rows first) is bbox0.
_POINTS = (
    *(("x", "y"), ("px", "py"), ("cx", "cy"), ("col", "row"), ("column", "row")),
    ("centroid1", "centroid0"),
)
_CORNERS = (
    *(("x0", "y0", "x1", "y1"), ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax")),
    *(("minx", "miny", "maxx", "maxy"), ("left", "top", "right", "bottom")),
    *(("mincol", "minrow", "maxcol", "maxrow"), ("minc", "minr", "maxc", "maxr")),
    ("bbox1", "bbox0", "bbox3", "bbox2"),
)
_SIDES = (("w", "h"), ("width", "height"))
_CORNER_AND_SIZE = (
    *((x, y, *sides) for x, y in (("x", "y"), ("x0", "y0"), ("xmin", "ymin")) for sides in _SIDES),
    *(("left", "top", "width", "height"), ("bboxx", "bboxy", "bboxw", "bboxh")),
)
_CENTERS = (("cx", "cy"), ("xc", "yc"), ("xcenter", "ycenter"), ("centerx", "centery"))
_CENTER_AND_SIZE = tuple((*center, *sides) for center in _CENTERS for sides in _SIDES)
# By form, as torchvision names it: what the four numbers are, by their names.
_FORMS = {"XYXY": _CORNERS, "XYWH": _CORNER_AND_SIZE, "CXCYWH": _CENTER_AND_SIZE}


def as_coordinates(name: str, values: Any, width: int) -> NDArray[Any]:
    """Return points (..., 2) as (x, y) or boxes (..., 4) as (x0, y0, x1, y1), as far as they tell.

    Named columns of a table, a row of it, a mapping, a structured array or an xarray dimension are
    taken by their names, a box with a form (torchvision) by it. Shapes are checked by the caller.

    Raises
    ------
    InvalidArgumentError
        Names or a form that are not known, or what is none.
    """
    values = unwrapped(values)
    names, array = _named(name, values)
    form = None
    if names is not None and not all(_says_nothing(each) for each in names):
        form, order = _order(name, names, width)
        array = array[..., order]
    if width == 4 and has(values, "format") and has(values, "canvas_size"):
        form = str(getattr(values.format, "name", values.format))
    return array if form is None else _corners(name, array, form)


def _named(name: str, values: Any) -> tuple[list[Any] | None, NDArray[Any]]:
    """Return the names of columns, if there are any, and the numbers with columns as last axis."""
    fields = getattr(values, "dtype", None) if isinstance(values, np.ndarray) else None
    if fields is not None and fields.names:
        values = {each: values[each] for each in fields.names}
    if isinstance(values, Mapping):
        columns = [as_numbers(name, values[each]) for each in values]
        if len({column.shape for column in columns}) != 1:
            raise InvalidArgumentError(
                f"{name}: expected columns of one length, found {_listed(values)}"
            )
        return list(values), np.stack(columns, axis=-1)
    if has(values, "dims") and has(values, "coords"):
        return _by_coordinate(name, values)
    for attribute in ("column_names", "columns", "index"):  # pyarrow; DataFrames; a Series
        names = getattr(values, attribute, None) if has(values, attribute) else None
        if names is not None and not callable(names) and len(names) == _last(values):
            return list(names), as_numbers(name, values)
    return None, as_numbers(name, values)


def _last(values: Any) -> int:
    """Return the length of the last axis of a table or a Series."""
    return int(values.shape[-1]) if has(values, "shape") and len(values.shape) else -1


def _by_coordinate(name: str, values: Any) -> tuple[list[Any] | None, NDArray[Any]]:
    """Return the labels of the dimension of an xarray array that has texts, as its last axis."""
    for axis, dim in enumerate(values.dims):
        labels = np.asarray(values.coords[dim]) if dim in values.coords else np.zeros(0)
        if labels.dtype.kind in "UOT":
            return labels.tolist(), np.moveaxis(as_numbers(name, values), axis, -1)
    return None, as_numbers(name, values)


def _plain(name: Any) -> str:
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def _says_nothing(name: Any) -> bool:
    return isinstance(name, (int, np.integer)) or bool(_NO_NAME.fullmatch(_plain(name)))


def _order(name: str, names: list[Any], width: int) -> tuple[str | None, list[int]]:
    """Return the form that names tell, and where its numbers are."""
    found = [_plain(each) for each in names]
    forms = {None: _POINTS} if width == 2 else _FORMS
    for form, rows in forms.items():
        for row in rows:
            if sorted(row) == sorted(found):
                return form, [found.index(each) for each in row]
    wanted = "x, y" if width == 2 else "x0, y0, x1, y1 or x, y, width, height"
    raise InvalidArgumentError(
        f"{name}: expected columns named {wanted}, found the names {_listed(names)}: choose and "
        "rename them, or give the numbers alone, .to_numpy()"
    )


def _listed(names: Any) -> str:
    shown = [repr(each)[:40] for each in names]
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")


def _corners(name: str, boxes: NDArray[Any], form: str) -> NDArray[Any]:
    """Return boxes of a form as corners."""
    if form not in _FORMS:
        raise InvalidArgumentError(
            f"{name}: expected boxes in the form {', '.join(_FORMS)}, found {form}"
        )
    if form == "XYXY" or boxes.shape[-1:] != (4,):
        return boxes
    boxes = boxes.astype(np.float64)
    first, sides = boxes[..., :2], boxes[..., 2:]
    low = first if form == "XYWH" else first - sides / 2
    return np.concatenate([low, low + sides], axis=-1)
