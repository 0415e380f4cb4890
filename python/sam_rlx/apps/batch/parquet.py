"""Parquet files: the rows of results, and tables of images as input. Needs pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sam_rlx._internal.files.atomic import atomic_write
from sam_rlx._internal.files.base64_text import from_base64
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


def plain_type(kind: Any) -> Any:
    """Return the type of the values that a dictionary or an extension type holds."""
    pa = pyarrow()
    while isinstance(kind, (pa.BaseExtensionType, pa.DictionaryType)):
        is_dictionary = isinstance(kind, pa.DictionaryType)
        kind = kind.value_type if is_dictionary else kind.storage_type
    return kind


def is_text(kind: Any) -> bool:
    """Tell whether a type is one of those for text."""
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    """Tell whether a type is one of those for bytes."""
    types = pyarrow().types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def is_list(kind: Any) -> bool:
    """Tell whether a type is one of those for lists."""
    types = pyarrow().types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _as_list(column: Any) -> list[Any]:
    """Return the values of a column; those of an extension type as it stores them."""
    pa = pyarrow()
    values: list[Any] = []
    for chunk in column.chunks:
        while isinstance(chunk, pa.ExtensionArray):
            chunk = chunk.storage
        values += chunk.to_pylist()
    return values


class ImageTable:
    """A Parquet file with images, or with their paths.

    Parameters
    ----------
    path : Path
        The file.
    partition : mapping, optional
        Columns whose values are the same in all rows, from the names of folders.

    Attributes
    ----------
    names : list of str
        All columns.
    column : str
        The column with paths or bytes.
    holds_bytes : bool
        Whether it has the contents of image files.
    """

    def __init__(self, path: Path, partition: Mapping[str, str | None] | None = None) -> None:
        parquet = pyarrow("pyarrow.parquet")
        self.path = path
        with _reading(InvalidArgumentError, f"{path}: expected a Parquet file"):
            self._file = parquet.ParquetFile(path)
            names = list(self._file.schema_arrow.names)
        if len(set(names)) < len(names):
            raise InvalidArgumentError(
                f"{path}: expected columns of different names, found {names}"
            )
        given = partition or {}
        self._partition = {name: value for name, value in given.items() if name not in names}
        self.names = [*names, *self._partition]
        found = [name for name in _IMAGE_COLUMNS if name in names]
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
        if name in self._partition:
            return pyarrow().string()
        return self._file.schema_arrow.field(name).type

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return int(self._file.metadata.num_rows)

    def _has_bytes(self, name: str) -> bool:
        kind = plain_type(self.type_of(name))
        if name in _PATH_COLUMNS:  # some programs write texts without saying that they are texts
            return False
        return is_bytes(kind) or self._member(name, "bytes") is not None

    def _has_text(self, name: str) -> bool:
        kind = plain_type(self.type_of(name))
        return is_text(kind) or (is_bytes(kind) and name in _PATH_COLUMNS)

    def _member(self, name: str, member: str) -> str | None:
        """Return a member of a struct, as columns of a file are named."""
        kind = plain_type(self.type_of(name))
        is_struct = pyarrow().types.is_struct(kind) and kind.get_field_index(member) >= 0
        return f"{name}.{member}" if is_struct else None

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

        The bytes of images are not read: None is there for null ones, and True for others. The
        value of a struct is that for its bytes, and its path is under ``"column.path"``.
        """
        names = [name for name in columns if name in self.names and name not in self._partition]
        if not self.holds_bytes and self.column not in names:
            names.append(self.column)
        path = self._member(self.column, "path") if self.holds_bytes else None
        for group in range(self._file.num_row_groups):
            with _reading(InvalidArgumentError, f"{self.path}: expected a Parquet file"):
                found = {name: _as_list(self._read(group, name)) for name in names}
                if self.holds_bytes:
                    found[self.column] = self._there(group)
                if path is not None:
                    structs = _as_list(self._read(group, path))
                    found[path] = [None if one is None else one["path"] for one in structs]
            for row in range(self._file.metadata.row_group(group).num_rows):
                fields = {name: values[row] for name, values in found.items()}
                yield group, row, {**self._partition, **fields}

    def _read(self, group: int, column: str) -> Any:
        return self._file.read_row_group(group, [column], use_threads=False).column(0)

    def _there(self, group: int) -> list[bool | None]:
        """Tell which rows have contents; they are looked at where the file does not tell."""
        leaf = self._member(self.column, "bytes") or self.column
        metadata = self._file.metadata.row_group(group)
        for number in range(metadata.num_columns):
            chunk = metadata.column(number)
            if chunk.path_in_schema == leaf and chunk.statistics is not None:
                if chunk.statistics.null_count == 0:
                    return [True] * metadata.num_rows
                if chunk.statistics.null_count == metadata.num_rows:
                    return [None] * metadata.num_rows
        found: list[bool | None] = []
        batches = self._file.iter_batches(
            batch_size=1, row_groups=[group], columns=[leaf], use_threads=False
        )
        for batch in batches:
            value = batch.column(0)[0].as_py()
            content = value["bytes"] if isinstance(value, dict) else value
            found.append(None if content is None else True)
        return found


class _Contents:
    """The bytes in a column, read forwards in each row group: few rows are in memory at a time."""

    def __init__(self, path: str, column: str) -> None:
        parquet = pyarrow("pyarrow.parquet")
        # Pages are read when they are due. By default a whole row group is, which also stays.
        self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        kind = plain_type(self._file.schema_arrow.field(column).type)
        is_struct = pyarrow().types.is_struct(kind)
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
    return from_base64(column, data) if isinstance(data, str) else bytes(data)
