"""Which items the words of a batch name: files, folders, patterns, lists, tables, documents."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sam_rlx._internal.files.inputs import files_of, item_names, split
from sam_rlx._internal.files.suffixes import PassedOver, is_clip
from sam_rlx.apps.batch import columns, documents
from sam_rlx.apps.batch.items import Item
from sam_rlx.apps.batch.names import apart
from sam_rlx.apps.batch.parquet import ImageTable
from sam_rlx.errors import InvalidArgumentError

_LARGE_GROUP = 64_000_000  # bytes
# Tables and lists that do not belong to the inputs, so that their names say what is wrong.
_TEXT_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".txt")


@dataclass(frozen=True)
class Plan:
    """All items of a batch, in order.

    Attributes
    ----------
    items : list of Item
        Each file once, each with a name of its own.
    has_views : bool
        Whether some come from a list of views, which asks for PNG files.
    has_prompts, has_texts : bool
        Whether some come from a document or table that has such, though perhaps none for any image.
    notes : list of str
        What is passed over, and what is better known before a long run.
    """

    items: list[Item]
    has_views: bool
    has_prompts: bool = False
    has_texts: bool = False
    notes: list[str] = field(default_factory=list)


class _Found:
    """Items so far, without index and with names that others may have too."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.names: list[str | None] = []
        self.notes: list[str] = []
        self.has_views = self.has_prompts = self.has_texts = False
        self.passed_over = PassedOver()
        self._paths: set[str] = set()

    def add_file(self, path: Path) -> None:
        """Add a file once, without prompts."""
        absolute = os.path.abspath(path)  # noqa: PTH100  # links stay: fast for millions
        if absolute in self._paths:
            return
        self._paths.add(absolute)
        self.add(Item(0, "", absolute, is_clip=is_clip(path)), None)

    def add(self, item: Item, name: str | None) -> None:
        """Add an item, with the name that its source gives it."""
        self.items.append(item)
        self.names.append(name)

    def plan(self) -> Plan:
        """Return the items with numbers and names."""
        names = item_names(self.names, [item.path for item in self.items])
        items = [
            replace(item, index=index, name=name, folder="" if folder == name else folder)
            for index, (item, name, folder) in enumerate(
                zip(self.items, names, apart(names), strict=True)
            )
        ]
        notes = [*([f"passed over: {self.passed_over}"] if self.passed_over else []), *self.notes]
        return Plan(items, self.has_views, self.has_prompts, self.has_texts, notes)


def expand(words: Sequence[str], lists: Sequence[str] = (), images: Path | None = None) -> Plan:
    """Return the plan for words and lists of words.

    Parameters
    ----------
    words : sequence of str
        Files, folders (with all that is below them), patterns, ``@list.txt``, ``.parquet`` tables,
        ``.json`` documents.
    lists : sequence of str
        Text files with one word on each line; ``-`` is standard input.
    images : Path, optional
        Folder of the images that documents and tables name. Default: their own.

    Raises
    ------
    InvalidArgumentError
        There is no word, or a table or document is not valid.
    FileNotFoundError
        A folder, pattern or list has nothing, or a table or document does not exist.
    """
    found = _Found()
    plain, lines = split(words, lists)
    if not plain and not lines:
        raise InvalidArgumentError("inputs: expected files, folders or lists, found none")
    # A line of a list that leads nowhere is a row with an error; a word is a slip of the pen.
    for word, must in (*((word, True) for word in plain), *((line, False) for line in lines)):
        given = files_of(word, below=True, clips=True, must=must)
        found.passed_over.update(given.passed_over)
        for file in given.files:
            _add(found, file, images)
    return found.plan()


def _add(found: _Found, path: Path, images: Path | None) -> None:
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        _add_table(found, path, images)
    elif suffix == ".json":
        document = documents.read(path, images)
        found.has_views |= document.are_views
        found.has_prompts |= document.has_prompts
        if document.left_out is not None:
            found.notes.append(f"{path}: {document.left_out}")
        for each in document.images:
            absolute = os.path.abspath(each.path)  # noqa: PTH100
            clip = is_clip(each.path)
            item = Item(0, "", absolute, None, clip, each.hw, each.prompts, error=each.error)
            found.add(item, each.name)
    elif suffix in _TEXT_SUFFIXES:
        raise InvalidArgumentError(
            f"{path}: expected an image, a clip, a .parquet table, a .json document, or @ before "
            f"the name of a list, found {suffix}"
        )
    else:
        found.add_file(path)


def _add_table(found: _Found, path: Path, images: Path | None) -> None:
    table = ImageTable(path)
    chosen = columns.choose(table)
    found.has_prompts |= chosen.has_prompts
    found.has_texts |= "text" in chosen.of
    if chosen.other:
        found.notes.append(f"{path}: columns that are not read: {', '.join(chosen.other)}")
    if table.holds_bytes and table.largest_group > _LARGE_GROUP:
        megabytes = table.largest_group // 10**6
        found.notes.append(
            f"{path}: a row group has {megabytes} MB, and each worker needs more than twice that: "
            "smaller row groups need less memory"
        )
    for item, name in _rows(table, chosen, images):
        found.add(item, name)


def _rows(
    table: ImageTable, chosen: columns.Columns, images: Path | None
) -> Iterator[tuple[Item, str | None]]:
    base = table.path.resolve().parent if images is None else images
    label = table.path_column
    wanted = {*columns.NAMES, *chosen.read, *((label,) if label else ())}
    for group, row, fields in table.rows(sorted(wanted)):
        given = (fields[key] for key in columns.NAMES if fields.get(key) is not None)
        name = next(map(str, given), None)
        prompts, texts, error = None, None, None
        try:
            prompts, texts = chosen.prompts(fields), chosen.texts(fields)
        except InvalidArgumentError as wrong:
            error = f"{table.path}: row {row} of group {group}: {wrong}"
        if table.holds_bytes:
            path = os.path.abspath(table.path)  # noqa: PTH100
            name = name or fields.get(label or "") or f"{table.path.stem}-{group}-{row}"
            position = (group, row, table.column)
            yield Item(0, "", path, position, False, None, prompts, texts, error), name
        elif file := fields[table.column]:
            path = os.path.abspath(documents.named_file(base, file))  # noqa: PTH100
            yield Item(0, "", path, None, is_clip(path), None, prompts, texts, error), name
        else:
            error = f"{table.path}: row {row} of group {group}: expected a path, found {file!r}"
            path = os.path.abspath(table.path)  # noqa: PTH100
            name = name or f"{table.path.stem}-{group}-{row}"
            yield Item(0, "", path, None, False, None, prompts, texts, error), name
