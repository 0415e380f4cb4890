"""JSON files that name images and what to segment on them: COCO, and views with named points."""

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx._internal.files import hints
from sam_rlx._internal.files.inputs import existing
from sam_rlx.apps.batch.items import Prompt
from sam_rlx.errors import InvalidArgumentError

_SHOWN = 5  # annotations
_MAX_NAME, _SHOWN_NAME = 4096, 60  # letters
_IMAGE_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Named:
    """An image that a document names.

    Attributes
    ----------
    path : str
    hw : (H, W) or None
        The size that the prompts are for.
    prompts : tuple of Prompt or None
        None if the document is not about prompts.
    name : str or None
        What the document calls it.
    error : str or None
        What is wrong with its entries.
    """

    path: str
    hw: tuple[int, int] | None
    prompts: tuple[Prompt, ...] | None
    name: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Document:
    """The images of a document.

    Attributes
    ----------
    images : list of Named
    are_views : bool
        Whether each of its points asks for a PNG.
    has_prompts : bool
        Whether it is about prompts, also where none of them can be used.
    left_out : str or None
        Which of its entries are not used.
    categories : tuple of str
        Ids of the categories that its boxes have.
    """

    images: list[Named]
    are_views: bool
    has_prompts: bool
    left_out: str | None = None
    categories: tuple[str, ...] = ()


def read(path: Path, images: Path | None) -> Document:
    """Return what a document holds.

    Parameters
    ----------
    path : Path
        A COCO document, whose boxes are the prompts; or a list of views, each with ``view``,
        ``width``, ``height`` and ``points`` of ``bone`` (or ``name``), ``x`` and ``y``.
    images : Path, optional
        Folder of the images. Default: that of the document.

    Raises
    ------
    InvalidArgumentError
        The file is something else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        found = hints.odd_file(path.read_bytes()[: hints.START]) or error
        raise InvalidArgumentError(f"{path}: expected JSON, found {found}") from error
    base = path.resolve().parent if images is None else images
    try:
        if isinstance(document, dict) and isinstance(document.get("images"), list):
            return _coco(document, base)
        if isinstance(document, list) and document:
            return Document([_view(view, base) for view in document], True, True)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidArgumentError(
            f"{path}: expected a COCO document, or a list of views with view, width, height and "
            f"points, found {words}"
        ) from error
    raise InvalidArgumentError(
        f"{path}: expected a COCO document or a list of views, found {type(document).__name__}"
    )


def named_file(base: Path, name: str) -> str:
    """Return the file that a table or document names, below a folder; see `existing`.

    `InvalidArgumentError` for an address, and for what is longer than names are.
    """
    if len(name) > _MAX_NAME:
        raise InvalidArgumentError(
            f"expected the name of a file, found {len(name):,} letters: {name[:_SHOWN_NAME]!r}..."
        )
    name = hints.local_name("path", name)
    path = os.path.join(base, name)  # noqa: PTH118  # fast for millions
    return path if name.isascii() and "\\" not in name else str(existing(Path(path)))


def _coco(document: Mapping[str, Any], base: Path) -> Document:
    counts = Counter(image.get("id") for image in document["images"])
    boxes: dict[Any, list[Prompt]] = {}
    errors: dict[Any, str] = {}
    empty = []
    annotations = document.get("annotations")
    for number, annotation in enumerate(annotations or []):
        name, image = str(annotation.get("id", number)), annotation["image_id"]
        if counts[image] != 1:
            raise ValueError(f"{counts[image]} images with the id {image!r} of annotation {name}")
        try:
            prompt = _annotation(name, annotation.get("bbox"))
        except ValueError as error:
            errors.setdefault(image, str(error))
            continue
        if prompt is None:
            empty.append(name)
        else:
            boxes.setdefault(image, []).append(prompt)
    images = []
    for image in document["images"]:
        key = image.get("id")
        prompts = None if annotations is None else tuple(boxes.get(key, ()))
        path, wrong = _named(base, image["file_name"])
        images.append(_image(image, path, prompts, errors.get(key) or wrong))
    categories = {str(each.get("category_id")) for each in annotations or []}
    return Document(
        images, False, annotations is not None, _left_out(empty), tuple(sorted(categories))
    )


def _named(base: Path, name: str) -> tuple[str, str | None]:
    """Return the file of an image, and what is wrong with its name."""
    try:
        return named_file(base, name), None
    except InvalidArgumentError as error:
        return os.path.join(base, name[:_SHOWN_NAME]), str(error)  # noqa: PTH118


def _image(
    fields: Mapping[str, Any], path: str, prompts: tuple[Prompt, ...] | None, error: str | None
) -> Named:
    try:
        hw = None if fields.get("height") is None else _size(fields)
    except (KeyError, ValueError) as wrong:
        return Named(path, None, prompts, error=error or f"expected its size, found {wrong}")
    return Named(path, hw, prompts, error=error)


def _left_out(empty: list[str]) -> str | None:
    """Return words about annotations with an empty box."""
    if not empty:
        return None
    more = ", ..." if len(empty) > _SHOWN else ""
    return (
        f"{len(empty)} with a box of width or height 0 left out: annotation "
        f"{', '.join(empty[:_SHOWN])}{more}"
    )


def _annotation(name: str, values: Any) -> Prompt | None:
    """Return the prompt of an annotation, None for an empty box."""
    try:
        x, y, width, height = (_number(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"expected a bbox [x, y, width, height], found {values!r} in annotation {name}"
        ) from error
    if width <= 0 or height <= 0:
        return None
    return Prompt(name, box=(x, y, x + width, y + height))


def _view(view: Mapping[str, Any], base: Path) -> Named:
    name = str(view["view"])
    path = _view_file(base, name)
    try:
        return Named(path, _size(view), _named_points(view["points"]), name)
    except (KeyError, TypeError, ValueError) as error:
        words = f"no {error}" if isinstance(error, KeyError) else str(error)
        return Named(path, None, (), name, f"expected width, height and points, found {words}")


def _named_points(entries: Any) -> tuple[Prompt, ...]:
    points: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for point in entries:
        label = whole(point.get("label", 1))
        if label not in (0, 1):
            raise ValueError(f"the label {label}")
        bone = str(point["bone"] if "bone" in point else point["name"])
        marks = points.setdefault((bone, whole(point.get("frame", 0))), [])
        marks.append((_number(point["x"]), _number(point["y"]), label))
    return tuple(
        Prompt(bone, tuple((x, y) for x, y, _ in marks), tuple(m[2] for m in marks), None, frame)
        for (bone, frame), marks in points.items()
    )


def _view_file(base: Path, name: str) -> str:
    """Return the file of a view, whose name may lack its suffix."""
    tried = [named_file(base, f"{name}{suffix}") for suffix in _IMAGE_SUFFIXES]
    return next((path for path in tried if Path(path).is_file()), tried[0])


def _size(fields: Mapping[str, Any]) -> tuple[int, int]:
    height, width = whole(fields["height"]), whole(fields["width"])
    if height < 1 or width < 1:
        raise ValueError(f"a size of {width} x {height}")
    return height, width


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} for a number")
    return float(value)


def whole(value: Any) -> int:
    """Return a whole number as an int; `ValueError` for another value."""
    number = _number(value)
    if not number.is_integer():
        raise ValueError(f"{value!r} for a whole number")
    return int(number)
