"""Which images a command works on: files, folders, patterns and lists of files."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sam_rlx._internal.files.inputs import files_of, split
from sam_rlx._internal.files.inputs import unique_names as unique_names
from sam_rlx._internal.files.suffixes import PassedOver
from sam_rlx.apps.cli.common import UsageError


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
    passed_over : PassedOver
        What folders and patterns have besides.
    """

    files: list[Input]
    several: bool
    passed_over: PassedOver


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
    plain, lines = split(words, lists)
    if not plain and not lines and not lists:
        raise UsageError("expected IMAGE or --list, found none")
    several = len(plain) > 1 or bool(lines)
    paths: dict[str, Path] = {}
    passed_over = PassedOver()
    for word in (*plain, *lines):
        given = files_of(word)
        several = several or not given.alone
        passed_over.update(given.passed_over)
        for path in given.files:
            # Not `resolve`, which refuses a link to itself.
            paths.setdefault(os.path.realpath(path), path)
    files = list(paths.values())
    names = unique_names(files)
    named = [Input(*pair) for pair in zip(files, names, strict=True)]
    return Inputs(named, several, passed_over)
