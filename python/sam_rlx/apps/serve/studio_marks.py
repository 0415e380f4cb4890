"""What Label Studio says of a task: its labeling configuration, and the marks that were drawn.

What is not understood is an error: a mask of another image, or of a box that is not turned, would
look right in the first look.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.turned import turned
from sam_rlx.apps.annotator.values import Box
from sam_rlx.errors import InvalidArgumentError

_MAX_CONFIG = 1 << 20


@dataclass(frozen=True)
class Marks:
    """What was drawn on one image, in pixels.

    Attributes
    ----------
    size : (int, int)
        Width and height of the image.
    points, labels, box
        As for `ImagePredictor.predict`; the box is the last one.
    names : tuple of str
        The labels of the last mark.
    to_name : str or None
        The image's tag of the labeling configuration.
    from_names : tuple of str
        The tags that the marks were drawn with.
    """

    size: tuple[int, int]
    points: list[tuple[float, float]]
    labels: list[int]
    box: Box | None
    names: tuple[str, ...]
    to_name: str | None
    from_names: tuple[str, ...]


@dataclass(frozen=True)
class BrushRegion:
    """What a brush region belongs to: its tag, the image's, and the image's field of a task."""

    from_name: str
    to_name: str
    value: str


def read_marks(entries: Sequence[Any]) -> Marks:
    """Read the marks of one image; `InvalidArgumentError` for what is not understood."""
    points: list[tuple[float, float]] = []
    labels: list[int] = []
    names: tuple[str, ...] = ()
    box: Box | None = None
    sizes, images, tags = set(), set(), []
    for at, entry in enumerate(entries):
        where = f"result[{at}]"
        mark, value = _mark(where, entry)
        size = _size(mark)
        sizes.add(size)
        images.add(_name(where, mark, "to_name"))
        tags.append(_name(where, mark, "from_name"))
        kind = mark.get("type")
        if kind in ("keypoint", "keypointlabels"):
            points.append(_corner(value, size))
            positive = mark.get("is_positive")
            labels.append(1 if positive is None or positive else 0)
        elif kind in ("rectangle", "rectanglelabels"):
            box = _turned_box(value, size)
        else:
            raise InvalidArgumentError(
                f"{where}: expected a keypoint or a rectangle, found {shown(kind)[:80]}"
            )
        names = _labels(where, value.get(kind))
    for what, found in (("images", images), ("sizes", sizes)):
        if len(found) != 1:
            raise InvalidArgumentError(
                f"result: expected marks on one image, found {len(found)} {what}"
            )
    return Marks(
        sizes.pop(),
        points,
        labels,
        box,
        names,
        images.pop(),
        tuple(tag for tag in dict.fromkeys(tags) if tag is not None),
    )


def _mark(where: str, entry: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return a mark and its value, which belong to a whole image that is upright."""
    value = entry.get("value") if isinstance(entry, Mapping) else None
    if not isinstance(value, Mapping):
        raise InvalidArgumentError(f"{where}: expected an object with a value, found another value")
    for name in ("image_rotation", "item_index"):
        if entry.get(name) not in (None, 0):
            raise InvalidArgumentError(
                f"{where}: expected {name} 0, found {shown(entry[name])[:80]}"
            )
    return entry, value


def _size(mark: Mapping[str, Any]) -> tuple[int, int]:
    return (
        fields.integer(mark, "original_width", 1, 1 << 20),
        fields.integer(mark, "original_height", 1, 1 << 20),
    )


def _name(where: str, mark: Mapping[str, Any], key: str) -> str | None:
    found = mark.get(key)
    if found is not None and not isinstance(found, str):
        raise InvalidArgumentError(f"{where}: expected a text as {key}, found {shown(found)[:80]}")
    return found


def _labels(where: str, found: Any) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list) or not all(isinstance(label, str) for label in found):
        raise InvalidArgumentError(f"{where}: expected a list of labels, found {shown(found)[:80]}")
    return tuple(found)


def _corner(value: Mapping[str, Any], size: tuple[int, int]) -> tuple[float, float]:
    """Return (x, y) of a mark in pixels."""
    x, y = (
        fields.number(value, name, -100.0, 200.0) * side / 100
        for name, side in zip("xy", size, strict=True)
    )
    return x, y


def _turned_box(value: Mapping[str, Any], size: tuple[int, int]) -> Box:
    """Return the box of a rectangle, which may be turned: clockwise about its upper left corner."""
    x, y = _corner(value, size)
    wide, high = (
        fields.number(value, name, 0.0, 200.0) * side / 100
        for name, side in zip(("width", "height"), size, strict=True)
    )
    angle = fields.number(value, "rotation", -1e6, 1e6, 0.0) % 360.0
    if angle == 0.0:
        return fields.box([x, y, x + wide, y + high])
    offsets = [(dx, dy) for dx in (0.0, wide) for dy in (0.0, high)]
    xs, ys = zip(*turned((x, y), offsets, angle), strict=True)
    return fields.box([min(xs), min(ys), max(xs), max(ys)])


def brush_of(config: Any, marks: Marks) -> BrushRegion:
    """Return the brush of a labeling configuration that paints what was marked."""
    root = _xml(config)
    images = {tag.get("name", ""): tag for tag in root.iter("Image")}
    to_name = marks.to_name
    if to_name is None:
        if len(images) != 1:
            raise InvalidArgumentError(
                f"result: expected a to_name, found none, and {len(images)} images"
            )
        to_name = next(iter(images))
    value = images[to_name].get("value", "") if to_name in images else ""
    if not value.startswith("$"):
        raise InvalidArgumentError(
            f"label_config: expected an Image {to_name[:100]!r} with a value like $image, found "
            "none"
        )
    _check_tags(root, marks.from_names, to_name)
    brush = _brush(root, to_name, marks.names)
    return BrushRegion(brush.get("name", ""), to_name, value[1:])


def _xml(config: Any) -> ElementTree.Element:
    if (
        not isinstance(config, str)
        or len(config) > _MAX_CONFIG
        or "<!" in config.replace("<!--", "")
    ):
        raise InvalidArgumentError("label_config: expected XML without a document type")
    try:
        return ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise InvalidArgumentError(f"label_config: expected XML, found {error}") from error


def _check_tags(root: ElementTree.Element, names: Sequence[str], to_name: str) -> None:
    """Refuse marks of tags that belong to another image."""
    known = {tag.get("name") for tag in root.iter() if tag.get("toName") == to_name}
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"result: expected marks of a tag with toName {to_name[:100]!r}, found "
                f"{name[:100]!r}"
            )


def _brush(root: ElementTree.Element, to_name: str, labels: Sequence[str]) -> ElementTree.Element:
    """Return the tag BrushLabels of an image; of several the one that has the labels."""
    found = [tag for tag in root.iter("BrushLabels") if tag.get("toName") == to_name]
    if len(found) > 1:
        found = [tag for tag in found if set(labels) <= _labels_of(tag)]
    if len(found) != 1:
        raise InvalidArgumentError(
            f"label_config: expected one tag BrushLabels of {to_name[:100]!r} with the labels "
            f"{list(labels)[:5]}, found {len(found)}"
        )
    return found[0]


def _labels_of(brush: ElementTree.Element) -> set[str]:
    """Return what regions may have as labels of a tag."""
    return {tag.get(key, "") for tag in brush.iter("Label") for key in ("value", "alias")}
