"""Images: labels, masks, VOC, DAVIS, cut-outs, overlays, and the same as clips."""

import json
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from sam_rlx import viz
from sam_rlx._internal.formats.cutouts import cutout
from sam_rlx._internal.formats.label_images import label_image
from sam_rlx.apps.annotator.exports.work import (
    Options,
    Still,
    Work,
    below,
    put_image,
    put_png,
    safe_name,
)
from sam_rlx.errors import InvalidArgumentError

_EDGE = 255  # of VOC: pixels of no class


def label_array(still: Still) -> NDArray[Any]:
    """Return the numbers of the objects (H, W), as uint8 up to 255; small ones are on top."""
    instances = [one.instance() for one in still.objects]
    labels = label_image(instances, still.hw, [one.number for one in still.objects])
    return labels.astype(np.uint8) if labels.max() < 256 else labels


def write_labels(folder: Path, work: Work, options: Options) -> None:
    """Write a PNG for each image, whose values are the numbers of its objects, and their names."""
    said: dict[str, Any] = {}
    for still in work.stills:
        name = f"{work.stem(still)}.png"
        put_png(folder, name, label_array(still))
        said[name] = {
            "image": still.name,
            "objects": {
                str(one.number): {"name": one.one.name, "class": one.of_class.name}
                for one in still.objects
            },
        }
    document = {"classes": [one.name for one in work.classes], "labels": said}
    below(folder, "labels.json").write_text(json.dumps(document, indent=1), encoding="utf-8")


def write_masks(folder: Path, work: Work, options: Options) -> None:
    """Write a PNG of 0 and 255 for each object: ``IMAGE/001_class.png``."""
    for still in work.stills:
        for one in still.objects:
            name = f"{work.stem(still)}/{one.number:03d}_{safe_name(one.of_class.name)}.png"
            put_png(folder, name, one.pixels().astype(np.uint8) * np.uint8(255))


def voc_palette() -> bytes:
    """Return the 256 colours of PASCAL VOC: bits of the label, from high to low, in RGB."""
    colors = bytearray()
    for label in range(256):
        channels = [0, 0, 0]
        for bit in range(8):
            for channel in range(3):
                channels[channel] |= (label >> (3 * bit + channel) & 1) << (7 - bit)
        colors += bytes(channels)
    return bytes(colors)


def write_voc(folder: Path, work: Work, options: Options) -> None:
    """Write the folders of PASCAL VOC: images, PNG of classes and of objects, XML with boxes."""
    if len(work.classes) >= _EDGE:
        raise InvalidArgumentError(f"classes: expected below {_EDGE}, found {len(work.classes)}")
    palette = voc_palette()
    lists: dict[bool, list[str]] = {False: [], True: []}
    for still in work.stills:
        stem = work.stem(still).replace("/", "_")
        file = put_image(still, folder / "JPEGImages", stem)
        classes = np.zeros(still.hw, np.uint8)
        objects = np.zeros(still.hw, np.uint8)
        order = {one.number: at for at, one in enumerate(still.objects, 1)}
        if len(order) >= _EDGE:
            raise InvalidArgumentError(
                f"{still.name}: expected below {_EDGE} objects, found {len(order)}"
            )
        for one in still.largest_first():
            pixels = one.pixels()
            classes[pixels] = work.index(one) + 1
            objects[pixels] = order[one.number]
        put_png(folder, f"SegmentationClass/{stem}.png", classes, palette)
        put_png(folder, f"SegmentationObject/{stem}.png", objects, palette)
        below(folder, f"Annotations/{stem}.xml").write_text(_xml(still, file.name), "utf-8")
        lists[options.is_validation(still)].append(stem)
    for name, stems in (("train", lists[False]), ("val", lists[True])):
        text = "".join(f"{stem}\n" for stem in stems)
        below(folder, f"ImageSets/Segmentation/{name}.txt").write_text(text, "utf-8")
    names = "".join(f"{one.name}\n" for one in work.classes)
    (folder / "labels.txt").write_text(names, "utf-8")


def _xml(still: Still, file: str) -> str:
    height, width = still.hw
    lines = [
        "<annotation>",
        f"  <filename>{escape(file)}</filename>",
        f"  <size><width>{width}</width><height>{height}</height><depth>3</depth></size>",
        "  <segmented>1</segmented>",
    ]
    for one in still.objects:
        x0, y0, x1, y1 = one.mask.packed.box
        corners = f"<xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>"
        lines.append(
            f"  <object><name>{escape(one.of_class.name)}</name><pose>Unspecified</pose>"
            f"<truncated>0</truncated><difficult>0</difficult><bndbox>{corners}</bndbox></object>"
        )
    return "\n".join([*lines, "</annotation>", ""])


def write_davis(folder: Path, work: Work, options: Options) -> None:
    """Write a PNG with DAVIS's palette for each frame, whose values are the objects' numbers."""
    palette = voc_palette()
    clip = work.clip
    assert clip is not None
    if clip.numbers and clip.numbers[-1] > _EDGE:
        raise InvalidArgumentError(f"objects: expected numbers up to {_EDGE}, found larger ones")
    name = safe_name(Path(clip.name).stem)
    by_frame = {still.frame: still for still in work.stills}
    for frame in range(clip.count):
        known = by_frame.get(frame)
        labels = np.zeros(clip.hw, np.uint8) if known is None else label_array(known)
        put_png(folder, f"Annotations/{name}/{frame:05d}.png", labels.astype(np.uint8), palette)


def write_cutouts(folder: Path, work: Work, options: Options) -> None:
    """Write an RGBA PNG for each object, cut to its box."""
    for still in work.stills:
        pixels = still.read()
        for one in still.objects:
            name = f"{work.stem(still)}/{one.number:03d}_{safe_name(one.of_class.name)}.png"
            cut = cutout(pixels, [one.instance()], crop=True, soft_edge=0.0)
            if cut.size:
                put_png(folder, name, cut)


def overlay_of(still: Still, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an image with its masks painted over it."""
    shown = still.largest_first()
    return viz.overlay(
        pixels, [one.pixels() for one in shown], identities=[one.number for one in shown]
    )


def write_overlays(folder: Path, work: Work, options: Options) -> None:
    """Write each image with its masks as PNG."""
    for still in work.stills:
        put_png(folder, f"{work.stem(still)}.png", overlay_of(still, still.read()))
