"""Tables that other programs write: one door by Arrow type, and what it refuses.

The right values are what the program that wrote the file says of it.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sam_rlx import batch, errors, io
from sam_rlx.apps.batch import sources
from sam_rlx.apps.batch.items import Item, Prompt
from sam_rlx.apps.batch.parquet import read_bytes

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

BOX = (5.0, 6.0, 30.5, 31.0)
POINT = (7.0, 8.5)


def plan(path: Path) -> sources.Plan:
    return sources.expand([str(path)])


def items(folder: Path, **columns: Any) -> list[Item]:
    rows = len(next(iter(columns.values())))
    given = {} if {"path", "image", "bytes"} & columns.keys() else {"path": ["a.png"] * rows}
    pq.write_table(pa.table({**given, **columns}), folder / "t.parquet")
    return plan(folder / "t.parquet").items


def png(folder: Path, name: str = "a.png") -> bytes:
    path = folder / name
    io.write_image(path, np.full((8, 9, 3), 77, np.uint8))
    return path.read_bytes()


def as_json(value: Any) -> Any:
    if not hasattr(pa, "json_"):
        pytest.skip("this pyarrow has no type for JSON")
    return pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array([json.dumps(value)]))


# ------------------------------------------------------------------ values by type

NESTED = [[list(POINT)]]
POINTS = {
    "list": lambda: pa.array(NESTED),
    "large_list": lambda: pa.array(NESTED, pa.large_list(pa.large_list(pa.float64()))),
    "list_view": lambda: pa.array(NESTED, pa.list_(pa.list_(pa.float32()))),
    "fixed_size_list": lambda: pa.array(NESTED, pa.list_(pa.list_(pa.float64(), 2))),
    "half": lambda: pa.array([[[np.float16(v) for v in POINT]]], pa.list_(pa.list_(pa.float16()))),
    "decimal": lambda: pa.array(NESTED).cast(pa.list_(pa.list_(pa.decimal128(5, 1)))),
    "json": lambda: as_json(NESTED[0]),
    "json of structs": lambda: as_json([{"y": POINT[1], "x": POINT[0]}]),
    "struct x, y": lambda: pa.array([[{"x": POINT[0], "y": POINT[1]}]]),
    "struct Y, X": lambda: pa.array([[{"Y": POINT[1], "X": POINT[0]}]]),
    "one struct": lambda: pa.array([{"x": POINT[0], "y": POINT[1]}]),
    "struct 1, 2": lambda: pa.array([[{"1": POINT[0], "2": POINT[1]}]]),
    "struct _1, _2": lambda: pa.array([[{"_1": POINT[0], "_2": POINT[1]}]]),
    "struct f0, f1": lambda: pa.array([[{"f0": POINT[0], "f1": POINT[1]}]]),
    "struct element1, element2": lambda: pa.array([[{"element1": POINT[0], "element2": POINT[1]}]]),
}


@pytest.mark.parametrize("kind", POINTS)
def test_points_of_any_type_are_the_same_point(tmp_path: Path, kind: str) -> None:
    (item,) = items(tmp_path, points=POINTS[kind]())
    assert (item.error, item.prompts) == (None, (Prompt("0", (POINT,), (1,)),))


@pytest.mark.parametrize(
    "value",
    [
        dict(zip(("x0", "y0", "x1", "y1"), BOX, strict=True)),
        dict(zip(("ymax", "xmax", "ymin", "xmin"), (*BOX[:1:-1], *BOX[1::-1]), strict=True)),
        dict(zip("1234", BOX, strict=True)),
        dict(zip(("field_0", "field_1", "field_2", "field_3"), BOX, strict=True)),
    ],
)
def test_boxes_in_structs(tmp_path: Path, value: dict[str, float]) -> None:
    for boxes in (pa.array([[value]]), as_json([value])):
        (item,) = items(tmp_path, boxes=boxes)
        assert (item.error, item.prompts) == (None, (Prompt("0", box=BOX),))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"points": [[{"lat": 1.0, "lon": 2.0}]]}, r"x and y, found a struct of \['lat', 'lon'\]"),
        ({"points": [[{"x0": 1.0, "x1": 2.0}]]}, "found a struct of"),
        ({"points": [[{"2": 1.0, "3": 2.0}]]}, "found a struct of"),
        ({"points": [{"x": [1.0, 9.0], "y": [2.0, 8.0]}]}, "expected numbers in a struct"),
        ({"boxes": [[{"x": 1.0, "y": 2.0, "width": 3.0, "height": 4.0}]]}, "found a struct of"),
        ({"points": pa.array([[(1, 2.0), (3, 4.0)]], pa.map_(pa.int8(), pa.float64()))}, "map<"),
        ({"text": [{"en": "cup"}]}, "text: expected texts, found struct"),
        ({"text": pa.array([[1, 2]])}, r"text: expected texts, found list<.*int64"),
    ],
)
def test_types_that_are_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], words: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        items(tmp_path, **columns)


TEXTS = {
    "large_string": lambda: pa.array(["cup"], pa.large_string()),
    "string_view": lambda: pa.array(["cup"], pa.string_view()),
    "binary": lambda: pa.array([b"cup"]),
    "binary_view": lambda: pa.array([b"cup"], pa.binary_view()),
    "dictionary": lambda: pa.array(["cup"]).dictionary_encode(),
    "json": lambda: as_json("cup"),
    "json list": lambda: as_json(["cup"]),
    "list of views": lambda: pa.array([["cup"]], pa.list_(pa.string_view())),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_is_text_whatever_its_type(tmp_path: Path, kind: str) -> None:
    """As text, as the path of an image, and as a name."""
    (item,) = items(tmp_path, text=TEXTS[kind]())
    assert (item.error, item.texts) == (None, ("cup",))
    if "list" not in kind:
        (item,) = items(tmp_path, path=TEXTS[kind](), name=TEXTS[kind]())
        assert (Path(item.path), item.name) == (tmp_path / "cup", "cup")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("text", "", "expected a text, found an empty one"),
        ("text", " \n", "expected a text, found an empty one"),
        ("text", '["cup", "dog"]', "which is a list in letters"),
        ("text", "['cup', 'dog']", "which is a list in letters"),  # dask; CSV read by pandas
        ("text", "('cup',)", "which is a list in letters"),
        ("text", "['cup' 'dog']", "which is a list in letters"),  # NumPy
        ("text", "{'en': 'cup'}", "which is a list in letters"),
        ("points", "[[1, 2]]", r"points: expected numbers, found '\[\[1, 2\]\]'"),
        ("boxes", "x" * 60_000, "expected numbers, found 'xxx"),
        ("path", "s3://bucket/a.png", "found the address 's3://bucket/a.png': download it"),
        ("path", "file://server/a.png", "found the address"),
        ("path", "/a" * 9_000, "found 18,000 letters: '/a/a"),
        ("path", "data:image/png,abc", "path"),
    ],
)
def test_values_that_are_errors_of_their_row(
    tmp_path: Path, column: str, value: str, words: str
) -> None:
    """In few words; the row beside it is done."""
    good = {"text": "cup", "points": None, "boxes": None, "path": "a.png"}[column]
    _, item, other = items(tmp_path, **{column: ["a" if good else None, value, good]})
    if value.startswith("data:"):  # read when its turn comes
        with pytest.raises(errors.InvalidArgumentError, match="expected base64 behind data:"):
            read_bytes(item.path, *item.row)
        return
    assert item.error is not None
    assert len(item.error) < 900
    assert pytest.importorskip("re").search(words, item.error), item.error
    assert other.error is None


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (item,) = items(tmp_path, text=[b"\xff\xfe\0c"])
    assert item.error is not None
    assert "found bytes that are no UTF-8" in item.error
    if not hasattr(pa, "uuid"):
        pytest.skip("this pyarrow has no type for UUIDs")
    with pytest.raises(errors.InvalidArgumentError, match=r"found extension<arrow\.uuid>"):
        items(tmp_path, text=pa.array([bytes(range(65, 81))], pa.uuid()))


# ------------------------------------------------------------------ images

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def test_a_struct_with_bytes_or_a_path(tmp_path: Path) -> None:
    contents = png(tmp_path, "b.png")
    rows = [
        {"bytes": contents, "path": "scan.png"},
        {"bytes": contents, "path": "/data/deep/scan.png"},
        {"bytes": None, "path": "b.png"},
        {"bytes": None, "path": str(tmp_path / "b.png")},
        {"bytes": None, "path": None},
        None,
    ]
    found = items(tmp_path, image=pa.array(rows, IMAGE))
    assert [item.row for item in found[:2]] == [(0, 0, "image"), (0, 1, "image")]
    assert [item.name for item in found[:2]] == ["scan.png", "scan.png-2"]
    assert [(item.row, Path(item.path)) for item in found[2:4]] == [(None, tmp_path / "b.png")] * 2
    assert [item.name for item in found[2:4]] == ["b.png", "b.png-2"]
    assert all("expected bytes or a path, found none" in str(item.error) for item in found[4:])
    (only,) = items(tmp_path, image=pa.array([rows[2]], IMAGE))  # no row with bytes
    assert Path(only.path) == tmp_path / "b.png"


def test_a_path_beside_bytes_that_are_null(tmp_path: Path) -> None:
    first, second = items(tmp_path, bytes=pa.array([b"x", None]), path=["in/a.png", "in/b.png"])
    assert (first.row, first.name) == ((0, 0, "bytes"), "in/a.png")
    assert (second.row, Path(second.path)) == (None, tmp_path / "in" / "b.png")


def test_base64_in_a_table(tmp_path: Path) -> None:
    contents = png(tmp_path)
    text = base64.b64encode(contents).decode()
    given = [text, base64.encodebytes(contents).decode(), f"data:image/png;base64,{text}", "a.png"]
    found = items(tmp_path, image=given)
    assert [read_bytes(item.path, *item.row) for item in found[:3]] == [contents] * 3
    assert [item.name for item in found[:3]] == ["t-0-0", "t-0-1", "t-0-2"]
    assert Path(found[3].path) == tmp_path / "a.png"


@pytest.mark.parametrize("name", ["a b.png", "100%25.png", "ü#1?.png"])
def test_file_addresses_are_paths(tmp_path: Path, name: str) -> None:
    """With escapes, as pathlib writes them, and without, as fsspec does."""
    path = tmp_path / name
    path.write_bytes(b"")
    given = [path.as_uri(), f"file://{path}", f"file://localhost{path}", f"file:{path}"]
    assert [Path(item.path) for item in items(tmp_path, path=given)] == [path] * 4


def test_results_go_to_folders_of_this_machine(tmp_path: Path) -> None:
    png(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="output: expected a folder of this"):
        batch.run(tmp_path / "a.png", "s3://bucket/out")
    assert not Path("s3:").exists()


# ------------------------------------------------------------------ tables in parts


def table(**columns: Any) -> Any:
    return pa.table({"path": ["a.png"], **columns})


@pytest.mark.parametrize("name", ["t.pq", "t.PARQ", "t.parquet.gzip", "t.snappy.parquet", "table"])
def test_a_table_is_known_by_its_name_or_its_content(tmp_path: Path, name: str) -> None:
    pq.write_table(table(box=[list(BOX)]), tmp_path / name)
    assert plan(tmp_path / name).items[0].prompts == (Prompt("0", box=BOX),)


@pytest.mark.parametrize("suffix", [".arrow", ".feather", ".orc", ".csv", ".avro"])
def test_other_tables_are_refused_by_name(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"t{suffix}").write_bytes(b"x")
    with pytest.raises(errors.InvalidArgumentError, match=rf"\.parquet table.*found \{suffix}"):
        plan(tmp_path / f"t{suffix}")


def test_a_folder_of_tables(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    folder.mkdir()
    with pytest.raises(errors.InvalidArgumentError, match="expected Parquet files in a folder"):
        plan(folder)
    for number in range(2):
        pq.write_table(table(box=[list(BOX)]), folder / f"part-{number}.parquet")
    pq.write_table(table(box=[list(BOX)]), folder / "_hidden.parquet")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "notes.md").write_bytes(b"")
    found = plan(folder)
    assert [item.prompts for item in found.items] == [(Prompt("0", box=BOX),)] * 2
    assert found.notes == ["passed over: 1 files in a folder of tables (notes.md)"]
    images = tmp_path / "photos"
    images.mkdir()
    png(images)
    pq.write_table(table(), images / "index.parquet")
    assert [Path(item.path).name for item in plan(images).items] == ["a.png"]


def test_a_table_without_rows_is_told(tmp_path: Path) -> None:
    pq.write_table(table(text=["cup"]).slice(0, 0), tmp_path / "t.parquet")
    lines: list[str] = []
    batch.run(tmp_path / "t.parquet", tmp_path / "out", tell=lines.append)
    assert lines[0].startswith("0 images, texts")
    assert f"{tmp_path / 't.parquet'}: a table without rows" in lines


# ------------------------------------------------------------------ other programs

TEXT, LIST = "a b/ü=1", [[*BOX], [1.0, 2.0, 3.0, 4.0]]


def polars_file(folder: Path) -> Any:
    polars = pytest.importorskip("polars", reason="needs polars")
    frame = polars.DataFrame(
        {"path": ["a.png"], "boxes": [LIST], "name": polars.Series(["n"], dtype=polars.Categorical)}
    )
    frame.write_parquet(folder / "t.parquet")
    return polars.read_parquet(folder / "t.parquet")["boxes"].to_list()[0]


def polars_array(folder: Path) -> Any:
    polars = pytest.importorskip("polars", reason="needs polars")
    boxes = polars.Series([LIST], dtype=polars.List(polars.Array(polars.Float64, 4)))
    polars.DataFrame({"path": ["a.png"], "boxes": boxes}).write_parquet(folder / "t.parquet")
    return polars.read_parquet(folder / "t.parquet")["boxes"].to_list()[0]


def duckdb_file(folder: Path, boxes: str = f"{LIST}") -> Any:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    file = folder / "t.parquet"
    duckdb.sql(f"SELECT 'a.png' AS path, {boxes} AS boxes, uuid() AS id").write_parquet(str(file))
    found = duckdb.sql(f"SELECT boxes FROM '{file}'").fetchall()[0][0]
    if isinstance(found, str):
        return json.loads(found)
    return [list(box.values()) if isinstance(box, dict) else list(map(float, box)) for box in found]


def duckdb_json(folder: Path) -> Any:
    return duckdb_file(folder, f"'{json.dumps(LIST)}'::JSON")


def duckdb_structs(folder: Path) -> Any:
    names = ("xmin", "ymin", "xmax", "ymax")
    rows = (
        "{" + ", ".join(f"'{name}': {side}" for name, side in zip(names, box, strict=True)) + "}"
        for box in LIST
    )
    return duckdb_file(folder, f"[{', '.join(rows)}]")


def duckdb_rows(folder: Path) -> Any:
    return duckdb_file(folder, f"[{', '.join(f'row{tuple(box)}' for box in LIST)}]")


def pandas_file(folder: Path) -> Any:
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"path": ["a.png"], "boxes": [[np.array(box) for box in LIST]]})
    frame.to_parquet(folder / "t.parquet", engine="pyarrow")
    found = pandas.read_parquet(folder / "t.parquet", engine="pyarrow")["boxes"][0]
    return [box.tolist() for box in found]


def fastparquet_file(folder: Path) -> Any:
    fastparquet = pytest.importorskip("fastparquet", reason="needs fastparquet")
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    frame = pandas.DataFrame({"path": ["a.png"], "boxes": [LIST]})
    fastparquet.write(str(folder / "t.parquet"), frame)
    return fastparquet.ParquetFile(str(folder / "t.parquet")).to_pandas()["boxes"][0]


def datasets_file(folder: Path) -> Any:
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    box = datasets.Array2D((2, 4), "float32")
    kinds = datasets.Features({"path": datasets.Value("string"), "boxes": box})
    rows = datasets.Dataset.from_dict({"path": ["a.png"], "boxes": [LIST]}, features=kinds)
    rows.to_parquet(folder / "t.parquet")
    read = datasets.Dataset.from_parquet(str(folder / "t.parquet"), cache_dir=str(folder / "c"))
    return np.asarray(read[0]["boxes"]).tolist()


WRITERS = (
    *(polars_file, polars_array, duckdb_file, duckdb_json, duckdb_structs, duckdb_rows),
    *(pandas_file, fastparquet_file, datasets_file),
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_boxes_are_those_that_their_writer_reads(tmp_path: Path, write: Any) -> None:
    right = tuple(Prompt(str(at), box=tuple(box)) for at, box in enumerate(write(tmp_path)))
    assert len(right) == 2
    (item,) = plan(tmp_path / "t.parquet").items
    assert (item.error, item.prompts) == (None, right)


def polars_parts(folder: Path, columns: dict[str, Any]) -> None:
    polars = pytest.importorskip("polars", reason="needs polars")
    polars.DataFrame(columns).write_parquet(folder, partition_by=["text"], mkdir=True)


def duckdb_parts(folder: Path, columns: dict[str, Any]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    found = pa.table(columns)
    assert found.num_rows
    duckdb.sql("FROM found").write_parquet(str(folder), partition_by=["text"])


def pyarrow_parts(folder: Path, columns: dict[str, Any]) -> None:
    pq.write_to_dataset(pa.table(columns), folder, partition_cols=["text"])


def fastparquet_parts(folder: Path, columns: dict[str, Any]) -> None:
    fastparquet = pytest.importorskip("fastparquet", reason="needs fastparquet")
    pandas = pytest.importorskip("pandas", reason="needs pandas")
    columns = {**columns, "text": ["cup", "a b"]}  # it escapes nothing
    frame = pandas.DataFrame(columns)
    fastparquet.write(str(folder), frame, file_scheme="hive", partition_on=["text"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "write",
    [polars_parts, duckdb_parts, pyarrow_parts, fastparquet_parts],
    ids=lambda write: write.__name__,
)
def test_folders_that_are_columns(tmp_path: Path, write: Any) -> None:
    """Given as a folder, and as a pattern; a value of null is none."""
    folder = tmp_path / "parts"
    write(folder, {"path": ["a.png", "b.png"], "text": [TEXT, None]})
    right = {("cup",), ("a b",)} if write is fastparquet_parts else {(TEXT,), None}
    for word in (str(folder), str(folder / "*" / "*.parquet")):
        found = sources.expand([word])
        assert {item.texts for item in found.items} == right
        assert found.has_texts


@pytest.mark.filterwarnings("ignore")
def test_images_of_a_folder_by_datasets(tmp_path: Path) -> None:
    """It writes their paths alone, and null for the bytes; or the bytes, if they are read."""
    datasets = pytest.importorskip("datasets", reason="needs datasets")
    contents = png(tmp_path, "one.png")
    kinds = datasets.Features({"image": datasets.Image()})
    for value in ({"bytes": None, "path": str(tmp_path / "one.png")}, {"bytes": contents}):
        rows = datasets.Dataset.from_dict({"image": [{"path": None, **value}]}, features=kinds)
        rows.to_parquet(tmp_path / "t.parquet")
        (item,) = plan(tmp_path / "t.parquet").items
        named = Path(item.path).read_bytes() if item.row is None else None
        assert (named or read_bytes(item.path, *item.row)) == contents
