"""What a writer may replace. Every writer asks here before it begins."""

import os
from collections.abc import Iterable
from pathlib import Path

from sam_rlx._internal.files import marks, suffixes
from sam_rlx.errors import InvalidArgumentError

_STARTS = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"GIF8", "GIF"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (0, b"BM", "BMP"),
    (8, b"WEBP", "WEBP"),
    (4, b"ftyp", "MP4"),
    (0, b"\x1aE\xdf\xa3", "Matroska"),
    (8, b"AVI ", "AVI"),
    (0, b"PK", "ZIP"),
    (0, b"GGUF", "GGUF"),
    (6, b"\0\0{", "safetensors"),
    (0, b"PAR1", "Parquet"),
    (0, b"\x80", "pickle"),
    (0, b"%PDF", "PDF"),
    (0, b"\x1f\x8b", "gzip"),
)
_ZIPS = ("NPZ", "ZIP")


def is_same_file(a: Path, b: Path) -> bool:
    """Whether two paths lead to one file, also through links."""
    try:
        return a.samefile(b)
    except OSError:  # one of them does not exist, or is a link to itself
        return os.path.realpath(a) == os.path.realpath(b)


def check_target(
    path: Path, kinds: Iterable[str], inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raise `InvalidArgumentError` if a file may not be written under a name.

    The suffix must be one of the kind, or say nothing about it. What is there must not be an input
    of this work, and no file of another kind that this library has not written.

    Parameters
    ----------
    path : Path
        The file that is written, or replaced.
    kinds : iterable of str
        What it becomes: keys of `suffixes.WRITTEN`.
    inputs : iterable of paths
        Files that are read, such as the clip of a session; of a folder also its files.
    """
    check_suffix(path, kinds)
    try:
        there = path.stat()
    except OSError:
        there = None
    for source in inputs:
        if _is_there(path, there, source):
            raise InvalidArgumentError(
                f"{path}: expected another file than the input, found {source} as both"
            )
    found = _other_kind(path, tuple(kinds))
    if found:
        raise InvalidArgumentError(
            f"{path}: expected a new file, or one of {' or '.join(kinds)}, found {found} that "
            "sam_rlx has not written: choose another name"
        )


def _is_there(path: Path, there: os.stat_result | None, source: str | os.PathLike[str]) -> bool:
    """Tell whether a file, or what is there, is an input: in a session of 100,000 frames fast."""
    try:
        found = os.stat(source)  # noqa: PTH116
    except OSError:
        return os.path.abspath(path) == os.path.abspath(source)  # noqa: PTH100
    return there is not None and os.path.samestat(there, found)


def check_suffix(path: Path, kinds: Iterable[str]) -> None:
    """Raise `InvalidArgumentError` if the suffix of a name says another kind of file."""
    named = suffixes.telling(path.name)
    right = [suffix for kind in kinds for suffix in suffixes.WRITTEN[kind]]
    if named and named not in right:
        raise InvalidArgumentError(
            f"{path}: expected a name that ends in {' or '.join(right)}, found {named!r}"
        )


def check_folder(path: Path) -> None:
    """Raise `InvalidArgumentError` if a new folder would have the name of a file."""
    if not path.is_dir() and suffixes.telling(path.name):
        raise InvalidArgumentError(
            f"{path}: expected the name of a folder, found one that ends in "
            f"{suffixes.telling(path.name)!r}"
        )


def _other_kind(path: Path, kinds: tuple[str, ...]) -> str:
    """Return the kind of a file that is there, "" if it may be replaced."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = file.read(16)
    found = next((kind for at, begin, kind in _STARTS if start[at:].startswith(begin)), "")
    if not found or found in kinds or (found in _ZIPS and not set(kinds).isdisjoint(_ZIPS)):
        return ""
    return "" if marks.is_own_file(path) else f"a file of {found}"
