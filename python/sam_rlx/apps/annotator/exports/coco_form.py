"""COCO: instances with run lengths or outlines, panoptic PNG, and videos with tracks."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np

from sam_rlx._internal.formats import coco
from sam_rlx._internal.formats.instances import plain_name
from sam_rlx._internal.formats.label_images import label_image
from sam_rlx.apps.annotator.exports.work import Options, Shown, Still, Work, below, put_png


def write_instances(folder: Path, work: Work, options: Options) -> None:
    """Write ``annotations.json``, an annotation after the other; pycocotools reads it."""
    with (folder / "annotations.json").open("w", encoding="utf-8") as file:
        file.write("{")
        if work.clip is not None:
            clip = work.clip
            height, width = clip.hw
            video = {"id": 1, "name": clip.name, "height": height, "width": width}
            said = {**video, "length": clip.count, "sam_rlx": {"key": clip.key}}
            _write_list(file, "videos", [said])
            file.write(",")
        _write_list(file, "categories", categories(work))
        file.write(",")
        _write_list(file, "images", (_image(work, *one) for one in enumerate(work.stills, 1)))
        file.write(",")
        _write_list(file, "annotations", _annotations(work, options))
        file.write("}\n")


def categories(work: Work) -> list[dict[str, Any]]:
    """Return the classes as COCO has them; their ids are their numbers."""
    return [{"id": one.number, "name": one.name} for one in work.classes]


def _write_list(file: IO[str], name: str, entries: Iterable[Any]) -> None:
    file.write(f"{json.dumps(name)}: [")
    for at, entry in enumerate(entries):
        file.write(",\n" if at else "\n")
        file.write(json.dumps(entry, ensure_ascii=False, allow_nan=False))
    file.write("]")


def _image(work: Work, number: int, still: Still) -> dict[str, Any]:
    height, width = still.hw
    said: dict[str, Any] = {"id": number, "file_name": still.name}
    said |= {"height": height, "width": width}
    if still.frame is not None:
        said |= {"video_id": 1, "frame_index": still.frame}
    if still.key and still.frame is None:
        said["sam_rlx"] = {"key": still.key}
    return said


def _annotations(work: Work, options: Options) -> Iterable[dict[str, Any]]:
    number = 0
    for image, still in enumerate(work.stills, 1):
        for one in still.objects:
            instance = one.instance()
            if instance.area:
                number += 1
                yield {
                    "id": number,
                    "image_id": image,
                    "category_id": one.of_class.number,
                    "iscrowd": 0,
                    **coco.annotation(
                        instance,
                        polygons=options.tolerance is not None,
                        tolerance=options.tolerance or 0.0,
                    ),
                    **_said(one, still),
                }


def _said(one: Shown, still: Still) -> dict[str, Any]:
    said: dict[str, Any] = {"name": one.one.name, "color": list(one.one.color)}
    said |= {"text": one.one.text} if one.one.text else {}
    said |= {"note": one.one.note} if one.one.note else {}
    return said if still.frame is None else {**said, "track_id": plain_name(one.number)}


def write_panoptic(folder: Path, work: Work, options: Options) -> None:
    """Write ``panoptic.json`` and a PNG for each image: a segment is R + 256 G + 65536 B.

    Where masks overlap, the smaller one is on top.
    """
    images, annotations = [], []
    for number, still in enumerate(work.stills, 1):
        numbers = [one.number for one in still.objects]
        instances = [one.instance() for one in still.objects]
        segments = label_image(instances, still.hw, numbers).astype(np.uint32)
        entries = [entry for one in still.objects if (entry := _segment(one, segments))]
        name = f"{work.stem(still)}.png"
        channels = np.stack([segments & 255, segments >> 8 & 255, segments >> 16 & 255], axis=2)
        put_png(folder, f"panoptic/{name}", channels.astype(np.uint8))
        images.append(_image(work, number, still))
        annotations.append({"image_id": number, "file_name": name, "segments_info": entries})
    things = [{**one, "supercategory": "", "isthing": 1} for one in categories(work)]
    document = {"images": images, "annotations": annotations, "categories": things}
    below(folder, "panoptic.json").write_text(json.dumps(document), encoding="utf-8")


def _segment(one: Shown, segments: Any) -> dict[str, Any] | None:
    rows, columns = np.nonzero(segments == one.number)
    if not len(rows):
        return None
    x, y = int(columns.min()), int(rows.min())
    box = [x, y, int(columns.max()) - x + 1, int(rows.max()) - y + 1]
    head = {"id": one.number, "category_id": one.of_class.number, "iscrowd": 0}
    return {**head, "area": len(rows), "bbox": box}


def write_youtube_vis(folder: Path, work: Work, options: Options) -> None:
    """Write ``instances.json`` of YouTube-VIS: a track has a mask or null for each frame."""
    clip = work.clip
    assert clip is not None
    height, width = clip.hw
    frames = {still.frame: still.name for still in work.stills}
    names = [frames.get(at, f"{Path(clip.name).stem}/{at:06d}.jpg") for at in range(clip.count)]
    video = {"id": 1, "width": width, "height": height, "length": clip.count, "file_names": names}
    with (folder / "instances.json").open("w", encoding="utf-8") as file:
        file.write("{")
        _write_list(file, "videos", [video])
        file.write(",")
        _write_list(file, "categories", categories(work))
        file.write(",")
        _write_list(file, "annotations", (_track(work, number) for number in clip.numbers))
        file.write("}\n")


def _track(work: Work, number: int) -> dict[str, Any]:
    clip = work.clip
    assert clip is not None
    track = clip.track(number)
    first = next(iter(track.values()))
    height, width = clip.hw
    shapes = {at: one.instance() for at, one in track.items()}
    shapes = {at: one for at, one in shapes.items() if one.area}
    there = [shapes.get(at) for at in range(clip.count)]
    return {
        "id": number,
        "video_id": 1,
        "category_id": first.of_class.number,
        "iscrowd": 0,
        "width": width,
        "height": height,
        "segmentations": [o and coco.run_lengths(o.counts, o.size) for o in there],
        "bboxes": [o and list(o.box) for o in there],
        "areas": [o and o.area for o in there],
    }
