"""Axes that have names, as those of xarray: rows, columns and channels are brought in order."""

from typing import Any

from sam_rlx._internal.arrays.foreign import has
from sam_rlx.errors import InvalidArgumentError

_ROWS = {"y", "row", "rows", "height", "h", "lat", "latitude", "northing"}
_COLUMNS = {"x", "col", "cols", "column", "columns", "width", "w", "lon", "longitude", "easting"}
_CHANNELS = {"band", "bands", "channel", "channels", "c", "rgb", "rgba", "s", "sample", "samples"}


def in_order(name: str, values: Any, others: int = 0) -> Any:
    """Return an array with named axes as (others..., rows, columns, channels), others as it is.

    Names that say nothing (``dim_0``) leave the order as it is.

    Parameters
    ----------
    others : int
        How many axes may be none of these: 1 for the frames of a clip.

    Raises
    ------
    InvalidArgumentError
        Only some of the names are known, or more than `others` are none of rows, columns and
        channels.
    """
    if not (has(values, "dims") and has(values, "transpose") and has(values, "coords")):
        return values
    dims = list(values.dims)
    rows, columns, channels = (
        [dim for dim in dims if str(dim).lower() in names] for names in (_ROWS, _COLUMNS, _CHANNELS)
    )
    known = [*rows, *columns, *channels]
    rest = [dim for dim in dims if dim not in known]
    if not known and all(str(dim).startswith("dim_") for dim in dims):
        return values
    if len(rows) != 1 or len(columns) != 1 or len(channels) > 1 or len(rest) > others:
        raise InvalidArgumentError(
            f"{name}: expected axes named y, x and channel, found {', '.join(map(str, dims))}: "
            ".transpose(...) and .values give them in order without names"
        )
    return values.transpose(*rest, *known)
