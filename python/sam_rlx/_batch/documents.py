"""JSON files that name images and what to segment on them: COCO, and views with named points."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sam_rlx._batch.items import Prompt
from sam_rlx.errors import InvalidArgumentError

_IMAGE_SUFFIXES = ("", ".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True)
class Named:
    """An image that a document names."""

    path: Path
    hw: tuple[int, int] | None
    prompts: tuple[Prompt, ...]
    name: str | None = None


def read(path: Path, images: Path | None) -> tuple[list[Named], bool]:
    """Return the images of a document, and whether each of its points asks for a PNG.

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
        raise InvalidArgumentError(f"{path}: expected JSON, found {error}") from error
    base = path.resolve().parent if images is None else images
    try:
        if isinstance(document, dict) and isinstance(document.get("images"), list):
            return list(_coco(document, base)), False
        if isinstance(document, list) and document:
            return [_view(view, base) for view in document], True
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
    boxes: dict[Any, list[Prompt]] = {}
    for annotation in document.get("annotations", []):
        x, y, width, height = (_number(value) for value in annotation["bbox"])
        if width > 0 and height > 0:
            prompt = Prompt(str(annotation["id"]), box=(x, y, x + width, y + height))
            boxes.setdefault(annotation["image_id"], []).append(prompt)
    for image in document["images"]:
        yield Named(
            base / image["file_name"],
            _size(image) if "height" in image else None,
            tuple(boxes.get(image["id"], ())),
        )


def _view(view: Mapping[str, Any], base: Path) -> Named:
    name = str(view["view"])
    points: dict[tuple[str, int], list[tuple[float, float, int]]] = {}
    for point in view["points"]:
        label = int(point.get("label", 1))
        if label not in (0, 1):
            raise ValueError(f"the label {label}")
        bone = str(point["bone"] if "bone" in point else point["name"])
        marks = points.setdefault((bone, int(point.get("frame", 0))), [])
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
    height, width = int(fields["height"]), int(fields["width"])
    if height < 1 or width < 1:
        raise ValueError(f"a size of {width} x {height}")
    return height, width


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} for a number")
    return float(value)
