"""Objects of images from JSON: COCO's, ours and other programs', and our outlines."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx._internal.files.inputs import compared_name
from sam_rlx._internal.printable import shown
from sam_rlx.apps.annotator import fields
from sam_rlx.apps.annotator.limits import MAX_OBJECTS
from sam_rlx.apps.annotator.saved import (
    OpenImages,
    SavedObject,
    Size,
    described,
    parsed,
    read_arrays,
    read_label_image,
)
from sam_rlx.apps.annotator.values import PackedMask
from sam_rlx.errors import InvalidArgumentError

_MAX_LISTED = 5  # names of images in an error
_MAX_TEXT = 200  # letters of a class or of a text


@dataclass(frozen=True)
class Saved:
    """What a file has.

    Attributes
    ----------
    objects : dict of int to list of SavedObject
        By the index of their image.
    absent : list of str
        Names of images of the file that are not open.
    passed_over : list of str
        Annotations without a mask, such as those with a box alone.
    """

    objects: dict[int, list[SavedObject]]
    absent: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


def read_saved(name: str, contents: bytes, images: OpenImages) -> Saved:
    """Return the objects of a file.

    Parameters
    ----------
    name : str
        Of the file, for errors.
    contents : bytes
        COCO's JSON, JSON with outlines, a label image, or NumPy arrays (NPZ).
    images : OpenImages
        JSON says to which image objects belong, by file name; the only image of a file may have
        another name. All else belongs to the current image.

    Raises
    ------
    InvalidArgumentError
        The file is something else or damaged, its masks have another size than the image, or none
        of its images is open.
    """
    if contents.startswith(b"PK"):
        return Saved({images.current: read_arrays(name, contents, images)})
    if contents.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return Saved({images.current: read_label_image(name, contents, images)})
    document = parsed(name, contents)
    if isinstance(document, dict) and isinstance(document.get("objects"), list):
        return _outlined(name, document, images)
    if not isinstance(document, dict) or not isinstance(document.get("images"), list):
        raise InvalidArgumentError(
            f"{name}: expected a COCO document with images, annotations and categories, found "
            f"{'a list' if isinstance(document, list) else 'none of these'}"
        )
    return _coco(name, document, images)


def _coco(name: str, document: dict[str, Any], images: OpenImages) -> Saved:
    listed = [_entry(f"{name}: images[{at}]", one) for at, one in enumerate(document["images"])]
    indices = _matched(listed, images)
    by_id = {_key(one.get("id")): index for one, index in zip(listed, indices, strict=True)}
    categories = {
        _key(one.get("id")): str(one.get("name"))
        for at, one in enumerate(_list(name, document, "categories"))
        if _entry(f"{name}: categories[{at}]", one)
    }
    saved: dict[int, list[SavedObject]] = {}
    without = []
    annotations = _list(name, document, "annotations")
    for at, one in enumerate(annotations):
        where = f"{name}: annotations[{at}]"
        image = _key(_entry(where, one).get("image_id"))
        if image not in by_id:
            raise InvalidArgumentError(f"{where}: expected an image_id of images, found {image}")
        index = by_id[image]
        if not one.get("segmentation") and len(annotations) > 1:
            without.append(where)
        elif index is not None:
            saved.setdefault(index, []).append(_annotation(where, one, categories, index, images))
            fields.at_most(f"{name}: objects of an image", len(saved[index]), MAX_OBJECTS)
    if annotations and len(without) == len(annotations):
        raise InvalidArgumentError(f"{without[0]}: expected a segmentation, found none in any")
    return _told(name, Saved(saved, passed_over=without), listed, indices, images)


def _annotation(
    where: str, one: dict[str, Any], categories: dict[str, str], index: int, images: OpenImages
) -> SavedObject:
    name, color, score = described(where, one)
    category = categories.get(_key(one.get("category_id")))
    if category is None:
        raise InvalidArgumentError(
            f"{where}: expected a category_id of categories, found {_key(one.get('category_id'))}"
        )
    mask = _mask(where, one.get("segmentation"), index, images)
    said = one.get("text")
    text = said[:_MAX_TEXT] if isinstance(said, str) else None
    named = category.strip()[:_MAX_TEXT] or None
    return SavedObject(PackedMask.of(mask), name or category, color, score, text, named)


def _mask(where: str, found: Any, index: int, images: OpenImages) -> NDArray[np.bool_]:
    """Return the mask of run lengths, compressed or not, or of polygons, of an open image."""
    if isinstance(found, dict):
        try:
            size = _integers(found.get("size"), 2)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{where}: {error}") from None
        images.check(where, index, (size[0], size[1]))
    return mask_of(where, found, images.size_of(index))


def mask_of(where: str, found: Any, hw: Size) -> NDArray[np.bool_]:
    """Return the mask of run lengths, compressed or not, or of polygons, at a size (H, W)."""
    try:
        if isinstance(found, dict):
            size = _integers(found.get("size"), 2)
            if (size[0], size[1]) != hw:
                raise InvalidArgumentError(
                    f"size: expected {hw[0]} x {hw[1]}, found {size[0]} x {size[1]}"
                )
            counts = found.get("counts")
            if isinstance(counts, str):
                codes = _core.rle_from_string(counts.encode("ascii", "replace"))
            else:
                codes = np.array(_integers(counts), np.uint32)
            return _unfolded(codes, (size[0], size[1]), found.get("order", "F"))
        if isinstance(found, list) and found:
            return _core.polygons_to_mask([_numbers(each) for each in found], hw)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
    raise InvalidArgumentError(
        f"{where}: expected a segmentation of polygons or run lengths, found {shown(found)[:80]}"
    )


def _unfolded(codes: NDArray[np.uint32], size: Size, order: Any) -> NDArray[np.bool_]:
    """Return the mask of run lengths: column after column (F, COCO's) or row after row (C)."""
    if order == "F":
        return _core.rle_decode(codes, size)
    if order == "C":
        return np.ascontiguousarray(_core.rle_decode(codes, size[::-1]).T)
    raise InvalidArgumentError(f"order: expected F or C, found {shown(order)}")


def _outlined(name: str, document: dict[str, Any], images: OpenImages) -> Saved:
    """Read what `export` writes as polygons: the lines of an object, with its holes cut open."""
    indices = _matched([document], images)
    index = indices[0]
    saved: dict[int, list[SavedObject]] = {}
    if index is not None:
        size = _integers([document.get("height"), document.get("width")], 2)
        images.check(name, index, (size[0], size[1]))
        saved[index] = [
            _outline(f"{name}: objects[{at}]", one, (size[0], size[1]))
            for at, one in enumerate(document["objects"])
        ]
    return _told(name, Saved(saved), [document], indices, images)


def _outline(where: str, one: Any, size: Size) -> SavedObject:
    said = _entry(where, one)
    try:
        lines = [_numbers(each) for each in _list(where, said, "polygons")]
        mask = _core.polygons_to_mask(lines, size)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{where}: {error}") from None
    return SavedObject(PackedMask.of(mask), *described(where, said))


def _matched(listed: Sequence[dict[str, Any]], images: OpenImages) -> list[int | None]:
    """Return the open image of each image of a document.

    By the key of its content, which our documents have; else by its path, and else by its name if
    no other image of the document or among the open ones has it. The only image of a document
    without a key fits the current one.
    """
    names = [compared_name(str(one.get("file_name", ""))) for one in listed]
    by_key = {key: index for index, key in reversed([*enumerate(images.keys)]) if key}
    free = dict.fromkeys(range(len(images.names)))
    found: list[int | None] = [None] * len(listed)
    keys = [_key_in(one) for one in listed]
    for at, key in enumerate(keys):
        if key in by_key and by_key[key] in free:
            found[at] = by_key[key]
            del free[by_key[key]]
    # What has a key that no open file has is another image, whatever its name.
    rest = [at for at, key in enumerate(keys) if found[at] is None and not (key and by_key)]
    for whole in (True, False):
        there: dict[str, list[int]] = {}
        for index in free:
            there.setdefault(_named(compared_name(images.names[index]), whole), []).append(index)
        wanted: dict[str, list[int]] = {}
        for at in rest:
            if found[at] is None:
                wanted.setdefault(_named(names[at], whole), []).append(at)
        for name, indices in wanted.items():
            if len(indices) == len(there.get(name, ())) and (whole or len(indices) == 1):
                for at, index in zip(indices, there[name], strict=True):
                    found[at] = index
                    del free[index]
    return [images.current] if found == [None] and rest else found


def _key_in(one: dict[str, Any]) -> str:
    """Return the key of an image of a document, "" if it has none."""
    said = one.get("sam_rlx")
    key = said.get("key") if isinstance(said, dict) else None
    return key if isinstance(key, str) else ""


def _named(name: str, whole: bool) -> str:
    return name if whole else name.rpartition("/")[2]


def _told(
    name: str,
    saved: Saved,
    listed: Sequence[dict[str, Any]],
    indices: Sequence[int | None],
    images: OpenImages,
) -> Saved:
    absent = []
    open_names = {_named(compared_name(each), whole=False) for each in images.names}
    for one, index in zip(listed, indices, strict=True):
        if index is None:
            called = str(one.get("file_name", ""))
            is_open = _named(compared_name(called), whole=False) in open_names
            absent.append(called + (" with other content" if is_open else ""))
    if listed and len(absent) == len(listed):
        some = ", ".join(absent[:_MAX_LISTED]) + (", ..." if len(absent) > _MAX_LISTED else "")
        raise InvalidArgumentError(
            f"{name}: expected objects of {images.names[images.current]}, found those of {some}"
        )
    return replace(saved, absent=absent)


def _entry(where: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise InvalidArgumentError(
            f"{where}: expected an object of JSON, found {shown(found)[:80]}"
        )
    return found


def _list(where: str, document: dict[str, Any], key: str) -> list[Any]:
    found = document.get(key, [])
    if not isinstance(found, list):
        raise InvalidArgumentError(f"{where}: expected a list as {key}, found {shown(found)[:80]}")
    return found


def _key(number: Any) -> str:
    """Return an id, which may be a number or a text, as it is compared."""
    return shown(number)[:80]


def _integers(found: Any, count: int | None = None) -> list[int]:
    fits = isinstance(found, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32
        for value in found
    )
    if not fits or (count is not None and len(found) != count):
        wanted = "counts" if count is None else f"{count} numbers"
        raise InvalidArgumentError(f"expected {wanted}, found {shown(found)[:80]}")
    return list(found)


def _numbers(found: Any) -> list[float]:
    if not isinstance(found, list) or not all(
        isinstance(value, (int, float)) and abs(value) < 1e9 for value in found
    ):
        raise InvalidArgumentError(f"polygon: expected numbers, found {shown(found)[:80]}")
    return [float(value) for value in found]
