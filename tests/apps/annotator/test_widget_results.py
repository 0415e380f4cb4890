"""The objects of a widget as results: one rule for what `result`, `arrays` and `save` give."""

from __future__ import annotations

import io as streams
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import io

pytest.importorskip("anywidget")
from sam_rlx.widget import SegmentWidget

HW = (40, 60)
Y, X = np.mgrid[: HW[0], : HW[1]]
SMALL, LARGE = np.hypot(Y - 20, X - 20) < 6, np.hypot(Y - 20, X - 24) < 15
RING = (np.hypot(Y - 20, X - 48) < 9) & ~(np.hypot(Y - 20, X - 48) < 5)
MASKS = [SMALL, LARGE, RING]
NAMES = ["small", "large", "ring"]


@pytest.fixture
def widget(model: sam_rlx.Model) -> Any:
    """A small object, and a later large one over it."""
    widget = SegmentWidget(model, np.full((*HW, 3), 90, np.uint8), num_threads=1)
    for name, mask in zip(NAMES, MASKS, strict=True):
        widget.class_add(name)
        widget.start(mask, name)
        widget.commit()
    yield widget
    widget.close()


def test_result_has_names_scores_and_masks(widget: Any) -> None:
    found = widget.result()
    assert isinstance(found, sam_rlx.image.Objects)
    assert (len(found), found.size) == (3, HW)
    document = found.to_coco("a.png")
    assert [entry["name"] for entry in document["categories"]] == NAMES
    for entry, one, mask in zip(document["annotations"], widget.objects, MASKS, strict=True):
        assert entry["segmentation"] == io.coco_annotation(mask)["segmentation"]
        assert (entry["score"], entry["color"]) == (one.score, list(one.color))
    assert [line.split()[0] for line in found.to_yolo(box=True).splitlines()] == ["0", "1", "2"]


def test_of_an_empty_widget_the_size_is_known(model: sam_rlx.Model) -> None:
    widget = SegmentWidget(model, np.full((*HW, 3), 90, np.uint8), num_threads=1)
    assert widget.result().label_image().shape == HW
    assert widget.result().to_coco("a.png")["annotations"] == []
    assert widget.arrays()["masks"].shape == (0, *HW)
    widget.close()


def test_files_are_those_of_the_result(widget: Any, tmp_path: Path) -> None:
    """The smaller object is on top, in files, arrays and the label image of results."""
    found = widget.result()
    labels = np.zeros(HW, int)
    labels[LARGE], labels[RING] = 2, 3
    labels[SMALL] = 1
    np.testing.assert_array_equal(found.label_image(), labels)
    np.testing.assert_array_equal(widget.arrays()["labels"], labels)
    path = widget.save(tmp_path / "labels.png", "labels")
    with Image.open(path) as image:
        np.testing.assert_array_equal(np.asarray(image), labels)
    own = json.loads(widget.save(tmp_path / "a.json").read_text())
    wanted = found.to_coco()
    known = {one["id"]: one["name"] for one in own["categories"]}
    assert list(known.values()) == ["object", *NAMES]
    assert [known[one["category_id"]] for one in own["annotations"]] == NAMES
    assert [{**one, "category_id": 0} for one in own["annotations"]] == [
        {**one, "category_id": 0} for one in wanted["annotations"]
    ]
    outlined = json.loads(widget.save(tmp_path / "b.json", "polygons").read_text())
    flat = found.to_coco(polygons=True)["annotations"]
    assert [one["polygons"] for one in outlined["objects"]] == [one["segmentation"] for one in flat]
    assert [one["name"] for one in outlined["objects"]] == NAMES
    contents = widget.save(tmp_path / "c.zip", "png").read_bytes()
    with zipfile.ZipFile(streams.BytesIO(contents)) as archive:
        for name, mask in zip(archive.namelist(), MASKS, strict=True):
            pixels = np.asarray(Image.open(streams.BytesIO(archive.read(name))))
            np.testing.assert_array_equal(pixels, 255 * mask.astype(np.uint8))
