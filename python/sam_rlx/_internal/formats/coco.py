"""COCO documents whose numbers fit each other."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sam_rlx._internal.printable import shown
from sam_rlx.errors import InvalidArgumentError


def document(
    image: Mapping[str, Any],
    annotations: Sequence[Any],
    categories: Sequence[Any],
) -> dict[str, Any]:
    """Return the document of one image; parameters and errors are those of `io.coco_document`."""
    described = {"id": 1, **_mapping("image", image)}
    number = described["id"]
    named = _categories(categories)
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
        "categories": names or _categories(["object"]),
    }


def _categories(given: Sequence[Any]) -> list[dict[str, Any]]:
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
