"""Tables and text: YOLO, MOTS, CSV, GeoJSON, and NumPy's archives."""

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from sam_rlx import _core
from sam_rlx._internal.formats import geojson, yolo
from sam_rlx.apps.annotator.exports.work import Options, Work, below, put_image
from sam_rlx.errors import InvalidArgumentError

_MOTS_NUMBERS = 999  # of the objects: the next one would be of the next class
_MOTS_IGNORED = 10  # the class of regions that no tracker is judged by


def write_yolo(folder: Path, work: Work, options: Options) -> None:
    """Write ``data.yaml``, images and label files of YOLO, in train and val."""
    names = [one.name for one in work.classes]
    parts = {False: "train", True: "val"}
    for still in work.stills:
        part = parts[options.is_validation(still)]
        stem = work.stem(still).replace("/", "_")
        put_image(still, folder / "images" / part, stem)
        text = yolo.lines(
            [one.instance() for one in still.objects],
            names,
            box=options.task == "detect",
            tolerance=options.tolerance or 0.0,
        )
        below(folder, f"labels/{part}/{stem}.txt").write_text(text, "utf-8")
    for part in parts.values():
        (folder / "images" / part).mkdir(parents=True, exist_ok=True)
    val = "images/train" if options.split is None else "images/val"
    text = yolo.data_yaml(names, train="images/train", val=val)
    (folder / "data.yaml").write_text(text, "utf-8")


def write_mots(folder: Path, work: Work, options: Options) -> None:
    """Write ``CLIP.txt`` of MOTS: frame, 1000 times the class and the object, class, size, runs.

    Frames count from 0. Pixels belong to one object: of those that overlap to the smaller one.
    """
    clip = work.clip
    assert clip is not None
    if clip.numbers and clip.numbers[-1] > _MOTS_NUMBERS:
        raise InvalidArgumentError(
            f"objects: expected numbers up to {_MOTS_NUMBERS}, found {clip.numbers[-1]}"
        )
    kinds = [one.of_class for still in work.stills for one in still.objects]
    ignored = next((kind.name for kind in kinds if kind.number == _MOTS_IGNORED), None)
    if ignored is not None:
        raise InvalidArgumentError(
            f"classes: expected another number than {_MOTS_IGNORED}, which MOTS keeps for regions "
            f"that are not judged, found that of {ignored!r}"
        )
    height, width = clip.hw
    with below(folder, f"{Path(clip.name).stem or 'clip'}.txt").open("w", encoding="ascii") as file:
        for still in work.stills:
            free = np.ones(still.hw, np.bool_)
            lines = []
            for one in sorted(still.objects, key=lambda each: each.instance().area):
                pixels = one.pixels() & free
                free &= ~pixels
                if pixels.any():
                    kind = one.of_class.number
                    text = _core.rle_to_string(_core.rle_encode(pixels)).decode("ascii")
                    number = 1000 * kind + one.number
                    lines.append((one.number, f"{number} {kind} {height} {width} {text}"))
            for _, line in sorted(lines):
                file.write(f"{still.frame} {line}\n")


def write_csv(folder: Path, work: Work, options: Options) -> None:
    """Write ``objects.csv``: one row an object of an image or frame."""
    head = ("image", "frame", "object", "name", "class", "score", "how", "area", "x", "y", "width")
    with (folder / "objects.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*head, "height", "center_x", "center_y", "note"])
        for still in work.stills:
            frame = "" if still.frame is None else still.frame
            for one in still.objects:
                shape = one.instance()
                middle = [f"{value:.3f}" for value in shape.centroid] if shape.area else ["", ""]
                said = [one.number, one.one.name, one.of_class.name, f"{one.mask.score:.4f}"]
                shown = [one.mask.how, shape.area, *shape.box, *middle, one.one.note]
                writer.writerow([still.name, frame, *said, *shown])


def write_geojson(folder: Path, work: Work, options: Options) -> None:
    """Write a FeatureCollection for each image, in pixels."""
    for still in work.stills:
        found = geojson.collection(
            [one.instance() for one in still.objects],
            geojson.as_transform(None),
            geojson.as_crs(None),
            options.tolerance or 0.0,
        )
        target = below(folder, f"{work.stem(still)}.geojson")
        target.write_text(json.dumps(found), encoding="utf-8")


def write_npz(folder: Path, work: Work, options: Options) -> None:
    """Write an NPZ archive for each image: ``masks`` (N, H, W), ``names``, ``classes``, ..."""
    for still in work.stills:
        objects = still.objects
        others: dict[str, Any] = {
            "numbers": np.array([one.number for one in objects], np.int64),
            "names": np.array([one.one.name for one in objects], np.str_),
            "classes": np.array([one.of_class.name for one in objects], np.str_),
            "scores": np.array([one.mask.score for one in objects], np.float32),
            "colors": np.array([one.one.color for one in objects], np.uint8).reshape(-1, 3),
        }
        target = below(folder, f"{work.stem(still)}.npz")
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open("masks.npy", "w", force_zip64=True) as member:
                shape = (len(objects), *still.hw)
                head = {"descr": "|b1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, head)  # type: ignore[no-untyped-call]
                for one in objects:  # one mask at a time: together they may be gigabytes
                    member.write(one.pixels().tobytes())
            for name, values in others.items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)  # type: ignore[no-untyped-call]
