"""Parquet files: the rows of results, and tables of images as input. Needs pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.packages import optional
from sam_rlx.errors import InvalidArgumentError, StateError

# Columns of an input table in which images or their paths are looked for, in this order.
_PATH_COLUMNS = ("path", "file_name", "image_path")
_IMAGE_COLUMNS = (*_PATH_COLUMNS, "image", "bytes", "image_bytes")
_BUFFER = 1 << 16  # bytes
_NEVER_NULL = ("index", "item", "path", "masks")  # in results


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
            ("sha256", pa.string()),
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
    pyarrow("pyarrow.parquet").write_table(
        table, sink, compression="zstd", write_page_checksum=True
    )
    with atomic_write(path) as file:
        file.write(sink.getvalue())


def _writable(row: dict[str, Any]) -> dict[str, Any]:
    r"""Return a row whose texts are UTF-8: other bytes of file names become ``\\udcff``."""
    texts = {key: utf8(row[key]) for key in ("item", "path", "error")}
    masks = [{**mask, "object": utf8(mask["object"])} for mask in row["masks"]]
    return {**row, **texts, "masks": masks}


def utf8(text: str | None) -> str | None:
    """Return a text as rows have it."""
    return text if text is None else text.encode("utf-8", "backslashreplace").decode()


def read_rows(
    path: Path, columns: Sequence[str] | None = None, *, verify: bool = False
) -> list[dict[str, Any]]:
    """Read rows of results.

    pyarrow gets no Python file, and starts no threads: one that lets go of a Python object while
    the interpreter ends aborts the process.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of str, optional
        Some of the columns. Default: all.
    verify : bool
        True: the other columns are read too, to see whether they are damaged.

    Raises
    ------
    StateError
        The file is damaged, or has other columns.
    """
    parquet = pyarrow("pyarrow.parquet")
    chosen = schema().names if columns is None else list(columns)
    with (
        _reading(StateError, f"{path}: expected rows of a batch"),
        parquet.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        found = file.schema_arrow
        if found.equals(schema()):
            table = file.read(columns=None if verify else chosen, use_threads=False)
            rows: list[dict[str, Any]] = table.select(chosen).to_pylist()
            if not (verify and any(table[name].null_count for name in _NEVER_NULL)):
                return rows
    raise StateError(f"{path}: expected rows of a batch, found other columns or nulls in them")


@contextmanager
def _reading(kind: type[Exception], expected: str) -> Iterator[None]:
    """Raise an error of ours where the contents of a file are not what pyarrow can read."""
    pa = pyarrow()
    try:
        yield
    except (pa.ArrowException, ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not the contents
            raise
        raise kind(f"{expected}, found {error}") from error


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
        parquet = pyarrow("pyarrow.parquet")
        self.path = path
        with _reading(InvalidArgumentError, f"{path}: expected a Parquet file"):
            self._file = parquet.ParquetFile(path)
            self.names = list(self._file.schema_arrow.names)
        if len(set(self.names)) < len(self.names):
            raise InvalidArgumentError(
                f"{path}: expected columns of different names, found {self.names}"
            )
        found = [name for name in _IMAGE_COLUMNS if name in self.names]
        if not found:
            raise InvalidArgumentError(
                f"{path}: expected a column of {list(_IMAGE_COLUMNS)}, found {self.names}"
            )
        contents = [name for name in found if self._has_bytes(name)]
        self.holds_bytes = bool(contents)
        self.column = contents[0] if contents else found[0]
        if not (self.holds_bytes or self._has_text(self.column)):
            raise InvalidArgumentError(
                f"{path}: expected text, bytes or a struct with bytes in the column "
                f"{self.column}, found {self.type_of(self.column)}"
            )

    def type_of(self, name: str) -> Any:
        """Return the type of a column."""
        return self._file.schema_arrow.field(name).type

    def _has_bytes(self, name: str) -> bool:
        types, kind = pyarrow().types, self.type_of(name)
        is_struct = types.is_struct(kind) and kind.get_field_index("bytes") >= 0
        return bool(is_struct or types.is_binary(kind) or types.is_large_binary(kind))

    def _has_text(self, name: str) -> bool:
        types, kind = pyarrow().types, self.type_of(name)
        if types.is_dictionary(kind):  # categories of pandas
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind))

    @property
    def path_column(self) -> str | None:
        """The column with paths: of the files, or of where the bytes come from."""
        found = [name for name in _PATH_COLUMNS if name in self.names and self._has_text(name)]
        return found[0] if found else None

    @property
    def largest_group(self) -> int:
        """Bytes of the largest row group, of the column with images."""
        metadata = self._file.metadata
        sizes = [0]
        for group in range(metadata.num_row_groups):
            row_group = metadata.row_group(group)
            chunks = (row_group.column(number) for number in range(row_group.num_columns))
            sizes += [
                chunk.total_uncompressed_size
                for chunk in chunks
                if chunk.path_in_schema.split(".")[0] == self.column
            ]
        return max(sizes)

    def rows(self, columns: Sequence[str]) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """Yield row group, row in it, and the values of those of the columns that are there.

        The bytes of images are not read.
        """
        names = [name for name in columns if name in self.names]
        if not self.holds_bytes:
            names.append(self.column)
        for group in range(self._file.num_row_groups):
            with _reading(InvalidArgumentError, f"{self.path}: expected a Parquet file"):
                if names:
                    values = self._file.read_row_group(group, names, use_threads=False).to_pylist()
                else:
                    values = [{}] * self._file.metadata.row_group(group).num_rows
            for row, fields in enumerate(values):
                yield group, row, fields


class _Contents:
    """The bytes in a column, read forwards in each row group: few rows are in memory at a time."""

    def __init__(self, path: str, column: str) -> None:
        parquet = pyarrow("pyarrow.parquet")
        # Pages are read when they are due. By default a whole row group is, which also stays.
        self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        is_struct = pyarrow().types.is_struct(self._file.schema_arrow.field(column).type)
        self._leaf = f"{column}.bytes" if is_struct else column
        self._group = -1
        self._next = 0
        self._last: Any = None

    def read(self, group: int, row: int) -> Any:
        """Return the value of a row; None beyond the last one."""
        if group != self._group or row < self._next - 1:
            self._last = None
            self._batches = self._file.iter_batches(
                batch_size=1, row_groups=[group], columns=[self._leaf], use_threads=False
            )
            self._group, self._next = group, 0
        while self._next <= row:
            self._last = next(self._batches, None)
            self._next += 1
        value = None if self._last is None else self._last.column(0)[0].as_py()
        return value.get("bytes") if isinstance(value, dict) else value


_open: dict[tuple[Any, ...], _Contents] = {}


def read_bytes(path: str, group: int, row: int, column: str) -> bytes:
    """Return the contents of one image of a table.

    Rows of one group are best asked for in order. The file that was read last stays open.
    """
    status = Path(path).stat()
    key = (path, status.st_mtime_ns, status.st_size, column)
    if key not in _open:
        _open.clear()
        _open[key] = _Contents(path, column)
    data = _open[key].read(group, row)
    if not data:
        raise InvalidArgumentError(f"{path}: expected bytes in row {row}, found none")
    return bytes(data)
