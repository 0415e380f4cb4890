"""Readers of the forms that `exports` writes, and that other programs write too."""

import base64
import binascii
import io as streams
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx._internal.media.mask_files import read_labels
from sam_rlx.apps.annotator.exports.tools_forms import BACKGROUND
from sam_rlx.apps.annotator.imports.found import (
    FoundObject,
    FoundStill,
    Size,
    SizeOf,
    box_mask,
    column_mask,
    ellipse_mask,
    entries,
    entry,
    is_here,
    json_of,
    labels_of,
    middles_mask,
    name_in,
    numbers,
    points,
    polygon_mask,
    row_mask,
    size,
    size_of_clip,
    text_of,
    turned_box_mask,
    whole,
    wrong,
    xml_of,
)
from sam_rlx.apps.annotator.saved_documents import mask_of
from sam_rlx.apps.annotator.values import PackedMask
from sam_rlx.errors import InvalidArgumentError


def _one(path: Path, name: str) -> Path:
    """Return a file of a folder, or the file itself."""
    found = path / name if path.is_dir() else path
    if not found.is_file():
        raise InvalidArgumentError(f"{path}: expected a file {name} in it, found none")
    return found


def _files(path: Path, *suffixes: str) -> list[Path]:
    if path.is_file():
        return [path]
    found = [one for one in sorted(path.rglob("*")) if one.suffix.lower() in suffixes]
    if not found:
        raise InvalidArgumentError(f"{path}: expected files {suffixes} in it, found none")
    return found


def _beside(path: Path, file: Path, name: Any) -> str:
    """Return the path of an image that a file names, which lies beside it."""
    plain = name_in(file.name, name).replace("\\", "/")
    folder = file.parent.relative_to(path).as_posix() if path.is_dir() else "."
    return plain if folder == "." else f"{folder}/{plain}"


# ------------------------------------------------------------------ COCO


def _categories(document: dict[str, Any]) -> dict[int, str]:
    """Return the names of COCO's categories by their ids."""
    return {
        whole("categories.id", one.get("id")): name_in("categories.name", one.get("name"))
        for one in entries("categories", document.get("categories"))
    }


def _category(where: str, one: dict[str, Any], categories: dict[int, str]) -> str:
    """Return the name of the category that an annotation or a segment names by its id."""
    category = categories.get(whole(where, one.get("category_id")))
    if category is None:
        raise wrong(f"{where}.category_id", "one of categories", one.get("category_id"))
    return category


def read_coco(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read ``annotations.json``: run lengths and polygons; what has a box alone is passed over."""
    file = _one(path, "annotations.json")
    document = entry(file.name, json_of(file))
    categories = _categories(document)
    stills: dict[int, FoundStill] = {}
    for at, one in enumerate(entries("images", document.get("images"))):
        where = f"images[{at}]"
        frame = one.get("frame_index")
        still = FoundStill(
            name_in(f"{where}.file_name", one.get("file_name")),
            key=_key_in(one),
            frame=None if frame is None else whole(f"{where}.frame_index", frame),
        )
        stills[whole(f"{where}.id", one.get("id"))] = still
    for at, one in enumerate(entries("annotations", document.get("annotations"))):
        where = f"annotations[{at}]"
        image = stills.get(whole(f"{where}.image_id", one.get("image_id")))
        if image is None:
            raise wrong(f"{where}.image_id", "one of images", one.get("image_id"))
        category = _category(where, one, categories)
        hw = size_of(image.key) or size_of(image.name)
        if hw is None or not one.get("segmentation"):
            continue
        mask = PackedMask.of(mask_of(where, one.get("segmentation"), hw))
        track = one.get("track_id")
        note, name = (said if isinstance(said := one.get(key), str) else "" for key in _SAID)
        found = FoundObject(
            category,
            mask,
            "" if track is None else f"{whole(f'{where}.track_id', track)}",
            note[:_MAX_NOTE],
            name.strip()[:_MAX_NAME],
        )
        image.add(where, found)
    yield from stills.values()


_SAID = ("note", "name")
_MAX_NOTE, _MAX_NAME = 4000, 200


def _key_in(one: dict[str, Any]) -> str:
    """Return the key of an image's content, which documents of ours have."""
    said = one.get("sam_rlx")
    key = said.get("key") if isinstance(said, dict) else None
    return key if isinstance(key, str) else ""


def read_panoptic(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read ``panoptic.json`` and its PNG."""
    file = _one(path, "panoptic.json")
    document = entry(file.name, json_of(file))
    categories = _categories(document)
    images = {
        whole("images.id", one.get("id")): name_in("images.file_name", one.get("file_name"))
        for one in entries("images", document.get("images"))
    }
    for at, one in enumerate(entries("annotations", document.get("annotations"))):
        where = f"annotations[{at}]"
        name = images.get(whole(f"{where}.image_id", one.get("image_id")))
        if name is None:
            raise wrong(f"{where}.image_id", "one of images", one.get("image_id"))
        still = FoundStill(name)
        png = _inside(file.parent / "panoptic", name_in(where, one.get("file_name")))
        segments = labels_of(png)
        is_color = segments.max() > 255
        for segment in entries(f"{where}.segments_info", one.get("segments_info")):
            number = whole(f"{where}.id", segment.get("id"), 1, (1 << 24) - 1)
            category = _category(where, segment, categories)
            color = (number & 255) << 16 | number & 0xFF00 | number >> 16  # R is the low byte
            mask = PackedMask.of(segments == (color if is_color else number))
            still.add(where, FoundObject(category, mask))
        yield still


def _inside(folder: Path, name: str) -> Path:
    """Return a file below a folder; nothing else can be named."""
    found = (folder / name).resolve()
    if not found.is_relative_to(folder.resolve()) or not found.is_file():
        raise wrong("file_name", f"a file in {folder.name}", name)
    return found


def read_youtube_vis(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read ``instances.json`` of one video."""
    file = _one(path, "instances.json")
    hw = size_of_clip(file.name, size_of)
    document = entry(file.name, json_of(file))
    categories = _categories(document)
    stills: dict[int, FoundStill] = {}
    for at, one in enumerate(entries("annotations", document.get("annotations"))):
        where = f"annotations[{at}]"
        category = _category(where, one, categories)
        masks = one.get("segmentations")
        if not isinstance(masks, list):
            raise wrong(f"{where}.segmentations", "a list", masks)
        for frame, found in enumerate(masks):
            if found is not None:
                mask = column_mask(f"{where}.segmentations[{frame}]", found, hw)
                still = stills.setdefault(frame, FoundStill("", frame=frame))
                still.add(where, FoundObject(category, mask, f"{one.get('id', at)}"))
    yield from (stills[frame] for frame in sorted(stills))


def read_mots(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read a text of MOTS; classes are called by their numbers."""
    stills: dict[int, FoundStill] = {}
    own = size_of_clip(path.name, size_of)
    for at, line in enumerate(text_of(_files(path, ".txt")[0]).splitlines(), 1):
        if not line.strip():
            continue
        where = f"line {at}"
        parts = line.split(" ")
        if len(parts) != 6:
            raise wrong(where, "frame, object, class, height, width, runs", line)
        frame = whole(where, parts[0])
        hw = size(where, parts[3], parts[4])
        mask = column_mask(where, {"size": list(hw), "counts": parts[5]}, own)
        still = stills.setdefault(frame, FoundStill("", frame=frame))
        still.add(where, FoundObject(f"class {whole(where, parts[2])}", mask, parts[1]))
    yield from (stills[frame] for frame in sorted(stills))


# ------------------------------------------------------------------ YOLO


def read_yolo(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read label files of YOLO; ``data.yaml`` has the names of classes."""
    names = _yolo_names(path / "data.yaml") if path.is_dir() else {}
    folder = path / "labels" if (path / "labels").is_dir() else path
    for file in _files(folder, ".txt"):
        name = file.stem
        hw = size_of(name)
        if hw is None:
            yield FoundStill(name)
            continue
        still = FoundStill(name)
        for at, line in enumerate(text_of(file).splitlines(), 1):
            where = f"{file.name}: line {at}"
            if not line.strip():
                continue
            kind, *rest = line.split()
            number = whole(where, kind)
            values = [_fraction(where, one) for one in rest]
            category = names.get(number, f"class {number}")
            still.add(where, FoundObject(category, _yolo_mask(where, values, hw)))
        yield still


def _yolo_mask(where: str, values: list[float], hw: Size) -> PackedMask:
    height, width = hw
    if len(values) == 4:
        x, y, w, h = values
        return box_mask(
            hw,
            (x - w / 2) * width,
            (y - h / 2) * height,
            (x + w / 2) * width,
            (y + h / 2) * height,
        )
    if len(values) < 6 or len(values) % 2:
        raise wrong(where, "a box or at least 3 positions", len(values))
    ring = [(values[k] * width, values[k + 1] * height) for k in range(0, len(values), 2)]
    return polygon_mask(hw, [[(round(x, 3), round(y, 3)) for x, y in ring]])


def _fraction(where: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise wrong(where, "a number", text) from None
    if not -1 <= value <= 2:
        raise wrong(where, "a number from 0 to 1", text)
    return value


def _yolo_names(path: Path) -> dict[int, str]:
    """Read the names of ``data.yaml``: a list, or lines of number and name."""
    if not path.is_file():
        return {}
    found: dict[int, str] = {}
    is_inside = False
    for line in text_of(path).splitlines():
        text = line.strip()
        if line.startswith("names:"):
            is_inside = True
            listed = text.removeprefix("names:").strip()
            if listed.startswith("["):
                parts = listed.strip("[]").split(",")
                return {at: _plain(part) for at, part in enumerate(parts) if part.strip()}
        elif is_inside and text.startswith("- "):
            found[len(found)] = _plain(text[2:])
        elif is_inside and line[:1] in (" ", "\t") and ":" in text:
            number, _, name = text.partition(":")
            found[whole(f"{path.name}: names", number)] = _plain(name)
        elif is_inside and text and line[:1] not in (" ", "\t"):
            is_inside = False
    return found


def _plain(text: str) -> str:
    """Return a text of YAML on one line: bare, or in quotes."""
    found = text.strip()
    if len(found) > 1 and found[0] == found[-1] == "'":
        found = found[1:-1].replace("''", "'")
    elif len(found) > 1 and found[0] == found[-1] == '"':
        try:
            found = json.loads(found)
        except ValueError as error:
            raise wrong("names", "a text in quotes", found) from error
    return name_in("names", found)


# ------------------------------------------------------------------ annotation tools


# Shapes without an area, which are no objects.
_LABELME_LINES = ("point", "points", "line", "linestrip")


def read_labelme(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read labelme's JSON: masks, polygons, rectangles and circles."""
    for file in _files(path, ".json"):
        document = entry(file.name, json_of(file))
        hw = size(file.name, document.get("imageHeight"), document.get("imageWidth"))
        still = FoundStill(_beside(path, file, document.get("imagePath")))
        if not is_here(file.name, still.name, hw, size_of):
            yield still
            continue
        for at, one in enumerate(entries(f"{file.name}: shapes", document.get("shapes"))):
            where = f"{file.name}: shapes[{at}]"
            if one.get("shape_type") in _LABELME_LINES:
                continue
            category = name_in(f"{where}.label", one.get("label"))
            group = one.get("group_id")
            track = "" if group is None else f"{whole(f'{where}.group_id', group)}"
            note = one.get("description")
            mask = _labelme_mask(where, one, hw)
            still.add(
                where,
                FoundObject(category, mask, track, note if isinstance(note, str) else ""),
            )
        yield still


def _labelme_mask(where: str, one: dict[str, Any], hw: Size) -> PackedMask:
    kind, corners = one.get("shape_type") or "polygon", points(f"{where}.points", one.get("points"))
    if kind == "mask" and len(corners) == 2:
        (x0, y0), _ = corners
        part = _png_in(where, one.get("mask"))
        mask = np.zeros(hw, np.bool_)
        y, x = whole(where, float(y0)), whole(where, float(x0))
        if y + part.shape[0] > hw[0] or x + part.shape[1] > hw[1]:
            raise wrong(f"{where}.mask", "one inside of the image", part.shape)
        mask[y : y + part.shape[0], x : x + part.shape[1]] = part != 0
        return PackedMask.of(mask)
    if kind == "rectangle" and len(corners) == 2:
        (x0, y0), (x1, y1) = corners
        return box_mask(hw, min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    if kind == "circle" and len(corners) == 2:
        radius = math.dist(*corners)
        return ellipse_mask(hw, corners[0], (radius, radius))
    if kind in ("polygon", "oriented_rectangle"):
        return polygon_mask(hw, [corners])
    raise wrong(
        f"{where}.shape_type", "mask, polygon, rectangle, oriented_rectangle or circle", kind
    )


def _png_in(where: str, value: Any) -> Any:
    if not isinstance(value, str):
        raise wrong(f"{where}.mask", "a PNG in Base64", value)
    try:
        contents = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise wrong(f"{where}.mask", "a PNG in Base64", value) from error
    return read_labels(streams.BytesIO(contents))[0]


def read_isat(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read ISAT's JSON: polygons by layer; the background cuts holes into what is below it."""
    for file in _files(path, ".json"):
        document = entry(file.name, json_of(file))
        info = entry(f"{file.name}: info", document.get("info"))
        hw = size(file.name, info.get("height"), info.get("width"))
        still = FoundStill(_beside(path, file, info.get("name")))
        if not is_here(file.name, still.name, hw, size_of):
            yield still
            continue
        groups: dict[tuple[str, str], Any] = {}
        notes: dict[tuple[str, str], str] = {}
        shapes = entries(f"{file.name}: objects", document.get("objects"))
        for at, one in enumerate(sorted(shapes, key=_layer)):
            where = f"{file.name}: objects[{at}]"
            category = name_in(f"{where}.category", one.get("category"))
            group = f"{one.get('group')}"[:40]
            shape = middles_mask(hw, points(where, one.get("segmentation"))).to_mask()
            if category == BACKGROUND:
                for (_, own), mask in groups.items():
                    if own == group:
                        mask &= ~shape
                continue
            key = (category, group)
            groups[key] = groups[key] | shape if key in groups else shape
            said = one.get("note")
            notes[key] = said if isinstance(said, str) else ""
        for key, mask in groups.items():
            found = FoundObject(key[0], PackedMask.of(mask), "", notes[key])
            still.add(file.name, found)
        yield still


def _layer(one: dict[str, Any]) -> float:
    return numbers("layer", [one.get("layer", 0)], 1)[0]


def read_cvat(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read ``annotations.xml`` of CVAT 1.1: images, or tracks."""
    root = xml_of(_one(path, "annotations.xml"))
    for image in root.findall("image"):
        name = name_in("image.name", image.get("name"))
        hw = size(name, image.get("height"), image.get("width"))
        still = FoundStill(name)
        for shape in image if is_here(name, name, hw, size_of) else ():
            if shape.tag in _CVAT_AREAS:
                category = name_in(f"{name}.label", shape.get("label"))
                still.add(name, FoundObject(category, _cvat_mask(name, shape, hw)))
        yield still
    stills: dict[int, FoundStill] = {}
    original = root.find("meta/task/original_size")
    for track in root.findall("track"):
        where = f"track {track.get('id')}"
        category = name_in(f"{where}.label", track.get("label"))
        if original is None:
            raise wrong(where, "original_size in meta", None)
        hw = size(where, original.findtext("height"), original.findtext("width"))
        is_here(where, "", hw, size_of)
        for shape in track:
            if shape.tag in _CVAT_AREAS and shape.get("outside") != "1":
                frame = whole(f"{where}.frame", shape.get("frame"))
                still = stills.setdefault(frame, FoundStill("", frame=frame))
                mask = _cvat_mask(where, shape, hw)
                still.add(where, FoundObject(category, mask, f"{track.get('id')}"))
    yield from (stills[frame] for frame in sorted(stills))


# Shapes with an area. Others are no objects.
_CVAT_AREAS = ("mask", "polygon", "box", "ellipse")


def _cvat_mask(where: str, shape: Any, hw: Size) -> PackedMask:
    if shape.tag == "mask":
        box = [whole(f"{where}.{at}", shape.get(at)) for at in ("left", "top", "width", "height")]
        area = hw[0] * hw[1]
        counts = [
            whole(f"{where}.rle", one, 0, area) for one in (shape.get("rle") or "").split(",")
        ]
        return row_mask(where, hw, counts, box)
    turned = _real(where, shape.get("rotation", "0"))  # clockwise, about the middle
    if shape.tag == "box":
        x0, y0, x1, y1 = (_real(where, shape.get(at)) for at in ("xtl", "ytl", "xbr", "ybr"))
        return turned_box_mask(hw, (x0, y0, x1, y1), ((x0 + x1) / 2, (y0 + y1) / 2), turned)
    if shape.tag == "ellipse":
        x, y, rx, ry = (_real(where, shape.get(at)) for at in ("cx", "cy", "rx", "ry"))
        return ellipse_mask(hw, (x, y), (rx, ry), turned)
    ring = [
        tuple(_real(where, value) for value in pair.split(","))
        for pair in (shape.get("points") or "").split(";")
    ]
    if any(len(pair) != 2 for pair in ring):
        raise wrong(f"{where}.points", "x,y;x,y;...", shape.get("points"))
    return polygon_mask(hw, [[(pair[0], pair[1]) for pair in ring]])


def _real(where: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        raise wrong(where, "a number", text) from None
    return numbers(where, [value], 1)[0]


def read_label_studio(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read tasks of Label Studio: brush codes, polygons, rectangles and ellipses of images."""
    file = _one(path, "tasks.json")
    for at, task in enumerate(entries(file.name, json_of(file))):
        where = f"{file.name}: task {at}"
        data = entry(f"{where}.data", task.get("data"))
        name = next((one for one in data.values() if isinstance(one, str)), None)
        still = FoundStill(name_in(f"{where}.data", name).rpartition("?d=")[2])
        for annotation in entries(f"{where}.annotations", task.get("annotations", [])):
            for one in entries(f"{where}.result", annotation.get("result")):
                found = _label_studio_object(where, one, still.name, size_of)
                if found is not None:
                    still.add(where, found)
        yield still


def _label_studio_object(
    where: str, one: dict[str, Any], image: str, size_of: SizeOf
) -> FoundObject | None:
    kind, value = one.get("type"), entry(f"{where}.value", one.get("value"))
    if kind not in ("brushlabels", "polygonlabels", "rectanglelabels", "ellipselabels"):
        return None
    hw = size(where, one.get("original_height"), one.get("original_width"))
    if not is_here(where, image, hw, size_of):
        return None
    names = value.get(str(kind))
    if not isinstance(names, list) or not names:
        raise wrong(f"{where}.{kind}", "names", names)
    category = name_in(where, names[0])
    track = f"{one.get('id', '')}"[:40].partition("_")[0]
    height, width = hw
    if kind == "brushlabels":
        codes = value.get("rle")
        if not isinstance(codes, list):
            raise wrong(f"{where}.rle", "a list of bytes", codes)
        data = bytes(whole(f"{where}.rle", code, 0, 255) for code in codes)
        return FoundObject(category, brush_mask(where, data, hw), track)
    if kind == "polygonlabels":
        ring = points(where, value.get("points"))
        scaled = [(x * width / 100, y * height / 100) for x, y in ring]
        return FoundObject(category, polygon_mask(hw, [scaled]), track)
    # Turned clockwise: ellipses about their middle, rectangles about their upper left corner.
    (turned,) = numbers(where, [value.get("rotation") or 0], 1)
    if kind == "ellipselabels":
        x, y, rx, ry = numbers(where, [value.get(at) for at in ("x", "y", "radiusX", "radiusY")], 4)
        middle, radii = (x * width / 100, y * height / 100), (rx * width / 100, ry * height / 100)
        return FoundObject(category, ellipse_mask(hw, middle, radii, turned), track)
    x, y, w, h = numbers(where, [value.get(at) for at in ("x", "y", "width", "height")], 4)
    box = (x * width / 100, y * height / 100, (x + w) * width / 100, (y + h) * height / 100)
    return FoundObject(category, turned_box_mask(hw, box, (box[0], box[1]), turned), track)


def brush_mask(where: str, data: bytes, hw: Size) -> PackedMask:
    """Decode Label Studio's brush code: bits of RGBA values with runs; opaque pixels are set."""
    bits = _Bits(where, data)
    total, word = bits.take(32), bits.take(5) + 1
    lengths = [bits.take(4) + 1 for _ in range(4)]
    if total != hw[0] * hw[1] * 4:
        raise wrong(f"{where}.rle", f"{hw[0] * hw[1] * 4} values", total)
    values = np.zeros(total, np.uint8)
    at = 0
    while at < total:
        is_run = bits.take(1)
        count = bits.take(lengths[bits.take(2)]) + 1
        if at + count > total:
            raise wrong(f"{where}.rle", f"{total} values", "more")
        if is_run:
            values[at : at + count] = bits.take(word) & 255
        else:
            for k in range(count):
                values[at + k] = bits.take(word) & 255
        at += count
    return PackedMask.of(values.reshape(*hw, 4)[..., 3] > 127)


class _Bits:
    """Reads numbers of some bits, the highest first."""

    def __init__(self, where: str, data: bytes) -> None:
        self._where = where
        self._data = data
        self._at = 0

    def take(self, count: int) -> int:
        first, last = self._at // 8, (self._at + count + 7) // 8
        if last > len(self._data):
            raise wrong(f"{self._where}.rle", "a whole code", "one that ends early")
        value = int.from_bytes(self._data[first:last], "big") >> (last * 8 - self._at - count)
        self._at += count
        return value & (1 << count) - 1


# ------------------------------------------------------------------ images


def read_voc(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read PASCAL VOC: objects of ``SegmentationObject``, classes of ``SegmentationClass``."""
    names = [line.strip() for line in text_of(_one(path, "labels.txt")).splitlines()]
    for file in _files(path / "SegmentationObject", ".png"):
        still = FoundStill(file.stem)
        objects = labels_of(file)
        classes = labels_of(_one(path / "SegmentationClass", file.name))
        if classes.shape != objects.shape:
            raise wrong(file.name, f"classes of {objects.shape}", classes.shape)
        for label in np.unique(objects):
            if label in (0, 255):
                continue
            pixels = objects == label
            kind = int(np.median(classes[pixels]))
            if not 1 <= kind <= len(names):
                raise wrong(file.name, f"classes 1 to {len(names)}", kind)
            found = FoundObject(name_in("labels.txt", names[kind - 1]), PackedMask.of(pixels))
            still.add(file.name, found)
        yield still


def read_label_images(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read PNG whose values are numbers of objects; ``labels.json`` has their names."""
    listed = path / "labels.json"
    document = entry("labels.json", json_of(listed)) if listed.is_file() else {}
    said = entry("labels.json: labels", document.get("labels", {}))
    for file in _files(path, ".png"):
        relative = file.relative_to(path).as_posix() if path.is_dir() else file.name
        known = entry(relative, said.get(relative, {}))
        objects = entry(f"{relative}: objects", known.get("objects", {}))
        name = known.get("image")
        still = FoundStill(name_in(relative, name or str(Path(relative).with_suffix(""))))
        labels = labels_of(file)
        for label in np.unique(labels):
            if label:
                one = entry(relative, objects.get(f"{label}", {}))
                category = name_in(relative, one.get("class", "object"))
                still.add(relative, FoundObject(category, PackedMask.of(labels == label)))
        yield still


def read_davis(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read a PNG for each frame, whose values are numbers of objects."""
    folder = path / "Annotations" if (path / "Annotations").is_dir() else path
    for frame, file in enumerate(_files(folder, ".png")):
        number = int(file.stem) if file.stem.isdigit() and len(file.stem) < 9 else frame
        labels = labels_of(file)
        still = FoundStill("", frame=number)
        for label in np.unique(labels):
            if label:
                mask = PackedMask.of(labels == label)
                still.add(file.name, FoundObject("object", mask, f"{label}"))
        if still.objects:
            yield still


def read_masks(path: Path, size_of: SizeOf) -> Iterator[FoundStill]:
    """Read a PNG for each object: ``IMAGE/001_class.png``, as this library writes them."""
    stills: dict[str, FoundStill] = {}
    for file in _files(path, ".png"):
        name = file.parent.relative_to(path).as_posix() if path.is_dir() else file.parent.name
        category = file.stem.partition("_")[2] or "object"
        mask = PackedMask.of(labels_of(file) != 0)
        still = stills.setdefault(name, FoundStill(name))
        still.add(file.name, FoundObject(name_in(file.name, category), mask))
    yield from stills.values()
