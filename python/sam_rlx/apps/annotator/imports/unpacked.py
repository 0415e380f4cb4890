"""What a view sends as files: a ZIP of a folder, or one file. Which form files have."""

import io as streams
import zipfile
import zlib
from pathlib import Path
from typing import Any

from sam_rlx.apps.annotator.imports.found import json_of
from sam_rlx.apps.annotator.json_reader import check_values
from sam_rlx.errors import InvalidArgumentError

MAX_ENTRIES = 100_000
MAX_UNPACKED = 400_000_000  # bytes
MAX_VALUES = 4_000_000  # of JSON; a quarter of it are elements of XML
_PIECE = 1 << 20
_READ = (".json", ".xml", ".txt", ".yaml", ".yml", ".png")  # of any form; images are left out
# What is in a folder of a form.
_TELLING = {
    "panoptic.json": "panoptic",
    "tasks.json": "label_studio",
    "annotations.xml": "cvat",
    "instances.json": "youtube_vis",
    "annotations.json": "coco",
    "labels.json": "labels",
    "SegmentationObject": "voc",
    "data.yaml": "yolo",
    "labels": "yolo",
    "Annotations": "davis",
}


def unpack(name: str, contents: bytes, folder: Path) -> Path:
    """Write what a view sent into an empty folder; return the path that a reader takes.

    Raises
    ------
    InvalidArgumentError
        The archive is damaged, has paths that lead out of it, or is beyond a limit.
    """
    if not contents.startswith(b"PK"):
        _check(name, contents)
        path = folder / name
        path.write_bytes(contents)
        return path
    try:
        with zipfile.ZipFile(streams.BytesIO(contents)) as archive:
            _extract(name, archive, folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise InvalidArgumentError(f"{name}: expected a whole ZIP, found {error}") from error
    inner = [one for one in folder.iterdir() if one.is_dir()]
    alone = len(inner) == 1 and len(list(folder.iterdir())) == 1
    return inner[0] if alone and inner[0].name not in _TELLING else folder


def _extract(name: str, archive: zipfile.ZipFile, folder: Path) -> None:
    entries = [one for one in archive.infolist() if not one.is_dir()]
    if len(entries) > MAX_ENTRIES:
        raise InvalidArgumentError(f"{name}: expected at most {MAX_ENTRIES} files, found more")
    left = MAX_UNPACKED
    for one in entries:
        path = _path_in(name, one.filename)
        if path.suffix.lower() not in _READ:
            continue
        parts = []
        with archive.open(one) as file:
            while piece := file.read(min(_PIECE, left + 1)):
                parts.append(piece)
                left -= len(piece)
                if left < 0:
                    raise InvalidArgumentError(
                        f"{name}: expected at most {MAX_UNPACKED // 10**6} MB unpacked, found more"
                    )
        whole = b"".join(parts)
        _check(one.filename, whole)
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(whole)
        except OSError as error:  # a file and a folder of one name, a name that is too long
            raise InvalidArgumentError(
                f"{name}: expected names that can be written, found {error.strerror}"
            ) from error


def _path_in(name: str, text: str) -> Path:
    """Return a path of an archive, which stays in it."""
    parts = text.replace("\\", "/").split("/")
    if any(part in ("", ".", "..") or ":" in part or not part.isprintable() for part in parts):
        raise InvalidArgumentError(f"{name}: expected paths inside of it, found {text[:80]!r}")
    return Path(*parts)


def _check(name: str, contents: bytes) -> None:
    """Refuse JSON and XML that would take more memory than they are worth."""
    suffix = Path(name).suffix.lower()
    if suffix == ".json":
        check_values(name[:80], contents, MAX_VALUES)
    if suffix == ".xml" and contents.count(b"<") > MAX_VALUES // 4:
        raise InvalidArgumentError(
            f"{name[:80]}: expected XML of at most {MAX_VALUES // 4} tags, found more"
        )


def form_of(path: Path) -> str:
    """Return the name of the form that a folder or file has.

    Raises
    ------
    InvalidArgumentError
        It is none that can be told.
    """
    if path.is_dir():
        for name, form in _TELLING.items():
            if (path / name).exists():
                return form
        files = sorted(one for one in path.rglob("*") if one.is_file())
    else:
        files = [path]
    for suffix in (".json", ".xml", ".txt", ".png"):
        one = next((each for each in files if each.suffix.lower() == suffix), None)
        if one is not None:
            return _form_of_file(one, path)
    raise InvalidArgumentError(f"{path.name}: expected files of a form that is known, found none")


def _form_of_file(file: Path, path: Path) -> str:
    suffix = file.suffix.lower()
    if suffix == ".json":
        return _form_of_json(file.name, json_of(file))
    if suffix == ".png":
        return "labels" if file.parent == path or file == path else "masks"
    return {".xml": "cvat", ".txt": "mots"}[suffix]


def _form_of_json(name: str, document: Any) -> str:
    keys = set(document) if isinstance(document, dict) else set()
    for known, form in (
        ({"images", "annotations"}, "coco"),
        ({"shapes"}, "labelme"),
        ({"info", "objects"}, "isat"),
    ):
        if known <= keys:
            return form
    if isinstance(document, list):
        return "label_studio"
    raise InvalidArgumentError(f"{name}: expected JSON of a form that is known, found another")
