"""JSON files that name images and what to segment on them: COCO, and views with named points."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx._batch.items import Prompt
from sam_rlx._internal.files import hints
from sam_rlx.errors import InvalidArgumentError

_IMAGE_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Named:
    """An image that a document names."""

    path: Path
    hw: tuple[int, int] | None
    prompts: tuple[Prompt, ...]
    name: str | None = None


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
    """

    images: list[Named]
    are_views: bool
    has_prompts: bool


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
            return Document(list(_coco(document, base)), False, bool(document.get("annotations")))
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


def _coco(document: Mapping[str, Any], base: Path) -> Iterator[Named]:
    counts = Counter(image.get("id") for image in document["images"])
    boxes: dict[Any, list[Prompt]] = {}
    for annotation in document.get("annotations") or []:
        name, image = str(annotation["id"]), annotation["image_id"]
        if counts[image] != 1:
            raise ValueError(f"{counts[image]} images with the id {image!r} of annotation {name}")
        prompt = _annotation(name, annotation["bbox"])
        if prompt is not None:
            boxes.setdefault(image, []).append(prompt)
    for image in document["images"]:
        yield Named(
            base / image["file_name"],
            None if image.get("height") is None else _size(image),
            tuple(boxes.get(image.get("id"), ())),
        )


def _annotation(name: str, values: Any) -> Prompt | None:
    """Return the prompt of an annotation, None for an empty box."""
    try:
        x, y, width, height = (_number(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bbox {values!r} of annotation {name}") from error
    if width <= 0 or height <= 0:
        return None
    return Prompt(name, box=(x, y, x + width, y + height))


def _view(view: Mapping[str, Any], base: Path) -> Named:
    name = str(view["view"])
    points: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for point in view["points"]:
        label = whole(point.get("label", 1))
        if label not in (0, 1):
            raise ValueError(f"the label {label}")
        bone = str(point["bone"] if "bone" in point else point["name"])
        marks = points.setdefault((bone, whole(point.get("frame", 0))), [])
        marks.append((_number(point["x"]), _number(point["y"]), label))
    prompts = tuple(
        Prompt(bone, tuple((x, y) for x, y, _ in marks), tuple(m[2] for m in marks), None, frame)
        for (bone, frame), marks in points.items()
    )
    return Named(_view_file(base, name), _size(view), prompts, name)


def _view_file(base: Path, name: str) -> Path:
    """Return the file of a view, whose name may lack its suffix."""
    tried = [base / f"{name}{suffix}" for suffix in _IMAGE_SUFFIXES]
    return next((path for path in tried if path.is_file()), base / name)


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
