"""COCO documents that go into a batch come out with masks, and all else as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import batch, io
from support import batches

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
COCO = pytest.importorskip("pycocotools.coco", reason="pycocotools judges COCO").COCO


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """Three images with numbers of their own, the last one without annotations."""
    folder = tmp_path / "photos"
    batches.write_images(folder, 3)
    images = []
    for number, path in zip((44, 7, 300), sorted(folder.iterdir()), strict=True):
        height, width = io.read_image(path).shape[:2]
        size = {"height": height, "width": width}
        images.append({"id": number, "file_name": path.name, **size, "license": 2})
    annotations = [
        {"id": 901, "image_id": 7, "category_id": 18, "bbox": [3, 4, 30, 20], "iscrowd": 0},
        {"id": 12, "image_id": 44, "category_id": 5, "bbox": [1, 2, 25, 30], "note": "x"},
        {"id": 13, "image_id": 44, "category_id": 5, "bbox": [1, 2, 0, 30]},
        {"id": 2, "image_id": 44, "category_id": 18, "bbox": [10, 2, 15, 22]},
    ]
    categories = [{"id": 18, "name": "dog", "supercategory": "pet"}, {"id": 5, "name": "cup"}]
    path = tmp_path / "in.json"
    given = {"info": {"year": 2026}, "images": images, "annotations": annotations}
    path.write_text(json.dumps({**given, "categories": categories}))
    return path


def test_boxes_come_out_as_masks(
    document: Path, tmp_path: Path, tiny_checkpoint: Path, model: sam_rlx.Model
) -> None:
    images = tmp_path / "photos"
    batch.run(document, tmp_path / "out", model=tiny_checkpoint, images=images, workers=1)
    before = json.loads(document.read_text())
    for polygons in (False, True):
        after = batch.to_coco(tmp_path / "out", document, images=images, polygons=polygons)
        for key in ("info", "images", "categories"):
            assert after[key] == before[key]
        io.write_json(tmp_path / "after.json", after)
        coco = COCO(tmp_path / "after.json")
        assert [entry["id"] for entry in after["annotations"]] == [12, 2, 901]
        predictor = sam_rlx.ImagePredictor(model, num_threads=1)
        names = {image["id"]: image["file_name"] for image in before["images"]}
        for entry in after["annotations"]:
            [old] = [one for one in before["annotations"] if one["id"] == entry["id"]]
            changed = {"segmentation", "area", "bbox", "score"}
            assert {k: v for k, v in entry.items() if k not in changed} == {
                k: v for k, v in old.items() if k not in changed
            }
            predictor.set_image(io.read_image(images / names[entry["image_id"]]))
            x, y, w, h = old["bbox"]
            found = predictor.predict(box=[x, y, x + w, y + h], multimask_output=False)
            np.testing.assert_array_equal(coco.annToMask(entry), found.masks[0])
            assert entry["area"] == found.masks.sum()


def test_other_inputs_become_a_document(
    document: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    folder = tmp_path / "photos"
    batch.run(folder, tmp_path / "out", model=tiny_checkpoint, boxes=[[2, 3, 30, 20]], workers=1)
    found = batch.to_coco(tmp_path / "out")
    assert [image["file_name"] for image in found["images"]] == [
        str(path) for path in sorted(folder.iterdir())
    ]
    assert [image["id"] for image in found["images"]] == [1, 2, 3]
    assert found["categories"] == [{"id": 1, "name": "object"}]
    with pytest.raises(sam_rlx.StateError, match="expected 2 masks of"):
        batch.to_coco(tmp_path / "out", document, images=folder)
    with pytest.raises(sam_rlx.StateError, match="found none in the batch"):
        batch.to_coco(tmp_path / "out", document)


def test_the_command_writes_them(
    document: Path,
    tmp_path: Path,
    tiny_checkpoint: Path,
    run_cli: Callable[..., tuple[int, str, str]],
) -> None:
    words: list[Any] = ["--images", tmp_path / "photos", "--output", tmp_path / "out"]
    words += ["--model", tiny_checkpoint, "--workers", 1, "--coco", tmp_path / "masks.json"]
    code, _, err = run_cli("batch", document, *words, "--json-polygons")
    assert code == 0, err
    found = json.loads((tmp_path / "masks.json").read_text())
    assert [entry["id"] for entry in found["annotations"]] == [12, 2, 901]
    assert all(isinstance(entry["segmentation"], list) for entry in found["annotations"])
    assert found["info"]["year"] == 2026
