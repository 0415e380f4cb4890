"""Parquet files: the rows of results, and tables of images as input. Needs pyarrow."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._packages import optional
from sam_rlx.errors import InvalidArgumentError

# Columns of an input table in which images or their paths are looked for, in this order.
_IMAGE_COLUMNS = ("path", "file_name", "image_path", "image", "bytes", "image_bytes")


def pyarrow(module: str = "pyarrow") -> Any:
    """Return a module of pyarrow; `MissingExtraError` without it."""
    return optional("batch", module, "pyarrow")


def schema() -> Any:
    """Return the columns of results: a row for each item, its masks in a list."""
    pa = pyarrow()
    mask = pa.struct(
        [
            ("frame", pa.int32()),
            ("object", pa.string()),
            ("counts", pa.string()),
            ("area", pa.int64()),
            ("bbox", pa.list_(pa.float64())),
            ("score", pa.float64()),
            ("stability_score", pa.float64()),
            ("point_coords", pa.list_(pa.list_(pa.float64()))),
            ("crop_box", pa.list_(pa.float64())),
        ]
    )
    return pa.schema(
        [
            ("index", pa.int64()),
            ("item", pa.string()),
            ("path", pa.string()),
            ("height", pa.int32()),
            ("width", pa.int32()),
            ("frames", pa.int32()),
            ("masks", pa.list_(mask)),
            ("error", pa.string()),
        ]
    )


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write rows of results. Equal rows give equal bytes with one version of pyarrow."""
    table = pyarrow().Table.from_pylist([_writable(row) for row in rows], schema=schema())
    sink = pyarrow().BufferOutputStream()
    pyarrow("pyarrow.parquet").write_table(table, sink, compression="zstd")
    with atomic_write(path) as file:
        file.write(sink.getvalue())


def _writable(row: dict[str, Any]) -> dict[str, Any]:
    r"""Return a row whose texts are UTF-8: other bytes of file names become ``\\udcff``."""
    texts = {key: _utf8(row[key]) for key in ("item", "path", "error")}
    masks = [{**mask, "object": _utf8(mask["object"])} for mask in row["masks"]]
    return {**row, **texts, "masks": masks}


def _utf8(text: str | None) -> str | None:
    return text if text is None else text.encode("utf-8", "backslashreplace").decode()


def read_rows(path: Path, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Read rows of results; some of their columns.

    pyarrow gets no Python file, and starts no threads: one that lets go of a Python object while
    the interpreter ends aborts the process.
    """
    chosen = None if columns is None else list(columns)
    with pyarrow("pyarrow.parquet").ParquetFile(path) as file:
        table = file.read(columns=chosen, use_threads=False)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


class ImageTable:
    """A Parquet file with images, or with their paths.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    names : list of str
        All columns.
    column : str
        The column with paths or bytes.
    holds_bytes : bool
        Whether it has the contents of image files.
    """

    def __init__(self, path: Path) -> None:
        pa, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        self.path = path
        try:
            self._file = parquet.ParquetFile(path)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgumentError(f"{path}: expected a Parquet file, found {error}") from error
        names = self.names = list(self._file.schema_arrow.names)
        found = [name for name in _IMAGE_COLUMNS if name in names]
        if not found:
            raise InvalidArgumentError(
                f"{path}: expected a column of {list(_IMAGE_COLUMNS)}, found {names}"
            )
        self.column = found[0]
        kind = self._file.schema_arrow.field(self.column).type
        is_struct = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        self.holds_bytes = is_struct or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        if not (self.holds_bytes or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InvalidArgumentError(
                f"{path}: expected text, bytes or a struct with bytes in the column "
                f"{self.column}, found {kind}"
            )

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield row group, row in it, and the values of those of the columns that are there.

        The bytes of images are not read.
        """
        names = [name for name in columns if name in self.names]
        if not self.holds_bytes:
            names.append(self.column)
        for group in range(self._file.num_row_groups):
            if names:
                values = self._file.read_row_group(group, names, use_threads=False).to_pylist()
            else:
                values = [{}] * self._file.metadata.row_group(group).num_rows
            for row, fields in enumerate(values):
                yield group, row, fields


@lru_cache(maxsize=1)
def _group(path: str, group: int, column: str) -> Any:
    file = pyarrow("pyarrow.parquet").ParquetFile(path)
    return file.read_row_group(group, [column], use_threads=False).column(column)


def read_bytes(path: str, group: int, row: int, column: str) -> bytes:
    """Return the contents of one image of a table. The last row group is kept."""
    value = _group(path, group, column)[row].as_py()
    data = value.get("bytes") if isinstance(value, dict) else value
    if not data:
        raise InvalidArgumentError(f"{path}: expected bytes in row {row}, found none")
    return bytes(data)
