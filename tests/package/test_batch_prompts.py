"""What rows of tables and entries of documents ask a batch for."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from sam_rlx import errors
from sam_rlx.apps.batch import sources
from sam_rlx.apps.batch.items import Item, Prompt

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

BOX = (5.0, 6.0, 30.0, 31.0)


def _plan(folder: Path, **columns: Any) -> sources.Plan:
    """Write a table of images with these columns, and plan it."""
    rows = len(next(iter(columns.values()), [0]))
    given = {} if "path" in columns or "bytes" in columns else {"path": ["a.png"] * rows}
    pq.write_table(pa.table({**given, **columns}), folder / "t.parquet")
    return sources.expand([str(folder / "t.parquet")])


def _items(folder: Path, **columns: Any) -> list[Item]:
    return _plan(folder, **columns).items


@pytest.mark.parametrize(
    "columns",
    [
        {"boxes": [[list(BOX)]]},
        {"boxes": [list(BOX)]},
        {"box": [list(BOX)]},
        dict(zip(("x0", "y0", "x1", "y1"), ([side] for side in BOX), strict=True)),
        dict(zip(("x1", "y1", "x2", "y2"), ([int(side)] for side in BOX), strict=True)),
        dict(zip(("xmin", "ymin", "xmax", "ymax"), ([side] for side in BOX), strict=True)),
    ],
)
def test_a_box_of_a_row(tmp_path: Path, columns: dict[str, Any]) -> None:
    (item,) = _items(tmp_path, **columns)
    assert item.prompts == (Prompt("0", box=BOX),)


def test_objects_of_a_row_are_those_of_other_surfaces(tmp_path: Path) -> None:
    """A point and a box are one object; several boxes are several; labels may be floats."""
    point = {"points": [[[7.0, 8.0]]], "labels": [[1.0]], "boxes": [[list(BOX)]]}
    (item,) = _items(tmp_path, **point)
    assert item.prompts == (Prompt("0", ((7.0, 8.0),), (1,), BOX),)
    (item,) = _items(tmp_path, boxes=[[list(BOX), [1.0, 2.0, 3.0, 4.0]]])
    assert item.prompts == (Prompt("0", box=BOX), Prompt("1", box=(1.0, 2.0, 3.0, 4.0)))
    (item,) = _items(tmp_path, points=[[[7, 8], [9, 9]]], labels=[[True, False]])
    assert item.prompts == (Prompt("0", ((7.0, 8.0), (9.0, 9.0)), (1, 0)),)
    point["boxes"] = [[list(BOX)] * 2]
    (item,) = _items(tmp_path, **point)
    assert "expected several alone, or one beside points" in str(item.error)


def test_texts_of_a_row(tmp_path: Path) -> None:
    texts = [item.texts for item in _items(tmp_path, texts=[["cup", "dog"], [], None])]
    assert texts == [("cup", "dog"), (), None]
    assert _items(tmp_path, text=["cup"])[0].texts == ("cup",)


def test_an_empty_list_is_an_answer_and_null_is_none(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.float64()))
    plan = _plan(tmp_path, boxes=pa.array([[], None, [list(BOX)]], kind))
    assert [item.prompts for item in plan.items] == [(), None, (Prompt("0", box=BOX),)]
    assert plan.has_prompts


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"bbox": [list(BOX)]}, "bbox"),
        ({"Bounding_Boxes": [[list(BOX)]]}, "Bounding_Boxes"),
        ({"boxes": [[list(BOX)]], "gt_boxes": [[list(BOX)]]}, "gt_boxes"),
        ({"boxes": [[list(BOX)]], "box": [list(BOX)]}, "both boxes and box"),
        ({"prompt": ["cup"]}, "prompt"),
        ({"click": [[1.0, 2.0]]}, "click"),
        ({"objects": [[{"bbox": list(BOX), "category": 3}]]}, "objects.bbox"),
        ({"x": [1], "y": [2], "width": [3], "height": [4]}, "height, width, x, y"),
        ({"box": [list(BOX)], "x0": [1], "y0": [1], "x1": [2], "y1": [2]}, "both box and x0"),
    ],
)
def test_a_column_that_looks_like_a_prompt_is_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], found: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"found {found}"):
        _items(tmp_path, **columns)


@pytest.mark.parametrize(
    "columns",
    [
        {"labels": [["cat", "dog"]]},
        {"labels": [3], "box_count": [2], "boxes_checked": [True]},
        {"boxes": [7]},  # a number of them
        {"x": [1.0], "y": [2.0], "width": [640]},
        {"caption": ["a cup"], "split": ["train"], "metadata": [{"source": "web"}]},
    ],
)
def test_other_columns_refuse_no_table_and_are_told(
    tmp_path: Path, columns: dict[str, Any]
) -> None:
    plan = _plan(tmp_path, **columns)
    assert (plan.items[0].prompts, plan.items[0].texts, plan.has_prompts) == (None, None, False)
    (note,) = plan.notes
    assert note.endswith(f"columns that are not read: {', '.join(columns)}")


def test_one_wrong_row_is_its_error_alone(tmp_path: Path) -> None:
    kind = pa.list_(pa.list_(pa.float64()))
    boxes = pa.array([[[1.0, 2.0]], [list(BOX)], [[1.0, 2.0, float("nan"), 4.0]]], kind)
    first, second, third = _items(tmp_path, boxes=boxes)
    assert first.error.startswith(f"{tmp_path / 't.parquet'}: row 0 of group 0: boxes: expected")
    assert (second.error, len(second.prompts)) == (None, 1)
    assert "found NaN" in third.error


def test_images_of_a_table(tmp_path: Path) -> None:
    """Bytes win over the path that they came from, which names them; categories are texts."""
    paths = pa.array(["in/one.png", "two.png"]).dictionary_encode()
    given = _items(tmp_path, path=paths)
    assert [Path(item.path).name for item in given] == ["one.png", "two.png"]
    items = _items(tmp_path, bytes=[b"x", b"y"], file_name=["in/one.png", "two.png"])
    assert [item.row for item in items] == [(0, 0, "bytes"), (0, 1, "bytes")]
    assert [item.name for item in items] == ["in/one.png", "two.png"]


def test_names_that_a_table_gives_stay(tmp_path: Path) -> None:
    """Also those with dots, slashes and capitals; masks of names that differ in capitals alone."""
    names = ["1.2", "1.2.3", "7.5 mm", "a/b", "Tip", "tip", "tip"]
    items = _items(tmp_path, name=names)
    assert [item.name for item in items] == [*names[:-1], "tip-2"]
    folders = [(item.folder or item.name).casefold() for item in items]
    assert len(set(folders)) == len(folders)
    assert [item.name for item in _items(tmp_path, id=[1.0, 2.5])] == ["1.0", "2.5"]


def test_names_in_documents_are_found_in_any_unicode_form(tmp_path: Path) -> None:
    name = unicodedata.normalize("NFC", "überé")
    (tmp_path / name).mkdir()
    (tmp_path / name / "ä.png").write_bytes(b"")
    given = unicodedata.normalize("NFD", f"{name}\\ä.png")
    document = {"images": [{"id": 1, "file_name": given}]}
    (tmp_path / "d.json").write_text(json.dumps(document))
    assert Path(sources.expand([str(tmp_path / "d.json")]).items[0].path).is_file()
    assert Path(_items(tmp_path, path=[given])[0].path).is_file()


def _document(folder: Path, *annotations: dict[str, Any]) -> sources.Plan:
    images = [{"id": number, "file_name": f"{number}.png"} for number in (1, 2)]
    document = {"images": images, "annotations": list(annotations)}
    (folder / "d.json").write_text(json.dumps(document))
    return sources.expand([str(folder / "d.json")])


def test_entries_of_a_document(tmp_path: Path) -> None:
    """One without a bbox is an error of its image; one of width 0 is told; none is an answer."""
    polygon = {"id": 7, "image_id": 1, "segmentation": [[5, 5, 25, 5, 25, 25]]}
    plan = _document(tmp_path, polygon, {"id": 8, "image_id": 2, "bbox": [1, 2, 3, 4]})
    assert "found None in annotation 7" in plan.items[0].error
    assert plan.items[1].prompts == (Prompt("8", box=(1.0, 2.0, 4.0, 6.0)),)
    plan = _document(tmp_path, {"id": 8, "image_id": 2, "bbox": [1, 2, 0, 4]})
    assert plan.notes == [
        f"{tmp_path / 'd.json'}: 1 with a box of width or height 0 left out: annotation 8"
    ]
    plan = _document(tmp_path)
    assert ([item.prompts for item in plan.items], plan.has_prompts) == ([(), ()], True)
