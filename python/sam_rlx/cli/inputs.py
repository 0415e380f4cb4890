"""Which images a command works on: files, folders, patterns and lists of files."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sam_rlx._input_files import files_of, read_list
from sam_rlx._input_files import unique_names as unique_names
from sam_rlx.cli.common import UsageError


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
        plain += read_list(name)
    paths: dict[Path, Path] = {}
    for word in plain:
        found, alone = files_of(word)
        several = several or not alone
        for path in found:
            paths.setdefault(path.resolve(), path)
    files = list(paths.values())
    names = unique_names(files)
    return Inputs([Input(*pair) for pair in zip(files, names, strict=True)], several)
