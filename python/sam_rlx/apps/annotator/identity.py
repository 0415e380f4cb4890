"""Which image is which: by path, size, time and content, never by a bare name."""

import hashlib
import io
import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from sam_rlx.apps.annotator.values import Item, Kind

_DIGITS = 16  # of a key
_WHOLE = 64 << 20  # bytes up to which a file is hashed as a whole
_PIECE = 1 << 20
_PIECES = 14  # between the first and the last one


def key_of(path: Path) -> str:
    """Return the key of a file: the first 16 hexadecimal digits of SHA-256 of size and content.

    Of a file above 64 MB: of its size, its first and last MB, and 14 more at equal distances.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return _digest(file, size)


def key_of_bytes(contents: bytes) -> str:
    """Return the key that a file with these contents has."""
    return _digest(io.BytesIO(contents), len(contents))


def _digest(file: BinaryIO, size: int) -> str:
    found = hashlib.sha256(f"{size}\n".encode())
    if size <= _WHOLE:
        while piece := file.read(_PIECE):
            found.update(piece)
    else:
        last = size - _PIECE
        for k in range(_PIECES + 2):
            file.seek(last * k // (_PIECES + 1))
            found.update(file.read(_PIECE))
    return found.hexdigest()[:_DIGITS]


def stat_of(path: Path) -> tuple[int, int]:
    """Return size in bytes and time of change in nanoseconds."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def relative(path: Path, root: Path) -> str:
    """Return a path relative to the folder of a project: with ``/``, in NFC.

    A file outside of the folder has its name alone.
    """
    try:
        inside = path.relative_to(root)
    except ValueError:
        inside = Path(path.name)
    return unicodedata.normalize("NFC", inside.as_posix())


@dataclass(frozen=True)
class Matched:
    """Items of the files that are there, and what has become of those that were known.

    Attributes
    ----------
    items : list of Item
        One for each file, in the order of the files.
    renamed : list of (str, str)
        Paths before and after, of files with the same content.
    changed : list of Item
        Items whose file has other content: their objects are held aside.
    missing : list of Item
        Items whose content is not there: no file has it, and at their path is no file, or one that
        was renamed.
    """

    items: list[Item]
    renamed: list[tuple[str, str]] = field(default_factory=list)
    changed: list[Item] = field(default_factory=list)
    missing: list[Item] = field(default_factory=list)


def matched(
    files: Sequence[Path],
    names: Sequence[str],
    known: Iterable[Item],
    *,
    key: Callable[[Path], str] = key_of,
    kind: Kind = "image",
) -> Matched:
    """Tell which known item each file is, or make a new one.

    Path, size and time equal: it is taken. Else the content decides: a file with the content of a
    known item that is not at its path was renamed. Of two files with equal content the path
    decides. A file with the path of a known item and other content is a new item.

    Parameters
    ----------
    files : sequence of Path
    names : sequence of str
        Their paths as items have them.
    known : iterable of Item
        Of the project.
    key : callable
        Returns the key of a file.
    kind : {"image", "clip"}
        Of new items.
    """
    listed = list(known)
    left = {one.key: one for one in listed}
    by_path: dict[str, list[Item]] = {}
    for one in listed:
        by_path.setdefault(one.path, []).append(one)
    found: list[Item | None] = []
    contents: dict[str, str] = {}  # of the files that are not taken by path, by name
    for path, name in zip(files, names, strict=True):
        stat = stat_of(path)
        at_path = [one for one in by_path.get(name, ()) if one.key in left]
        item = next((one for one in at_path if one.stat == stat), None)
        if item is None:
            contents[name] = key(path)
            same = [one for one in at_path if _content(one.key) == contents[name]]
            item = replace(same[0], stat=stat) if same else None
        if item is not None:
            del left[item.key]
        found.append(item)
    result, taken = Matched([]), {one.key for one in listed}
    for path, name, item in zip(files, names, found, strict=True):
        if item is None:
            item = _elsewhere(path, name, contents[name], left, result)
        if item is None:
            result.changed.extend(one for one in by_path.get(name, ()) if one.key in left)
            item = Item(free_key(contents[name], taken), name, kind, stat=stat_of(path))
            taken.add(item.key)
        result.items.append(item)
    changed = {one.key for one in result.changed}
    result.missing.extend(one for key, one in left.items() if key not in changed)
    return result


def _elsewhere(
    path: Path, name: str, content: str, left: dict[str, Item], result: Matched
) -> Item | None:
    """Return the known item of a content that no file at its path has."""
    one = next((one for one in left.values() if _content(one.key) == content), None)
    if one is None:
        return None
    del left[one.key]
    result.renamed.append((one.path, name))
    return replace(one, path=name, stat=stat_of(path))


def _content(key: str) -> str:
    return key.partition("-")[0]


def free_key(content: str, taken: Iterable[str]) -> str:
    """Return a key of a content: with a number behind it where another file has the same."""
    taken = set(taken)
    if content not in taken:
        return content
    return next(key for k in range(2, 1 << 30) if (key := f"{content}-{k}") not in taken)
