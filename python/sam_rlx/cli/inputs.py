"""Which images a command works on: files, folders, patterns and lists of files."""

import argparse
import glob
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sam_rlx.cli.common import UsageError

# What is taken from a folder. A file that is named is read whatever its suffix.
SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff"),
    *(".gif", ".avif", ".jp2", ".ppm", ".pgm"),
)


@dataclass(frozen=True)
class Input:
    """An image file, and the name of its results, which no other input of the command has."""

    path: Path
    name: str


@dataclass(frozen=True)
class Inputs:
    """The images of a command.

    Attributes
    ----------
    files : list of Input
        In the order of the command line, each file once.
    several : bool
        Whether results are sorted by input: more than one word, a folder, a pattern or a list,
        however many images those give.
    """

    files: list[Input]
    several: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``IMAGE ...`` and ``--list``."""
    parser.add_argument(
        "images",
        metavar="IMAGE",
        nargs="*",
        default=[],
        help="image file; or several, folders, quoted patterns such as 'photos/*.jpg', and "
        "@list.txt, a file with one of these on each line",
    )
    parser.add_argument(
        "--list",
        action="append",
        default=[],
        metavar="FILE",
        help="the images that a file names, one on each line, from the current folder; # begins a "
        "comment; - reads standard input",
    )


def expand(words: Sequence[str], lists: Sequence[str] = ()) -> Inputs:
    """Return the images that words and lists name.

    Raises
    ------
    UsageError
        There is no word.
    FileNotFoundError
        A folder, a pattern or a list has no image. A named file that does not exist is no error
        here: its turn comes.
    """
    listed = list(lists)
    plain = []
    for word in words:
        if word.startswith("@") and not Path(word).exists():
            listed.append(word[1:])
        else:
            plain.append(word)
    if not plain and not listed:
        raise UsageError("expected IMAGE or --list, found none")
    several = len(plain) > 1 or bool(listed)
    for name in listed:
        plain += _lines(name)
    paths: dict[Path, Path] = {}
    for word in plain:
        found, alone = _files(word)
        several = several or not alone
        for path in found:
            paths.setdefault(path.resolve(), path)
    files = list(paths.values())
    names = unique_names(files)
    return Inputs([Input(*pair) for pair in zip(files, names, strict=True)], several)


def _lines(name: str) -> list[str]:
    text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8-sig")
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise FileNotFoundError(f"--list: expected names of images in {name}, found none")
    return found


def _files(word: str) -> tuple[list[Path], bool]:
    """Return the files of one word, and whether it names a single file."""
    path = Path(word).expanduser()
    if path.is_dir():
        found = sorted(entry for entry in path.iterdir() if _is_image(entry))
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


def _is_image(path: Path) -> bool:
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
    for form in ("{stem}", "{stem}_{suffix}", "{folder}_{stem}", "{folder}_{stem}_{suffix}"):
        names = [
            form.format(
                stem=path.stem.strip(".") or "image",
                suffix=path.suffix.lstrip("."),
                folder=path.resolve().parent.name,
            )
            for path in files
        ]
        if len({name.casefold() for name in names}) == len(names):
            break
    return zip(files, names, strict=True)
