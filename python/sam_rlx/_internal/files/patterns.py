"""Files that a pattern such as ``photos/**/*.png`` matches."""

import fnmatch
import glob
import os
from collections.abc import Iterator
from pathlib import Path

_ANY = "**"


def matches(pattern: Path) -> list[Path]:
    """Return the files of a pattern, in the order of their names; each folder is walked once.

    As `glob.glob`: ``*``, ``?`` and ``[...]`` match names, ``**`` folders of any depth, and none of
    them names that begin with a dot. Links to folders are followed.

    Raises
    ------
    OSError
        A folder cannot be listed, which `glob.glob` passes over.
    """
    fixed = [pattern.anchor] if pattern.anchor else []
    parts = list(pattern.parts[len(fixed) :])
    if parts[-1] == _ANY:
        parts.append("*")
    return sorted(set(_below(Path(*fixed), parts, set())))


def _below(folder: Path, parts: list[str], seen: set[tuple[int, int, int]]) -> Iterator[Path]:
    """Yield the files in a folder that match.

    `seen` are the folders that a ``**`` has come to, each with the number of parts from there on.
    """
    name, *rest = parts
    if name == _ANY:
        status = folder.stat()
        identity = (len(parts), status.st_dev, status.st_ino)
        if identity not in seen:
            seen.add(identity)
            yield from _below(folder, rest, seen)
            for inner in _entries(folder, "*", folders=True):
                yield from _below(inner, parts, seen)
        return
    if not glob.has_magic(name):
        found: Iterator[Path] = filter(Path.exists, [folder / name])
    else:
        found = _entries(folder, name, folders=bool(rest))
    for path in found:
        if not rest:
            if not path.is_dir():
                yield path
        elif path.is_dir():
            yield from _below(path, rest, seen)


def _entries(folder: Path, pattern: str, *, folders: bool) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if fnmatch.fnmatch(entry.name, pattern))
    for name in names:
        if name.startswith(".") and not pattern.startswith("."):
            continue
        path = folder / name
        if not folders or path.is_dir():
            yield path
