"""Which files words name, and names for their results. All commands and batches share this."""

import glob
import os
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sam_rlx._internal.files import marks
from sam_rlx._internal.files.hints import not_found
from sam_rlx._internal.files.patterns import matches
from sam_rlx._internal.files.portable_names import portable_name
from sam_rlx._internal.files.suffixes import RESULT, PassedOver, images_of
from sam_rlx.errors import InvalidArgumentError

_MAX_NAME = 150  # bytes of a file's name that are the object's


def home(name: str | os.PathLike[str]) -> Path:
    """Return a path whose leading ``~`` or ``~user`` is a home, if there is such a user.

    A file that is really called so, such as ``~scan.png``, is that file.
    """
    path = Path(name)
    if not os.fspath(name).startswith("~") or os.path.lexists(path):
        return path
    try:
        return path.expanduser()
    except RuntimeError:  # no such user
        return path


def read_list(name: str) -> list[str]:
    """Return the lines of a text file, or of standard input for ``-``, without comments.

    A line that begins with ``#`` is a comment, unless there is a file of that name.
    """
    text = _text_of(name)
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not (line[0] == "#" and not _exists(line))]
    if not found:
        raise FileNotFoundError(f"--list: expected names of images in {name}, found none")
    return found


def _exists(name: str) -> bool:
    return "\0" not in name and os.path.lexists(name)


def _text_of(name: str) -> str:
    path = Path("stdin") if name == "-" else home(name)
    try:
        if name == "-":
            if sys.stdin is None:
                raise FileNotFoundError("--list -: expected an open standard input, found none")
            return sys.stdin.read()
        if not path.exists():
            raise FileNotFoundError(f"--list: expected a text file, found none at {path}")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"--list: expected a text file, found {path}: {error}"
        ) from error


def split(words: Iterable[str], lists: Iterable[str] = ()) -> tuple[list[str], list[str]]:
    """Return the words that name inputs, and the lines of lists and of ``@list`` words."""
    listed, plain = list(lists), []
    for word in words:
        if word.startswith("@") and not _exists(word):
            listed.append(word[1:])
        else:
            plain.append(word)
    return plain, [line for name in listed for line in read_list(name)]


@dataclass(frozen=True)
class Given:
    """The files of one word.

    Attributes
    ----------
    files : list of Path
    alone : bool
        Whether the word is the name of a single file.
    passed_over : PassedOver
        What a folder or a pattern has besides.
    """

    files: list[Path]
    alone: bool
    passed_over: PassedOver


def files_of(word: str, *, below: bool = False, clips: bool = False, must: bool = False) -> Given:
    """Return the files of a word: of a folder, a pattern, or the one that it names.

    Parameters
    ----------
    word : str
        From a user.
    below, clips : bool
        As for `images_of`.
    must : bool
        Whether a single file must be there. Otherwise that is found when its turn comes.

    Raises
    ------
    FileNotFoundError
        A folder or a pattern has nothing, or there is no such file and it must be there.
    OSError
        A folder cannot be listed.
    InvalidArgumentError
        The word cannot be the name of a file.
    """
    if "\0" in word or not word:
        raise InvalidArgumentError(f"inputs: expected the name of a file, found {word!r}")
    path = home(word)
    if path.is_dir():
        found = images_of(path, below=below, clips=clips)
        return Given(found.files, False, found.passed_over)
    if os.path.lexists(path) or not glob.has_magic(word):
        if not os.path.lexists(path):
            path = existing(path)
            if must and not os.path.lexists(path):
                raise not_found("inputs", word, "a file, a folder or a pattern")
        return Given([path], True, PassedOver())
    return _matches(word, path)


def _matches(word: str, path: Path) -> Given:
    """Return the files that a pattern matches, but for results of this library."""
    passed_over, files = PassedOver(), []
    batches: dict[Path, bool] = {}
    for file in matches(path):
        if (file.is_file() and marks.is_result(file)) or _is_of_batch(file.parent, batches):
            passed_over.add(RESULT, str(file))
        else:
            files.append(file)
    if not files:
        there = f": {passed_over} passed over" if passed_over else ""
        raise FileNotFoundError(f"expected files that match {word!r}, found none{there}")
    return Given(files, False, passed_over)


def _is_of_batch(folder: Path, known: dict[Path, bool]) -> bool:
    if folder not in known:
        above = folder.parent
        known[folder] = marks.is_batch(folder) or (above != folder and _is_of_batch(above, known))
    return known[folder]


def check_regular(path: Path) -> None:
    """Raise `InvalidArgumentError` for what a folder may have beside files: a pipe never ends."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidArgumentError(f"{path}: expected a file, found something else")


# ------------------------------------------------------------------ names in documents


def compared_name(name: str) -> str:
    """Return a name of a file as names are compared.

    Systems write accents in two forms of Unicode, and folders with two kinds of slashes.
    """
    return unicodedata.normalize("NFC", name.replace("\\", "/"))


def existing(path: Path) -> Path:
    """Return the file that a path names, in whatever form of Unicode or slashes it has its name.

    Of a path that leads nowhere in any form: the path itself.
    """
    if os.path.lexists(path):
        return path
    text = os.fspath(path)
    for slashes in (text, text.replace("\\", "/")):
        for form in ("NFC", "NFD"):
            other = Path(unicodedata.normalize(form, slashes))
            if os.path.lexists(other):
                return other
    return path


# ------------------------------------------------------------------ names of results


def unique(names: Sequence[str]) -> list[str]:
    """Return names that no two have: the first of equal ones stays, others get a number.

    Capital and small letters do not make numbered names different, since some file systems see
    none.
    """
    used = {name.casefold() for name in names}
    first: set[str] = set()
    numbers: dict[str, int] = {}
    result = []
    for name in names:
        free = name
        if name in first:
            number = numbers.get(name.casefold(), 2)
            while (free := f"{name}-{number}").casefold() in used:
                number += 1
            numbers[name.casefold()] = number + 1
            used.add(free.casefold())
        first.add(free)
        result.append(free)
    return result


def unique_names(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return a name for each file: its stem, with suffix or folder where others have it too.

    Capital and small letters do not make names different, since some file systems see none.
    """
    files = [os.fspath(path) for path in paths]
    groups: dict[str, list[str]] = {}
    for path in files:
        groups.setdefault(_stem(path).casefold(), []).append(path)
    names = {path: name for group in groups.values() for path, name in _names(group)}
    used: set[str] = set()
    numbers: dict[str, int] = {}
    result = []
    for path in files:
        free = names[path]
        if free.casefold() in used:
            number = numbers.get(free.casefold(), 2)
            while (numbered := f"{free}-{number}").casefold() in used:
                number += 1
            numbers[free.casefold()] = number + 1
            free = numbered
        used.add(free.casefold())
        result.append(free)
    return result


def item_names(given: Sequence[str | None], paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    """Return a name for each item: the one that its source gives, else that of its file.

    A given name stays as it is: results are joined by it. Only the second of equal ones gets a
    number, and a file whose name is given to another item.
    """
    unnamed = [path for name, path in zip(given, paths, strict=True) if name is None]
    files = iter(unique_names(unnamed))
    # Given names come first: a number goes to the file.
    order = sorted(range(len(given)), key=lambda at: given[at] is None)
    plain = [name if name is not None else next(files) for name in (given[at] for at in order)]
    names = [""] * len(order)
    for at, name in zip(order, unique(plain), strict=True):
        names[at] = name
    return names


def _names(files: list[str]) -> Iterator[tuple[str, str]]:
    """Name files of one stem, in the shortest form that tells them apart."""
    names: list[str] = []
    for form in ((_stem,), (_stem, _suffix), (_folder, _stem), (_folder, _stem, _suffix)):
        names = ["_".join(filter(None, (part(path) for part in form))) for path in files]
        if len({name.casefold() for name in names}) == len(names):
            break
    return zip(files, names, strict=True)


def _stem(path: str) -> str:
    return _parts(path)[0].strip(".") or "image"


def _suffix(path: str) -> str:
    return _parts(path)[1]


def _parts(path: str) -> tuple[str, str]:
    """Return stem and suffix as `Path` has them, a hundred times as fast."""
    name = os.path.basename(path)  # noqa: PTH119
    stem, dot, suffix = name.rpartition(".")
    return (stem, suffix) if dot and stem and suffix else (name, "")


def _folder(path: str) -> str:
    return os.path.basename(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH119, PTH120


def file_name(name: str) -> str:
    """Return how files of an object begin: other characters become the hexadecimal of their bytes.

    So do parts that Windows refuses, see `portable_name`. Two names never give the same beginning.
    Long ones end in a hash.
    """
    plain = "".join(
        c
        if c.isalnum() or c in "-_" or (c == "." and index)
        else "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "surrogateescape"))
        for index, c in enumerate(name)
    )
    plain = portable_name(plain)
    if len(plain.encode()) <= _MAX_NAME:
        return plain
    import hashlib  # slow to load, seldom needed

    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{plain.encode()[:_MAX_NAME].decode('utf-8', 'ignore')}%{digest}"
