"""Files of other programs are hostile input: odd values give typed errors, or what they say."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
import shapely.affinity
from sam_rlx.apps.annotator.imports import READERS, read
from sam_rlx.apps.annotator.imports.forms import brush_mask
from sam_rlx.apps.annotator.imports.found import row_mask
from sam_rlx.errors import InvalidArgumentError, SamRlxError
from support.odd_json import ODD, changed

from tests.apps.annotator.test_exports import HW, video, widget  # noqa: F401
from tests.apps.annotator.test_exports import folder as folder

JSON = {
    "panoptic": "panoptic.json",
    "label_studio": "tasks.json",
    "labelme": "cam0/a.json",
    "isat": "cam0/a.json",
}


def read_all(path: Path, form: str) -> None:
    with contextlib.suppress(SamRlxError, FileNotFoundError):
        read(path, form, lambda name: HW)


@pytest.mark.parametrize("form", JSON)
def test_odd_values_of_json(widget: Any, tmp_path: Path, form: str) -> None:  # noqa: F811
    widget.export(tmp_path / "out", form)
    file = tmp_path / "out" / JSON[form]
    document = json.loads(file.read_text("utf-8"))
    for at, other in enumerate(changed(document, ODD[::5])):
        if at % 7 == 0:
            file.write_text(json.dumps(other), "utf-8")
            read_all(tmp_path / "out", form)
    for text in ("", "[]", "{", "null", "[" * 5000, '{"images": 1e999}', "\ufeff{}"):
        file.write_text(text, "utf-8")
        read_all(tmp_path / "out", form)


def test_odd_values_of_a_clip(video: Any, tmp_path: Path) -> None:  # noqa: F811
    video.export(tmp_path / "out", "youtube_vis")
    file = tmp_path / "out" / "instances.json"
    document = json.loads(file.read_text("utf-8"))
    for at, other in enumerate(changed(document, ODD[::5])):
        if at % 5 == 0:
            file.write_text(json.dumps(other), "utf-8")
            read_all(file, "youtube_vis")


@pytest.mark.parametrize("form", ["cvat", "yolo", "voc", "labels", "masks", "labelme", "panoptic"])
def test_files_that_end_early_or_have_other_bytes(
    widget: Any,  # noqa: F811
    tmp_path: Path,
    form: str,
) -> None:
    random = np.random.default_rng(0)
    widget.export(tmp_path / "out", form)
    files = [one for one in sorted((tmp_path / "out").rglob("*")) if one.is_file()]
    for file in files[:6]:
        whole = file.read_bytes()
        for _ in range(6):
            data = bytearray(whole[: int(random.integers(len(whole) + 1))])
            for at in random.integers(0, max(len(data), 1), 3) if data else ():
                data[int(at)] = int(random.integers(256))
            file.write_bytes(bytes(data))
            read_all(tmp_path / "out", form)
        file.write_bytes(whole)


def test_numbers_of_xml(widget: Any, tmp_path: Path) -> None:  # noqa: F811
    widget.export(tmp_path / "out", "cvat")
    file = tmp_path / "out" / "annotations.xml"
    text = file.read_text("utf-8")
    numbers = list(re.finditer(r'(?<==")[\d, ]+(?=")', text))
    for at, match in enumerate(numbers):
        for value in ("", "-1", "nan", "1e9", "99999999999", "a", "1,2", "&#0;")[at % 3 :: 3]:
            file.write_text(text[: match.start()] + value + text[match.end() :], "utf-8")
            read_all(tmp_path / "out", "cvat")
    bomb = '<!DOCTYPE a [<!ENTITY b "cccc">]><annotations>&b;</annotations>'
    file.write_text(bomb, "utf-8")
    with pytest.raises(InvalidArgumentError, match="without declarations"):
        read(tmp_path / "out", "cvat", lambda name: HW)
    file.write_text("<a>" * 500 + "</a>" * 500, "utf-8")
    with pytest.raises(InvalidArgumentError, match="at most 100 levels"):
        read(tmp_path / "out", "cvat", lambda name: HW)


def test_no_file_outside_of_the_folder_is_read(widget: Any, tmp_path: Path) -> None:  # noqa: F811
    widget.export(tmp_path / "out", "panoptic")
    file = tmp_path / "out" / "panoptic.json"
    secret = tmp_path / "secret.png"
    secret.write_bytes((tmp_path / "out" / "panoptic" / "cam0" / "a.png").read_bytes())
    document = json.loads(file.read_text())
    document["annotations"][0]["file_name"] = "../../secret.png"
    file.write_text(json.dumps(document))
    with pytest.raises(InvalidArgumentError, match="file_name: expected a file in panoptic"):
        read(tmp_path / "out", "panoptic", lambda name: HW)


def test_runs_of_rows() -> None:
    found = row_mask("a", (4, 5), [1, 2, 1], (1, 1, 2, 2)).to_mask()
    assert np.argwhere(found).tolist() == [[1, 2], [2, 1]]
    assert row_mask("a", (4, 5), [0, 4], (1, 1, 2, 2)).to_mask().sum() == 4
    assert row_mask("a", (4, 5), [1], (0, 0, 1, 1)).to_mask().sum() == 0
    for counts, box in (([5], (1, 1, 2, 2)), ([1, 2, 1], (4, 1, 2, 2)), ([], (0, 0, 0, 0))):
        with pytest.raises(InvalidArgumentError):
            row_mask("a", (4, 5), counts, box)


def inside(shape: Any, hw: tuple[int, int]) -> Any:
    """Return which pixels have their middle in a shape of shapely."""
    y, x = np.mgrid[: hw[0], : hw[1]] + 0.5
    return shapely.contains_xy(shape, x, y)


def ellipse(x: float, y: float, rx: float, ry: float, degrees: float = 0.0) -> Any:
    circle = shapely.Point(x, y).buffer(1, 500)
    scaled = shapely.affinity.scale(circle, rx, ry, origin=(x, y))
    return shapely.affinity.rotate(scaled, degrees, origin=(x, y))


def masks_of(path: Path, form: str, hw: tuple[int, int]) -> list[Any]:
    (still,) = read(path, form, lambda name: hw)
    return [one.mask.to_mask() for one in still.objects]


def test_shapes_of_labelme(tmp_path: Path) -> None:
    hw = (50, 70)
    turned = [[20.2, 5.1], [40.3, 15.7], [35.1, 25.4], [15.0, 14.8]]
    shapes = [
        ("circle", [[30.3, 20.6], [41.1, 26.4]], ellipse(30.3, 20.6, *2 * (12.259,))),
        ("circle", [[2.0, 48.0], [22.0, 48.0]], ellipse(2, 48, 20, 20)),  # cut by the image
        ("circle", [[5.0, 5.0], [5.0, 5.0]], shapely.Polygon()),
        ("oriented_rectangle", turned, shapely.Polygon(turned)),
        (None, turned[:3], shapely.Polygon(turned[:3])),
        ("rectangle", [[40.0, 30.0], [10.0, 12.0]], shapely.box(10, 12, 40, 30)),
    ]
    entries = [{"label": "a", "shape_type": kind, "points": at} for kind, at, _ in shapes]
    document = {"imagePath": "a.png", "imageHeight": hw[0], "imageWidth": hw[1], "shapes": entries}
    (tmp_path / "a.json").write_text(json.dumps(document))
    found = masks_of(tmp_path, "labelme", hw)
    for mask, (_, _, shape) in zip(found, shapes, strict=True):
        assert np.array_equal(mask, inside(shape, hw))
    entries[0]["shape_type"] = "linestrip"
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert len(masks_of(tmp_path, "labelme", hw)) == len(shapes) - 1
    entries[0]["shape_type"] = "blob"
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(InvalidArgumentError, match=r"shapes\[0\].shape_type: expected .*blob"):
        read(tmp_path, "labelme", lambda name: hw)


def test_groups_of_labelme_are_one_object(tmp_path: Path) -> None:
    squares = [[[x, 3], [x + 6, 3], [x + 6, 9], [x, 9]] for x in (3, 13, 23)]
    entries = [
        {"label": "car", "shape_type": "polygon", "points": at, "group_id": group}
        for at, group in zip(squares, (1, 1, None), strict=True)
    ]
    document = {"imagePath": "a.png", "imageHeight": 30, "imageWidth": 40, "shapes": entries}
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert [mask.sum() for mask in masks_of(tmp_path, "labelme", (30, 40))] == [72, 36]


def test_turned_shapes_of_cvat(tmp_path: Path) -> None:
    hw = (50, 70)
    box = 'label="a" xtl="12.2" ytl="10.4" xbr="40.9" ybr="22.6"'
    oval = 'label="a" cx="35.3" cy="22.1" rx="20.4" ry="8.7"'
    (tmp_path / "annotations.xml").write_text(
        f"""<annotations><image id="0" name="a.png" width="{hw[1]}" height="{hw[0]}">
        <box {box}/><box {box} rotation="30.00"/><box {box} rotation="-90"/>
        <ellipse {oval}/><ellipse {oval} rotation="40.5"/>
        <points label="a" points="1,2"/></image></annotations>"""
    )
    plain = shapely.box(12.2, 10.4, 40.9, 22.6)
    shapes = [plain, *(shapely.affinity.rotate(plain, turn, "center") for turn in (30, -90))]
    shapes += [ellipse(35.3, 22.1, 20.4, 8.7), ellipse(35.3, 22.1, 20.4, 8.7, 40.5)]
    found = masks_of(tmp_path, "cvat", hw)
    assert [mask.sum() > 100 for mask in found] == 5 * [True]
    for mask, shape in zip(found, shapes, strict=True):
        assert np.array_equal(mask, inside(shape, hw))


def test_turned_shapes_of_label_studio(tmp_path: Path) -> None:
    hw = (50, 80)
    box = {"x": 30.0, "y": 20.6, "width": 25.0, "height": 31.0}
    oval = {"x": 50.0, "y": 52.0, "radiusX": 25.5, "radiusY": 17.0}
    values = [
        {**values, "rotation": turn, kind: ["a"]}
        for kind, values in (("rectanglelabels", box), ("ellipselabels", oval))
        for turn in (0, 35)
    ]
    result = [
        {"type": list(value)[-1], "value": value, "original_height": 50, "original_width": 80}
        for value in values
    ]
    task = {"data": {"image": "a.png"}, "annotations": [{"result": result}]}
    (tmp_path / "tasks.json").write_text(json.dumps([task]))
    plain = shapely.box(24, 10.3, 44, 25.8)  # in pixels
    shapes = [plain, shapely.affinity.rotate(plain, 35, (24, 10.3))]
    shapes += [ellipse(40, 26, 20.4, 8.5), ellipse(40, 26, 20.4, 8.5, 35)]
    for mask, shape in zip(masks_of(tmp_path, "label_studio", hw), shapes, strict=True):
        assert np.array_equal(mask, inside(shape, hw))


def test_brush_codes_that_are_none() -> None:
    for data in (b"", b"\0" * 7, b"\0\0\0\x50" + b"\xff" * 3, b"\0\0\0\x51" + bytes(20)):
        with pytest.raises(InvalidArgumentError):
            brush_mask("a", data, (4, 5))


def test_wrong_forms_and_paths(tmp_path: Path) -> None:
    for form in READERS:
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "none", form, lambda name: HW)
        with pytest.raises(SamRlxError):
            read(tmp_path, form, lambda name: HW)
    with pytest.raises(InvalidArgumentError, match="form: expected one of"):
        read(tmp_path, "pdf", lambda name: HW)
