"""Overlays and result files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import sam_rlx
from PIL import Image
from sam_rlx import _core, io, viz
from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.formats import coco


def _disc(height: int = 80, width: int = 120, x: float = 60, y: float = 40) -> np.ndarray:
    rows, columns = np.ogrid[:height, :width]
    return (columns - x) ** 2 + (rows - y) ** 2 < 20**2


def test_overlay_colours_the_mask_and_leaves_the_rest() -> None:
    image = np.full((80, 120, 3), 90, np.uint8)
    before = image.copy()
    drawn = viz.overlay(image, _disc())
    assert drawn.dtype == np.uint8
    assert drawn.shape == image.shape
    np.testing.assert_array_equal(image, before)
    rows, columns = np.ogrid[:80, :120]
    far = (columns - 60) ** 2 + (rows - 40) ** 2 > 26**2
    assert (drawn[far] == 90).all()
    expected = 0.5 * 90 + 0.5 * np.asarray(viz.color(0))
    assert np.abs(drawn[40, 60] - expected).max() <= 1


def test_colours_belong_to_identities() -> None:
    image = np.zeros((80, 120, 3), np.uint8)
    seventh = viz.overlay(image, [_disc()], identities=[7], opacity=1.0)[40, 60]
    np.testing.assert_array_equal(seventh, viz.color(7))
    assert len({viz.color(index) for index in range(200)}) == 200


def test_overlay_takes_no_masks_empty_masks_and_prompts_at_the_border() -> None:
    image = np.zeros((80, 120, 3), np.uint8)
    np.testing.assert_array_equal(viz.overlay(image, []), image)
    np.testing.assert_array_equal(viz.overlay(image, np.zeros((2, 80, 120), bool)), image)
    drawn = viz.overlay(
        image,
        np.ones((80, 120), bool),
        point_coords=[[0, 0], [119.5, 79.5], [500, 500]],
        point_labels=[1, 0, -1],
        boxes=[[-5, -5, 200, 200], [10, 10, 10, 10]],
    )
    assert drawn.shape == image.shape
    assert viz.overlay(image[:1, :1], np.ones((1, 1), bool)).shape == (1, 1, 3)


def _plates(drawn: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Where captions were drawn."""
    return (drawn != plain).any(axis=2)


def test_captions_stand_at_their_masks() -> None:
    image = np.full((200, 300, 3), 90, np.uint8)
    masks = [_disc(200, 300, x, y) for x, y in ((60, 60), (240, 150))]
    plain = viz.overlay(image, masks)
    drawn = viz.overlay(image, masks, captions=["a cat 0.93", ""])
    plates = _plates(drawn, plain)
    rows, columns = np.flatnonzero(plates.any(axis=1)), np.flatnonzero(plates.any(axis=0))
    # Just above the first disc, which begins in row 41, and centred on it.
    assert 20 <= rows[0] < rows[-1] <= 41
    assert columns[0] < 60 < columns[-1] < 130
    np.testing.assert_array_equal(drawn[rows[0] + 2, columns[0] + 3], viz.color(0))
    # Letters are dark on this light colour.
    inside = drawn[rows[0] + 2 : rows[-1] - 1, columns[0] + 2 : columns[-1] - 1]
    assert inside.sum(axis=2).min() < 0.4 * sum(viz.color(0))


def test_captions_keep_clear_of_each_other_and_of_the_border() -> None:
    image = np.full((200, 300, 3), 90, np.uint8)
    masks = [_disc(200, 300, 280, y) for y in (5, 10, 15)]
    first = viz.overlay(image, masks, captions=["first words", "", ""])
    both = viz.overlay(image, masks, captions=["first words", "other words", ""])
    plain = viz.overlay(image, masks)
    one = _plates(first, plain)
    assert one[:, -1].any() or one[:, -2].any()
    # The second caption changes nothing of the first.
    np.testing.assert_array_equal(both[one], first[one])
    assert _plates(both, plain).sum() > 1.5 * one.sum()


def test_captions_of_any_words(monkeypatch: pytest.MonkeyPatch) -> None:
    image = np.full((80, 120, 3), 90, np.uint8)
    masks = [_disc(), np.zeros((80, 120), bool)]
    shown = viz.overlay(image, masks, captions=["Münze", "empty"])
    np.testing.assert_array_equal(shown, viz.overlay(image, masks, captions=["Munze", ""]))
    assert viz.overlay(image, masks, captions=["狗 " * 40, ""]).shape == image.shape
    assert viz.overlay(image[:1, :1], np.ones((1, 1, 1), bool), captions=["x"]).shape == (1, 1, 3)
    with pytest.raises(sam_rlx.InvalidArgumentError, match="captions: expected 2, found 1"):
        viz.overlay(image, masks, captions=["a"])
    monkeypatch.setitem(sys.modules, "PIL.ImageDraw", None)
    with pytest.raises(sam_rlx.MissingExtraError, match="pillow"):
        viz.overlay(image, masks, captions=["a", "b"])
    assert viz.overlay(image, masks).shape == image.shape


def test_boxes_by_label() -> None:
    image = np.zeros((80, 120, 3), np.uint8)
    boxes = [[10, 10, 50, 70], [60, 10, 110, 70]]
    drawn = viz.overlay(image, [], boxes=boxes, box_labels=[1, 0])
    np.testing.assert_array_equal(drawn[40, 10], (255, 214, 10))
    np.testing.assert_array_equal(drawn[40, 60], (240, 62, 62))
    with pytest.raises(sam_rlx.InvalidArgumentError, match="box_labels: expected 2 labels of 1, 0"):
        viz.overlay(image, [], boxes=boxes, box_labels=[1])


def test_overlay_of_records_draws_small_masks_on_top() -> None:
    image = np.zeros((80, 120, 3), np.uint8)
    small, large = _disc(), np.ones((80, 120), bool)
    records = [
        sam_rlx.MaskRecord(
            {
                "counts": _core.rle_encode(mask),
                "size": mask.shape,
                "area": int(mask.sum()),
                "bbox": [0, 0, 1, 1],
                "predicted_iou": 0.9,
                "point_coords": [[1.0, 1.0]],
                "stability_score": 0.9,
                "crop_box": [0, 0, 120, 80],
            }
        )
        for mask in (small, large)
    ]
    drawn = viz.overlay_records(image, records, opacity=1.0)
    np.testing.assert_array_equal(drawn[40, 60], viz.color(0))
    np.testing.assert_array_equal(drawn[40, 100], viz.color(1))


def test_images_and_masks_survive_the_disk(tmp_path: Path, image: np.ndarray) -> None:
    io.write_image(tmp_path / "deep" / "cup.png", image)
    np.testing.assert_array_equal(io.read_image(tmp_path / "deep" / "cup.png"), image)
    io.write_image(tmp_path / "cup.jpg", image)
    assert np.abs(io.read_image(tmp_path / "cup.jpg").astype(int) - image).mean() < 4
    paths = io.write_masks(tmp_path / "masks", [_disc(), ~_disc()])
    assert [path.name for path in paths] == ["mask_000.png", "mask_001.png"]
    np.testing.assert_array_equal(np.asarray(Image.open(paths[0])) == 255, _disc())


# pycocotools 2.0.11 does not know NumPy 2's copy keyword.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_coco_documents_are_read_by_pycocotools(tmp_path: Path) -> None:
    pycocotools = pytest.importorskip("pycocotools.mask", reason="reference reader")
    masks = [_disc(), ~_disc(), np.zeros((80, 120), bool), np.ones((80, 120), bool)]
    annotations = [io.coco_annotation(mask, predicted_iou=0.5) for mask in masks]
    document = io.coco_document({"file_name": "a.png", "height": 80, "width": 120}, annotations)
    io.write_json(tmp_path / "masks.json", document)
    restored = json.loads((tmp_path / "masks.json").read_text())
    for mask, annotation in zip(masks, restored["annotations"], strict=True):
        rle = annotation["segmentation"]
        np.testing.assert_array_equal(pycocotools.decode(rle).astype(bool), mask)
        assert annotation["area"] == pycocotools.area(rle) == mask.sum()
        assert annotation["bbox"] == pycocotools.toBbox(rle).tolist()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, error: type[BaseException]
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half of the n")
            raise error

    with pytest.raises(error):
        write_half()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"


def test_without_pillow_one_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PIL", "PIL.Image", "PIL.ImageOps"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(sam_rlx.MissingExtraError, match=r'pip install "sam_rlx\[image\]"'):
        io.read_image(tmp_path / "a.png")
    with pytest.raises(sam_rlx.MissingExtraError, match=r'pip install "sam_rlx\[image\]"'):
        io.write_image(tmp_path / "a.png", np.zeros((2, 2, 3), np.uint8))


def test_numbers_of_a_document_fit_each_other() -> None:
    """Given numbers stay, others are free ones; what cannot fit is refused."""
    mask = np.zeros((8, 9), bool)
    mask[2:5, 3:6] = True
    image = {"id": 31, "file_name": "a.png", "height": 8, "width": 9}
    entries = [io.coco_annotation(mask, **ids) for ids in ({"id": 1, "category_id": 7}, {}, {})]
    found = io.coco_document(image, entries, [{"id": 7, "name": "leaf"}, "stem", "bud"])
    assert [each["id"] for each in found["categories"]] == [7, 1, 2]
    assert [each["id"] for each in found["annotations"]] == [1, 2, 3]
    assert {each["image_id"] for each in found["annotations"]} == {31}
    assert {each["category_id"] for each in found["annotations"]} == {7}
    for ids, names, words in (
        ({"image_id": 2}, ["leaf"], r"annotations\[0\].image_id: expected 31"),
        ({"category_id": 3}, ["leaf"], r"annotations\[0\].category_id: expected one of \[1\]"),
        ({}, [{"id": 1}], r"categories\[0\]: expected a name"),
        ({}, [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], "categories: expected ids that"),
        ({"id": [1]}, ["leaf"], "annotations.id: expected a number"),
    ):
        with pytest.raises(sam_rlx.InvalidArgumentError, match=words):
            io.coco_document(image, [io.coco_annotation(mask, **ids)], names)
    twice = [io.coco_annotation(mask, id=4)] * 2
    with pytest.raises(sam_rlx.InvalidArgumentError, match="annotations: expected ids that differ"):
        io.coco_document(image, twice)


def test_documents_are_joined_by_names_of_categories() -> None:
    mask = np.ones((3, 3), bool)
    image = {"file_name": "a.png", "height": 3, "width": 3}
    pairs = ((["cat"], 1), (["dog", "cat"], 2), (["dog"], 1))
    documents = [
        io.coco_document(image, [io.coco_annotation(mask, category_id=number)], names)
        for names, number in pairs
    ]
    found = coco.joined(documents)
    names = {each["id"]: each["name"] for each in found["categories"]}
    assert [names[each["category_id"]] for each in found["annotations"]] == ["cat", "cat", "dog"]
    assert [each["id"] for each in found["annotations"]] == [1, 2, 3]
    assert [each["image_id"] for each in found["annotations"]] == [1, 2, 3]
