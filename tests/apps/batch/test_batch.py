"""Batches: the rows are those of single calls, whatever reads the images and shares them out."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sam_rlx
from sam_rlx import _core, batch, errors, io
from sam_rlx.apps.batch import sources
from support import batches
from support.systems import posix_only

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

LOOSE = {"points_per_side": 3, "pred_iou_thresh": 0.0, "stability_score_thresh": 0.0}
POINTS = {"left eye": (20, 30), "tip": (41, 17), "ear/..": (5, 5)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven images, one of them below, and a file that is not an image."""
    folder = tmp_path_factory.mktemp("photos")
    batches.write_images(folder, 5)
    batches.write_images(folder / "below", 2)
    (folder / "broken.jpg").write_bytes(b"no image")
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.png").write_bytes(b"")
    return folder


def _mask(row: dict[str, Any], entry: dict[str, Any]) -> np.ndarray:
    counts = _core.rle_from_string(entry["counts"].encode())
    return _core.rle_decode(counts, (row["height"], row["width"]))


def _views(folder: Path, **changes: Any) -> Path:
    """Write a list of views with named points."""
    views = []
    for path in sorted(folder.glob("image-*.png"))[:2]:
        height, width = io.read_image(path).shape[:2]
        points = [{"bone": bone, "x": x, "y": y} for bone, (x, y) in POINTS.items()]
        view = {"view": path.stem, "width": width, "height": height, "points": points}
        views.append({**view, **changes})
    document = folder / "views.json"
    document.write_text(json.dumps(views))
    return document


def test_everything_equals_single_calls_for_any_workers(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, model: sam_rlx.Model
) -> None:
    given = {"model": tiny_checkpoint, "options": LOOSE, "block": 3}
    results = [
        batch.run(folder, tmp_path / name, workers=workers, num_threads=threads, **given)
        for name, workers, threads in (("one", 1, 2), ("three", 3, 1))
    ]
    assert batches.digests(tmp_path / "one") == batches.digests(tmp_path / "three")
    for result in results:
        assert (result.items, result.done_before, len(result.parts)) == (8, 0, 3)
        assert [failure.item for failure in result.failures] == ["broken"]
        assert "expected an image, found" in result.failures[0].error
    rows = batches.rows(tmp_path / "one")
    assert [row["index"] for row in rows] == list(range(8))
    assert len({row["item"] for row in rows}) == 8
    generator = sam_rlx.MaskGenerator(model, **LOOSE, num_threads=1)
    for row in rows:
        if row["error"] is not None:
            assert row["masks"] == []
            assert row["height"] is None
            continue
        records = generator.generate(io.read_image(row["path"]))
        assert [entry["counts"] for entry in row["masks"]] == [
            record.to_coco()["segmentation"]["counts"] for record in records
        ]
        for entry, record in zip(row["masks"], records, strict=True):
            np.testing.assert_array_equal(_mask(row, entry), record.mask())
            assert entry["score"] == record.predicted_iou
    assert sum(len(row["masks"]) for row in rows) > 7


def test_images_in_tiles_equal_single_calls(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, model: sam_rlx.Model, clip: Path
) -> None:
    images = sorted(folder.glob("image-*.png"))[:2]
    tiles = {"tile": 40, "overlap": 10}
    given: dict[str, Any] = {"model": tiny_checkpoint, "workers": 1, **tiles}
    batch.run(images, tmp_path / "all", options=LOOSE, **given)
    generator = sam_rlx.MaskGenerator(model, **LOOSE, num_threads=1)
    for row in batches.rows(tmp_path / "all"):
        records = generator.generate(io.read_image(row["path"]), **tiles)
        assert len(records) > 1
        assert [entry["counts"] for entry in row["masks"]] == [
            record.to_coco()["segmentation"]["counts"] for record in records
        ]
    boxes = [[5, 5, 30, 20], [8, 6, 25, 31]]
    batch.run(images, tmp_path / "boxes", boxes=boxes, **given)
    predictor = sam_rlx.ImagePredictor(model, num_threads=1)
    for row in batches.rows(tmp_path / "boxes"):
        image = io.read_image(row["path"])
        found = predictor.predict(box=boxes, multimask_output=False, image=image, **tiles)
        for entry, mask, score in zip(
            row["masks"], found.masks, found.iou_predictions, strict=True
        ):
            np.testing.assert_array_equal(_mask(row, entry), mask[0])
            assert entry["score"] == score[0]
    with pytest.raises(errors.StateError, match="same tile"):
        batch.run(images, tmp_path / "boxes", boxes=boxes, **{**given, "tile": 64})
    with pytest.raises(errors.InvalidArgumentError, match="tile: expected images alone, found the"):
        batch.run([*images, clip], tmp_path / "clip", boxes=boxes, **given)
    with pytest.raises(errors.InvalidArgumentError, match="overlap: expected an int from 0 to 20"):
        batch.run(images, tmp_path / "other", boxes=boxes, **{**given, "overlap": 21})


def test_texts_in_tiles_equal_single_calls(folder: Path, tmp_path: Path) -> None:
    image = sorted(folder.glob("image-*.png"))[0]
    given: dict[str, Any] = {"tile": 64, "text": ["circle", "square"], "threshold": 0.01}
    batch.run(image, tmp_path / "out", workers=1, **given)
    [row] = batches.rows(tmp_path / "out")
    predictor = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano"))
    found = predictor.predict(io.read_image(image), **given)
    assert [entry["object"] for entry in row["masks"]] == list(found.names)
    for entry, mask, score in zip(row["masks"], found.masks, found.scores, strict=True):
        np.testing.assert_array_equal(_mask(row, entry), mask)
        assert entry["score"] == score


def test_a_batch_of_before_there_were_tiles_goes_on(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """Its manifest does not say that there are none."""
    image, out = sorted(folder.glob("image-*.png"))[0], tmp_path / "out"
    given: dict[str, Any] = {"model": tiny_checkpoint, "boxes": [[5, 5, 40, 40]], "workers": 1}
    batch.run(image, out, **given)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest.pop("tile") is manifest.pop("overlap") is None
    (out / "manifest.json").write_text(json.dumps(manifest))
    assert batch.run(image, out, **given).done_before == 1


def test_the_result_of_a_row(folder: Path, tmp_path: Path, tiny_checkpoint: Path) -> None:
    image = sorted(folder.glob("image-*.png"))[0]
    boxes = [[5, 5, 30, 20], [8, 6, 25, 31]]
    batch.run(image, tmp_path / "out", model=tiny_checkpoint, workers=1, boxes=boxes)
    [row] = batch.read(tmp_path / "out")
    found = batch.result(row)
    assert len(found) == len(row["masks"]) == 2
    assert found.size == (row["height"], row["width"])
    document = found.to_coco(row["path"])
    names = {entry["id"]: entry["name"] for entry in document["categories"]}
    for entry, given in zip(document["annotations"], row["masks"], strict=True):
        assert entry["segmentation"]["counts"] == given["counts"]
        assert (entry["area"], entry["bbox"]) == (given["area"], given["bbox"])
        assert entry["score"] == given["score"]
        assert names[entry["category_id"]] == given["object"]
    np.testing.assert_array_equal(found.label_image() > 0, _mask(row, row["masks"][0])
                                  | _mask(row, row["masks"][1]))  # fmt: skip
    assert len(batch.result(row, frame=1)) == 0
    assert batch.result({**row, "masks": []}).label_image().shape == found.size
    failed = {**row, "height": None, "masks": [], "error": "expected an image"}
    for wrong in (failed, 3, None):
        with pytest.raises(errors.InvalidArgumentError, match="row: expected one of read"):
            batch.result(wrong)
    with pytest.raises(errors.InvalidArgumentError, match="frame: expected"):
        batch.result(row, frame=-1)


def test_a_second_run_does_nothing_and_another_job_is_refused(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, sam2_checkpoint: Path
) -> None:
    images = sorted(folder.glob("image-*.png"))[:2]
    out = tmp_path / "out"
    given: dict[str, Any] = {"model": tiny_checkpoint, "boxes": [[5, 5, 40, 40]], "workers": 1}
    batch.run(images, out, **given)
    before = {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    again = batch.run(images, out, **given)
    assert again.done_before == 2
    assert before == {path: path.stat().st_mtime_ns for path in (out / "parts").iterdir()}
    for changes, words in (
        ({"boxes": [[5, 5, 40, 41]]}, "same inputs or prompts"),
        ({"model": sam2_checkpoint}, "same checkpoint"),
        ({"block": 2}, "same images in a block"),
        ({"masks": True}, "same masks"),
        ({"precision": "int8"}, "same load"),
        ({"image_size": 128}, "same load"),
    ):
        with pytest.raises(errors.StateError, match=words):
            batch.run(images, out, **{**given, **changes})
    with pytest.raises(errors.StateError, match=r"same (items|inputs)"):
        batch.run(images[:1], out, **given)
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("")
    with pytest.raises(errors.InvalidArgumentError, match=r"found thesis\.tex in it"):
        batch.run(images, foreign, **given)
    assert [path.name for path in foreign.iterdir()] == ["thesis.tex"]


def test_named_points_on_views(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, model: sam_rlx.Model
) -> None:
    """One PNG for each point, in a folder for each view: the best of three masks."""
    document = _views(folder)
    result = batch.run(document, tmp_path / "out", model=tiny_checkpoint, workers=1)
    assert not result.failures
    predictor = sam_rlx.ImagePredictor(model)
    files = sorted(path.name for path in (tmp_path / "out" / "masks").iterdir())
    assert files == ["image-0000", "image-0001"]
    for row in batches.rows(tmp_path / "out"):
        predictor.set_image(io.read_image(row["path"]))
        written = tmp_path / "out" / "masks" / row["item"]
        assert len(list(written.iterdir())) == len(POINTS)
        for entry, (bone, point) in zip(row["masks"], POINTS.items(), strict=True):
            single = predictor.predict(point_coords=[point], point_labels=[1])
            best = single.masks[single.best().index]
            assert entry["object"] == bone
            np.testing.assert_array_equal(_mask(row, entry), best)
            name = bone.replace(" ", "%20").replace("/", "%2F").replace("..", "%2E%2E")
            np.testing.assert_array_equal(io.read_mask(written / f"{name}.png"), best)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_pycocotools_reads_the_rows(folder: Path, tmp_path: Path, tiny_checkpoint: Path) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    batch.run(_views(folder), tmp_path / "out", model=tiny_checkpoint, workers=1)
    for row in batches.rows(tmp_path / "out"):
        for entry in row["masks"]:
            code = {"size": [row["height"], row["width"]], "counts": entry["counts"]}
            np.testing.assert_array_equal(coco.decode(code) == 1, _mask(row, entry))
            assert coco.toBbox(code).tolist() == entry["bbox"]
            assert coco.area(code) == entry["area"]


def test_a_view_of_another_size_is_an_error(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    document = _views(folder, width=999)
    result = batch.run(document, tmp_path / "out", model=tiny_checkpoint, workers=1)
    assert len(result.failures) == 2
    assert "expected 999 x" in result.failures[0].error
    assert not (tmp_path / "out" / "masks").exists()


def test_tables_and_documents_give_what_files_give(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """Paths and bytes in Parquet, and COCO boxes: the masks of the files with the same boxes."""
    images = sorted(folder.glob("image-*.png"))[:3]
    boxes = [[[4.0, 5.0, 40.0, 44.0]], [[1.0, 2.0, 30.0, 30.0], [9.0, 9.0, 50.0, 40.0]], []]
    contents = [path.read_bytes() for path in images]
    named = pa.array([{"bytes": data, "path": "x"} for data in contents])
    tables = {
        "paths": pa.table({"path": [path.name for path in images], "boxes": boxes}),
        "bytes": pa.table({"bytes": contents, "boxes": boxes, "id": [7, 8, 9]}),
        "image": pa.table({"image": named, "boxes": boxes}),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=2)
    document: dict[str, Any] = {"images": [], "annotations": []}
    for number, (path, some) in enumerate(zip(images, boxes, strict=True)):
        height, width = io.read_image(path).shape[:2]
        entry = {"id": number, "file_name": path.name, "height": height, "width": width}
        document["images"].append(entry)
        for x0, y0, x1, y1 in some:
            fields = {"image_id": number, "bbox": [x0, y0, x1 - x0, y1 - y0]}
            document["annotations"].append({"id": len(document["annotations"]), **fields})
    (folder / "coco.json").write_text(json.dumps(document))
    found = {}
    for source in (*(f"{name}.parquet" for name in tables), "coco.json"):
        out = tmp_path / source
        result = batch.run(folder / source, out, model=tiny_checkpoint, workers=1, block=3)
        assert not result.failures, source
        rows = batches.rows(out)
        found[source] = [[entry["counts"] for entry in row["masks"]] for row in rows]
        for file in [folder / source] if source != "coco.json" else []:
            file.unlink()
    assert [len(masks) for masks in found["coco.json"]] == [1, 2, 0]
    assert all(masks == found["coco.json"] for masks in found.values())
    assert [row["item"] for row in batches.rows(tmp_path / "bytes.parquet")] == ["7", "8", "9"]
    (folder / "coco.json").unlink()


def test_texts_find_what_they_name(tmp_path: Path, folder: Path) -> None:
    image = sorted(folder.glob("image-*.png"))[0]
    batch.run(image, tmp_path / "out", text=["coin", "cup"], threshold=0.01, workers=1)
    found = sam_rlx.ConceptPredictor(sam_rlx.load_model("sam3-nano")).predict(
        io.read_image(image), text=["coin", "cup"], threshold=0.01
    )
    (row,) = batches.rows(tmp_path / "out")
    assert [entry["object"] for entry in row["masks"]] == [
        ("coin", "cup")[label] for label in found.labels
    ]
    for entry, mask, score in zip(row["masks"], found.masks, found.scores, strict=True):
        np.testing.assert_array_equal(_mask(row, entry), mask)
        assert entry["score"] == float(score)


def test_what_the_command_prints_and_returns(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, run_cli: Callable[..., Any]
) -> None:
    words = ("batch", "--model", tiny_checkpoint, "--workers", 1, "--threads", 1)
    image, out = sorted(folder.glob("image-*.png"))[0], tmp_path / "out"
    given = (image, folder / "broken.jpg", "--box", "5,5,40,40", "--output", out)
    code, printed, told = run_cli(*words, *given, "--json", "-")
    assert code == 1
    summary = json.loads(printed)
    assert (summary["items"], summary["done_before"]) == (2, 0)
    assert [failure["item"] for failure in summary["failures"]] == ["broken"]
    assert told.startswith(
        "2 images, boxes, sam_tiny.safetensors; first prompt: image-0000: 0: box"
    )
    assert "1 of 2 images done" in told
    code, printed, _ = run_cli(*words, image, "--box", "5,5,40,40", "--output", tmp_path / "good")
    assert code == 0
    assert printed.startswith("1 of 1 image done")
    for wrong in (
        ("--output", out),
        (image,),
        (image, "--output", out, "--text", "cup", "--point", "1,1"),
        (image, "--output", out, "--threshold", "2"),
        (image, "--output", folder),
        (image, "--output", tmp_path / "x", "--point", "1,1", "--points-per-side", 4),
    ):
        assert run_cli(*words, *wrong)[0] == 2, wrong
    code, _, told = run_cli(*words, image, "--box", "5,5,40,41", "--output", tmp_path / "good")
    assert code == 1
    assert "expected the same inputs or prompts" in told
    assert run_cli(*words, tmp_path / "absent.json", "--output", tmp_path / "x")[0] == 1


def _coco(annotations: list[dict[str, Any]], ids: tuple[int, ...] = (1, 2)) -> str:
    """Return a COCO document of two images."""
    first = {"id": 5, "image_id": 1, "bbox": [3, 4, 5, 6]}
    images = [{"id": number, "file_name": f"{number}.png"} for number in ids]
    return json.dumps({"images": images, "annotations": [first | each for each in annotations]})


def _view(**fields: Any) -> str:
    """Return a list of one view with one point."""
    point = {"bone": "tip", "x": 1, "y": 2, **fields}
    return json.dumps([{"view": "a", "width": 9, "height": 9, "points": [point]}])


def test_words_become_items(folder: Path, tmp_path: Path) -> None:
    names = [Path(item.path).name for item in sources.expand([str(folder)]).items]
    assert names == ["broken.jpg", *(f"image-{n:04d}.png" for n in range(5)), *names[-2:]]
    (tmp_path / "list.txt").write_text(f"{folder}/image-000[12].png\n{folder}/image-0001.png\n")
    listed = sources.expand([f"@{tmp_path / 'list.txt'}"])
    assert [item.name for item in listed.items] == ["image-0001", "image-0002"]
    for text, words in (
        ("{}", "found dict"),
        ("[1]", "found"),
        ("[{}]", "no 'view'"),
        ("[", "expected JSON"),
        ('{"images": [{}]}', "no 'file_name'"),
        (_coco([{"image_id": 9}]), "0 images with the id 9 of annotation 5"),
        (_coco([{}], ids=(1, 1)), "2 images with the id 1 of annotation 5"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(errors.InvalidArgumentError, match=words):
            sources.expand([str(tmp_path / "bad.json")])
    for name in ("table.csv", "lines.jsonl", "list.txt"):
        (tmp_path / name).touch()
        with pytest.raises(errors.InvalidArgumentError, match="expected an image, a clip"):
            sources.expand([str(tmp_path / name)])
    (tmp_path / "bad.parquet").write_text("no table")
    with pytest.raises(errors.InvalidArgumentError, match="expected a Parquet file"):
        sources.expand([str(tmp_path / "bad.parquet")])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_coco([{"bbox": [1, 2, math.nan, 3]}]), r"found [1, 2, nan, 3] in annotation 5"),
        (_coco([{"bbox": None}]), "found None in annotation 5"),
        (_coco([{}, {"bbox": None, "image_id": 2}]), "found None in annotation 5"),
        (_view(label=0.5), "0.5 for a whole number"),
        (_view(frame="3"), "'3' for a number"),
        ('[{"view": "a", "width": 1, "height": 0, "points": []}]', "a size of 1 x 0"),
    ],
)
def test_an_entry_that_is_wrong_is_an_error_of_its_image(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "document.json").write_text(text)
    wrong = [item.error for item in sources.expand([str(tmp_path / "document.json")]).items]
    assert [error for error in wrong if error and words in error], wrong
    assert len([error for error in wrong if error]) == 1


def test_inputs_that_are_about_prompts_never_ask_for_everything(
    tmp_path: Path, tiny_checkpoint: Path
) -> None:
    """A part of a table, or a document, in which no image has a box: masks of nothing."""
    batches.write_images(tmp_path, 1)
    (tmp_path / "coco.json").write_text(
        _coco([{"bbox": [1, 2, 0, 0]}]).replace("1.png", "image-0000.png")
    )
    boxes = pa.array([[], None], pa.list_(pa.list_(pa.float64())))
    table = pa.table({"path": ["image-0000.png"] * 2, "boxes": boxes, "name": ["a", "a"]})
    pq.write_table(table, tmp_path / "table.parquet")
    for source, items in (("coco.json", ["image-0000", "2"]), ("table.parquet", ["a", "a-2"])):
        out = tmp_path / f"out-{source}"
        batch.run(tmp_path / source, out, model=tiny_checkpoint, workers=1)
        rows = batches.rows(out)
        # A name that a table gives twice has nothing of this process's folder.
        assert [row["item"] for row in rows] == items
        assert [row["masks"] for row in rows] == [[], []]


@posix_only
def test_odd_files_of_a_folder(tmp_path: Path, tiny_checkpoint: Path) -> None:
    """Each has a row of its own, whatever its name is; what is no file is an error, and no wait."""
    folder, odd = tmp_path / "photos", ["l\nf.png", "ünï 图.png", os.fsdecode(b"\xe9.png")]
    for path, name in zip(batches.write_images(folder, 3), odd, strict=True):
        path.rename(folder / name)
    (folder / "dir.png").mkdir()
    (folder / "gone.png").symlink_to("nowhere.png")
    (folder / "loop.png").symlink_to("loop.png")
    os.mkfifo(folder / "pipe.png")
    out = tmp_path / "out"
    given = {"model": tiny_checkpoint, "boxes": [[1, 1, 30, 30]], "masks": True}
    result = batch.run(folder, out, workers=1, **given)
    found = {row["item"]: row["error"] for row in batches.rows(out)}
    assert sorted(found) == sorted(["gone", "loop", "pipe", "l\nf", "ünï 图", r"\udce9"])
    assert [name for name, error in found.items() if error] == ["gone", "loop", "pipe"]
    assert {failure.item for failure in result.failures} == {"gone", "loop", "pipe"}
    assert found["pipe"] == f"{folder / 'pipe.png'}: expected a file, found something else"
    assert len(list((out / "masks").rglob("*.png"))) == 3


def test_an_error_names_its_image(tmp_path: Path, tiny_checkpoint: Path) -> None:
    """Also where prompts or bytes are wrong, which know no file."""
    image = batches.write_images(tmp_path, 1)[0]
    pq.write_table(pa.table({"bytes": [b"junk"], "name": ["one"]}), tmp_path / "t.parquet")
    given = {"model": tiny_checkpoint, "boxes": [[500, 500, 530, 530]], "workers": 1}
    result = batch.run([image, tmp_path / "t.parquet"], tmp_path / "out", **given)
    first, second = (failure.error for failure in result.failures)
    assert first.startswith(f"{image}: 0: expected a part of ")
    assert second.startswith(f"{tmp_path / 't.parquet'}: one: ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "spark"}, "engine: expected one of"),
        ({"options": {"points": 3}}, "options: expected arguments of MaskGenerator"),
        ({"workers": 0}, "workers: expected an int >= 1"),
        ({"block": 0}, "block: expected an int >= 1"),
        ({"threshold": 2.0}, "threshold: expected a number"),
        ({"point_labels": [1]}, "point_coords: expected an array"),
        ({"options": {"points_per_side": 0}}, "points_per_side: expected"),
    ],
)
def test_wrong_arguments(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        batch.run(folder, tmp_path / "out", **{"model": tiny_checkpoint, **changes})


def test_a_model_that_cannot_is_an_error(
    folder: Path, tmp_path: Path, tiny_checkpoint: Path
) -> None:
    with pytest.raises(errors.UnsupportedError, match="expected a model of SAM 3"):
        batch.run(folder, tmp_path / "out", model=tiny_checkpoint, text="cup", workers=1)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(errors.MissingExtraError, match="expected the package pyarrow"):
        batch.run("photos", tmp_path / "out")
