"""Which items the words of a batch name: files, folders, patterns, lists, tables, documents."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sam_rlx._batch import documents
from sam_rlx._batch.items import Item, Prompt
from sam_rlx._batch.parquet import ImageTable
from sam_rlx._internal.files.inputs import files_of, item_names, split
from sam_rlx._internal.files.suffixes import PassedOver, is_clip
from sam_rlx.errors import InvalidArgumentError

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
    passed_over : PassedOver
        What folders and patterns have besides.
    """

    items: list[Item]
    has_views: bool
    has_prompts: bool = False
    has_texts: bool = False
    passed_over: PassedOver = field(default_factory=PassedOver)


class _Found:
    """Items so far, without index and with names that others may have too."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.names: list[str | None] = []
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
        numbered = enumerate(zip(self.items, names, strict=True))
        items = [replace(item, index=index, name=name) for index, (item, name) in numbered]
        return Plan(items, self.has_views, self.has_prompts, self.has_texts, self.passed_over)


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
        table = ImageTable(path)
        found.has_prompts |= not {"points", "boxes"}.isdisjoint(table.names)
        found.has_texts |= "text" in table.names
        for item, name in _rows(table, images):
            found.add(item, name)
    elif suffix == ".json":
        document = documents.read(path, images)
        found.has_views |= document.are_views
        found.has_prompts |= document.has_prompts
        for each in document.images:
            absolute = os.path.abspath(each.path)  # noqa: PTH100
            item = Item(0, "", absolute, None, is_clip(each.path), each.hw, each.prompts)
            found.add(item, each.name)
    elif suffix in _TEXT_SUFFIXES:
        raise InvalidArgumentError(
            f"{path}: expected an image, a clip, a .parquet table, a .json document, or @ before "
            f"the name of a list, found {suffix}"
        )
    else:
        found.add_file(path)


_NAMES = ("name", "id", "item")


def _rows(table: ImageTable, images: Path | None) -> Iterator[tuple[Item, str | None]]:
    base = table.path.resolve().parent if images is None else images
    columns = (*_NAMES, "points", "labels", "boxes", "text")
    for group, row, fields in table.rows(columns):
        name = next((str(fields[key]) for key in _NAMES if fields.get(key) is not None), None)
        where = f"{table.path}: row {row} of group {group}"
        prompts, texts = _prompts(where, fields), _texts(where, fields)
        if table.holds_bytes:
            path, position = os.path.abspath(table.path), (group, row, table.column)  # noqa: PTH100
            name = name or f"{table.path.stem}-{group}-{row}"
            yield Item(0, "", path, position, False, None, prompts, texts), name
        else:
            given = fields[table.column]
            if not given:
                raise InvalidArgumentError(f"{where}: expected a path, found {given!r}")
            path = os.path.abspath(base / given)  # noqa: PTH100
            clip = is_clip(path)
            yield Item(0, "", path, None, clip, None, prompts, texts), name


def _prompts(where: str, fields: dict[str, Any]) -> tuple[Prompt, ...]:
    """Return what the columns points, labels and boxes of a row describe."""
    prompts = []
    points = fields.get("points") or []
    labels = fields.get("labels") or [1] * len(points)
    try:
        if len(labels) != len(points):
            raise ValueError(f"{len(points)} points and {len(labels)} labels")
        if points:
            pairs = tuple((float(x), float(y)) for x, y in points)
            prompts.append(
                Prompt("points", pairs, tuple(documents.whole(label) for label in labels))
            )
        for number, (x0, y0, x1, y1) in enumerate(fields.get("boxes") or []):
            box = (float(x0), float(y0), float(x1), float(y1))
            prompts.append(Prompt(f"box-{number}", box=box))
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{where}: expected points [[x, y], ...], labels and boxes [[x0, y0, x1, y1], ...], "
            f"found {error}"
        ) from error
    return tuple(prompts)


def _texts(where: str, fields: dict[str, Any]) -> tuple[str, ...]:
    text = fields.get("text")
    if text is None:
        return ()
    texts = [text] if isinstance(text, str) else text
    if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
        raise InvalidArgumentError(f"{where}: expected text or a list of texts, found {text!r}")
    return tuple(texts)
