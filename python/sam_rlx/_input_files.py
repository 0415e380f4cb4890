"""Which image files words name, and names for them. The command line and batches share this."""

import glob
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sam_rlx._internal.files.portable_names import portable_name
from sam_rlx.errors import InvalidArgumentError

# What is taken from a folder. A file that is named is read whatever its suffix.
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".avif", ".jp2", ".ppm", ".pgm"),
)
_MAX_NAME = 150  # bytes of a file's name that are the object's


def read_list(name: str) -> list[str]:
    """Return the lines of a text file, or of standard input for ``-``, without comments."""
    text = sys.stdin.read() if name == "-" else _contents(Path(name))
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise FileNotFoundError(f"--list: expected names of images in {name}, found none")
    return found


def _contents(path: Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"--list: expected a text file, found none at {path}")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"--list: expected a text file, found {path}: {error}"
        ) from error


def files_of(word: str) -> tuple[list[Path], bool]:
    """Return the files of one word, and whether it names a single file."""
    path = Path(word).expanduser()
    if path.is_dir():
        found = sorted(entry for entry in path.iterdir() if is_image(entry))
        if not found:
            raise FileNotFoundError(f"expected images in the folder {path}, found none")
        return found, False
    if path.exists() or not glob.has_magic(word):
        return [path], True
    matches = sorted(Path(entry) for entry in glob.glob(str(path), recursive=True))  # noqa: PTH207
    found = [entry for entry in matches if entry.is_file()]
    if not found:
        raise FileNotFoundError(f"expected files that match {word!r}, found none")
    return found, False


def is_image(path: Path) -> bool:
    """Whether a file of a folder is taken: by its suffix, and no hidden one."""
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()


def unique_names(paths: Iterable[Path]) -> list[str]:
    """Return a name for each file: its stem, with suffix or folder where others have it too.

    Capital and small letters do not make names different, since some file systems see none.
    """
    files = list(paths)
    groups: dict[str, list[Path]] = {}
    for path in files:
        groups.setdefault(path.stem.casefold(), []).append(path)
    names = {path: name for group in groups.values() for path, name in _names(group)}
    used: set[str] = set()
    result = []
    for path in files:
        free, number = names[path], 2
        while free.casefold() in used:
            free, number = f"{names[path]}-{number}", number + 1
        used.add(free.casefold())
        result.append(free)
    return result


def _names(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """Name files of one stem, in the shortest form that tells them apart."""
    names: list[str] = []
    for form in (("stem",), ("stem", "suffix"), ("folder", "stem"), ("folder", "stem", "suffix")):
        names = ["_".join(filter(None, map(_parts(path).get, form))) for path in files]
        if len({name.casefold() for name in names}) == len(names):
            break
    return zip(files, names, strict=True)


def _parts(path: Path) -> dict[str, str]:
    return {
        "stem": path.stem.strip(".") or "image",
        "suffix": path.suffix.lstrip("."),
        "folder": Path(os.path.abspath(path)).parent.name,  # noqa: PTH100  # links stay
    }


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
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{plain.encode()[:_MAX_NAME].decode('utf-8', 'ignore')}%{digest}"
