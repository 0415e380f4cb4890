"""The rows of a batch as a COCO document; of one that went in, with its numbers and names."""

import json
import os
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sam_rlx import _core
from sam_rlx._internal.formats import coco
from sam_rlx._internal.formats.instances import OBJECT, Instance
from sam_rlx.apps.batch import documents
from sam_rlx.errors import InvalidArgumentError, StateError

Row = Mapping[str, Any]


def document_of(
    rows: Iterable[Row], task: str, *, polygons: bool, tolerance: float
) -> dict[str, Any]:
    """Return a document with the images of rows: a frame of a clip is an image.

    Items that failed are not in it. Categories are the texts of a batch of texts, else "object".
    The names of prompts are under ``object``.
    """
    found = []
    for row in rows:
        if row["error"] is not None:
            continue
        by_frame: dict[int, list[Instance]] = {frame: [] for frame in range(row["frames"])}
        for entry in row["masks"]:
            by_frame[entry["frame"]].append(_instance(row, entry, task, row["frames"] > 1))
        for frame, instances in by_frame.items():
            image = {"file_name": row["path"], "height": row["height"], "width": row["width"]}
            if row["frames"] > 1:
                image["frame_index"] = frame
            found.append(
                coco.of_instances(image, instances, polygons=polygons, tolerance=tolerance)
            )
    return coco.joined(found)


def document_like(
    rows: Iterable[Row],
    task: str,
    path: Path,
    images: Path | None,
    *,
    polygons: bool,
    tolerance: float,
) -> dict[str, Any]:
    """Return a document that was an input, with the masks that were found.

    Images, categories, and of annotations all but ``segmentation``, ``area`` and ``bbox`` are as
    they were. Annotations have a ``score``; those without a mask (of an image that failed, an empty
    box, an empty mask) are left out. In a document without annotations all masks are new ones.

    Raises
    ------
    InvalidArgumentError
        The file is no COCO document.
    StateError
        The rows are not those of its images.
    """
    named = documents.read(path, images)
    given = json.loads(path.read_text(encoding="utf-8-sig"))
    if named.are_views:
        raise InvalidArgumentError(f"{path}: expected a COCO document, found a list of views")
    by_path: defaultdict[str, deque[Row]] = defaultdict(deque)
    for row in rows:
        by_path[row["path"]].append(row)
    prompted: defaultdict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for annotation in given.get("annotations") or []:
        if not _is_empty(annotation):
            prompted[annotation["image_id"]].append(annotation)
    entries: list[dict[str, Any]] = []
    for image, each in zip(given["images"], named.images, strict=True):
        waiting = by_path[os.path.abspath(each.path)]  # noqa: PTH100
        if not waiting:
            raise StateError(f"{path}: expected rows of {each.path}, found none in the batch")
        row = waiting.popleft()
        found = [_instance(row, entry, task, False) for entry in row["masks"]]
        if row["error"] is not None:
            continue
        if given.get("annotations") is None:
            entries += _new(image["id"], found, polygons, tolerance)
        else:
            known = prompted[image["id"]]
            entries += _replaced(path, known, row, found, polygons, tolerance)
    categories = given.get("categories")
    if given.get("annotations") is None:
        categories = _numbered(entries, categories or [])
    return {**given, "annotations": entries, "categories": categories or []}


def _instance(row: Row, entry: Mapping[str, Any], task: str, is_clip: bool) -> Instance:
    fields = {
        key: entry[key]
        for key in ("stability_score", "point_coords", "crop_box")
        if entry.get(key) is not None
    }
    name = entry["object"] if task == "text" else OBJECT
    return Instance(
        _core.rle_from_string(entry["counts"].encode("ascii")),
        (row["height"], row["width"]),
        name=name,
        score=entry["score"],
        track=entry["object"] if is_clip else None,
        fields={"object": entry["object"], **fields},
    )


def _is_empty(annotation: Mapping[str, Any]) -> bool:
    """Tell whether an annotation has no box to prompt with."""
    _, _, width, height = annotation["bbox"]
    return bool(width <= 0 or height <= 0)


def _replaced(
    path: Path,
    known: list[Mapping[str, Any]],
    row: Row,
    found: list[Instance],
    polygons: bool,
    tolerance: float,
) -> Iterator[dict[str, Any]]:
    """Yield the annotations of an image with the masks of its row."""
    if len(known) != len(found):
        raise StateError(
            f"{path}: expected {len(known)} masks of {row['path']}, found {len(found)} in the batch"
        )
    for annotation, instance in zip(known, found, strict=True):
        if str(annotation.get("id", "")) not in (instance.fields["object"], ""):
            raise StateError(
                f"{path}: expected a mask of annotation {annotation['id']}, found one of "
                f"{instance.fields['object']} in the batch"
            )
        if instance.area:
            drawn = coco.annotation(instance, polygons=polygons, tolerance=tolerance)
            del drawn["object"]
            yield {**annotation, **drawn}


def _new(
    image_id: Any, found: list[Instance], polygons: bool, tolerance: float
) -> Iterator[dict[str, Any]]:
    """Yield annotations of an image that had none; their numbers come later."""
    for instance in found:
        if instance.area:
            drawn = coco.annotation(instance, polygons=polygons, tolerance=tolerance)
            yield {"image_id": image_id, "iscrowd": 0, "name": instance.name, **drawn}


def _numbered(entries: list[dict[str, Any]], categories: list[Any]) -> list[Any]:
    """Give new annotations numbers and categories; return these, with those that were missing."""
    known = {category["name"] for category in categories}
    new = dict.fromkeys(entry["name"] for entry in entries if entry["name"] not in known)
    named = coco.categories_of([*categories, *new])
    numbers = {category["name"]: category["id"] for category in named}
    for number, entry in enumerate(entries, 1):
        entry["id"], entry["category_id"] = number, numbers[entry.pop("name")]
    return named
