"""Files of annotation tools: Label Studio, CVAT, labelme and ISAT."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from sam_rlx import _core
from sam_rlx.apps.annotator.exports.work import (
    Clip,
    Options,
    Shown,
    Still,
    Work,
    below,
    put_image,
)
from sam_rlx.apps.annotator.sources import encoded

Box: TypeAlias = tuple[int, int, int, int]


# ------------------------------------------------------------------ Label Studio


def write_label_studio(folder: Path, work: Work, options: Options) -> None:
    """Write ``tasks.json`` to import, and the labeling configuration that it fits.

    Masks are brush codes; with a tolerance polygons, which have no holes; boxes where the task is
    to detect. A clip has boxes by frame.
    """
    if work.clip is not None:
        tasks = [_video_task(work, work.clip)]
        tags = '<Video name="video" value="$video"/>\n<VideoRectangle name="box" toName="video"/>'
        labels = ("Labels", "videoLabels", "video")
    else:
        tasks = [_image_task(still, options) for still in work.stills]
        tags = '<Image name="image" value="$image"/>'
        labels = (_tag(options), "label", "image")
    tag, name, to = labels
    colors = "".join(
        f'<Label value={quoteattr(one.name)} background="#{bytes(one.color).hex()}"/>'
        for one in work.classes
    )
    config = f'<View>\n{tags}\n<{tag} name="{name}" toName="{to}">{colors}</{tag}>\n</View>\n'
    (folder / "config.xml").write_text(config, "utf-8")
    text = json.dumps(tasks, ensure_ascii=False, indent=1)
    (folder / "tasks.json").write_text(text, "utf-8")


def _tag(options: Options) -> str:
    if options.task == "detect":
        return "RectangleLabels"
    return "BrushLabels" if options.tolerance is None else "PolygonLabels"


def _image_task(still: Still, options: Options) -> dict[str, Any]:
    found = [
        entry
        for one in still.objects
        for entry in _label_studio_object(one, still, options)
        if one.mask.packed.bits
    ]
    return {"data": {"image": still.name}, "annotations": [{"result": found}]}


def _label_studio_object(one: Shown, still: Still, options: Options) -> Iterator[dict[str, Any]]:
    height, width = still.hw
    head = {
        "from_name": "label",
        "to_name": "image",
        "original_width": width,
        "original_height": height,
        "image_rotation": 0,
    }
    name = [one.of_class.name]
    if options.task == "detect":
        value = {**_percent(one.mask.packed.box, still.hw), "rotation": 0}
        value["rectanglelabels"] = name
        yield {**head, "id": f"{one.number}", "type": "rectanglelabels", "value": value}
    elif options.tolerance is None:
        codes = list(_core.brush_code(np.ascontiguousarray(one.pixels())))
        value = {"format": "rle", "rle": codes, "brushlabels": name}
        yield {**head, "id": f"{one.number}", "type": "brushlabels", "value": value}
    else:
        scale = np.array([100 / width, 100 / height])
        for at, part in enumerate(one.instance().outlines(options.tolerance)):
            value = {"points": (part[0] * scale).tolist(), "closed": True, "polygonlabels": name}
            yield {**head, "id": f"{one.number}_{at}", "type": "polygonlabels", "value": value}


def _percent(box: Box, hw: tuple[int, int]) -> dict[str, Any]:
    height, width = hw
    x0, y0, x1, y1 = box
    return {
        "x": 100 * x0 / width,
        "y": 100 * y0 / height,
        "width": 100 * (x1 - x0) / width,
        "height": 100 * (y1 - y0) / height,
    }


def _video_task(work: Work, clip: Clip) -> dict[str, Any]:
    found = []
    for number in clip.numbers:
        track = {at: o for at, o in clip.track(number).items() if o.mask.packed.bits}
        if not track:
            continue
        sequence = []
        for at, one in track.items():
            box = _percent(one.mask.packed.box, clip.hw)
            goes_on = at + 1 in track
            said = {"frame": at + 1, "enabled": goes_on, "rotation": 0, "time": at / clip.rate}
            sequence.append({**said, **box})
        value = {
            "framesCount": clip.count,
            "duration": clip.count / clip.rate,
            "sequence": sequence,
            "labels": [next(iter(track.values())).of_class.name],
        }
        head = {"id": f"{number}", "type": "videorectangle", "from_name": "box", "to_name": "video"}
        found.append({**head, "value": value})
    return {"data": {"video": clip.name}, "annotations": [{"result": found}]}


# ------------------------------------------------------------------ CVAT


def write_cvat(folder: Path, work: Work, options: Options) -> None:
    """Write ``annotations.xml`` of CVAT 1.1: images with masks, or a track for each object."""
    with (folder / "annotations.xml").open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n')
        file.write("  <version>1.1</version>\n  <meta><task>\n")
        size = work.clip.count if work.clip else len(work.stills)
        mode = "interpolation" if work.clip else "annotation"
        file.write(f"    <size>{size}</size>\n    <mode>{mode}</mode>\n    <labels>\n")
        for one in work.classes:
            color = f"#{bytes(one.color).hex()}"
            file.write(
                f"      <label><name>{escape(one.name)}</name><color>{color}</color>"
                "<attributes></attributes></label>\n"
            )
        file.write("    </labels>\n")
        if work.clip is not None:
            height, width = work.clip.hw
            file.write(
                f"    <original_size><width>{width}</width><height>{height}</height>"
                "</original_size>\n"
            )
        file.write("  </task></meta>\n")
        if work.clip is None:
            for at, still in enumerate(work.stills):
                file.write(_cvat_image(at, still))
        else:
            for number in work.clip.numbers:
                file.write(_cvat_track(work.clip, number))
        file.write("</annotations>\n")


def _cvat_image(at: int, still: Still) -> str:
    height, width = still.hw
    masks = "".join(
        f'    <mask label={quoteattr(one.of_class.name)} source="manual" occluded="0" '
        f'{_cvat_mask(one)} z_order="{order}"></mask>\n'
        for order, one in enumerate(still.objects)
        if one.mask.packed.bits
    )
    head = f'id="{at}" name={quoteattr(still.name)} width="{width}" height="{height}"'
    return f"  <image {head}>\n{masks}  </image>\n"


def _cvat_mask(one: Shown) -> str:
    packed = one.mask.packed
    x0, y0, x1, y1 = packed.box
    runs = ", ".join(map(str, row_runs(packed.part())))
    box = f'left="{x0}" top="{y0}" width="{x1 - x0}" height="{y1 - y0}"'
    return f'rle="{runs}" {box}'


def row_runs(part: NDArray[np.bool_]) -> list[int]:
    """Return run lengths along the rows, beginning with zeros."""
    counts: list[int] = _core.rle_encode(np.ascontiguousarray(part.T)).tolist()
    return counts


def _cvat_track(clip: Clip, number: int) -> str:
    track = {at: one for at, one in clip.track(number).items() if one.mask.packed.bits}
    if not track:
        return ""
    first = next(iter(track.values()))
    lines = [f'  <track id="{number}" label={quoteattr(first.of_class.name)} source="manual">\n']
    for at, one in track.items():
        lines.append(_cvat_shape(at, one, outside=False))
        if at + 1 not in track and at + 1 < clip.count:
            lines.append(_cvat_shape(at + 1, one, outside=True))
    return "".join([*lines, "  </track>\n"])


def _cvat_shape(frame: int, one: Shown, outside: bool) -> str:
    return (
        f'    <mask frame="{frame}" keyframe="1" outside="{int(outside)}" occluded="0" '
        f'{_cvat_mask(one)} z_order="{one.number}"></mask>\n'
    )


# ------------------------------------------------------------------ labelme


def write_labelme(folder: Path, work: Work, options: Options) -> None:
    """Write each image with labelme's JSON beside it: masks, or polygons with a tolerance."""
    for still in work.stills:
        stem = work.stem(still)
        image = put_image(still, folder, stem)
        height, width = still.hw
        document: dict[str, Any] = {
            "version": "5.5.0",
            "flags": {},
            "shapes": [s for one in still.objects for s in _labelme_shapes(one, options)],
            "imagePath": image.name,
            "imageData": None,
            "imageHeight": height,
            "imageWidth": width,
        }
        text = json.dumps(document, ensure_ascii=False, indent=2)
        below(folder, f"{stem}.json").write_text(text, "utf-8")


def _labelme_shapes(one: Shown, options: Options) -> Iterator[dict[str, Any]]:
    packed = one.mask.packed
    if not packed.bits:
        return
    head = {"label": one.of_class.name, "group_id": one.number, "description": one.one.note}
    head["flags"] = {}
    x0, y0, x1, y1 = packed.box
    if options.task == "detect":
        yield {**head, "points": [[x0, y0], [x1, y1]], "shape_type": "rectangle", "mask": None}
    elif options.tolerance is None:
        corners = [[x0, y0], [x1 - 1, y1 - 1]]  # of the last pixel
        file = encoded(packed.part().astype(np.uint8), "PNG")
        mask = base64.b64encode(file).decode("ascii")
        yield {**head, "points": corners, "shape_type": "mask", "mask": mask}
    else:
        for part in one.instance().outlines(options.tolerance):
            points = part[0].astype(float).tolist()
            yield {**head, "points": points, "shape_type": "polygon", "mask": None}


# ------------------------------------------------------------------ ISAT

BACKGROUND = "__background__"  # what ISAT calls a hole


def write_isat(folder: Path, work: Work, options: Options) -> None:
    """Write each image with ISAT's JSON beside it, and ``isat.yaml`` with the classes.

    An object is a group of polygons; its holes are polygons of the background, on top of them.
    Whoever encloses another object lies below it, so that no hole takes what is in it. As ISAT
    draws them, polygons go through the middles of the outermost pixels, counted from 0.
    """
    for still in work.stills:
        stem = work.stem(still)
        image = put_image(still, folder, stem)
        height, width = still.hw
        info = {"description": "ISAT", "folder": "", "name": image.name, "width": width}
        info |= {"height": height, "depth": 3, "note": ""}
        found = [list(_isat_objects(one, options)) for one in still.objects]
        found.sort(key=lambda some: -sum(s["area"] for s in some if s["category"] != BACKGROUND))
        objects = [entry for some in found for entry in some]
        for layer, entry in enumerate(objects, 1):
            entry["layer"] = float(layer)
        text = json.dumps({"info": info, "objects": objects}, ensure_ascii=False, indent=1)
        below(folder, f"{stem}.json").write_text(text, "utf-8")
    names = [(BACKGROUND, "#000000")]
    names += [(one.name, f"#{bytes(one.color).hex()}") for one in work.classes]
    # JSON's texts are YAML's double-quoted ones.
    lines = "".join(f"- color: '{color}'\n  name: {json.dumps(name)}\n" for name, color in names)
    (folder / "isat.yaml").write_text(f"contour_mode: max_only\nlabel:\n{lines}", "utf-8")


def _isat_objects(one: Shown, options: Options) -> Iterator[dict[str, Any]]:
    for part in one.instance().outlines(options.tolerance or 0.0):
        for at, ring in enumerate(part):
            (x0, y0), (x1, y1) = ring.min(axis=0), ring.max(axis=0)
            corners = ring - 0.5 if options.tolerance else _middles(ring)
            yield {
                "category": one.of_class.name if at == 0 else BACKGROUND,
                "group": one.number,
                "segmentation": corners.astype(float).tolist(),
                "area": _area(ring),
                "layer": 1.0,
                "bbox": [float(x0), float(y0), float(x1), float(y1)],
                "iscrowd": False,
                "note": one.one.note,
            }


def _area(ring: NDArray[np.int32]) -> float:
    return abs(_signed_area(ring))


def _signed_area(ring: NDArray[np.int32]) -> float:
    x, y = ring.astype(np.float64).T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def _middles(ring: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return a ring along sides of pixels as one through the pixels that lie at it, within it."""
    after = np.sign(np.roll(ring, -1, axis=0) - ring)
    inward = np.stack([-after[:, 1], after[:, 0]], axis=1) * np.sign(_signed_area(ring))
    middles: NDArray[np.float64] = ring + (inward + np.roll(inward, 1, axis=0)) / 2 - 0.5
    return middles
