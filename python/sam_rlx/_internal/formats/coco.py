"""COCO documents whose numbers fit each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.formats.instances import OBJECT, Instance, plain_name
from sam_rlx._internal.formats.outlines import flat_polygons
from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError


def annotation(
    instance: Instance, *, polygons: bool = False, tolerance: float = 0.0
) -> dict[str, Any]:
    """Return ``segmentation``, ``area`` in pixels, ``bbox`` [x, y, w, h], and what else is known.

    Parameters
    ----------
    instance : Instance
        The object.
    polygons : bool
        True: ``segmentation`` is a list of outlines; False: compressed run lengths.
    tolerance : float
        Of the outlines, as for `polygons` of results.
    """
    found: dict[str, Any] = {
        "segmentation": flat_polygons(instance, tolerance)
        if polygons
        else run_lengths(instance.counts, instance.size),
        "area": instance.area,
        "bbox": list(instance.box),
    }
    if instance.score is not None:
        found["score"] = instance.score
    if instance.track is not None:
        found["track_id"] = plain_name(instance.track)
    return {**found, **instance.fields}


def run_lengths(counts: NDArray[np.uint32], size: tuple[int, int]) -> dict[str, Any]:
    """Return COCO's compressed run lengths, ready for ``json``."""
    return {"size": list(size), "counts": _core.rle_to_string(counts).decode("ascii")}


def of_instances(
    image: Mapping[str, Any],
    instances: Sequence[Instance],
    *,
    ids: Sequence[Any] | None = None,
    categories: Sequence[Any] | None = None,
    polygons: bool = False,
    tolerance: float = 0.0,
) -> dict[str, Any]:
    """Return the document of one image's objects, without those whose mask is empty.

    Parameters
    ----------
    image : mapping
        As for `document`.
    instances : sequence of Instance
        The objects.
    ids : sequence, optional
        Of the annotations, one an instance. Default: 1, 2, ...
    categories : sequence of str or mappings, optional
        Default: the names of the instances in their order.
    polygons, tolerance
        As for `annotation`.

    Raises
    ------
    InvalidArgumentError
        An object's name is not among the categories, or ids are of another number or not unique.
    """
    if categories is None:
        categories = list(dict.fromkeys(instance.name for instance in instances)) or [OBJECT]
    if ids is not None and len(ids) != len(instances):
        raise InvalidArgumentError(f"ids: expected {len(instances)}, found {len(ids)}")
    named = categories_of(categories)
    numbers = {each["name"]: each["id"] for each in named}
    entries = []
    for index, instance in enumerate(instances):
        if not instance.area:
            continue
        if instance.name not in numbers:
            raise InvalidArgumentError(
                f"categories: expected {shown(instance.name)} among them, found "
                f"{shown(list(numbers))}"
            )
        entry = annotation(instance, polygons=polygons, tolerance=tolerance)
        given = {} if ids is None else {"id": ids[index]}
        entries.append({**given, "category_id": numbers[instance.name], **entry})
    return document(image, entries, named)


def document(
    image: Mapping[str, Any],
    annotations: Sequence[Any],
    categories: Sequence[Any],
) -> dict[str, Any]:
    """Return the document of one image; parameters and errors are those of `io.coco_document`."""
    described = {"id": 1, **_mapping("image", image)}
    number = described["id"]
    named = categories_of(categories)
    numbers = {each["id"] for each in named}
    first = named[0]["id"] if named else 1
    entries = [_mapping("annotations", entry) for entry in annotations]
    free = _free({entry["id"] for entry in entries if "id" in entry})
    result = []
    for index, entry in enumerate(entries):
        where = f"annotations[{index}]"
        given = {"image_id": number, "category_id": first, "iscrowd": 0, **entry}
        if given["image_id"] != number:
            raise InvalidArgumentError(
                f"{where}.image_id: expected {shown(number)}, the id of the image, found "
                f"{shown(given['image_id'])}"
            )
        if named and given["category_id"] not in numbers:
            raise InvalidArgumentError(
                f"{where}.category_id: expected one of {sorted(numbers, key=str)}, the ids of the "
                f"categories, found {shown(given['category_id'])}"
            )
        result.append({"id": entry["id"] if "id" in entry else next(free), **given})
    _refuse_twice("annotations", result)
    return {"images": [described], "annotations": result, "categories": named}


def checked(index: int, document: Any) -> Mapping[str, Any]:
    """Return a document that `joined` can read; `InvalidArgumentError` for anything else."""
    where = f"documents[{index}]"
    found = _mapping(where, document)
    lists: dict[str, Any] = {key: found.get(key) for key in ("images", "annotations", "categories")}
    for key, entries in lists.items():
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise InvalidArgumentError(f"{where}: expected a list of {key}, found {shown(entries)}")
        for entry in entries:
            if "id" not in _mapping(f"{where}.{key}", entry):
                raise InvalidArgumentError(f"{where}.{key}: expected an id, found none")
    known = {
        "image_id": {image["id"] for image in lists["images"]},
        "category_id": {category["id"] for category in categories_of(lists["categories"])},
    }
    for entry in lists["annotations"]:
        for key, ids in known.items():
            if entry.get(key) not in ids:
                raise InvalidArgumentError(
                    f"{where}.annotations: expected {key} of one that is there, found "
                    f"{shown(entry.get(key))}"
                )
    return found


def joined(documents: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one document of several: images and annotations are numbered anew from 1.

    Categories are one where their names are equal, and numbered in the order in which they come.
    """
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    numbers: dict[str, int] = {}
    for each in documents:
        for category in each["categories"]:
            numbers.setdefault(category["name"], len(numbers) + 1)
        own = {category["id"]: category["name"] for category in each["categories"]}
        new = {}
        for image in each["images"]:
            new[image["id"]] = len(images) + 1
            images.append({**image, "id": new[image["id"]]})
        for entry in each["annotations"]:
            annotations.append(
                {
                    **entry,
                    "id": len(annotations) + 1,
                    "image_id": new[entry["image_id"]],
                    "category_id": numbers[own[entry["category_id"]]],
                }
            )
    names = [{"id": number, "name": name} for name, number in numbers.items()]
    return {
        "images": images,
        "annotations": annotations,
        "categories": names or categories_of([OBJECT]),
    }


def categories_of(given: Sequence[Any]) -> list[dict[str, Any]]:
    """Return categories as COCO has them; names are numbered where no other one has the number."""
    taken = {each["id"] for each in given if isinstance(each, Mapping) and "id" in each}
    free = _free(taken)
    named = []
    for index, each in enumerate(given):
        fields = dict(each) if isinstance(each, Mapping) else {"name": each}
        if not isinstance(fields.get("name"), str):
            raise InvalidArgumentError(
                f"categories[{index}]: expected a name, or a dict with a name, found {shown(each)}"
            )
        named.append({"id": fields["id"] if "id" in fields else next(free), **fields})
    _refuse_twice("categories", named)
    return named


def _free(taken: set[Any]) -> Iterator[int]:
    number = 0
    while True:
        number += 1
        if number not in taken:
            yield number


def _refuse_twice(where: str, entries: Sequence[Mapping[str, Any]]) -> None:
    seen: set[Any] = set()
    for entry in entries:
        if entry["id"] in seen:
            raise InvalidArgumentError(
                f"{where}: expected ids that differ, found {shown(entry['id'])} twice"
            )
        seen.add(entry["id"])


def _mapping(where: str, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise InvalidArgumentError(f"{where}: expected a mapping, found {type(found).__name__}")
    for key in ("id", "image_id", "category_id"):
        if key in found and not isinstance(found[key], (int, str)):
            raise InvalidArgumentError(
                f"{where}.{key}: expected a number, found {shown(found[key])}"
            )
    return found
