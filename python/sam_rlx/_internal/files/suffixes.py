"""Suffixes of files by kind, and which files a folder gives."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from sam_rlx._internal.files import marks

# What is taken from a folder. A file that is named is read whatever its suffix.
IMAGES = (
    *(".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".webp", ".bmp", ".dib"),
    *(".tif", ".tiff", ".gif", ".avif", ".jp2", ".j2k", ".jpx", ".jpf", ".j2c", ".jpc"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".heic", ".heif"),
)
CLIPS = (
    *(".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts"),
    *(".flv", ".wmv", ".3gp", ".ogv", ".mxf"),
)
# What a writer's file may be called, by the name of its kind.
WRITTEN = {
    "JSON": (".json",),
    "NPZ": (".npz",),
    "ZIP": (".zip",),
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "WEBP": (".webp",),
    "MP4": (".mp4",),
    "safetensors": (".safetensors",),
    "GGUF": (".gguf",),
    "Parquet": (".parquet",),
    "XML": (".xml",),
    "HTML": (".html", ".htm"),
    "CSV": (".csv",),
    "GeoJSON": (".geojson", ".json"),
    "text": (".txt",),
    "YAML": (".yaml", ".yml"),
}
# Suffixes that say what a file is. Others, such as ".tmp" or the ".5" of "v1.5", say nothing.
_TELLING = frozenset(
    (
        *IMAGES,
        *CLIPS,
        *(suffix for suffixes in WRITTEN.values() for suffix in suffixes),
        *(".npy", ".tsv", ".jsonl", ".ndjson", ".md", ".toml"),
        *(".pt", ".pth", ".bin", ".ckpt", ".onnx", ".ggml", ".pkl", ".h5", ".hdf5", ".tar"),
        *(".gz", ".xz", ".bz2", ".zst", ".7z", ".rar", ".pdf", ".svg", ".eps", ".ps", ".psd"),
        *(".ico", ".tga", ".exr", ".hdr", ".dcm", ".nii", ".mp3", ".wav", ".py", ".ipynb", ".js"),
        *(".doc", ".docx", ".xls", ".xlsx", ".ppt", ".pptx", ".db", ".sqlite", ".exe", ".dll"),
    )
)
EXPORTS = "exports"  # what the annotator writes beside a project, in a folder of this name
# Files of a project of the annotator: its snapshot, log and lock, and what was set aside.
_PROJECT = re.compile(r"(?:.+\.)?sam_rlx(?:\.project(?: \(.+\))?)?\.(?:json|log|lock)")
_TRANSPORT_STREAMS = (".ts", ".mts", ".m2ts")
_SYNC = b"G"  # begins each packet of a transport stream
_PACKETS = ((0, 188), (4, 192))  # where it is in the first one, and the size of each
_SHOWN = 3  # names that a summary lists of each reason


def is_image(name: str) -> bool:
    """Tell whether a file is called as images are."""
    return _suffix(name) in IMAGES


def is_clip(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is called as clips are.

    ``.ts`` is also the suffix of a programming language: such a file is a clip if it begins as one.
    A file that cannot be read is what its name says.
    """
    suffix = _suffix(os.fspath(path))
    if suffix not in CLIPS:
        return False
    if suffix not in _TRANSPORT_STREAMS:
        return True
    try:
        with Path(path).open("rb") as file:
            start = file.read(256)
    except OSError:
        return True
    return any(
        start[at : at + 1] == _SYNC and start[at + size : at + size + 1] in (b"", _SYNC)
        for at, size in _PACKETS
    )


def telling(name: str) -> str:
    """Return the suffix of a name in small letters, "" if it says nothing about the kind."""
    suffix = _suffix(name)
    return suffix if suffix in _TELLING else ""


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122  # fast for millions


@dataclass
class PassedOver:
    """What was not taken from folders: for each reason the number, and the first names.

    The text of one is a summary for people, "" if nothing was passed over.
    """

    counts: dict[str, int] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)

    def add(self, reason: str, name: str) -> None:
        """Count one; `reason` is a noun in singular and plural, ``"hidden file|hidden files"``."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if self.counts[reason] <= _SHOWN:
            self.names.setdefault(reason, []).append(name)

    def update(self, other: "PassedOver") -> None:
        """Take in what was passed over elsewhere."""
        for reason, count in other.counts.items():
            self.counts[reason] = self.counts.get(reason, 0) + count
            some = [*self.names.get(reason, []), *other.names.get(reason, [])]
            self.names[reason] = some[:_SHOWN]

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        parts = []
        for reason, count in self.counts.items():
            one, _, several = reason.partition("|")
            more = ", ..." if count > len(self.names[reason]) else ""
            listed = ", ".join(self.names[reason]) + more
            parts.append(f"{count} {one if count == 1 else several} ({listed})")
        return ", ".join(parts)


OTHER = "file of another kind|files of other kinds"
HIDDEN = "hidden file or folder|hidden files or folders"
FOLDER = "folder|folders"
AGAIN = "link to a folder that is listed already|links to folders that are listed already"
RESULTS = "folder of results|folders of results"
RESULT = "result of sam_rlx|results of sam_rlx"


@dataclass(frozen=True)
class Listing:
    """What a folder gives.

    Attributes
    ----------
    files : list of Path
        In the order of their names: those of a folder before those of the folders in it.
    passed_over : PassedOver
        What else is there.
    """

    files: list[Path]
    passed_over: PassedOver


def images_of(
    folder: str | os.PathLike[str], *, below: bool = False, clips: bool = False
) -> Listing:
    """Return the images of a folder. Every surface asks here.

    Files are chosen by their suffix; whether each can be read is seen when its turn comes. Links to
    folders are followed, each folder once. Hidden files and folders, ``._a.png`` of macOS among
    them, are passed over, and so are results of this library: folders of a batch, overlays and
    masks.

    Parameters
    ----------
    folder : str or path
        An existing folder.
    below : bool
        Also the images of all folders in it.
    clips : bool
        Also video files.

    Raises
    ------
    FileNotFoundError
        There is no image; the error says what is there.
    OSError
        A folder cannot be listed.
    """
    top = Path(folder)
    found = Listing([], PassedOver())
    if marks.is_batch(top):
        found.passed_over.add(RESULTS, str(top))
    else:
        _walk(top, "", below, clips, found, {_identity(top)})
    if not found.files:
        there = f": {found.passed_over} passed over" if found.passed_over else ""
        raise FileNotFoundError(f"expected images in the folder {top}, found none{there}")
    return found


def _walk(
    folder: Path, within: str, below: bool, clips: bool, found: Listing, seen: set[tuple[int, int]]
) -> None:
    """Add what a folder gives; `within` is its path from the first one."""
    with os.scandir(folder) as entries:
        listed = sorted((entry.name, *_kind(entry)) for entry in entries)
    of_project = {EXPORTS} if any(_PROJECT.fullmatch(name) for name, _, _ in listed) else set()
    inner = []
    for name, is_folder, is_file in listed:
        shown = os.path.join(within, name)  # noqa: PTH118
        if _PROJECT.fullmatch(name) or (is_folder and name in of_project):
            continue  # what is kept beside images: no word of it
        if name.startswith("."):
            found.passed_over.add(HIDDEN, shown)
        elif is_folder:
            inner.append((name, shown))
        elif not (is_image(name) or (clips and is_clip(folder / name))):
            found.passed_over.add(OTHER, shown)
        elif is_file and marks.is_result(folder / name):
            found.passed_over.add(RESULT, shown)
        else:
            found.files.append(folder / name)
    for name, shown in inner:
        path = folder / name
        if marks.is_batch(path):
            found.passed_over.add(RESULTS, shown)
        elif not below:
            found.passed_over.add(FOLDER, shown)
        elif (identity := _identity(path)) in seen:
            found.passed_over.add(AGAIN, shown)
        else:
            seen.add(identity)
            _walk(path, shown, below, clips, found, seen)


def _kind(entry: "os.DirEntry[str]") -> tuple[bool, bool]:
    """Tell whether an entry leads to a folder, and whether to a regular file."""
    try:
        return entry.is_dir(), entry.is_file()
    except OSError:  # a link that leads nowhere: an error when its turn comes
        return False, False


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino
