"""Tables of images and prompts: every type of a column, as other programs write it."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sam_rlx.apps.batch import sources
from sam_rlx.apps.batch.parquet import read_bytes
from sam_rlx.errors import InvalidArgumentError, MediaWarning

from nightly.doors import Trial, door, library, outcome

POINT, BOX = (7.0, 8.5), (5.0, 6.0, 30.5, 31.0)
PAIR = [[7.0, 8.5], [1.0, 2.0]]
Column = tuple[str, Any]  # its name, and the values of two rows


def png() -> bytes:
    """Return the contents of an image file."""
    import io

    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 9, 3), 77, np.uint8)).save(buffer, "png")
    return buffer.getvalue()


def rows(path: Path) -> str:
    """Return what a batch makes of a table: file or contents, texts, prompts; a wrong row raises.

    As text, so that rows of any form compare.
    """
    found = []
    plan = sources.expand([str(path)])
    for note in plan.notes:
        if "not read" in note:
            warnings.warn(note, MediaWarning, stacklevel=2)
    for item in plan.items:
        if item.error is not None:
            raise InvalidArgumentError(item.error)
        if not Path(item.path).exists():
            raise InvalidArgumentError(f"no file {item.path}")
        image = Path(item.path).name if item.row is None else read_bytes(item.path, *item.row)
        prompts = [(one.points, one.labels, one.box) for one in item.prompts or ()]
        found.append((image, item.texts, prompts if item.prompts is not None else None))
    return repr(found)


def meant(
    points: Any = None,
    labels: tuple[int, ...] = (1,),
    box: Any = None,
    texts: tuple[str, ...] | None = None,
    image: Any = ("a.png", "b.png"),
) -> str:
    """Return the rows of two images that say the same."""
    prompts = None if points is None and box is None else [((), (), box)]
    if points is not None:
        prompts = [(points, labels, box)]
    return repr([(name, texts, prompts) for name in image])


# What a column says: the values of a row, and the rows that are right.
MEANINGS: dict[str, tuple[str, list[Any], str]] = {
    "points": ("points", [[list(POINT)]] * 2, meant((POINT,))),
    "two points": ("points", [PAIR] * 2, meant(((7.0, 8.5), (1.0, 2.0)), (1, 1))),
    "integer points": ("points", [[[7, 8]]] * 2, meant(((7.0, 8.0),))),
    "a box": ("boxes", [list(BOX)] * 2, meant(box=BOX)),
    "boxes": ("boxes", [[list(BOX)]] * 2, meant(box=BOX)),
    "structs": ("points", [[{"x": POINT[0], "y": POINT[1]}]] * 2, meant((POINT,))),
    "structs y, x": ("points", [[{"y": POINT[1], "x": POINT[0]}]] * 2, meant((POINT,))),
    "struct": ("points", [{"x": POINT[0], "y": POINT[1]}] * 2, meant((POINT,))),
    "box structs": (
        "boxes",
        [[dict(zip(("ymin", "xmin", "ymax", "xmax"), (6.0, 5.0, 31.0, 30.5), strict=True))]] * 2,
        meant(box=BOX),
    ),
    "lat, lon": ("points", [[{"lat": 1.0, "lon": 2.0}]] * 2, ""),
    "x, y, width, height": (
        "boxes",
        [[{"x": 5.0, "y": 6.0, "width": 3.0, "height": 4.0}]] * 2,
        "",
    ),
    "text": ("text", ["a cup"] * 2, meant(texts=("a cup",))),
    "texts": ("text", [["cup", "dog"]] * 2, meant(texts=("cup", "dog"))),
    "numbers as text": ("text", [3, 4], ""),
    "lists of numbers as text": ("text", [[3, 4]] * 2, ""),
    "text of JSON": ("text", ['["cup", "dog"]'] * 2, ""),
    "empty text": ("text", ["", " "], ""),
    "bbox": ("bbox", [list(BOX)] * 2, ""),
    "prompt": ("prompt", ["a cup"] * 2, ""),
    "letters as points": ("points", ["7, 8.5"] * 2, ""),
    "letters of JSON as points": ("points", ["[[7, 8.5]]"] * 2, ""),
    "points with null": ("points", [[[7.0, None]]] * 2, ""),
    "points of three": ("points", [[[7.0, 8.5, 1.0]]] * 2, ""),
    "boxes of three": ("boxes", [[[7.0, 8.5, 1.0]]] * 2, ""),
    "dates as points": ("points", [[np.datetime64("2024-05-01", "us").item()]] * 2, ""),
}
FOUR = ("x0", "y0", "x1", "y1")


def _writers() -> dict[str, Callable[[Path, dict[str, list[Any]]], Any]]:
    """Return programs that write columns of Python values as Parquet."""
    found: dict[str, Callable[[Path, dict[str, list[Any]]], Any]] = {}
    if (pq := library("pyarrow.parquet")) is not None:
        import pyarrow as pa

        for name, options in (
            ("pyarrow", {}),
            ("pyarrow 1.0", {"version": "1.0", "compression": "gzip"}),
            ("pyarrow, pages 2.0", {"data_page_version": "2.0", "compression": "zstd"}),
            ("pyarrow without its schema", {"store_schema": False}),
            ("pyarrow, rows alone", {"row_group_size": 1, "use_dictionary": False}),
            ("pyarrow, old lists", {"use_compliant_nested_type": False, "compression": "none"}),
        ):
            found[name] = lambda p, c, o=options: pq.write_table(pa.table(c), p, **o)
    if (pandas := library("pandas")) is not None:
        found["pandas by pyarrow"] = lambda p, c: pandas.DataFrame(c).to_parquet(p)
        found["pandas, its nullable types"] = lambda p, c: (
            pandas.DataFrame(c).convert_dtypes().to_parquet(p)
        )
        found["pandas with an index"] = lambda p, c: (
            pandas.DataFrame(c).set_index(np.array([4, 2])).to_parquet(p)
        )
        if library("fastparquet") is not None:
            found["pandas by fastparquet"] = lambda p, c: pandas.DataFrame(c).to_parquet(
                p, engine="fastparquet"
            )
    if (polars := library("polars")) is not None:
        found["polars"] = lambda p, c: polars.DataFrame(c).write_parquet(p)
        found["polars by pyarrow"] = lambda p, c: polars.DataFrame(c).write_parquet(
            p, use_pyarrow=True
        )
        found["polars, lazily"] = lambda p, c: polars.LazyFrame(c).sink_parquet(p)
    if (duckdb := library("duckdb")) is not None and library("pyarrow") is not None:
        found["DuckDB"] = lambda p, c: _by_duckdb(duckdb, p, c)
    if (datasets := library("datasets")) is not None:
        found["datasets"] = lambda p, c: datasets.Dataset.from_dict(c).to_parquet(str(p))
    if (dask := library("dask.dataframe")) is not None and pandas is not None:
        found["dask"] = lambda p, c: dask.from_pandas(
            pandas.DataFrame(c), npartitions=2
        ).to_parquet(str(p), write_index=False)
    if (awkward := library("awkward")) is not None:
        found["awkward"] = lambda p, c: awkward.to_parquet(
            awkward.Array(
                [dict(zip(c, row, strict=True)) for row in zip(*c.values(), strict=True)]
            ),
            str(p),
        )
    if (deltalake := library("deltalake")) is not None and library("pyarrow") is not None:
        import pyarrow as pa

        found["Delta"] = lambda p, c: deltalake.write_deltalake(str(p), pa.table(c))
    return found


def _by_duckdb(duckdb: Any, path: Path, columns: dict[str, list[Any]]) -> None:
    import pyarrow as pa

    with duckdb.connect() as connection:
        connection.register("given", pa.table(columns))
        connection.execute(f"COPY (SELECT * FROM given) TO '{path}' (FORMAT parquet)")


def named_images(folder: Path) -> Path:
    """Write the two images that the rows name; the table's path."""
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(png())
    return folder / "table.parquet"


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@door("tables")
def meanings(folder: Path) -> Iterator[Trial]:
    """Every meaning by every writer."""
    path = named_images(folder)
    for (writer, write), (name, (column, values, right)) in itertools.product(
        _writers().items(), MEANINGS.items()
    ):
        _clear(path)
        try:
            write(path, {"path": ["a.png", "b.png"], column: values})
        except Exception:  # it has no such values
            continue
        yield f"{writer}, {name}", outcome(lambda: rows(path), right or None)


@door("tables")
def corners_and_names(folder: Path) -> Iterator[Trial]:
    """Boxes in four columns, in any order of them; names of the column of paths."""
    path = named_images(folder)
    for writer, write in _writers().items():
        for names in (FOUR, ("xmin", "ymin", "xmax", "ymax"), ("left", "top", "right", "bottom")):
            for order in ((0, 1, 2, 3), (1, 0, 3, 2), (3, 2, 1, 0)):
                columns = {names[at]: [BOX[at]] * 2 for at in order}
                _clear(path)
                write(path, {"path": ["a.png", "b.png"], **columns})
                label = f"{writer}, {', '.join(columns)}"
                yield label, outcome(lambda: rows(path), meant(box=BOX))
        for names in (("x", "y", "width", "height"), ("cx", "cy", "w", "h")):
            _clear(path)
            write(path, {"path": ["a.png", "b.png"], **{name: [5.0, 6.0] for name in names}})
            yield f"{writer}, {', '.join(names)}", outcome(lambda: rows(path), None)
        for column in ("file_name", "image_path", "image"):
            _clear(path)
            write(path, {column: ["a.png", "b.png"]})
            yield f"{writer}, {column}", outcome(lambda: rows(path), meant())
        _clear(path)
        write(path, {"photo": ["a.png", "b.png"]})
        yield f"{writer}, no column of images", outcome(lambda: rows(path), None)


@door("tables")
def contents(folder: Path) -> Iterator[Trial]:
    """Images in the table: bytes, base64, structs, with and without a path beside them."""
    path, data = named_images(folder), png()
    coded = base64.b64encode(data).decode()
    sets: dict[str, tuple[dict[str, list[Any]], str | None]] = {
        "bytes": ({"bytes": [data] * 2}, meant(image=[data] * 2)),
        "image": ({"image": [data] * 2}, meant(image=[data] * 2)),
        "struct": (
            {"image": [{"bytes": data, "path": "a.png"}] * 2},
            meant(image=[data] * 2),
        ),
        "struct of paths": (
            {"image": [{"bytes": None, "path": name} for name in ("a.png", "b.png")]},
            meant(),
        ),
        "base64": ({"image": [coded] * 2}, meant(image=[data] * 2)),
        "base64 as a URL": (
            {"image": [f"data:image/png;base64,{coded}"] * 2},
            meant(image=[data] * 2),
        ),
        "bytes beside a path": (
            {"path": ["a.png", "b.png"], "bytes": [data] * 2},
            meant(image=[data] * 2),
        ),
        "null beside a path": (
            {"path": ["a.png", "b.png"], "bytes": [data, None]},
            meant(image=[data, "b.png"]),
        ),
        "a URL": ({"path": ["https://example.org/a.png"] * 2}, None),
        "a bucket": ({"path": ["s3://bucket/a.png"] * 2}, None),
        "a file URL": (
            {"path": [f"file://{folder}/a.png", f"file://{folder}/b.png"]},
            meant(),
        ),
        "numbers": ({"path": [3, 4]}, None),
        "pixels": ({"image": [[1, 2, 3]] * 2}, None),
    }
    for (writer, write), (name, (columns, right)) in itertools.product(
        _writers().items(), sets.items()
    ):
        _clear(path)
        try:
            write(path, columns)
        except Exception:
            continue
        yield f"{writer}, images as {name}", outcome(lambda: rows(path), right)
    if (datasets := library("datasets")) is not None:
        Image.fromarray(np.full((8, 9, 3), 77, np.uint8)).save(folder / "a.png")
        shutil.copy(folder / "a.png", folder / "b.png")
        names = [str(folder / "a.png"), str(folder / "b.png")]
        data = (folder / "a.png").read_bytes()
        for what, images in (
            ("paths", names),
            ("contents", [{"bytes": data, "path": None}] * 2),
            ("PIL images", [Image.open(name) for name in names]),
        ):
            _clear(path)
            given = datasets.Dataset.from_dict(
                {"image": images}, features=datasets.Features({"image": datasets.Image()})
            )
            given.to_parquet(str(path))
            right = meant() if what != "contents" else meant(image=[data] * 2)
            if what == "PIL images" and "bytes" in str(_first(path)):
                right = right if _first(path)["bytes"] is None else meant(image=[data] * 2)
            if what == "paths" and _first(path)["bytes"] is not None:
                right = meant(image=[data] * 2)
            yield f"datasets, Image of {what}", outcome(lambda: rows(path), right)


def _first(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.read_table(path)["image"][0].as_py()


@door("tables")
def arrow_types(folder: Path) -> Iterator[Trial]:
    """Every Arrow type that holds the same values, with every compression."""
    if (pq := library("pyarrow.parquet")) is None:
        return
    import pyarrow as pa

    path = named_images(folder)
    numbers = [
        *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64"),
    ]
    whole = [[7, 8], [1, 2]]
    right = meant(((7.0, 8.0), (1.0, 2.0)), (1, 1))
    columns: dict[str, tuple[str, Any, str | None]] = {}
    for number in numbers:
        kind = getattr(pa, number)()
        values = whole if number != "float16" else [[np.float16(v) for v in p] for p in whole]
        for form, outer in (
            ("list", pa.list_(pa.list_(kind))),
            ("large_list", pa.large_list(pa.large_list(kind))),
            ("fixed_size_list", pa.list_(pa.list_(kind, 2), 2)),
            ("list_view", pa.list_view(pa.list_view(kind))),
            ("mixed", pa.large_list(pa.list_(kind, 2))),
        ):
            columns[f"{form} of {number}"] = ("points", (values, outer), right)
    for form, kind in (("decimal128", pa.decimal128(6, 2)), ("decimal256", pa.decimal256(40, 2))):
        values = [[Decimal("7"), Decimal("8")], [Decimal("1"), Decimal("2")]]
        columns[f"list of {form}"] = ("points", (values, pa.list_(pa.list_(kind))), right)
    texts = meant(texts=("cup",))
    for name in ("string", "large_string", "string_view", "binary", "large_binary", "binary_view"):
        kind = getattr(pa, name)()
        value = b"cup" if "binary" in name else "cup"
        columns[f"text of {name}"] = ("text", (value, kind), texts)
        columns[f"texts of {name}"] = ("text", ([value], pa.list_(kind)), texts)
        if "view" not in name:
            columns[f"text of a dictionary of {name}"] = (
                "text",
                (value, pa.dictionary(pa.int16(), kind)),
                texts,
            )
    columns["text of fixed bytes"] = ("text", (b"cup", pa.binary(3)), texts)
    for name, kind, value in (
        ("bool", pa.bool_(), True),
        ("date", pa.date32(), np.datetime64("2024-05-01").item()),
        ("map", pa.map_(pa.string(), pa.string()), [("en", "cup")]),
        ("struct", pa.struct([("en", pa.string())]), {"en": "cup"}),
        ("union of nothing", pa.null(), None),
        ("duration", pa.duration("s"), 3),
    ):
        wanted = meant() if name == "union of nothing" else None
        columns[f"text of {name}"] = ("text", (value, kind), wanted)
    for (name, (column, (value, kind), wanted)), compression in itertools.product(
        columns.items(), ("snappy", "none")
    ):
        try:
            array = pa.array([value, value], kind)
            table = pa.table({"path": ["a.png", "b.png"], column: array})
            pq.write_table(table, path, compression=compression)
        except Exception:
            continue
        yield f"pyarrow {name}, {compression}", outcome(lambda: rows(path), wanted)
    if hasattr(pa, "json_"):
        for name, column, value, wanted in (
            ("a text", "text", "cup", texts),
            ("texts", "text", ["cup"], texts),
            ("points", "points", whole, right),
            ("structs", "points", [{"y": 8, "x": 7}], meant(((7.0, 8.0),))),
            ("a number", "text", 3, None),
            ("points of letters", "points", [["7", "8"]], None),
        ):
            array = pa.ExtensionArray.from_storage(
                pa.json_(pa.string()), pa.array([json.dumps(value)] * 2)
            )
            pq.write_table(pa.table({"path": ["a.png", "b.png"], column: array}), path)
            yield f"pyarrow JSON of {name}", outcome(lambda: rows(path), wanted)


@door("tables")
def engines(folder: Path) -> Iterator[Trial]:
    """Types that engines have and Arrow's Python values have not."""
    path = named_images(folder)
    if (duckdb := library("duckdb")) is not None:
        one, box = meant((POINT,)), meant(box=BOX)
        lines: dict[str, tuple[str, str | None]] = {
            "DOUBLE[][]": ("[[7.0, 8.5]]::DOUBLE[][] AS points", one),
            "FLOAT[2][]": ("[[7.0, 8.5]]::FLOAT[2][] AS points", one),
            "DECIMAL[][]": ("[[7.0, 8.5]] AS points", one),
            "structs": ("[{'y': 8.5, 'x': 7.0}] AS points", one),
            "row()": ("[row(7.0::DOUBLE, 8.5::DOUBLE)] AS points", one),
            "row() of four": (
                "[row(5.0::DOUBLE, 6.0::DOUBLE, 30.5::DOUBLE, 31.0::DOUBLE)] AS boxes",
                box,
            ),
            "JSON points": ("'[[7.0, 8.5]]'::JSON AS points", one),
            "JSON text": ("'\"cup\"'::JSON AS text", meant(texts=("cup",))),
            "ENUM": ("'cup'::ENUM('cup', 'dog') AS text", meant(texts=("cup",))),
            "VARCHAR[]": ("['cup'] AS text", meant(texts=("cup",))),
            "MAP": ("MAP {'x': 7.0, 'y': 8.5} AS points", None),
            "UNION": ("union_value(a := 7.0) AS points", None),
            "HUGEINT[][]": ("[[7::HUGEINT, 8::HUGEINT]] AS points", meant(((7.0, 8.0),))),
            "UUID": ("uuid() AS text", None),
            "BLOB text": ("'cup'::BLOB AS text", meant(texts=("cup",))),
            "INTERVAL": ("INTERVAL 1 YEAR AS points", None),
        }
        for name, (line, right) in lines.items():
            _clear(path)
            query = f"SELECT p AS path, {line} FROM (VALUES ('a.png'), ('b.png')) t(p)"
            try:
                duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
            except Exception:
                continue
            yield f"DuckDB {name}", outcome(lambda: rows(path), right)
    if (polars := library("polars")) is not None:
        series: dict[str, tuple[Any, str | None]] = {
            "Array": (
                polars.Series(
                    "points", [PAIR] * 2, polars.Array(polars.Array(polars.Float64, 2), 2)
                ),
                meant(((7.0, 8.5), (1.0, 2.0)), (1, 1)),
            ),
            "Categorical": (
                polars.Series("text", ["cup"] * 2, polars.Categorical),
                meant(texts=("cup",)),
            ),
            "Enum": (
                polars.Series("text", ["cup"] * 2, polars.Enum(["cup"])),
                meant(texts=("cup",)),
            ),
            "Decimal": (
                polars.Series(
                    "points", [[[7, 8]]] * 2, polars.List(polars.List(polars.Decimal(9, 2)))
                ),
                meant(((7.0, 8.0),)),
            ),
            "Int128": (
                polars.Series("points", [[[7, 8]]] * 2, polars.List(polars.List(polars.Int128))),
                None,
            ),
            "Duration": (polars.Series("points", [3, 4], polars.Duration("us")), None),
            "Boolean": (polars.Series("text", [True, False]), None),
        }
        for name, (one, right) in series.items():
            _clear(path)
            try:
                polars.DataFrame({"path": ["a.png", "b.png"], one.name: one}).write_parquet(path)
            except Exception:
                continue
            yield f"polars {name}", outcome(lambda: rows(path), right)
    if (datasets := library("datasets")) is not None:
        for name, feature, column, values, right in (
            ("ClassLabel", datasets.ClassLabel(names=["cup", "dog"]), "text", [0, 1], None),
            (
                "Array2D",
                datasets.Array2D((1, 2), "float32"),
                "points",
                [[list(POINT)]] * 2,
                meant((POINT,)),
            ),
            (
                "Sequence",
                datasets.Sequence(datasets.Value("float64"), 4),
                "boxes",
                [list(BOX)] * 2,
                meant(box=BOX),
            ),
            (
                "Translation",
                datasets.Translation(["en", "fr"]),
                "text",
                [{"en": "cup", "fr": "tasse"}] * 2,
                None,
            ),
        ):
            _clear(path)
            features = datasets.Features({"path": datasets.Value("string"), column: feature})
            try:
                datasets.Dataset.from_dict(
                    {"path": ["a.png", "b.png"], column: values}, features=features
                ).to_parquet(str(path))
            except Exception:
                continue
            yield f"datasets {name}", outcome(lambda: rows(path), right)


@door("tables")
def parts(folder: Path) -> Iterator[Trial]:
    """Tables in several files and under other names; partitions; other kinds of tables."""
    if (pa := library("pyarrow")) is None:
        return
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.orc
    import pyarrow.parquet as pq

    named_images(folder)
    names = [str(folder / "a.png"), str(folder / "b.png")]
    table = pa.table({"path": names, "text": ["cup", "50% off/a"]})
    right = repr([("a.png", ("cup",), None), ("b.png", ("50% off/a",), None)])
    alone = {"path": names}
    for name in (
        "t.pq",
        "t.parq",
        "t.parquet.gzip",
        "t.snappy.parquet",
        "T.PARQUET",
        "t.data",
        "t",
    ):
        pq.write_table(table, folder / name)
        yield f"pyarrow, called {name}", outcome(lambda n=name: rows(folder / n), right)
    target = folder / "whole.parquet"
    pq.write_to_dataset(table, target)
    yield "pyarrow, a folder", outcome(lambda: rows(target), right)
    for engine in ("pyarrow", "polars", "duckdb"):
        target = folder / f"by_{engine}"
        try:
            if engine == "pyarrow":
                pq.write_to_dataset(table, target, partition_cols=["text"])
            elif engine == "polars" and (polars := library("polars")) is not None:
                frame = polars.DataFrame(
                    {"path": table["path"].to_pylist(), "text": ["cup", "dog"]}
                )
                frame.write_parquet(target, partition_by=["text"], mkdir=True)
            elif engine == "duckdb" and (duckdb := library("duckdb")) is not None:
                duckdb.sql(
                    "COPY (SELECT * FROM (VALUES ('a.png', 'cup'), ('b.png', '50% off/a')) "
                    f"t(path, text)) TO '{target}' (FORMAT parquet, PARTITION_BY (text))"
                )
            else:
                continue
        except Exception:
            continue
        texts = {"a.png": "cup", "b.png": "dog" if engine == "polars" else "50% off/a"}
        call = lambda p=target: sorted(rows_list(p))  # noqa: E731
        wanted = sorted(f"{name} {(text,)}" for name, text in texts.items())
        yield f"{engine}, partitions", outcome(call, wanted)
    writers: dict[str, Callable[[Path], Any]] = {
        "csv": lambda p: pyarrow.csv.write_csv(table, p),
        "feather": lambda p: pyarrow.feather.write_feather(table, p),
        "orc": lambda p: pyarrow.orc.write_table(table, p),
        "arrow": lambda p: _ipc(pa, table, p),
        "arrows": lambda p: _ipc(pa, table, p, stream=True),
        "jsonl": lambda p: p.write_text('{"path": "a.png"}\n{"path": "b.png"}\n'),
        "json": lambda p: p.write_text(json.dumps(alone)),
        "pkl": lambda p: library("pandas").DataFrame(alone).to_pickle(p),
        "h5": lambda p: library("pandas").DataFrame(alone).to_hdf(p, key="t"),
        "xlsx": lambda p: library("pandas").DataFrame(alone).to_excel(p),
        "html": lambda p: library("pandas").DataFrame(alone).to_html(p),
        "avro": lambda p: library("polars").DataFrame(alone).write_avro(p),
        "delta": lambda p: library("polars").DataFrame(alone).write_delta(p),
        "db": lambda p: _sqlite(p),
    }
    for suffix, write in writers.items():
        path = folder / f"other.{suffix}"
        try:
            write(path)
        except Exception:
            continue
        wanted = meant() if suffix == "delta" else None
        yield f"other tables, {suffix}", outcome(lambda p=path: images_of(p), wanted)
    broken = (folder / "t.pq").read_bytes()
    for name, content in (
        ("cut off", broken[:-20]),
        ("empty", b""),
        ("a page of the web", b"<html><body>login</body></html>"),
        ("encrypted", b"PARE" + broken[4:-4] + b"PARE"),
    ):
        (folder / "broken.parquet").write_bytes(content)
        yield f"a table that is {name}", outcome(lambda: rows(folder / "broken.parquet"), None)
    twice = pa.Table.from_arrays([pa.array(["a.png"]), pa.array(["b.png"])], ["path", "path"])
    pq.write_table(twice, folder / "twice.parquet")
    yield "two columns of one name", outcome(lambda: rows(folder / "twice.parquet"), None)


def rows_list(path: Path) -> list[str]:
    """Return name and texts of each row."""
    return [f"{Path(item.path).name} {item.texts}" for item in sources.expand([str(path)]).items]


def images_of(path: Path) -> str:
    """Return what a batch makes of a file that is no Parquet table.

    A file that is taken for an image is an error of its row: its name tells no table.
    """
    found = sources.expand([str(path)]).items
    if len(found) == 1 and found[0].path == str(path):
        from sam_rlx import io

        io.read_image(path)
    return rows(path)


def _ipc(pa: Any, table: Any, path: Path, stream: bool = False) -> None:
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(str(path), table.schema) as writer:
        writer.write_table(table)


def _sqlite(path: Path) -> None:
    import sqlite3

    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (path TEXT)")
