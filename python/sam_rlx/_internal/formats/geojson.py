"""GeoJSON (RFC 7946) of outlines, in pixels or on a map."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx._internal.arrays.checks import as_items, as_number, as_text
from sam_rlx._internal.formats.instances import Instance, plain_name
from sam_rlx.errors import InvalidArgumentError

# Where pixels lie: x' = a x + b y + c, y' = d x + e y + f.
Transform = tuple[float, float, float, float, float, float]
PIXELS: Transform = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


def as_transform(transform: Any) -> Transform:
    """Return the six numbers of a transform: a sequence, or an ``affine.Affine`` as rasterio has.

    Raises `InvalidArgumentError` if it has other numbers, or takes an image to a line.
    """
    if transform is None:
        return PIXELS
    values = as_items("transform", transform)
    if len(values) not in (6, 9):  # an Affine has a third row
        raise InvalidArgumentError(
            f"transform: expected 6 numbers a, b, c, d, e, f, found {len(values)}"
        )
    a, b, c, d, e, f = (
        as_number(f"transform[{i}]", value, -np.inf) for i, value in enumerate(values[:6])
    )
    if a * e == b * d:
        raise InvalidArgumentError(f"transform: expected one with an inverse, found {values[:6]}")
    return a, b, c, d, e, f


def as_crs(crs: Any) -> str | None:
    """Return the name of a reference system: a text, or that of an object's ``to_string``."""
    if crs is None:
        return None
    text = as_text("crs", crs.to_string() if hasattr(crs, "to_string") else crs)
    authority, colon, code = text.partition(":")
    if colon and code.isalnum():  # "EPSG:32633"
        return f"urn:ogc:def:crs:{authority.upper()}::{code}"
    return text


def collection(
    instances: Sequence[Instance], transform: Transform, crs: str | None, tolerance: float = 0.0
) -> dict[str, Any]:
    """Return a FeatureCollection; empty masks have no feature."""
    features = [
        _feature(index, instance, transform, tolerance)
        for index, instance in enumerate(instances)
        if instance.area
    ]
    document: dict[str, Any] = {"type": "FeatureCollection", "features": features}
    if crs is not None:  # as in GeoJSON before RFC 7946, and as GDAL reads it
        document["crs"] = {"type": "name", "properties": {"name": crs}}
    return document


def _feature(
    index: int, instance: Instance, transform: Transform, tolerance: float
) -> dict[str, Any]:
    polygons = [
        [_closed(ring, transform) for ring in rings] for rings in instance.outlines(tolerance)
    ]
    properties: dict[str, Any] = {"name": instance.name, "area": instance.area}
    if instance.score is not None:
        properties["score"] = instance.score
    if instance.track is not None:
        properties["object"] = plain_name(instance.track)
    if instance.frame is not None:
        properties["frame"] = instance.frame
    single = len(polygons) == 1
    return {
        "type": "Feature",
        "id": index,
        "properties": properties,
        "geometry": {
            "type": "Polygon" if single else "MultiPolygon",
            "coordinates": polygons[0] if single else polygons,
        },
    }


def _closed(ring: NDArray[np.int32], transform: Transform) -> list[list[float]]:
    """Return the positions of a ring, the first one twice; outer rings run counterclockwise."""
    a, b, c, d, e, f = transform
    x, y = ring[:, 0].astype(np.float64), ring[:, 1].astype(np.float64)
    points = np.stack([a * x + b * y + c, d * x + e * y + f], axis=1)
    # The core's outer rings are clockwise where y points down: counterclockwise as plain numbers.
    if a * e < b * d:
        points = points[::-1]
    closed: list[list[float]] = np.concatenate([points, points[:1]]).tolist()
    return closed
