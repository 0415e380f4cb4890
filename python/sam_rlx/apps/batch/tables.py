"""Which files are tables: Parquet by name or content, folders of them, and names as columns."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from sam_rlx._internal.files import marks
from sam_rlx._internal.files.suffixes import is_clip, is_image, telling
from sam_rlx.errors import InvalidArgumentError

_SUFFIXES = (".parquet", ".parq", ".pq")
_MAGIC = b"PAR1"
# The value of a row without one, of Hive and all that write as it does.
_NULL = "__HIVE_DEFAULT_PARTITION__"
_SHOWN = 3  # names


@dataclass(frozen=True)
class Tables:
    """The tables of a folder, and what is told of other files in it."""

    files: list[Path]
    notes: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.files)


def is_table(path: Path) -> bool:
    """Tell whether a file is a Parquet table: by its name, or where that says nothing.

    Programs call such files also ``t.pq``, ``t.parquet.gzip`` and ``t.snappy.parquet``.
    """
    if path.suffix.lower() in _SUFFIXES or ".parquet." in path.name.lower():
        return True
    if telling(path.name):
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:  # a line of a list that leads nowhere
        return False


def tables_of(folder: Path) -> Tables | None:
    """Return the tables in a folder that is one table, in the order of their names.

    That is a folder which is called as a table, or has tables and neither images nor clips.
    Names that begin with ``_`` or ``.`` are passed over, as all readers do.

    Raises
    ------
    InvalidArgumentError
        The folder is called as a table, and has none.
    """
    called = folder.suffix.lower() in _SUFFIXES
    files, others = [], []
    for path in _files(folder, set()):
        if path.suffix.lower() in _SUFFIXES or ".parquet." in path.name.lower():
            files.append(path)
        elif not called and (is_image(path.name) or is_clip(path)):
            return None
        else:
            others.append(path.relative_to(folder).as_posix())
    if called and not files:
        raise InvalidArgumentError(
            f"{folder}: expected Parquet files in a folder of this name, found none"
        )
    if not files:
        return None
    more = ", ..." if len(others) > _SHOWN else ""
    listed = f"{len(others)} files in a folder of tables ({', '.join(others[:_SHOWN])}{more})"
    return Tables(files, [f"passed over: {listed}"] if others else [])


def _files(folder: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the files of a folder and those below it, each folder once, without results of ours."""
    status = folder.stat()
    if (status.st_dev, status.st_ino) in seen or marks.is_batch(folder):
        return
    seen.add((status.st_dev, status.st_ino))
    for path in sorted(folder.iterdir()):
        if path.name.startswith(("_", ".")):
            continue
        if path.is_dir():
            yield from _files(path, seen)
        else:
            yield path


def partition_of(path: Path) -> dict[str, str | None]:
    """Return the columns that the folders of a table name, such as ``text=coin/part-0.parquet``."""
    columns: dict[str, str | None] = {}
    for folder in path.parents:
        name, equals, value = folder.name.partition("=")
        if not (equals and name):
            break
        columns[unquote(name)] = None if value == _NULL else unquote(value)
    return dict(reversed(columns.items()))
