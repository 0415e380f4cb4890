"""How files that this library writes are told from others, and from what they were made.

Each kind of result has a mark that other programs pass over. Commands replace a file that has it,
and no other unless they are told to. Masks and overlays have a second mark: they are no inputs.
"""

import json
import os
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from sam_rlx._internal.packages import optional

NAME = "sam_rlx"
# First in JSON documents that have no ``format`` of ours, such as COCO's.
JSON_MARK = {"info": {"software": NAME}}
# In the metadata of safetensors files.
SAFETENSORS_MARK = {"written_by": NAME}
# In the text of PNG files; in the EXIF tag of the other image files.
PNG_MARK = ("Software", NAME)
EXIF_SOFTWARE = 0x0131
# The same of masks and overlays.
PNG_RESULT = ("Comment", "result of sam_rlx")
EXIF_DESCRIPTION = 0x010E
# The name of what a result was made from, in the text of PNG files and in JSON.
ORIGIN = "origin"

_START = 1 << 16  # bytes
_HEAD = 1 << 11  # bytes in which images have their marks: folders of many are looked through
_DIGITS = 32  # of each hash in an origin
_JSON_ORIGIN = re.compile(rb'"origin":\s*"([0-9a-f]+-[0-9a-f]+)"')
_BATCH = '"sam_rlx.batch.'
_RESULT_NAME = re.compile(r"(overlay|mask_\d{3,})\.\w+", re.IGNORECASE)
# Between them: the box of the value, with its size, kind and language.
_COMMENT = re.compile(rb"\xa9cmt....data.{8}sam_rlx(?![\w ])", re.DOTALL)
_MARKED = (".png", ".jpg", ".jpeg", ".webp")
_PNG = b"\x89PNG\r\n\x1a\n"
_TEXT = re.compile(
    rb'\s*\{\s*"info":\s*\{\s*"software":\s*"sam_rlx"'
    rb'|\s*\{\s*"format":\s*"sam_rlx\.'
    rb'|<\?xml [^>]*>\s*<testsuites [^>]*>\s*<testsuite name="sam_rlx\.'
    rb"|<!doctype html>[^\n]*\n<meta name='generator' content='sam_rlx'>"
)
_GGUF = re.compile(rb"\.naming.{12}short-1", re.DOTALL)  # between them: type and length of a text


def is_own_file(path: str | os.PathLike[str]) -> bool:
    """Tell whether this library has written a file, or the model in a folder for transformers.

    The kind follows from the first bytes. A damaged file is not ours.
    """
    target = Path(path)
    if target.is_dir():
        target = target / "model.safetensors"
    if not target.is_file():
        return False
    with target.open("rb") as file:
        start = file.read(_START)
    if start.startswith(b"PK"):
        return _is_npz(target)
    if start.startswith(b"GGUF"):
        return bool(_GGUF.search(start))
    if start[4:8] == b"ftyp":
        return _is_clip(target)
    if start[8:9] == b"{":
        metadata = _safetensors_metadata(target)
        return metadata is not None and SAFETENSORS_MARK.items() <= metadata.items()
    return bool(_TEXT.match(start)) or is_own_image(target)


def safetensors_format(path: Path) -> str | None:
    """Return what kind of arrays of this library a safetensors file holds: its ``format``.

    "" for other safetensors files, such as weights; None for what is none.
    """
    metadata = _safetensors_metadata(path)
    if metadata is None:
        return None
    found = str(metadata.get("format", ""))
    return found if found.startswith(f"{NAME}.") else ""


def mark_npz(file: BinaryIO, origin: str = "") -> None:
    """Add the mark to an NPZ archive that is open for reading and writing: its comment."""
    import zipfile  # slow to load, seldom needed

    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = f"{NAME} {origin}".strip().encode()


def is_own_image(path: str | os.PathLike[str]) -> bool:
    """Tell whether `io.write_image` has written a file."""
    return _text_of(path).get(PNG_MARK[0]) == NAME


def is_result(path: str | os.PathLike[str]) -> bool:
    """Tell whether an image file is a mask or an overlay of this library, or a clip an overlay."""
    name = os.fspath(path)
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122  # fast for many
    if suffix == ".mp4":
        return _has_comment(path)
    if suffix not in _MARKED:
        return False
    text = _text_of(path)
    if PNG_RESULT[1] == text.get(PNG_RESULT[0]):
        return True
    called_so = _RESULT_NAME.fullmatch(os.path.basename(name))  # noqa: PTH119
    return called_so is not None and text.get(PNG_MARK[0]) == NAME


def _has_comment(path: str | os.PathLike[str]) -> bool:
    """Tell whether an MP4 file has our mark in its comment, which is the last of its boxes."""
    try:
        with Path(path).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _START))
            return bool(_COMMENT.search(file.read()))
    except OSError:
        return False


def is_batch(folder: Path) -> bool:
    """Tell whether a folder has the results of a batch."""
    try:
        with (folder / "manifest.json").open(encoding="utf-8") as file:
            return _BATCH in file.read(_START)
    except (OSError, ValueError):
        return False


def _text_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the marks in the text of an image file, under the names that they have in PNG."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(_HEAD)
            if start.startswith(_PNG):
                return dict(_png_texts(start))
            if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
                start = _exif_of_webp(file)
    except OSError:
        return {}
    exif = start[start.find(b"Exif\0\0") :] if b"Exif\0\0" in start else b""
    keys = {EXIF_SOFTWARE: PNG_MARK, EXIF_DESCRIPTION: PNG_RESULT}
    return {
        name: value
        for tag, (name, value) in keys.items()
        # An entry of the directory: the tag, 2 for text, and the length with its zero.
        if any(struct.pack(f"{order}HHI", tag, 2, len(value) + 1) in exif for order in "<>")
        and value.encode() + b"\0" in exif
    }


def _png_texts(start: bytes) -> Iterator[tuple[str, str]]:
    """Yield the texts before the pixels of a PNG file."""
    at = len(_PNG)
    while at + 8 <= len(start):
        length, kind = struct.unpack_from(">I4s", start, at)
        if kind == b"IDAT":
            return
        if kind == b"tEXt":
            name, _, value = start[at + 8 : at + 8 + length].partition(b"\0")
            yield name.decode("latin-1"), value.decode("latin-1")
        at += length + 12


def _exif_of_webp(file: BinaryIO) -> bytes:
    """Return the part of a WebP file that has the EXIF tags, which is behind its pixels."""
    at, end = 12, file.seek(0, os.SEEK_END)
    while at + 8 <= end:
        file.seek(at)
        kind, length = struct.unpack("<4sI", file.read(8))
        if kind == b"EXIF":
            data = file.read(min(length, _START))
            return data if data.startswith(b"Exif\0\0") else b"Exif\0\0" + data
        at += 8 + length + length % 2
    return b""


def _npz_comment(path: Path) -> bytes:
    """Return the comment of an NPZ archive, b"" if it is none."""
    import zipfile  # slow to load, seldom needed

    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment
    except (zipfile.BadZipFile, OSError):
        return b""


def _is_npz(path: Path) -> bool:
    return _npz_comment(path).split(b" ")[0] == NAME.encode()


def _is_clip(path: Path) -> bool:
    av = optional("clip", "av", "av")
    try:
        with av.open(str(path)) as container:
            return bool(container.metadata.get("comment") == NAME)
    except (av.FFmpegError, OSError, ValueError):
        return False


def _safetensors_metadata(path: Path) -> dict[str, Any] | None:
    """Return the metadata of a safetensors file, None for what is none."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        start = file.read(9)
        length = int.from_bytes(start[:8], "little")
        if start[8:] != b"{" or length > path.stat().st_size:
            return None
        file.seek(8)
        try:
            found = json.loads(file.read(length))
        except (ValueError, RecursionError):
            return None
    metadata = found.get("__metadata__")
    return metadata if isinstance(metadata, dict) else {}


# ------------------------------------------------------------------ what a result was made from


def digest(path: Path) -> str:
    """Return the hash of a file, or of the files in a folder."""
    import hashlib  # slow to load, seldom needed

    if path.is_dir():
        joined = hashlib.sha256()
        for file in sorted(entry for entry in path.iterdir() if entry.is_file()):
            joined.update(f"{file.name} {digest(file)}\n".encode("utf-8", "surrogateescape"))
        return joined.hexdigest()
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def origin(source: Path, arguments: Mapping[str, Any]) -> str:
    """Return what identifies the input and the arguments of a result.

    A file that was moved is the same input. Results have it in their mark; see `origin_of`.

    Parameters
    ----------
    source : Path
        The file.
    arguments : mapping
        All else that the result depends on; ``json`` can write it.
    """
    import hashlib  # slow to load, seldom needed

    words = json.dumps(arguments, sort_keys=True)
    return f"{digest(source)[:_DIGITS]}-{hashlib.sha256(words.encode()).hexdigest()[:_DIGITS]}"


def origin_of(path: Path) -> str | None:
    """Return the `origin` in the mark of a JSON, PNG or NPZ file, None if it has none."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.startswith(_PNG):
        found = dict(_png_texts(start)).get(ORIGIN)
    elif start.startswith(b"PK") and _is_npz(path):
        found = _npz_comment(path).decode("latin-1").partition(" ")[2]
    else:
        match = _TEXT.match(start) and _JSON_ORIGIN.search(start)
        found = match[1].decode() if match else None
    return found or None


def json_mark(origin: str = "") -> dict[str, Any]:
    """Return the beginning of a JSON document."""
    return {"info": {**JSON_MARK["info"], **({ORIGIN: origin} if origin else {})}}


def other_origin(expected: str, found: str | None) -> str:
    """Return in words why a result is not the one that is asked for, "" if it is."""
    if found is None:
        return "no mark of what it was made from"
    if found == expected:
        return ""
    same_input = found.partition("-")[0] == expected.partition("-")[0]
    return "other prompts, options or another model" if same_input else "another image"
